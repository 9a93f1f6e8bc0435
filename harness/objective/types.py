"""Tensors of the objective. Letters: P prompts (groups), G responses a group, R = P·G responses, N response tokens, V vocabulary.

Token tensors are flat: the response tokens of all rows laid end to end, so that padding does not exist for the mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
    the per-token KL estimate where the KL is placed in the reward; `values_N` are the critic's predictions; `old_logprobs_N` are the
    old policy's; `earlier_P` is the number of all-wrong groups that the prompt had in the steps before, where it is tried again.
    """

    rewards_PG: Tensor
    correct_PG: Tensor
    lengths_PG: Tensor
    counted_PG: Tensor
    components_PGC: Tensor | None = None
    kl_penalty_N: Tensor | None = None
    values_N: Tensor | None = None
    old_logprobs_N: Tensor | None = None
    earlier_P: Tensor | None = None

    @property
    def returns_PG(self) -> Tensor:
        """Rewards minus the response's summed KL penalty (float64): what group statistics are taken over."""
        rewards = self.rewards_PG.double()
        if self.kl_penalty_N is None:
            return rewards
        return rewards - self.sums_PG(self.kl_penalty_N.double())

    @property
    def token_rewards_N(self) -> Tensor:
        """Reward of each token (float64): the outcome on the last one, minus each token's own KL penalty."""
        rewards_R, lengths_R = self.rewards_PG.double().reshape(-1), self.lengths_PG.reshape(-1)
        token_N = rewards_R.new_zeros(int(lengths_R.sum()))
        token_N[lengths_R.cumsum(0) - 1] = rewards_R
        return token_N if self.kl_penalty_N is None else token_N - self.kl_penalty_N.double()

    @property
    def response_N(self) -> Tensor:
        return response_index(self.lengths_PG.reshape(-1))

    def sums_PG(self, values_N: Tensor) -> Tensor:
        """Add up the tokens of each response, [P, G]."""
        sums_R = values_N.new_zeros(self.lengths_PG.numel()).index_add(0, self.response_N, values_N)
        return sums_R.view(self.lengths_PG.shape)

    def per_token(self, values_PG: Tensor) -> Tensor:
        """Spread one number a response over its tokens, [N]."""
        return values_PG.reshape(-1).repeat_interleave(self.lengths_PG.reshape(-1))


@dataclass(frozen=True)
class TokenCounts:
    """Denominators of one optimiser update, over all its micro-batches and ranks.

    `responses` and `groups` count masked (overlong-filtered) responses too; `tokens` counts only tokens that carry loss,
    `right_tokens` those of them in right responses.
    """

    responses: int
    groups: int
    tokens: int
    right_tokens: int = 0


@dataclass(kw_only=True)
class TokenBatch:
    """Responses as flat tokens, everything but the current log-probabilities: what the objective reads of one micro-batch.

    Attributes:
        group_R: the number of each response's group.
        weights_R: the aggregation's weight of each of its tokens. It holds the update's denominators, so that the loss of an update is
            Σ weight · token loss over all its micro-batches.
        likelihood_weights_R: the weight of each token's negative log-likelihood, where an algorithm adds one.
        sampler_logprobs_N: the sampler's own log-probabilities, where they are not the old ones.
        sampler_logprobs_NK: those of its K likeliest tokens, where a surrogate reads them.
        logprobs_NK: the current policy's of the same tokens, with gradient.
        policy_weights_N: a factor of each token's policy loss: the engine correction, and 0 where a mask leaves the token out.
        selected_N: the tokens that a surrogate treats apart, bool.
        entropy_coefficient: that of the step, where it is not the configuration's.
    """

    lengths_R: Tensor
    group_R: Tensor
    old_logprobs_N: Tensor
    advantages_N: Tensor
    weights_R: Tensor
    likelihood_weights_R: Tensor | None = None
    ref_logprobs_N: Tensor | None = None
    sampler_logprobs_N: Tensor | None = None
    sampler_logprobs_NK: Tensor | None = None
    logprobs_NK: Tensor | None = None
    policy_weights_N: Tensor | None = None
    selected_N: Tensor | None = None
    entropy_coefficient: float | None = None

    @cached_property
    def response_N(self) -> Tensor:
        return response_index(self.lengths_R)

    @property
    def weights_N(self) -> Tensor:
        return self.weights_R[self.response_N]

    def sums_R(self, values_N: Tensor) -> Tensor:
        return values_N.new_zeros(len(self.lengths_R)).index_add(0, self.response_N, values_N)


def bound_log_ratio(log_ratio_N: Tensor) -> Tensor:
    """Hold a log-ratio within 20 nats, as verl and SkyRL do: beyond 88 its exponential overflows float32."""
    return log_ratio_N.clamp(-20.0, 20.0)


def token_cells(lengths_R: Tensor) -> Tensor:
    """Which cells of a grid of responses by positions hold a token, bool [R, longest]."""
    import torch

    return torch.arange(int(lengths_R.max())) < lengths_R[:, None]


def pad_tokens(values_N: Tensor, cells: Tensor) -> Tensor:
    """Lay the numbers of tokens into the cells that hold one; zero elsewhere."""
    return values_N.new_zeros(cells.shape).masked_scatter(cells, values_N)


def response_index(lengths_R: Tensor) -> Tensor:
    """The response index of each token of responses of these lengths, long [N]."""
    import torch

    return torch.arange(len(lengths_R)).repeat_interleave(lengths_R)
