"""Tensors of the objective. Letters: P prompts (groups), G responses a group, R = P·G responses, N response tokens.

Token tensors are flat: the response tokens of all rows laid end to end, so that padding does not exist for the mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any  # members state their settings here too, and planning reads those without torch


@dataclass
class RolloutBatch:
    """All that an advantage estimator may look at: one rollout step's kept groups, group-major.

    `rewards_PG` are shaped rewards; `counted_PG` is False for responses left out of the group statistics (their advantage is
    zero); `components_PGC` are the separate rewards where an algorithm keeps them apart; `kl_penalty_N` is the coefficient times
    the per-token KL estimate where the KL is placed in the reward; `values_N` are the critic's predictions.
    """

    rewards_PG: Tensor
    correct_PG: Tensor
    lengths_PG: Tensor
    counted_PG: Tensor
    components_PGC: Tensor | None = None
    kl_penalty_N: Tensor | None = None
    values_N: Tensor | None = None

    @property
    def returns_PG(self) -> Tensor:
        """Rewards minus the response's summed KL penalty (float64): what group statistics are taken over."""
        rewards = self.rewards_PG.double()
        if self.kl_penalty_N is None:
            return rewards
        penalty = rewards.new_zeros(rewards.numel())
        penalty.index_add_(0, self.response_N, self.kl_penalty_N.double())
        return rewards - penalty.view_as(rewards)

    @property
    def token_rewards_N(self) -> Tensor:
        """Reward of each token (float64): the outcome on the last one, minus each token's own KL penalty."""
        rewards_R, lengths_R = self.rewards_PG.double().reshape(-1), self.lengths_PG.reshape(-1)
        token_N = rewards_R.new_zeros(int(lengths_R.sum()))
        token_N[lengths_R.cumsum(0) - 1] = rewards_R
        return token_N if self.kl_penalty_N is None else token_N - self.kl_penalty_N.double()

    @property
    def response_N(self) -> Tensor:
        """The response index of each token."""
        import torch

        lengths = self.lengths_PG.reshape(-1)
        return torch.arange(len(lengths)).repeat_interleave(lengths)

    def per_token(self, values_PG: Tensor) -> Tensor:
        """Spread one number a response over its tokens, [N]."""
        return values_PG.reshape(-1).repeat_interleave(self.lengths_PG.reshape(-1))


@dataclass(frozen=True)
class TokenCounts:
    """Denominators of one optimiser update, over all its micro-batches and ranks (sums, so ranks add).

    `responses` and `groups` count masked (overlong-filtered) responses too; `tokens` counts only tokens that carry loss,
    `right_tokens` those of them in right responses.
    """

    responses: int
    groups: int
    tokens: int
    micro_batches: int = 1
    right_tokens: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass
class TokenBatch:
    """One micro-batch of M responses as flat tokens, everything but the current log-probabilities.

    `weights_N` are the aggregation's weights (they already hold the update's denominators), so that the loss of an update is
    Σ weight · token loss over all its micro-batches. `response_N` numbers the responses 0..M-1, `group_N` (where a surrogate pairs
    responses) their groups. `likelihood_weights_N` are the weights of each token's negative log-likelihood where an algorithm adds one,
    `sampler_log_probs_N` the sampler's own log-probabilities where they are not the old ones, `selected_N` (bool) the tokens that a
    surrogate treats apart, `entropy_coefficient` that of the step where it is not the configuration's.
    """

    response_N: Tensor
    old_log_probs_N: Tensor
    advantages_N: Tensor
    weights_N: Tensor
    reference_log_probs_N: Tensor | None = None
    correction_N: Tensor | None = None
    likelihood_weights_N: Tensor | None = None
    group_N: Tensor | None = None
    sampler_log_probs_N: Tensor | None = None
    selected_N: Tensor | None = None
    entropy_coefficient: float | None = None

    @property
    def responses(self) -> int:
        """Number of responses M in the micro-batch."""
        return int(self.response_N[-1]) + 1 if len(self.response_N) else 0

    @property
    def lengths_R(self) -> Tensor:
        """Tokens of each response."""
        return self.response_N.bincount(minlength=self.responses)

    def sums_R(self, values_N: Tensor) -> Tensor:
        """Sum the values of each response's tokens."""
        return values_N.new_zeros(self.responses).index_add(0, self.response_N, values_N)
