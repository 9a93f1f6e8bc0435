"""Continuous batching in the native engine: a fixed number of slots, each at a position of its own, refilled as responses end.

Every decode step has one of few shapes whatever is in the slots, so on a GPU it is captured once per number of rows and length bucket as a
CUDA graph and replayed. When nothing waits and most slots are done, the rest moves to the front and only a half, a quarter, ... of the
slots is computed. Responses are those of the batched engine: the noise belongs to (sample, position); logits agree within rounding.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as functional

from harness.model.decoder import Decoder, Layer
from harness.rollout.choice import choose
from harness.rollout.engine.native.attention import attend
from harness.rollout.noise import uniforms
from harness.rollout.request import check_request
from harness.rollout.types import Completions, SamplingParams

STEPS_A_POLL = 16  # decode steps between two looks at what has ended: each look waits for the device
_FEWEST_ROWS = 8  # see `harness.rollout.engine.native.sampler`
BUCKET = 128  # attended positions are rounded up to a multiple of this: few graphs, little waste


@dataclass
class _Group:
    """A submitted group and the slots its samples sit in."""

    ticket: int
    prompt: Sequence[int]
    seeds_G: np.ndarray
    slots: list[int]


class SlotSession:
    """See `harness.rollout.types.Session`.

    Args:
        decoder: the weights; they must not change while groups are out.
        params: of every request.
        longest_prompt: tokens of the longest prompt that may come.
        rows: slots; a group of more samples than that gets as many as it needs.
    """

    def __init__(self, decoder: Decoder, params: SamplingParams, longest_prompt: int, rows: int) -> None:
        self.decoder, self.params, self.longest = decoder, params, longest_prompt
        shape, device, dtype = decoder.shape, decoder.embed.device, decoder.embed.dtype
        self.span, cap = longest_prompt + params.max_response_tokens, params.max_response_tokens
        self.rows = rows
        size = (shape.layers, rows, shape.kv_heads, self.span, shape.head_size)
        # Zeros: a masked position's weight is exactly 0, but 0 times an uninitialised NaN is not.
        self.keys, self.values = (torch.zeros(size, dtype=dtype, device=device) for _ in range(2))
        self.uniform = torch.ones(rows, cap, dtype=torch.float64, device=device)
        self.token = torch.zeros(rows, dtype=torch.long, device=device)  # chosen, not yet read
        self.place = torch.zeros(rows, dtype=torch.long, device=device)  # where it will be read
        self.made = torch.zeros(rows, dtype=torch.long, device=device)  # tokens chosen so far
        self.live = torch.zeros(rows, dtype=torch.bool, device=device)
        self.finished = torch.zeros(rows, dtype=torch.bool, device=device)
        self.tokens = torch.zeros(rows, cap, dtype=torch.long, device=device)
        self.log_probs, self.entropy = (torch.zeros(rows, cap, device=device) for _ in range(2))
        self.stops = torch.tensor(params.stop_token_ids, dtype=torch.long, device=device)
        self.cos, self.sin = decoder.rope(self.span)
        self.all_rows = torch.arange(rows, device=device)
        self._tickets = itertools.count()
        self._queue: deque[_Group] = deque()
        self._running: dict[int, _Group] = {}
        self._free = list(range(rows))
        self._sizes = _halvings(rows)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        # One pool for all graphs: they are replayed one after the other, and what they give is in the buffers above.
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    @property
    def idle(self) -> bool:
        """Whether every group came back."""
        return not self._queue and not self._running

    def submit(self, prompt: Sequence[int], seeds_G: np.ndarray) -> int:
        """See `Session`. Raises ValueError for a request that does not fit the session."""
        check_request([prompt], seeds_G[None], self.params, self.span)
        if len(seeds_G) > self.rows:
            raise ValueError(
                f"a group of {len(seeds_G)} samples needs as many slots; raise runtime.rollout_rows"
            )
        ticket = next(self._tickets)
        self._queue.append(_Group(ticket, prompt, seeds_G, []))
        return ticket

    @torch.no_grad()
    def poll(self) -> list[tuple[int, Completions]]:
        """See `Session`: admits what fits, and decodes `STEPS_A_POLL` tokens for every slot in use."""
        admitted = []
        self._free.sort(reverse=True)  # the first slots are taken first: the fewer rows are computed
        while self._queue and len(self._queue[0].seeds_G) <= len(self._free):
            group = self._queue.popleft()
            group.slots = [self._free.pop() for _ in group.seeds_G]
            self._running[group.ticket] = group
            admitted.append(group)
        if admitted:
            self._prefill(admitted)
        if not self._running:
            return []
        places = torch.where(self.live, self.place, -1).tolist()
        rows = self._fewest_rows([slot for slot, place in enumerate(places) if place >= 0])
        for step in range(STEPS_A_POLL):
            self._step(rows, min(self.span, -(-(max(*places, 0) + step + 1) // BUCKET) * BUCKET))
        live = self.live.tolist()
        done = [group for group in self._running.values() if not any(live[slot] for slot in group.slots)]
        return [(group.ticket, self._take(group)) for group in done]

    def _fewest_rows(self, live: list[int]) -> int:
        """How many rows have to be computed; live slots move to the front where that halves the number and no group waits for slots."""
        enough = next(size for size in self._sizes if size >= len(live))
        if self._queue or enough > max(live, default=0):
            return next(size for size in self._sizes if size > max(live, default=0))
        order = live + sorted(set(range(self.rows)) - set(live))
        index = torch.tensor(order, device=self.token.device)
        for cache in (self.keys, self.values):
            for layer in cache:  # what is done is never attended to again
                layer[: len(live)] = layer[index[: len(live)]]
        state = (self.uniform, self.token, self.place, self.made, self.live, self.finished)
        for buffer in (*state, self.tokens, self.log_probs, self.entropy):
            buffer.copy_(buffer[index])  # in place: graphs read these tensors
        new = {old: place for place, old in enumerate(order)}
        for group in self._running.values():
            group.slots = [new[slot] for slot in group.slots]
        self._free = [new[slot] for slot in self._free]
        return enough

    def _take(self, group: _Group) -> Completions:
        """A complete group's responses; its slots are free again."""
        del self._running[group.ticket]
        self._free += group.slots
        rows = torch.tensor(group.slots, device=self.token.device)
        lengths = self.made[rows].cpu()
        inside = torch.arange(self.tokens.shape[1])[None] < lengths[:, None]
        return Completions(
            tokens_N=self.tokens[rows].cpu()[inside],
            log_probs_N=self.log_probs[rows].cpu()[inside],
            entropy_N=self.entropy[rows].cpu()[inside],
            lengths_R=lengths,
            finished_R=self.finished[rows].cpu(),
        )

    def _prefill(self, groups: list[_Group]) -> None:
        """Run each prompt once, copy its keys and values to its samples' slots, and choose their first tokens."""
        device = self.token.device
        widths = torch.tensor([len(group.prompt) for group in groups], device=device)
        width = int(widths.max())
        ids = torch.tensor(
            [[*group.prompt, *[0] * (width - len(group.prompt))] for group in groups], device=device
        )
        rows = torch.tensor([slot for group in groups for slot in group.slots], device=device)
        sizes = torch.tensor([len(group.slots) for group in groups], device=device)
        owner = torch.arange(len(groups), device=device).repeat_interleave(sizes)

        def keep(layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
            self.keys[layer, rows, :, :width] = keys[owner]
            self.values[layer, rows, :, :width] = values[owner]

        hidden = self.decoder.hidden(ids, keep).view(len(groups), width, -1)
        last = hidden[torch.arange(len(groups), device=device), widths - 1]
        noise = np.concatenate([uniforms(group.seeds_G, self.params.max_response_tokens) for group in groups])
        self.uniform[rows] = torch.from_numpy(noise).to(device)
        self.place[rows], self.made[rows] = widths[owner] - 1, 0
        self.live[rows], self.finished[rows] = True, False
        self._choose(self.decoder.logits(last)[owner], rows)

    def _choose(self, logits: torch.Tensor, rows: torch.Tensor) -> None:
        """Choose one token for each of `rows`; those that are not live keep what they have. No synchronisation."""
        made, live = self.made[rows], self.live[rows]
        at = made.clamp(max=self.tokens.shape[1] - 1)
        chosen, log_probs, entropy = choose(logits, self.uniform[rows, at], self.params)
        for buffer, value in ((self.tokens, chosen), (self.log_probs, log_probs), (self.entropy, entropy)):
            buffer[rows, at] = torch.where(live, value, buffer[rows, at])
        ended = (chosen[:, None] == self.stops[None]).any(-1) & live
        self.token[rows] = torch.where(live, chosen, self.token[rows])
        self.made[rows] = made + live
        self.place[rows] += live
        self.finished[rows] = torch.where(live, ended, self.finished[rows])
        self.live[rows] = live & ~ended & (made + 1 < self.tokens.shape[1])

    def _step(self, rows: int, attended: int) -> None:
        """One token for every live slot, all of which are among the first `rows`; keys up to position `attended` are looked at."""
        if self.token.device.type != "cuda":
            self._decode(rows, attended)
            return
        graph = self._graphs.get((rows, attended))
        if graph is not None:
            graph.replay()
            return
        # The first step of a shape runs eagerly and warms the kernels up; the graph is captured for the next ones. Capturing does not
        # execute, so the state is not stepped twice.
        self._decode(rows, attended)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Other threads (a checkpoint's) may use the device meanwhile.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            self._decode(rows, attended)
        self._graphs[rows, attended] = graph

    def _decode(self, count: int, attended: int) -> None:
        decoder, shape = self.decoder, self.decoder.shape
        rows, place = self.all_rows[:count], self.place[:count].clamp(max=self.span - 1)
        cos, sin = self.cos[place][:, None], self.sin[place][:, None]
        hidden = (torch.arange(attended, device=place.device)[None] > place[:, None])[:, None, None]
        grouped = (count, shape.kv_heads, shape.heads // shape.kv_heads, shape.head_size)
        scale = shape.head_size**-0.5
        bias = None  # in float32 the scores may be held as they are
        if self.keys.dtype != torch.float32:
            bias = torch.zeros_like(hidden, dtype=self.keys.dtype).masked_fill(hidden, float("-inf"))
        x = functional.embedding(self.token[:count], decoder.embed)
        rotated, half = shape.heads + shape.kv_heads, shape.head_size // 2
        for index, layer in enumerate(decoder.layers):
            assert isinstance(layer, Layer)
            heads = decoder.project(layer, x)
            qk = heads[:, :rotated]
            qk = qk * cos + qk.roll(half, -1) * sin
            self.keys[index, rows, :, place] = qk[:, shape.heads :]
            self.values[index, rows, :, place] = heads[:, rotated:]
            keys, values = (cache[index, :count, :, :attended] for cache in (self.keys, self.values))
            # The query heads of one key/value head are rows of one small product: nothing is expanded.
            if bias is None:
                query = (qk[:, : shape.heads] * scale).reshape(grouped)
                scores = query @ keys.transpose(-1, -2)
                out = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ values
            else:
                out = attend(qk[:, : shape.heads].reshape(grouped), keys, values, bias)
            x = x + decoder.linear(out.reshape(count, -1), layer.out)
            x = decoder.mlp(layer, x)
        last = functional.rms_norm(x, (shape.hidden,), decoder.norm, shape.norm_epsilon)
        self._choose(decoder.logits(last), rows)


def _halvings(rows: int) -> list[int]:
    """Numbers of rows that are computed, smallest first: all of them, half, a quarter, ... and no fewer than `_FEWEST_ROWS`."""
    sizes = [rows]
    while sizes[0] // 2 >= _FEWEST_ROWS:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def answer(session: SlotSession, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray) -> Completions:
    """A whole request through slots; a prompt with more samples than slots is split."""
    samples = min(session.rows, seeds_PG.shape[1])
    tickets = [
        session.submit(prompt, seeds[start : start + samples])
        for prompt, seeds in zip(prompts, seeds_PG, strict=True)
        for start in range(0, len(seeds), samples)
    ]
    done: dict[int, Completions] = {}
    while len(done) < len(tickets):
        done.update(session.poll())
    return Completions.concatenate([done[ticket] for ticket in tickets])
