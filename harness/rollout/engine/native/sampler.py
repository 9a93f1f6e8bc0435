"""The native engine: batched sampling with a preallocated key/value cache, for CPU and for small models on a GPU.

It reads the policy's own (fused) parameters, so an optimiser step is seen at once. Each prompt is prefilled once for all its
samples, and what prompts begin with in common once for all of them. Finished rows are compacted away; at least `MIN_ROWS` rows are
always computed, because the matrix kernels round a row the same whatever its neighbours only from there on. With equal prompt
lengths responses are bit-identical for any batch; with unequal ones prompts are padded on the left in the cache, and the last bits
of a logit may depend on the padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as functional

from harness.model.decoder import Decoder
from harness.model.layout import Layout, SharedAttention
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, check_request, passes
from harness.rollout.wrappers import ResponseBuffers

MIN_ROWS = 8
_COMPACT_BELOW = 0.9  # rows fewer by this factor are worth moving the last ones forward
_KEPT_BYTES = 2**28  # of key/value cache between requests
_FEW_PRODUCTS = 400  # below so many multiplications torch's batched product is a plain loop


class NativeEngine(RolloutEngine):
    """Samples from a `Decoder`: the policy's own (`shares_weights`) or a copy that is loaded after every update.

    `rows` bounds the responses decoded together (memory and cache locality).
    """

    def __init__(self, decoder: Decoder, rows: int = 512, shares_weights: bool = True) -> None:
        self.decoder, self.shares_weights = decoder, shares_weights
        self.rows = max(rows, MIN_ROWS)
        self._memory = _Memory(decoder)

    @property
    def positions(self) -> int | None:
        return self.decoder.shape.max_positions

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.decoder.load_named(weights)

    @torch.no_grad()
    def generate(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """See `RolloutEngine`. Raises ValueError for an empty prompt or a request longer than the model's positions."""
        check_request(prompts, seeds_PG, params, self.positions)
        parts = []
        with self.decoder.linear.constant_weights():
            for chunk, seeds in passes(prompts, seeds_PG, self.rows):
                parts.append(_Pass(self.decoder, chunk, seeds, params, self._memory).run())
        self._memory.shrink()
        return Completions.concatenate(parts)


class _Memory:
    """Room for keys and values that passes use in turn: the system hands out its pages once, not once a pass or a request."""

    def __init__(self, decoder: Decoder) -> None:
        self._empty = decoder.embed.new_empty(0)
        self._keys, self._values = self._empty, self._empty

    def take(self, size: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Two uninitialised tensors, valid until the next call."""
        count = math.prod(size)
        if len(self._keys) < count:
            self._keys, self._values = self._empty, self._empty  # freed before larger ones are made
            self._keys, self._values = (self._empty.new_empty(count) for _ in range(2))
        return self._keys[:count].view(size), self._values[:count].view(size)

    def shrink(self) -> None:
        """Give back what is too large to be held while the policy trains."""
        if self._keys.nbytes + self._values.nbytes > _KEPT_BYTES:
            self._keys, self._values = self._empty, self._empty


class _Pass:
    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        seeds_PG: np.ndarray,
        params: SamplingParams,
        memory: _Memory,
    ) -> None:
        self.decoder, self.params = decoder, params
        shape, device = decoder.shape, decoder.embed.device
        repeat = -(-MIN_ROWS // seeds_PG.size)
        self.real_rows = seeds_PG.size
        prompts, seeds_PG = list(prompts) * repeat, np.tile(seeds_PG, (repeat, 1))
        self.samples = seeds_PG.shape[1]
        self.width = max(map(len, prompts))
        self.layout = Layout.of_prompts(prompts).to(device)
        self.pads_P = self.width - self.layout.widths_B
        self.pads_R = self.pads_P.repeat_interleave(self.samples) if bool(self.pads_P.any()) else None
        rows, cap = len(prompts) * self.samples, params.max_response_tokens
        size = (shape.layers, rows, shape.kv_heads, self.width + cap, shape.head_size)
        self.keys, self.values = memory.take(size)
        self.buffers = ResponseBuffers(seeds_PG.reshape(-1), params, device)
        self.cos, self.sin = decoder.rope(self.width + cap)

    def run(self) -> Completions:
        buffers, cap = self.buffers, self.params.max_response_tokens
        rows = torch.arange(len(buffers.lengths_R), device=buffers.lengths_R.device)
        running = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        hidden_RE = self._prefill().repeat_interleave(self.samples, 0)
        for position in range(cap):
            tokens, stopped = buffers.choose(self.decoder.logits(hidden_RE), position, rows)
            ended = running & stopped
            if bool(ended.any()):
                buffers.end(rows[ended], position)
                running = running & ~ended
            count = int(running.sum())
            if count == 0 or position + 1 == cap:
                break
            size = _row_count(count)
            if size <= _COMPACT_BELOW * len(rows):
                rows, running, tokens = self._compact(size, rows, running, tokens, self.width + position)
            hidden_RE = self._decode(tokens, self.width + position)
        return buffers.completions(self.real_rows)

    def _compact(
        self, count: int, rows: torch.Tensor, running: torch.Tensor, tokens: torch.Tensor, length: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Keep `count` rows: live ones behind that move to the places of ended ones, nothing else is copied."""
        sources = count + running[count:].nonzero()[:, 0]
        places = (~running[:count]).nonzero()[: len(sources), 0]
        for cache in (self.keys, self.values):
            for layer in cache:
                layer[places, :, :length] = layer[sources, :, :length]
        state = [rows, running, tokens] + ([] if self.pads_R is None else [self.pads_R])
        for buffer in state:
            buffer[places] = buffer[sources]
        if self.pads_R is not None:
            self.pads_R = self.pads_R[:count]
        return rows[:count], running[:count], tokens[:count]

    # ---- the forward over the cache -------------------------------------------------------------------------------------

    def _prefill(self) -> torch.Tensor:
        """Run the prompts, what they begin with in common once; copy keys and values to all samples' rows; last hidden states [P, E]."""
        decoder, shape, layout = self.decoder, self.decoder.shape, self.layout
        attention = SharedAttention(layout, self.cos, self.sin, shape.heads, shape.kv_heads)
        # The cache is padded on the left: what lies in the padding is hidden from every query.
        column = (torch.arange(self.width, device=self.pads_P.device) - self.pads_P[:, None]).clamp(min=0)
        tokens_PW = layout.slot_tokens.view(layout.batch, -1).gather(1, column)
        cache_shape = (shape.layers, layout.batch, self.samples, shape.kv_heads, -1, shape.head_size)
        keys, values = self.keys.view(*cache_shape), self.values.view(*cache_shape)

        def attend(index: int, heads: torch.Tensor) -> torch.Tensor:
            heads = attention.rotate(heads)
            cached = heads[tokens_PW, shape.heads :].transpose(1, 2)
            keys[index, ..., : self.width, :] = cached[:, None, : shape.kv_heads]
            values[index, ..., : self.width, :] = cached[:, None, shape.kv_heads :]
            return attention.by_torch(heads)

        x = functional.embedding(layout.ids_N, decoder.embed)
        return decoder.final_norm(decoder.run_layers(x, attend)[layout.predictors_M])

    def _decode(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        """One position for every row; the cache holds `position` positions. Returns final hidden states [R, E]."""
        decoder, shape = self.decoder, self.decoder.shape
        count, end = len(tokens), position + 1
        cos, sin, mask = self.cos[position], self.sin[position], None
        if self.pads_R is not None:
            cos, sin = self.cos[position - self.pads_R][:, None], self.sin[position - self.pads_R][:, None]
            pad_mask = torch.arange(end, device=tokens.device)[None] < self.pads_R[:, None]
            mask = torch.zeros(count, end, dtype=self.keys.dtype, device=tokens.device)
            mask = mask.masked_fill(pad_mask, float("-inf"))[:, None, None]
        x = functional.embedding(tokens, decoder.embed)
        qk_heads, half = shape.heads + shape.kv_heads, shape.head_size // 2
        # The query heads of one key/value head are rows of one small product: nothing is expanded.
        query_shape = (count, shape.kv_heads, shape.heads // shape.kv_heads, shape.head_size)
        scale = shape.head_size**-0.5

        def attend(index: int, heads: torch.Tensor) -> torch.Tensor:
            qk = heads[:, :qk_heads]
            qk = (qk * cos).add_(qk.roll(half, -1).mul_(sin))
            keys, values = self.keys[index, :count, :, :end], self.values[index, :count, :, :end]
            keys[:, :, position] = qk[:, shape.heads :]
            values[:, :, position] = heads[:, qk_heads:]
            query = qk[:, : shape.heads].reshape(query_shape)
            if keys.dtype != torch.float32:
                # As the trainer computes: scores are not rounded (one of 100 in bfloat16 is off by up to 0.25).
                output = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
                return output.reshape(count, -1)
            scores = torch.matmul(query * scale, keys.transpose(-1, -2))
            if mask is not None:
                scores = scores + mask
            weights = scores.softmax(-1)
            if end * shape.head_size < _FEW_PRODUCTS and query_shape[2] == 1:
                output = (weights.transpose(-1, -2) * values).sum(-2)
            else:
                output = torch.matmul(weights, values)
            return output.reshape(count, -1)

        return decoder.final_norm(decoder.run_layers(x, attend))


def _row_count(running: int) -> int:
    """Rows to compute for `running` ones: a few sizes only, for matrix kernels are made anew for every number of rows."""
    step = 8 if running <= 64 else 32 if running <= 256 else 64
    return max(MIN_ROWS, -(-running // step) * step)
