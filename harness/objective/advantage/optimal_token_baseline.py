"""A baseline for every token: the group's returns to go, weighted by how far each response's score has come (OTB, arXiv:2602.07078; verl).

A_t = G_t - Σ_i G_t W_t / Σ_i W_t over the group's responses that are t tokens long, with W_t = Σ_{s ≤ t} (1 - 2π_s + Σ_v π_v²): the squared
norm of the score in the logits, so that each b_t has the least variance. Beyond the second longest response there is nobody to compare with
and the baseline is 0. Checked against verl's code and page, not against the paper's text.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.advantage import Advantage
from harness.objective.types import RolloutBatch, Tensor, pad_tokens, token_cells


@dataclass
class Config(Advantage):
    """`epsilon`: added to the sum of weights."""

    kind: str = "optimal_token_baseline"
    epsilon: float = ranged(1e-8, low=0.0)
    needs_distribution = True
    dead_groups_vanish = False  # the last tokens of the longest response have no baseline

    def advantages(self, batch: RolloutBatch) -> Tensor:
        if batch.old_logprobs_N is None or batch.old_logprobs_NV is None:
            raise ValueError("optimal_token_baseline needs RolloutBatch.old_logprobs_N and old_logprobs_NV")
        lengths_R, (groups, size) = batch.lengths_PG.reshape(-1), batch.rewards_PG.shape
        cells_RT = token_cells(lengths_R)

        def grid(values_N: Tensor) -> Tensor:
            return pad_tokens(values_N, cells_RT).view(groups, size, -1)

        counted_N = batch.per_token(batch.counted_PG.double())
        square_N = (2 * batch.old_logprobs_NV.double()).exp().sum(-1)
        energy = grid((1 - 2 * batch.old_logprobs_N.double().exp() + square_N) * counted_N).cumsum(-1)
        returns = grid(batch.token_rewards_N).flip(-1).cumsum(-1).flip(-1)
        present = grid(counted_N)
        baseline = (returns * energy * present).sum(1) / ((energy * present).sum(1) + self.epsilon)
        alone = present.sum(1) < 2
        return ((returns - baseline.masked_fill(alone, 0.0)[:, None]) * present).view(len(lengths_R), -1)[cells_RT]
