"""Causal attention over sequences laid end to end, for every `transformers` model that asks its attention interface.

On a GPU in half precision torch's variable-length flash kernel computes no padding at all. Elsewhere sequences are padded to the longest
of the pack for the attention product alone; all other operators of the model see only real tokens.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as functional

from harness.configuration.error import ConfigError

NAME = "packed_causal"
# Changes of the scores that some architectures ask for and this does not compute.
_REFUSED_OPTIONS = ("softcap", "s_aux", "position_bias")


def register() -> str:
    """Make the implementation known to `transformers`; returns its name for `attn_implementation`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, packed_causal)
    AttentionMaskInterface.register(NAME, _no_mask)
    return NAME


@contextmanager
def count_calls() -> Iterator[list[str]]:
    """Every call of the implementation inside, by the class of the layer that attends."""
    from transformers import AttentionInterface

    calls: list[str] = []

    def count_call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
        calls.append(type(module).__name__)
        return packed_causal(module, *args, **kwargs)

    AttentionInterface.register(NAME, count_call)
    try:
        yield calls
    finally:
        AttentionInterface.register(NAME, packed_causal)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """The boundaries of the sequences say everything."""


def packed_causal(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    expand: torch.Tensor | None = None,
    places: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The `transformers` attention interface. Queries [1, H, N, D], keys and values [1, K, N, D]; returns [1, N, H, D].

    `expand` and `places` lay the N tokens out to B sequences end to end and back (`Layout.end_to_end`).
    `cu_seq_lens_q` [B + 1] (int32) are the boundaries of the B sequences, `max_length_q` the longest one's length.

    Raises:
        NotImplementedError: the architecture changes attention scores in a way that is not computed here, or keeps the boundaries back.
    """
    refused_options = [name for name in _REFUSED_OPTIONS if kwargs.get(name) is not None]
    if refused_options:
        raise NotImplementedError(f"its attention uses {', '.join(refused_options)}, which packed training has not")
    if cu_seq_lens_q is None or max_length_q is None or expand is None or places is None:
        raise NotImplementedError("this architecture does not tell its attention where packed sequences end")
    window = sliding_window if sliding_window and sliding_window < max_length_q else None
    heads_first = (query[0], key[0], value[0])
    q, k, v = (part.transpose(0, 1).index_select(0, expand) for part in heads_first)  # [places, heads, D]
    half = query.dtype in (torch.bfloat16, torch.float16)
    attend = _attend_varlen if query.is_cuda and half and varlen_kernel() is not None else _attend_padded
    output = attend(q, k, v, cu_seq_lens_q, max_length_q, scaling, window)
    padding = query.shape[2] - len(places)
    return functional.pad(output.index_select(0, places), (0, 0, 0, 0, 0, padding))[None], None


def _attend_padded(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    boundaries: torch.Tensor,
    longest: int,
    scale: float | None,
    window: int | None,
) -> torch.Tensor:
    """Pad on the right, attend causally (a real query sees no padding), and take the real positions out again."""
    batch = len(boundaries) - 1
    lengths = boundaries.diff().long()
    place = torch.arange(len(q), device=q.device) - boundaries[:-1].long().repeat_interleave(lengths)
    slot = torch.arange(batch, device=q.device).repeat_interleave(lengths) * longest + place

    def spread(x: torch.Tensor) -> torch.Tensor:
        flat = x.new_zeros(batch * longest, *x.shape[1:]).index_copy(0, slot, x)
        return flat.view(batch, longest, *x.shape[1:]).transpose(1, 2)

    mask = None
    if window is not None:
        position = torch.arange(longest, device=q.device)
        distance = position[:, None] - position[None]
        mask = (distance >= 0) & (distance < window)
    output = functional.scaled_dot_product_attention(
        spread(q),
        spread(k),
        spread(v),
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return output.transpose(1, 2).reshape(batch * longest, *q.shape[1:])[slot]


def _attend_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    boundaries: torch.Tensor,
    longest: int,
    scale: float | None,
    window: int | None,
) -> torch.Tensor:
    """Torch's flash kernel over ragged sequences. Before torch 2.12 it knew grouped heads without being told."""
    kernel, grouped = varlen_kernel(), q.shape[1] != k.shape[1]
    output: torch.Tensor = kernel(
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        boundaries,
        boundaries,
        longest,
        longest,
        scale=scale,
        window_size=(-1 if window is None else window - 1, 0),
        **({"enable_gqa": grouped} if "enable_gqa" in _options(kernel) else {}),
    )
    return output


@functools.cache
def varlen_kernel() -> Any:
    """Torch's kernel; None where this torch has none that takes a scale and a window: then sequences are padded."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if {"scale", "window_size"} <= _options(varlen_attn) else None


def _options(kernel: Any) -> set[str]:
    return set(inspect.signature(kernel).parameters)


def attention_name(device: str) -> str:
    """The attention of packed sequences in half precision on this device, for the record of an attempt."""
    return "varlen_attn" if device == "cuda" and varlen_kernel() is not None else "padded"


# What code raises that was not written for this way of calling it. Other errors, lacking memory among them, are no matter of architecture.
MISFIT_ERRORS = (KeyError, TypeError, AttributeError, AssertionError, ValueError, IndexError, NotImplementedError)
_ADVICE = "choose another model, or evaluate this one with engine=transformers or engine=vllm"
_LEAK = {torch.float32: 1e-3}  # nats that rounding may move a score by; other number types 0.1


def misfit(kind: str, error: Exception) -> ConfigError:
    """What to raise where an architecture's code does not take packed sequences."""
    reason = f"its code in transformers does not take packed sequences ({type(error).__name__}: {error})"
    return ConfigError(f"{kind} cannot be trained here: {reason}; {_ADVICE}")


@torch.no_grad()
def rehearse(config: Any, score: Callable[..., Any], dtype: torch.dtype) -> None:
    """Score a small pack before training does: each layer must attend over it, and each sequence score as it does alone.

    Raises `ConfigError`: its code fails, attends in a way of its own, or lets one sequence reach another (a running state, a convolution).
    """
    kind, layers = config.model_type, int(getattr(config.get_text_config(), "num_hidden_layers", 1))
    prompts, tokens, lengths = [[0, 1], [1]], torch.tensor([1, 0, 1, 0]), torch.tensor([1, 3])
    try:
        with count_calls() as calls:
            packed, _ = score(prompts, tokens, lengths)
        parts = zip(prompts, tokens.split(lengths.tolist()), strict=True)
        alone = torch.cat([score([prompt], part, torch.tensor([len(part)]))[0] for prompt, part in parts])
    except ConfigError:
        raise
    except MISFIT_ERRORS as error:
        raise misfit(kind, error) from error
    fault = ""
    if len(calls) < layers:
        fault = f"{layers - len(calls)} of its {layers} layers do not attend through transformers' attention interface"
    elif float((packed - alone).abs().max()) > _LEAK.get(dtype, 0.1):
        fault = "the tokens of one sequence change the scores of another"
    if fault:
        raise ConfigError(f"{kind} cannot be trained here: {fault}; {_ADVICE}")
