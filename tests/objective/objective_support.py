"""A toy policy (a table of logits) and the update of any algorithm on it, in float64, over any split into micro-batches."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.configuration.compose import compose_run, options
from harness.configuration.sections import AlgorithmConfig
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch

STATES, VOCABULARY = 7, 5


@functools.cache
def algorithm(name: str) -> AlgorithmConfig:
    return compose_run([f"algorithm={name}", "sampling.max_response_tokens=12"]).algorithm


SYSTEMS = options("algorithm")


@dataclass
class Sample:
    """P groups of G responses of a table policy: token t of the flat array was drawn in state `states_N[t]`.

    The sampler's whole distributions are those of a table of their own.
    """

    rewards_PG: torch.Tensor
    correct_PG: torch.Tensor
    lengths_PG: torch.Tensor
    states_N: torch.Tensor
    tokens_N: torch.Tensor
    old_N: torch.Tensor
    reference_N: torch.Tensor
    values_N: torch.Tensor
    table: torch.Tensor
    sampler_table: torch.Tensor

    @property
    def responses(self) -> int:
        return self.lengths_PG.numel()

    @property
    def group_R(self) -> torch.Tensor:
        return torch.arange(len(self.lengths_PG)).repeat_interleave(self.lengths_PG.shape[1])

    def log_probs(self, table: torch.Tensor) -> torch.Tensor:
        return table.log_softmax(-1)[self.states_N, self.tokens_N]

    @property
    def sampler_NV(self) -> torch.Tensor:
        return self.sampler_table.log_softmax(-1)[self.states_N]

    def entropy(self, table: torch.Tensor) -> torch.Tensor:
        log_probs = table.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)[self.states_N]

    def reordered(self, rows: Sequence[int]) -> Sample:
        """The same responses in another order: of groups, or within groups."""
        lengths = self.lengths_PG.reshape(-1)
        starts = lengths.cumsum(0) - lengths
        index = torch.cat([torch.arange(int(starts[r]), int(starts[r] + lengths[r])) for r in rows])
        shape = self.lengths_PG.shape
        grids = (
            grid.reshape(-1)[list(rows)].view(shape) for grid in (self.rewards_PG, self.correct_PG, self.lengths_PG)
        )
        flat = (self.states_N, self.tokens_N, self.old_N, self.reference_N, self.values_N)
        return Sample(*grids, *(values[index] for values in flat), self.table, self.sampler_table)

    def batch(self, objective: Objective) -> RolloutBatch:
        penalty = objective.kl_penalty(self.old_N, self.reference_N)
        return RolloutBatch(
            rewards_PG=self.rewards_PG,
            correct_PG=self.correct_PG,
            lengths_PG=self.lengths_PG,
            counted_PG=torch.ones_like(self.correct_PG),
            components_PGC=torch.stack([self.rewards_PG, self.correct_PG * 0.1, -self.lengths_PG / 40.0], -1),
            kl_penalty_N=penalty,
            values_N=self.values_N,
            old_logprobs_N=self.old_N,
        )


def sample(groups: int = 4, size: int = 4, seed: int = 0, drift: float = 0.4, continuous: bool = True) -> Sample:
    """Random responses; `drift` moves the old and reference policies away from the current one."""
    rng = np.random.default_rng(seed)
    lengths = torch.from_numpy(rng.integers(1, 7, (groups, size)))
    total = int(lengths.sum())
    correct = torch.from_numpy(rng.random((groups, size)) < 0.5)
    rewards = torch.where(correct, 1.0, -1.0).double()
    if continuous:
        rewards = rewards + torch.from_numpy(rng.normal(0, 0.2, (groups, size)))
    table = torch.from_numpy(rng.normal(0, 0.7, (STATES, VOCABULARY)))
    result = Sample(
        rewards, correct, lengths,
        torch.from_numpy(rng.integers(0, STATES, total)), torch.from_numpy(rng.integers(0, VOCABULARY, total)),
        torch.empty(0), torch.empty(0), torch.from_numpy(rng.normal(0, 0.5, total)), table, table,
    )  # fmt: skip
    result.old_N = result.log_probs(table) + drift * torch.from_numpy(rng.normal(0, 1, total))
    result.reference_N = result.log_probs(table) + drift * torch.from_numpy(rng.normal(0, 1, total))
    result.sampler_table = table + drift * torch.from_numpy(rng.normal(0, 1, table.shape))
    return result


def loss(
    objective: Objective,
    data: Sample,
    table: torch.Tensor,
    parts: Sequence[torch.Tensor] | None = None,
    advantages_N: torch.Tensor | None = None,
) -> torch.Tensor:
    """The update's loss; `parts` are its micro-batches."""
    everything = torch.arange(data.responses)
    lengths, correct = data.lengths_PG.reshape(-1), data.correct_PG.reshape(-1)
    if advantages_N is None:
        advantages_N = objective.advantages(data.batch(objective), torch.float64)
    counts = objective.count(lengths, data.group_R, correct)
    weights_R = objective.aggregation.response_weights(lengths, data.group_R, counts)
    likelihood_R = objective.likelihood_weights(lengths, correct, counts)
    response_N = everything.repeat_interleave(lengths)
    log_probs, entropy = data.log_probs(table), data.entropy(table)
    selected = None
    if objective.surrogate.selects:  # over the whole update, whatever the parts
        draws = torch.from_numpy(np.random.default_rng(5).random(len(log_probs)))
        selected = objective.surrogate.select(log_probs.detach(), data.old_N, advantages_N, draws)
    total = table.sum() * 0
    for rows in [everything] if parts is None else parts:
        index = torch.cat([(response_N == row).nonzero()[:, 0] for row in rows.tolist()])
        batch = TokenBatch(
            lengths_R=lengths[rows],
            group_R=data.group_R[rows],
            old_logprobs_N=data.old_N[index],
            advantages_N=advantages_N[index],
            weights_R=weights_R[rows],
            ref_logprobs_N=data.reference_N[index] if objective.needs_reference else None,
            likelihood_weights_R=None if likelihood_R is None else likelihood_R[rows],
            selected_N=None if selected is None else selected[index],
            sampler_logprobs_NK=data.sampler_NV[index],
            logprobs_NK=table.log_softmax(-1)[data.states_N[index]],
        )
        total = total + objective(log_probs[index], batch, entropy[index])[0]
    return total


def gradient(objective: Objective, data: Sample, **options: object) -> torch.Tensor:
    table = data.table.clone().requires_grad_()
    (result,) = torch.autograd.grad(loss(objective, data, table, **options), table)  # type: ignore[arg-type]
    return result


def one_group(rewards: list[float], lengths: list[int] | None = None, **more: Any) -> RolloutBatch:
    lengths = lengths or [1] * len(rewards)
    values = torch.tensor([rewards], dtype=torch.float64)
    return RolloutBatch(
        rewards_PG=values,
        correct_PG=more.pop("correct", values > 0.5),
        lengths_PG=torch.tensor([lengths]),
        counted_PG=more.pop("counted", torch.ones_like(values, dtype=torch.bool)),
        **more,
    )


def tokens(ratios: list[float], advantages: list[float]) -> tuple[torch.Tensor, torch.Tensor, TokenBatch]:
    log_ratio = torch.tensor(ratios, dtype=torch.float64).log()
    old_N = torch.zeros(len(ratios)).double()
    batch = responses([1] * len(ratios), old_N, torch.tensor(advantages, dtype=torch.float64))
    return log_ratio.clone(), log_ratio, batch


def responses(lengths: list[int], old_logprobs_N: torch.Tensor, advantages_N: torch.Tensor, **more: Any) -> TokenBatch:
    """A micro-batch of responses of one group, whose tokens weigh 1 where no weights are given."""
    number = len(lengths)
    return TokenBatch(
        lengths_R=torch.tensor(lengths),
        group_R=torch.zeros(number, dtype=torch.long),
        old_logprobs_N=old_logprobs_N,
        advantages_N=advantages_N,
        weights_R=more.pop("weights_R", torch.ones(number, dtype=old_logprobs_N.dtype)),
        **more,
    )
