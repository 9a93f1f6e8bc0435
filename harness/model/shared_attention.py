"""Causal attention of a `Layout`: its tokens are rotated, spread to padded sequences, attended, and taken together again.

On a CPU in float32, for short sequences, the product is made of plain batched products with a gradient written by hand: torch's flash
kernel takes twice as long there. Elsewhere it is torch's. A sequence is padded on the right, so no real token sees padding.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional

from harness.model.layout import Layout
from harness.model.linear import batched

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
            attended: torch.Tensor = _ByHand.apply(heads_NHD, self)  # type: ignore[no-untyped-call]
            return attended
        return self._by_torch(heads_NHD)

    def rotate(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        """Queries and keys turned to their positions, values as they are."""
        rotated, half = self.heads + self.kv_heads, heads_NHD.shape[-1] // 2
        qk = heads_NHD[:, :rotated]
        return torch.cat([qk * self.cos + qk.roll(half, -1) * self.sin, heads_NHD[:, rotated:]], 1)

    def rotate_back(self, grad_NHD: torch.Tensor) -> torch.Tensor:
        """The gradient of `rotate`, given that of its value, which is changed in place. A roll by half is its own inverse."""
        rotated, half = self.heads + self.kv_heads, grad_NHD.shape[-1] // 2
        grad_qk = grad_NHD[:, :rotated]
        rolled = (grad_qk * self.sin).roll(half, -1)
        grad_qk.mul_(self.cos).add_(rolled)
        return grad_NHD

    def product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """A batched product by the policy's kernel."""
        return batched(left, right, self.kernel)

    def parts(self) -> list[int]:
        """Numbers of query, key and value heads."""
        return [self.heads, self.kv_heads, self.kv_heads]

    def _by_torch(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        layout, size = self.layout, heads_NHD.shape[-1]
        grid = self.rotate(heads_NHD).index_select(0, layout.slot_tokens)
        q, k, v = grid.view(layout.batch, layout.length, -1, size).transpose(1, 2).split(self.parts(), 1)
        grouped = self.heads != self.kv_heads
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return _token_rows(attended.transpose(1, 2).reshape(layout.batch * layout.length, -1), layout)


class _ByHand(torch.autograd.Function):
    """With P = softmax(q kᵀ / √D): ∂v = Pᵀ ∂o, ∂S = P (∂o vᵀ - rowsum(P ∂o vᵀ)), ∂q = ∂S k / √D, ∂k = ∂Sᵀ q / √D."""

    @staticmethod
    def forward(ctx: Any, heads_NHD: torch.Tensor, attention: SharedAttention) -> torch.Tensor:
        layout, (count, _, size) = attention.layout, heads_NHD.shape
        tokens = attention.rotate(heads_NHD).view(count, -1).index_select(0, layout.slot_tokens)
        grid = tokens.view(len(layout.slot_tokens), -1, size).transpose(0, 1).contiguous()
        q, k, v = (_sequences(part, attention) for part in grid.split(attention.parts()))
        weights = torch.baddbmm(attention.future, q, k.transpose(1, 2), alpha=size**-0.5).softmax(-1)
        attended = attention.product(weights, v).view(attention.heads, -1, size).transpose(0, 1)
        # Not the keys and values as they are repeated for the heads that share them: backward repeats them again.
        ctx.save_for_backward(grid, weights)
        ctx.attention, ctx.count = attention, count
        return _token_rows(attended.reshape(len(layout.slot_tokens), -1), layout)

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
        to_v = attention.product(weights.transpose(1, 2), grad)
        to_weights = attention.product(grad, v.transpose(1, 2))
        to_scores = torch.ops.aten._softmax_backward_data(to_weights, weights, -1, torch.float32).mul_(scale)
        to_q, to_k = attention.product(to_scores, k), attention.product(to_scores.transpose(1, 2), q)
        every = [part.view(attention.heads, slots, size) for part in (to_q, to_k, to_v)]
        every[1:] = [part.unflatten(0, (attention.kv_heads, -1)).sum(1) for part in every[1:]]
        slots_gradient = torch.cat(every).transpose(0, 1).reshape(slots, -1)
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
