"""The layout of responses' tokens when each prompt is computed once for all its responses, and the attention over it.

The forward sees N tokens: every distinct prompt once, then the responses end to end, without the last token of each, which is predicted
and never read. For the attention product alone they are spread to B sequences padded on the right to the longest, L, so no real token sees
padding. N is padded to a multiple of `ROWS`: matrix kernels are made anew for every number of rows, which takes longer than the product.

On a CPU in float32, for short sequences, attention is made of plain batched products with a gradient written by hand: torch's flash kernel
takes twice as long there. Dimension letters: R responses, U distinct prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional

from harness.model.linear import batched_product

ROWS = 64


@dataclass(frozen=True)
class Layout:
    """N tokens and the B sequences of at most L that they form; the last of the N may be padding.

    Attributes:
        ids_N: tokens.
        place_N: position of each in its sequences.
        slot_tokens: for each slot of the [B, L] grid (flat) the token that lies there; 0 where nothing does.
        token_slots: one slot of each token that is no padding; these come first among the N.
        predictors_M: for each response token, the token whose hidden state predicts it.
        lengths_B: length of each sequence, prompt and response.
        batch, length: B and L.
    """

    ids_N: torch.Tensor
    place_N: torch.Tensor
    slot_tokens: torch.Tensor
    token_slots: torch.Tensor
    predictors_M: torch.Tensor
    lengths_B: torch.Tensor
    batch: int
    length: int

    @classmethod
    def from_tokens(
        cls,
        prompts: Sequence[Sequence[int]],
        tokens_M: torch.Tensor,
        lengths_R: torch.Tensor,
        share: bool = True,
    ) -> Layout:
        """Lay out R responses (`tokens_M` end to end, each at least one token) to their prompts; `share` computes equal prompts once."""
        # Which prompts are distinct, and where each response's prompt begins among the N.
        lengths, rows = lengths_R.numpy(), np.arange(len(prompts))
        first: dict[object, int] = {}  # each distinct prompt's first response
        owner = np.array([first.setdefault(tuple(p) if share else r, r) for r, p in enumerate(prompts)])
        distinct = np.fromiter(first.values(), dtype=np.int64)
        widths = np.array([len(prompt) for prompt in prompts])
        starts = np.zeros(len(prompts), dtype=np.int64)
        starts[distinct] = _offsets(widths[distinct])
        starts = starts[owner]
        # Where each response's tokens begin among the N: behind all prompts, each without its last token.
        inputs = lengths - 1
        offsets = int(widths[distinct].sum()) + _offsets(inputs)
        length = int((widths + inputs).max())

        # The grid: for each slot its token.
        column = np.arange(length)[None]
        slot_tokens = np.where(column < widths[:, None], starts[:, None] + column, (offsets - widths)[:, None] + column)
        slot_tokens[column >= (widths + inputs)[:, None]] = 0
        # The way back: for each token its position, and one slot; of a shared prompt, in its first sequence.
        prompt_row, prompt_place = distinct.repeat(widths[distinct]), _ranges(widths[distinct])
        response_row, response_place = rows.repeat(inputs), _ranges(inputs)
        place = np.concatenate([prompt_place, widths[response_row] + response_place])
        token_slots = np.concatenate([prompt_row, response_row]) * length + place

        # The token before each response token predicts it: the prompt's last, or the response's previous one.
        response_M, place_M = rows.repeat(lengths), _ranges(lengths)
        predictors = np.where(place_M == 0, (starts + widths)[response_M], (offsets[response_M] + place_M)) - 1
        last_M = np.zeros(len(tokens_M), dtype=bool)
        last_M[lengths.cumsum() - 1] = True
        # Tokens and positions, padded to a multiple of ROWS.
        prompt_ids = np.array([token for r in distinct for token in prompts[r]], dtype=np.int64)
        padding = np.zeros(-len(token_slots) % ROWS, dtype=np.int64)
        ids = np.concatenate([prompt_ids, tokens_M.numpy()[~last_M], padding])
        return cls(
            ids_N=torch.from_numpy(ids),
            place_N=torch.from_numpy(np.concatenate([place, padding])),
            slot_tokens=torch.from_numpy(slot_tokens.reshape(-1)),
            token_slots=torch.from_numpy(token_slots),
            predictors_M=torch.from_numpy(predictors),
            lengths_B=torch.from_numpy(widths + inputs),
            batch=len(prompts),
            length=length,
        )

    def to(self, device: torch.device) -> Layout:
        names = ("ids_N", "place_N", "slot_tokens", "token_slots", "predictors_M", "lengths_B")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def end_to_end(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the sequences end to end, without padding, for kernels that take them so.

        Returns:
            The token at each of their places, the place of each token that is no padding (of a shared prompt, in its first sequence), and
            the boundaries of the B sequences (int32 [B + 1]).
        """
        ends = self.lengths_B.cumsum(0)
        starts = ends - self.lengths_B
        real = torch.arange(self.length, device=ends.device) < self.lengths_B[:, None]
        places = starts[self.token_slots // self.length] + self.token_slots % self.length
        return self.slot_tokens[real.reshape(-1)], places, torch.cat([ends.new_zeros(1), ends]).int()


def _offsets(counts: np.ndarray) -> np.ndarray:
    return counts.cumsum() - counts


def _ranges(counts: np.ndarray) -> np.ndarray:
    return np.arange(counts.sum()) - _offsets(counts).repeat(counts)


# Scores of all heads are made at once: [B, H, L, L].
_LONGEST_BY_HAND = 128


class SharedAttention:
    """The attention of one forward over `layout` with rotary tables [≥ L, D]; call it once a layer."""

    def __init__(
        self,
        layout: Layout,
        cos: torch.Tensor,
        sin: torch.Tensor,
        heads: int,
        kv_heads: int,
        kernel: str = "torch",
    ) -> None:
        self.layout, self.heads, self.kv_heads, self.kernel = layout, heads, kv_heads, kernel
        self.cos, self.sin = cos[layout.place_N][:, None], sin[layout.place_N][:, None]
        self._future: torch.Tensor | None = None

    @property
    def future(self) -> torch.Tensor:
        """-inf [L, L] where a token would see those after it; the same for all layers."""
        if self._future is None:
            length = self.layout.length
            self._future = torch.full((length, length), float("-inf"), device=self.cos.device).triu_(1)
        return self._future

    def __call__(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        """Unrotated queries, keys and values [N, H + 2 K, D] to attended values [N, H · D]."""
        small = heads_NHD.dtype == torch.float32 and self.layout.length <= _LONGEST_BY_HAND
        if heads_NHD.device.type == "cpu" and small:
            output: torch.Tensor = _ByHand.apply(heads_NHD, self)  # type: ignore[no-untyped-call]
            return output
        return self._by_torch(heads_NHD)

    def rotate(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        qk_heads, half = self.heads + self.kv_heads, heads_NHD.shape[-1] // 2
        qk = heads_NHD[:, :qk_heads]
        return torch.cat([qk * self.cos + qk.roll(half, -1) * self.sin, heads_NHD[:, qk_heads:]], 1)

    def rotate_back(self, grad_NHD: torch.Tensor) -> torch.Tensor:
        """The gradient of `rotate`, given that of its value, which is changed in place. A roll by half is its own inverse."""
        qk_heads, half = self.heads + self.kv_heads, grad_NHD.shape[-1] // 2
        grad_qk = grad_NHD[:, :qk_heads]
        sin_part = (grad_qk * self.sin).roll(half, -1)
        grad_qk.mul_(self.cos).add_(sin_part)
        return grad_NHD

    def product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return batched_product(left, right, self.kernel)

    def parts(self) -> list[int]:
        return [self.heads, self.kv_heads, self.kv_heads]

    def _by_torch(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        layout, size = self.layout, heads_NHD.shape[-1]
        grid = self.rotate(heads_NHD).index_select(0, layout.slot_tokens)
        q, k, v = grid.view(layout.batch, layout.length, -1, size).transpose(1, 2).split(self.parts(), 1)
        grouped = self.heads != self.kv_heads
        output = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return _token_rows(output.transpose(1, 2).reshape(layout.batch * layout.length, -1), layout)


class _ByHand(torch.autograd.Function):
    """With P = softmax(q kᵀ / √D): ∂v = Pᵀ ∂o, ∂S = P (∂o vᵀ - rowsum(P ∂o vᵀ)), ∂q = ∂S k / √D, ∂k = ∂Sᵀ q / √D."""

    @staticmethod
    def forward(ctx: Any, heads_NHD: torch.Tensor, attention: SharedAttention) -> torch.Tensor:
        layout, (count, _, size) = attention.layout, heads_NHD.shape
        tokens = attention.rotate(heads_NHD).view(count, -1).index_select(0, layout.slot_tokens)
        grid = tokens.view(len(layout.slot_tokens), -1, size).transpose(0, 1).contiguous()
        q, k, v = (_sequences(part, attention) for part in grid.split(attention.parts()))
        weights = torch.baddbmm(attention.future, q, k.transpose(1, 2), alpha=size**-0.5).softmax(-1)
        output = attention.product(weights, v).view(attention.heads, -1, size).transpose(0, 1)
        # Not the keys and values as they are repeated for the heads that share them: backward repeats them again.
        ctx.save_for_backward(grid, weights)
        ctx.attention, ctx.count = attention, count
        return _token_rows(output.reshape(len(layout.slot_tokens), -1), layout)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grid, weights = ctx.saved_tensors
        attention, count, size = ctx.attention, ctx.count, grid.shape[-1]
        q, k, v = (_sequences(part, attention) for part in grid.split(attention.parts()))
        layout, slots, scale = attention.layout, len(attention.layout.slot_tokens), size**-0.5
        grad = (
            grads[0]
            .new_zeros(slots, attention.heads * size)
            .index_copy_(0, layout.token_slots, grads[0][: len(layout.token_slots)])
        )
        grad = grad.view(slots, attention.heads, size).transpose(0, 1).reshape(q.shape)
        grad_v = attention.product(weights.transpose(1, 2), grad)
        grad_weights = attention.product(grad, v.transpose(1, 2))
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, torch.float32).mul_(scale)
        grad_q, grad_k = attention.product(grad_scores, k), attention.product(grad_scores.transpose(1, 2), q)
        grad_parts = [part.view(attention.heads, slots, size) for part in (grad_q, grad_k, grad_v)]
        grad_parts[1:] = [part.unflatten(0, (attention.kv_heads, -1)).sum(1) for part in grad_parts[1:]]
        slots_gradient = torch.cat(grad_parts).transpose(0, 1).reshape(slots, -1)
        tokens = slots_gradient.new_zeros(count, slots_gradient.shape[1]).index_add_(
            0, layout.slot_tokens, slots_gradient
        )
        return attention.rotate_back(tokens.view(count, -1, size)), None


def _sequences(part: torch.Tensor, attention: SharedAttention) -> torch.Tensor:
    """[heads, B · L, D] to [H · B, L, D]: key and value heads are repeated for the query heads that share them."""
    layout, size = attention.layout, part.shape[-1]
    if len(part) != attention.heads:
        part = part.repeat_interleave(attention.heads // len(part), 0)
    return part.reshape(attention.heads * layout.batch, layout.length, size)


def _token_rows(grid: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The N tokens' rows of a flat [B · L] grid; zeros for padding."""
    rows = grid.index_select(0, layout.token_slots)
    return functional.pad(rows, (0, 0, 0, len(layout.ids_N) - len(rows)))
