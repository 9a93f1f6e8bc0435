"""Contract tests of the objective's families.

Each takes a member's module and yields its faults, one sentence each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from harness.objective.advantage import Advantage
from harness.objective.surrogate import Surrogate
from harness.objective.types import RolloutBatch, TokenBatch, TokenCounts

GROUPS, SIZE = 4, 4


def rollouts(seed: int) -> RolloutBatch:
    """Four groups of four responses with random rewards, lengths, components and critic's values."""
    source = torch.Generator().manual_seed(seed)
    rewards, lengths = (
        torch.randn(GROUPS, SIZE, generator=source),
        torch.randint(1, 7, (GROUPS, SIZE), generator=source),
    )
    components = torch.stack([rewards, 0.1 * (rewards > 0), -lengths / 40.0], -1)
    values = torch.randn(int(lengths.sum()), generator=source)
    counted_PG = torch.ones(GROUPS, SIZE, dtype=torch.bool)
    old_N = torch.randn(len(values), 3, generator=source).log_softmax(-1)[:, 0]
    return RolloutBatch(rewards, rewards > 0, lengths, counted_PG, components, None, values, old_N)


def permute_batch(batch: RolloutBatch, order: torch.Tensor) -> tuple[RolloutBatch, torch.Tensor]:
    """Reorder the responses of every group; also returns where each token of the new order was."""
    rows = (torch.arange(GROUPS)[:, None] * SIZE + order).reshape(-1)
    index_N = torch.cat([(batch.response_N == row).nonzero()[:, 0] for row in rows.tolist()])
    columns = {
        name: value[index_N] if name.endswith("_N") else value[:, order]
        for name, value in vars(batch).items()
        if value is not None
    }
    return RolloutBatch(**columns), index_N


def advantage_faults(member: Any) -> Iterator[str]:
    """One finite float64 a token; follows the responses of a group; nothing for those not counted and for groups without contrast."""
    estimator, batch = member.Config(), rollouts(3)
    advantages_N = estimator.advantages(batch)
    if advantages_N.shape != batch.response_N.shape or advantages_N.dtype != torch.float64:
        target = f"float64 of shape {list(batch.response_N.shape)}"
        yield f"advantages are {advantages_N.dtype} of shape {list(advantages_N.shape)}, not {target}"
        return
    if not advantages_N.isfinite().all():
        yield "advantages are not finite"
    other, index_N = permute_batch(batch, torch.tensor([2, 0, 3, 1]))
    if not torch.allclose(estimator.advantages(other), advantages_N[index_N], rtol=1e-12, atol=1e-12):
        yield "advantages change where the responses of a group change places"
    batch.counted_PG[:, 2] = False
    if (estimator.advantages(batch)[~batch.per_token(batch.counted_PG)] != 0).any():
        yield "responses that are not counted have an advantage"
    yield from _dead_group_faults(estimator, rollouts(6))


def _dead_group_faults(estimator: Advantage, batch: RolloutBatch) -> Iterator[str]:
    if not estimator.dead_groups_vanish:
        return
    assert batch.components_PGC is not None
    batch.rewards_PG[1] = 0.1 + 0.2  # a value whose mean is not exact in binary
    batch.correct_PG[1] = True
    batch.components_PGC[1] = batch.components_PGC[1, :1].clone()
    advantages_N, dead_N = estimator.advantages(batch), batch.response_N // SIZE == 1
    if (advantages_N[dead_N] != 0).any():
        yield "a group whose returns are all equal has an advantage (set dead_groups_vanish = False, and say why, if that is intended)"
    if (advantages_N[~dead_N] == 0).all():
        yield "no group has an advantage"


def token_batch(advantages_N: torch.Tensor) -> TokenBatch:
    """One token a response, all at a log-probability of -1 under the old policy."""
    number = len(advantages_N)
    minus_one_N = torch.full((number,), -1.0, dtype=torch.float64)
    return TokenBatch(
        lengths_R=torch.ones(number, dtype=torch.long),
        group_R=torch.arange(number) // 2,
        old_logprobs_N=minus_one_N,
        advantages_N=advantages_N,
        weights_R=torch.ones(number).double(),
        ref_logprobs_N=minus_one_N,
        selected_N=torch.zeros(number, dtype=torch.bool),
        sampler_logprobs_NK=minus_one_N[:, None].expand(-1, 2),
        logprobs_NK=minus_one_N[:, None].expand(-1, 2),
    )


def surrogate_faults(member: Any) -> Iterator[str]:
    """One loss a token; at ratio 1 its slope is that of a policy gradient; nothing without advantage (unless declared) or tokens."""
    surrogate: Surrogate = member.Config()

    def slope(log_prob: float, advantages_N: torch.Tensor) -> torch.Tensor:
        logprobs_N = torch.full((len(advantages_N),), log_prob, dtype=torch.float64, requires_grad=True)
        batch = token_batch(advantages_N)
        loss_N = surrogate.token_loss(logprobs_N, logprobs_N - batch.old_logprobs_N, batch)
        (gradient_N,) = torch.autograd.grad(loss_N.sum(), logprobs_N)
        return gradient_N

    advantages_N = torch.tensor([1.0, -1.0, 2.0, -2.0], dtype=torch.float64)
    slope_N = slope(-1.0, advantages_N)
    # A preference loss knows only the sign.
    target_N = advantages_N.sign() if surrogate.pairs else advantages_N
    if not torch.allclose(slope_N.sign() if surrogate.pairs else slope_N, -target_N):
        yield f"at ratio 1 and advantages {advantages_N.tolist()} the slope is {slope_N.tolist()}, not that of -A log π"
    idle = slope(-0.7, torch.zeros(4, dtype=torch.float64))
    if not surrogate.trains_without_advantage and (idle != 0).any():
        yield "tokens without advantage have gradient"
    none_N = torch.zeros(0, dtype=torch.float64)
    if surrogate.token_loss(none_N, none_N, token_batch(none_N)).shape != (0,):
        yield "no tokens have a loss"


def aggregation_faults(member: Any) -> Iterator[str]:
    """One finite float64 weight a response, above zero where it has tokens."""
    lengths_R, group_R = torch.tensor([3, 0, 5, 2]), torch.tensor([7, 7, 9, 9])
    counts = TokenCounts(responses=4, groups=2, tokens=10)
    weights_R = member.Config().response_weights(lengths_R, group_R, counts)
    if weights_R.shape != (4,) or weights_R.dtype != torch.float64:
        yield f"weights are {weights_R.dtype} of shape {list(weights_R.shape)}, not float64 of shape [4]"
    elif not weights_R.isfinite().all() or not (weights_R[lengths_R > 0] > 0).all():
        yield f"weights {weights_R.tolist()} of responses of {lengths_R.tolist()} tokens are not finite and above zero"


def weighting_faults(member: Any) -> Iterator[str]:
    """One finite float64 weight a response, none below zero, not all zero."""
    batch = rollouts(3)
    advantages_PG = batch.rewards_PG.double()
    weights_PG = member.Config().weights(advantages_PG, batch)
    if weights_PG.shape != advantages_PG.shape or weights_PG.dtype != torch.float64:
        yield f"weights are {weights_PG.dtype} of shape {list(weights_PG.shape)}, not float64 of shape {list(advantages_PG.shape)}"
    elif not weights_PG.isfinite().all() or (weights_PG < 0).any() or not (weights_PG > 0).any():
        yield f"weights {weights_PG.tolist()} are not finite, at least zero and somewhere above it"


def kl_faults(member: Any) -> Iterator[str]:
    """One number a token, zero where the policies agree, differentiable in the first argument."""
    same_N = torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True)
    estimate_N = member.Config().estimate(same_N, same_N.detach())
    if estimate_N.shape != (2,) or (estimate_N != 0).any():
        yield f"of equal log-probabilities the estimate is {estimate_N.tolist()}, not [0.0, 0.0]"
    elif not estimate_N.requires_grad:
        yield "the estimate has no gradient in the policy's log-probabilities"


CONTRACTS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "advantage": advantage_faults,
    "surrogate": surrogate_faults,
    "aggregation": aggregation_faults,
    "kl": kl_faults,
    "weighting": weighting_faults,
}
