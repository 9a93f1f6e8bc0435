"""Attention of one new token over cached keys, for precisions below float32."""

from __future__ import annotations

import torch
import torch.nn.functional as functional


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Softmax attention whose scores and weights are never rounded to the inputs' precision.

    The trainer computes so: a score of 100 rounded to bfloat16 is off by up to 0.25. The g query heads of a key/value head go in as g
    queries of one head, so nothing is expanded and every kernel of torch takes it.

    Args:
        query: [R, K, g, D], not yet scaled.
        keys: [R, K, S, D].
        values: [R, K, S, D].
        bias: added to the scores, -inf where a position is hidden; [R, 1, 1, S] in the query's precision, or None.

    Returns:
        [R, K, g, D].
    """
    return functional.scaled_dot_product_attention(query, keys, values, attn_mask=bias)
