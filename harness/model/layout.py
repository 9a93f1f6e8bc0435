"""The layout of responses' tokens when each prompt is computed once for all its responses, and the attention over it.

The forward sees N tokens: every distinct prompt once (where asked for, what prompts begin with in common once, too), then the
responses end to end, without the last token of each, which is predicted and never read. For the attention product alone they are spread
to B sequences padded on the right to the longest, L, so no real token sees padding. N is padded to a multiple of `ROWS`: matrix kernels
are made anew for every number of rows, which takes longer than the product.

On a CPU in float32, for short sequences, attention is made of plain batched products: torch's flash kernel takes twice as long there. A
wide model's are made prompt by prompt, so that no prompt is repeated for its responses; a small model's have a gradient written by hand.
Dimension letters: R responses, U distinct prompts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as functional

ROWS = 64

# What is computed once: nothing, equal prompts, or whatever prompts begin with in common.
Share = Literal["nothing", "prompts", "beginnings"]


@dataclass(frozen=True)
class Layout:
    """N tokens and the B sequences of at most L that they form; the last of the N may be padding.

    Attributes:
        place_N: position of each in its sequences.
        slot_tokens: for each slot of the [B, L] grid (flat) the token that lies there; 0 where nothing does.
        token_slots: one slot of each token that is no padding; these come first among the N.
        predictors_M: for each response token, the token whose hidden state predicts it.
        lengths_B, widths_B: length of each sequence, and of its prompt.
    """

    ids_N: torch.Tensor
    place_N: torch.Tensor
    slot_tokens: torch.Tensor
    token_slots: torch.Tensor
    predictors_M: torch.Tensor
    lengths_B: torch.Tensor
    widths_B: torch.Tensor
    batch: int
    length: int

    @classmethod
    def from_tokens(
        cls,
        prompts: Sequence[Sequence[int]],
        tokens_M: torch.Tensor,
        lengths_R: torch.Tensor,
        share: Share = "prompts",
    ) -> Layout:
        """Lay out R responses (`tokens_M` end to end, each at least one token) to their prompts, none of which is empty; see `Share`."""
        lengths, rows = lengths_R.numpy(), np.arange(len(prompts))
        path_R, prompt_ids, (prompt_row, prompt_place) = _paths(prompts, share)
        widths = np.array([len(path) for path in path_R])
        # Where each response's tokens begin among the N: behind all prompts, each without its last token.
        inputs = lengths - 1
        offsets = len(prompt_ids) + _offsets(inputs)
        length = int((widths + inputs).max())

        # The grid: for each slot its token.
        column = np.arange(length)[None]
        slot_tokens = (offsets - widths)[:, None] + column
        slot_tokens[column < widths[:, None]] = np.concatenate(path_R)
        slot_tokens[column >= (widths + inputs)[:, None]] = 0
        # The way back: for each token its position, and one slot; of a shared token, in its first sequence.
        response_row, response_place = rows.repeat(inputs), _ranges(inputs)
        place = np.concatenate([prompt_place, widths[response_row] + response_place])
        token_slots = np.concatenate([prompt_row, response_row]) * length + place

        # The token before each response token predicts it: the prompt's last, or the response's previous one.
        response_M, place_M = rows.repeat(lengths), _ranges(lengths)
        ends = np.array([path[-1] for path in path_R])
        predictors = np.where(place_M == 0, ends[response_M], offsets[response_M] + place_M - 1)
        last_M = np.zeros(len(tokens_M), dtype=bool)
        last_M[lengths.cumsum() - 1] = True
        # Tokens and positions, padded to a multiple of ROWS.
        padding = np.zeros(-len(token_slots) % ROWS, dtype=np.int64)
        ids = np.concatenate([prompt_ids, tokens_M.numpy()[~last_M], padding])
        return cls(
            ids_N=torch.from_numpy(ids),
            place_N=torch.from_numpy(np.concatenate([place, padding])),
            slot_tokens=torch.from_numpy(slot_tokens.reshape(-1)),
            token_slots=torch.from_numpy(token_slots),
            predictors_M=torch.from_numpy(predictors),
            lengths_B=torch.from_numpy(widths + inputs),
            widths_B=torch.from_numpy(widths),
            batch=len(prompts),
            length=length,
        )

    @classmethod
    def of_prompts(cls, prompts: Sequence[Sequence[int]]) -> Layout:
        """Lay out prompts alone, with what they begin with in common once; `predictors_M` are their last tokens."""
        ones = torch.ones(len(prompts), dtype=torch.long)
        return cls.from_tokens(prompts, ones, ones, "beginnings")

    def to(self, device: torch.device) -> Layout:
        names = ("ids_N", "place_N", "slot_tokens", "token_slots", "predictors_M", "lengths_B", "widths_B")
        moved: dict[str, Any] = {name: to_device(getattr(self, name), device) for name in names}
        return replace(self, **moved)

    @functools.cached_property
    def row_slots(self) -> torch.Tensor:
        """One slot of each of the N tokens; any for padding."""
        return functional.pad(self.token_slots, (0, len(self.ids_N) - len(self.token_slots)))

    def end_to_end(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the sequences end to end, without padding, for kernels that take them so.

        The token at each of their places, the place of each token that is no padding (of a shared one, in its first sequence), and the
        boundaries of the B sequences (int32 [B + 1]).
        """
        ends = self.lengths_B.cumsum(0)
        starts = ends - self.lengths_B
        real = torch.arange(self.length, device=ends.device) < self.lengths_B[:, None]
        places = starts[self.token_slots // self.length] + self.token_slots % self.length
        return self.slot_tokens[real.reshape(-1)], places, torch.cat([ends.new_zeros(1), ends]).int()

    def by_prompt(self) -> PromptGrids:
        """Return the grids in which each prompt stands once, beside all its responses."""
        grid_BL = self.slot_tokens.view(self.batch, self.length)
        # Prompts may begin with the same tokens; the last is a prompt's own.
        last_B = grid_BL.gather(1, self.widths_B[:, None] - 1)[:, 0]
        _, owner_B, count_U = last_B.unique(return_inverse=True, return_counts=True)
        order_B, begin_U = owner_B.argsort(stable=True), count_U.cumsum(0) - count_U
        first_U = order_B[begin_U]
        width_U = self.widths_B[first_U]
        prompts, most, width = len(first_U), int(count_U.max()), int(width_U.max())
        # A response of one token has no place of its own.
        length = max(1, int((self.lengths_B - self.widths_B).max()))
        # Which of its prompt's responses a sequence holds.
        turn_B = torch.empty_like(owner_B)
        turn_B[order_B] = torch.arange(self.batch) - begin_U[owner_B[order_B]]
        # The prompts' grid, then the responses'.
        column_W, column_S = torch.arange(width), self.widths_B[:, None] + torch.arange(length)
        real_UW, real_BS = column_W < width_U[:, None], column_S < self.lengths_B[:, None]
        prompt_UW = grid_BL[first_U, :width] * real_UW
        response_UGS = torch.zeros(prompts, most, length, dtype=torch.long)
        response_UGS[owner_B, turn_B] = grid_BL.gather(1, column_S.clamp(max=self.length - 1)) * real_BS
        # A prompt's token has the slot of the sequence where it stands first.
        slots_T = self.token_slots[: len(self.token_slots) - int(real_BS.sum())]
        prompt_slots = owner_B[slots_T // self.length] * width + slots_T % self.length
        first_B = prompts * width + (owner_B * most + turn_B) * length
        return PromptGrids(
            slot_tokens=torch.cat([prompt_UW.view(-1), response_UGS.view(-1)]),
            token_slots=torch.cat([prompt_slots, (first_B[:, None] + torch.arange(length))[real_BS]]),
            hidden_UW=torch.zeros(prompts, width).masked_fill_(~real_UW, float("-inf")),
            shape=(prompts, width, most, length),
        )


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the CPU on a device; to a GPU from pinned memory, so that nobody waits for the copy."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@dataclass(frozen=True)
class PromptGrids:
    """Prompts in a grid [U, W], and behind it their responses in one [U, G, S]; both flat and padded on the right.

    Attributes:
        slot_tokens: for each slot the token that lies there; 0 where nothing does.
        token_slots: the slot of each token that is no padding.
        hidden_UW: -inf where a prompt's slot holds nothing, 0 elsewhere.
        shape: U, W, G and S.
    """

    slot_tokens: torch.Tensor
    token_slots: torch.Tensor
    hidden_UW: torch.Tensor
    shape: tuple[int, int, int, int]


def _paths(prompts: Sequence[Sequence[int]], share: Share) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Number the prompts' tokens, the same ones as far as prompts share them.

    Returns the numbers of each prompt's tokens, the id of each number, and the first prompt that has it and its place there [2, numbers].
    """
    tree: dict[tuple[int, int], int] = {}  # of beginnings: the number before and a token's id, to its number
    paths: dict[object, np.ndarray] = {}
    path_R: list[np.ndarray] = []
    ids, firsts, count = [np.zeros(0, dtype=np.int64)], [np.zeros((2, 0), dtype=np.int64)], 0
    for row, prompt in enumerate(prompts):
        name = row if share == "nothing" else tuple(prompt)
        if name not in paths:
            path = np.arange(count, count + len(prompt))
            if share == "beginnings":
                before = -1
                for position, token in enumerate(prompt):
                    path[position] = before = tree.setdefault((before, token), len(tree))
            start = int((path < count).sum())  # from here on nobody has had these
            ids.append(np.array(prompt[start:], dtype=np.int64))
            firsts.append(np.stack([np.full(len(prompt) - start, row), np.arange(start, len(prompt))]))
            count += len(prompt) - start
            paths[name] = path
        path_R.append(paths[name])
    return path_R, np.concatenate(ids), np.concatenate(firsts, 1)


def _offsets(counts: np.ndarray) -> np.ndarray:
    return counts.cumsum() - counts


def _ranges(counts: np.ndarray) -> np.ndarray:
    return np.arange(counts.sum()) - _offsets(counts).repeat(counts)


# Scores of all heads are made at once: [B, H, L, L].
_LONGEST_BY_HAND = 128


class SharedAttention:
    """The attention of one forward over `layout` with rotary tables [≥ L, D]; call it once a layer.

    `wide`: attend prompt by prompt, which takes more calls and less work.
    """

    def __init__(
        self,
        layout: Layout,
        cos: torch.Tensor,
        sin: torch.Tensor,
        heads: int,
        kv_heads: int,
        wide: bool = False,
    ) -> None:
        self.layout, self.heads, self.kv_heads, self.wide = layout, heads, kv_heads, wide
        self.cos, self.sin = cos[layout.place_N][:, None], sin[layout.place_N][:, None]

    @property
    def is_short(self) -> bool:
        """Whether attention is made of plain products: on a CPU, for short sequences."""
        return self.cos.device.type == "cpu" and self.layout.length <= _LONGEST_BY_HAND

    @functools.cached_property
    def future(self) -> torch.Tensor:
        """-inf [L, L] where a token would see those after it; the same for all layers."""
        length = self.layout.length
        return torch.full((length, length), float("-inf"), device=self.cos.device).triu_(1)

    @functools.cached_property
    def grids(self) -> PromptGrids:
        return self.layout.by_prompt()

    def __call__(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        """Unrotated queries, keys and values [N, H + 2 K, D] to attended values [N, H · D]."""
        if heads_NHD.dtype != torch.float32 or not self.is_short:
            return self.by_torch(self.rotate(heads_NHD))
        # A prompt with far more responses than the others would leave most of the grid empty.
        if self.wide and len(self.grids.slot_tokens) < len(self.layout.slot_tokens):
            return self._by_prompt(heads_NHD)
        output: torch.Tensor = AttentionByHand.apply(heads_NHD, self)  # type: ignore[no-untyped-call]
        return output

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

    def parts(self) -> list[int]:
        return [self.heads, self.kv_heads, self.kv_heads]

    def by_torch(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        """Rotated queries, keys and values to attended values, by torch's kernels."""
        layout, size = self.layout, heads_NHD.shape[-1]
        grid = heads_NHD.index_select(0, layout.slot_tokens)
        q, k, v = grid.view(layout.batch, layout.length, -1, size).transpose(1, 2).split(self.parts(), 1)
        grouped = self.heads != self.kv_heads
        output = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        rows = output.transpose(1, 2).reshape(layout.batch * layout.length, -1)
        return _token_rows(rows, layout.token_slots, len(heads_NHD))

    def _by_prompt(self, heads_NHD: torch.Tensor) -> torch.Tensor:
        """A response's queries meet its prompt's keys and its own earlier ones, in two products under one softmax."""
        count, heads, size = heads_NHD.shape
        prompts, width, most, length = self.grids.shape
        slots = self.rotate(heads_NHD).view(count, -1).index_select(0, self.grids.slot_tokens)
        prompt_slots, response_slots = slots.view(-1, heads, size).split([prompts * width, prompts * most * length])
        # Prompts. Query heads that share keys are rows of one product, here and below: no key is repeated.
        q, k, v = prompt_slots.view(prompts, width, heads, size).transpose(1, 2).split(self.parts(), 1)
        grouped = self.heads != self.kv_heads
        prompt_rows = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        prompt_k, prompt_v = (part.reshape(-1, width, size) for part in (k, v))
        # Responses, by prompt, key head, response, query head and place.
        by_head = response_slots.view(prompts, most, length, heads, size).permute(0, 3, 1, 2, 4)
        q, k, v = by_head.split(self.parts(), 1)
        q = q.reshape(prompts, self.kv_heads, -1, most, length, size).transpose(2, 3) * size**-0.5
        k, v = (part.reshape(-1, length, size) for part in (k, v))
        by_prompt, by_response = (prompts * self.kv_heads, -1), (prompts * self.kv_heads * most, -1)
        to_prompt = torch.bmm(q.reshape(*by_prompt, size), prompt_k.transpose(1, 2)).view(prompts, -1, width)
        to_own = torch.bmm(q.reshape(*by_response, size), k.transpose(1, 2)).view(-1, length, length)
        scores = [to_prompt + self.grids.hidden_UW[:, None], to_own + self.future[:length, :length]]
        weights = torch.cat([scores[0].view(-1, width), scores[1].view(-1, length)], -1).softmax(-1)
        weight_prompt, weight_own = weights.split([width, length], -1)
        output = torch.bmm(weight_prompt.reshape(*by_prompt, width), prompt_v).view(-1, size)
        output = output + torch.bmm(weight_own.reshape(*by_response, length), v).view(-1, size)
        response_rows = output.view(prompts, self.kv_heads, most, -1, length, size).permute(0, 2, 4, 1, 3, 5)
        rows = [
            prompt_rows.transpose(1, 2).reshape(-1, self.heads * size),
            response_rows.reshape(-1, self.heads * size),
        ]
        return _token_rows(torch.cat(rows), self.grids.token_slots, count)


class AttentionByHand(torch.autograd.Function):
    """With P = softmax(q kᵀ / √D): ∂v = Pᵀ ∂o, ∂S = P (∂o vᵀ - rowsum(P ∂o vᵀ)), ∂q = ∂S k / √D, ∂k = ∂Sᵀ q / √D."""

    @staticmethod
    def forward(ctx: Any, heads_NHD: torch.Tensor, attention: SharedAttention) -> torch.Tensor:
        layout, (count, _, size) = attention.layout, heads_NHD.shape
        tokens = attention.rotate(heads_NHD).view(count, -1).index_select(0, layout.slot_tokens)
        grid = tokens.view(len(layout.slot_tokens), -1, size).transpose(0, 1).contiguous()
        q, k, v = (_sequences(part, attention) for part in grid.split(attention.parts()))
        weights = torch.baddbmm(attention.future, q, k.transpose(1, 2), alpha=size**-0.5).softmax(-1)
        output = torch.bmm(weights, v).view(attention.heads, -1, size).transpose(0, 1)
        # Not the keys and values as they are repeated for the heads that share them: backward repeats them again.
        ctx.save_for_backward(grid, weights)
        ctx.attention, ctx.count = attention, count
        return output.reshape(len(layout.slot_tokens), -1).index_select(0, layout.row_slots)

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
        grad_v = torch.bmm(weights.transpose(1, 2), grad)
        grad_weights = torch.bmm(grad, v.transpose(1, 2))
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, torch.float32).mul_(scale)
        grad_q, grad_k = torch.bmm(grad_scores, k), torch.bmm(grad_scores.transpose(1, 2), q)
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


def _token_rows(grid: torch.Tensor, token_slots: torch.Tensor, count: int) -> torch.Tensor:
    """The rows of `count` tokens of a flat grid; zeros for those without a slot, which are padding."""
    return functional.pad(grid.index_select(0, token_slots), (0, 0, 0, count - len(token_slots)))
