"""The native engine: batched sampling with a preallocated key/value cache, for CPU and for small models on a GPU.

It reads the policy's own (fused) parameters, so an optimiser step is seen at once. Each prompt is prefilled once for all its
samples, and what prompts begin with in common once for all of them. On a CPU responses to a prompt that begin alike are one row until
they part, which changes no bit of them. Finished rows are compacted away; at least `MIN_ROWS` rows are always computed, because the
matrix kernels round a row the same whatever its neighbours only from there on. With equal prompt lengths responses are bit-identical for
any batch; with unequal ones prompts are padded on the left in the cache, and the last bits of a logit may depend on the padding.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as functional

from harness.model.decoder import Decoder, Shape
from harness.model.layout import Layout, SharedAttention
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, passes
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
    def sample(self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        tells = self.on_group is not None and seeds_PG.shape[1] <= self.rows
        parts, first, on_group = list[Completions](), 0, self.tell if tells else None
        with self.decoder.linear.constant_weights():
            for chunk, seeds in passes(prompts, seeds_PG, self.rows, params.watch):
                parts.append(_Pass(self.decoder, chunk, seeds, params, self._memory, first, on_group).run())
                first += len(chunk)
        self._memory.shrink()
        return Completions.concatenate(parts)


def rows_with_room(shape: Shape) -> int:
    """Rows whose keys and values at full length, in float32, fit a GiB: a small model is faster with more rows than are asked for."""
    return 2**30 // (8 * max(1, shape.layers) * shape.kv_heads * shape.head_size * shape.max_positions)


class _Memory:
    """Room for keys and values that passes use in turn: the system hands out its pages once, not once a pass or a request."""

    def __init__(self, decoder: Decoder) -> None:
        self._empty = decoder.embed.new_empty(0)
        self._held = self._empty

    def take(self, size: tuple[int, ...]) -> torch.Tensor:
        """An uninitialised tensor, valid until the next call."""
        count = math.prod(size)
        if len(self._held) < count:
            self._held = self._empty  # freed before a larger one is made
            self._held = self._empty.new_empty(count)
        return self._held[:count].view(size)

    def shrink(self) -> None:
        """Give back what is too large to be held while the policy trains."""
        if self._held.nbytes > _KEPT_BYTES:
            self._held = self._empty


class _Pass:
    """One decoding of the responses to some prompts, those of the request from number `first` on.

    Letters: S rows that are computed; each holds a sequence of tokens, which one or more running responses share, or nothing of use.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        seeds_PG: np.ndarray,
        params: SamplingParams,
        memory: _Memory,
        first: int,
        on_group: Callable[[int, Completions], None] | None,
    ) -> None:
        self.decoder, self.params, self.first, self.on_group = decoder, params, first, on_group
        shape, device = decoder.shape, decoder.embed.device
        self.count, self.samples = seeds_PG.shape
        self.running_P = [self.samples] * self.count
        # A GPU rounds a row by how many there are, and has to be waited for to know which tokens are equal.
        self.copies = 1 if device.type == "cpu" else self.samples
        self.apart = self.copies == self.samples  # no two running responses share a row
        self.size = _row_count(self.count * self.copies)  # rows that are computed
        self.width = max(map(len, prompts))
        self.layout = Layout.of_prompts(prompts).to(device)
        self.pads_P = self.width - self.layout.widths_B
        self.pads_S = self._by_row(self.pads_P) if bool(self.pads_P.any()) else None
        positions = self.width + params.max_response_tokens
        # Keys and values of each layer, by row, head and position.
        size = (shape.layers, 2, _row_count(seeds_PG.size), shape.kv_heads, positions, shape.head_size)
        self.cache = memory.take(size)
        self.buffers = ResponseBuffers(seeds_PG.reshape(-1), params, device)
        self.cos, self.sin = decoder.rope(positions)

    def run(self) -> Completions:
        buffers, cap = self.buffers, self.params.max_response_tokens
        # The responses that have not ended, and the row of each.
        running = torch.arange(self.count * self.samples, device=buffers.lengths_R.device)
        rows = running // (self.samples // self.copies)
        hidden_SE = self._by_row(self._prefill())
        for position in range(cap):
            logits = self.decoder.logits(hidden_SE)
            tokens, stopped = buffers.choose(logits[rows], position, running)
            if bool(stopped.any()):
                buffers.end(running[stopped], position)
                self._tell(running[stopped])
                running, rows, tokens = (part[~stopped] for part in (running, rows, tokens))
            if len(running) == 0 or position + 1 == cap:
                break
            rows, tokens_S = self._part(rows, tokens, self.width + position)
            hidden_SE = self._decode(tokens_S, self.width + position)
        self._tell(running)
        return buffers.completions()

    def _tell(self, ended: torch.Tensor) -> None:
        """Hand over the groups of which these responses were the last to end."""
        for group in () if self.on_group is None else (ended // self.samples).tolist():
            self.running_P[group] -= 1
            if not self.running_P[group] and self.on_group:
                start, end = group * self.samples, (group + 1) * self.samples
                self.on_group(self.first + group, self.buffers.completions(start, end))

    def _by_row(self, values_P: torch.Tensor) -> torch.Tensor:
        """What belongs to each prompt, for the rows before the first token; spare rows repeat the last prompt's."""
        rows = torch.arange(self.size, device=values_P.device).clamp(max=self.count * self.copies - 1)
        return values_P[rows // self.copies]

    def _part(self, rows: torch.Tensor, tokens: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Give each sequence that goes on a row: the first that continues a row stays there, others take a copy of its cache along.

        `rows` are those of the running responses, `tokens` their next ones, `length` the positions that the cache holds. Returns the rows
        from now on, and the next token of every row.
        """
        parents, sequences, first = rows, None, torch.ones_like(rows, dtype=torch.bool)
        if not self.apart:
            vocab = self.decoder.shape.vocab
            continued, sequences = (rows * vocab + tokens).unique(return_inverse=True)
            parents, tokens = continued // vocab, continued % vocab
            first = torch.cat([first[:1], parents[1:] != parents[:-1]])
            self.apart = len(parents) == len(rows)
        size = _row_count(len(parents))
        if _COMPACT_BELOW * self.size < size < self.size:
            size = self.size
        places = parents
        if size != self.size or sequences is not None:
            places = self._move(parents, first & (parents < size), size, length)
        if self.pads_S is not None:
            self.pads_S = self.pads_S.new_zeros(size).index_copy_(0, places, self.pads_S[parents])
        self.size = size
        return places if sequences is None else places[sequences], tokens.new_zeros(size).index_copy_(0, places, tokens)

    def _move(self, parents: torch.Tensor, stays: torch.Tensor, size: int, length: int) -> torch.Tensor:
        """Copy the cache of the sequences that do not stay in their parents' rows to free ones below `size`; the row of each sequence."""
        free = torch.ones(size, dtype=torch.bool, device=parents.device)
        free[parents[stays]] = False
        moved = (~stays).nonzero()[:, 0]
        places = parents.clone()
        places[moved] = free.nonzero()[: len(moved), 0]
        if len(moved):
            sources, targets = parents[moved], places[moved]
            for layer in self.cache:
                layer[:, targets, :, :length] = layer[:, sources, :, :length]
        return places

    def _prefill(self) -> torch.Tensor:
        """Run the prompts, what they begin with in common once; copy keys and values to their rows; last hidden states [P, E]."""
        decoder, shape, layout = self.decoder, self.decoder.shape, self.layout
        attention = SharedAttention(layout, self.cos, self.sin, shape.heads, shape.kv_heads)
        # The cache is padded on the left: what lies in the padding is hidden from every query.
        column = (torch.arange(self.width, device=self.pads_P.device) - self.pads_P[:, None]).clamp(min=0)
        tokens_PW = layout.slot_tokens.view(layout.batch, -1).gather(1, column)
        rows = layout.batch * self.copies
        cache_shape = (shape.layers, 2, layout.batch, self.copies, shape.kv_heads, -1, shape.head_size)
        cache = self.cache[:, :, :rows].view(cache_shape)[..., : self.width, :]

        def attend(index: int, heads: torch.Tensor) -> torch.Tensor:
            heads = attention.rotate(heads)
            keys, values = heads[tokens_PW, shape.heads :].transpose(1, 2).chunk(2, 1)
            cache[index, 0], cache[index, 1] = keys[:, None], values[:, None]
            return attention.by_torch(heads)

        x = functional.embedding(layout.ids_N, decoder.embed)
        return decoder.final_norm(decoder.run_layers(x, attend)[layout.predictors_M])

    def _decode(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        """One position for every row; the cache holds `position` positions. Returns final hidden states [R, E]."""
        decoder, shape = self.decoder, self.decoder.shape
        count, end = len(tokens), position + 1
        cos, sin, mask = self.cos[position], self.sin[position], None
        if self.pads_S is not None:
            cos, sin = self.cos[position - self.pads_S][:, None], self.sin[position - self.pads_S][:, None]
            pad_mask = torch.arange(end, device=tokens.device)[None] < self.pads_S[:, None]
            mask = torch.zeros(count, end, dtype=self.cache.dtype, device=tokens.device)
            mask = mask.masked_fill(pad_mask, float("-inf"))[:, None, None]
        x = functional.embedding(tokens, decoder.embed)
        qk_heads, half = shape.heads + shape.kv_heads, shape.head_size // 2
        # The query heads of one key/value head are rows of one small product: nothing is expanded.
        query_shape = (count, shape.kv_heads, shape.heads // shape.kv_heads, shape.head_size)
        scale = shape.head_size**-0.5
        # Of every layer: the places of the new keys and values [2, R, K, D], and those up to there [2, R, K, end, D].
        new, filled = self.cache[:, :, :count, :, position].unbind(), self.cache[:, :, :count, :, :end].unbind()

        def attend(index: int, heads: torch.Tensor) -> torch.Tensor:
            qk = heads[:, :qk_heads]
            sin_part = qk.roll(half, -1).mul_(sin)
            qk.mul_(cos).add_(sin_part)
            new[index].copy_(heads[:, shape.heads :].unflatten(1, (2, -1)).transpose(0, 1))
            keys, values = filled[index].unbind()
            query = heads[:, : shape.heads].reshape(query_shape)
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
