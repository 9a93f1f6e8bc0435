"""Which tensors a weight update of the vLLM engine must bring (vLLM itself is not needed)."""

from __future__ import annotations

import pytest
import torch

from harness.rollout.engine.vllm.in_process import _complete

TABLE = "model.layers.0.self_attn.rotary_emb.inv_freq"
NAMES = frozenset({"model.norm.weight", "model.embed_tokens.weight", TABLE})
ONE = torch.ones(1)


def test_rotary_tables_are_neither_needed_nor_passed_on() -> None:
    weights = [("model.norm.weight", ONE), (TABLE, ONE), ("model.embed_tokens.weight", ONE)]
    for given in (weights, [weights[0], weights[2]]):
        assert [name for name, _ in _complete(given, NAMES)] == [weights[0][0], weights[2][0]]


def test_a_missing_or_foreign_tensor_is_named() -> None:
    with pytest.raises(KeyError, match=r"lacks the tensor 'model\.embed_tokens\.weight'"):
        list(_complete([("model.norm.weight", ONE)], NAMES))
    with pytest.raises(KeyError, match="no tensor 'other'"):
        list(_complete([("other", ONE)], NAMES))
