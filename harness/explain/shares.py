"""Advantage, coefficient and gradient share of each rollout of one group, by autograd through the real objective, without an entropy bonus.

The coefficient of a token is -∂loss/∂log π: how strongly the update pushes its log-probability up. A rollout's share is the sum of its
tokens' absolute coefficients over that of the group. One optimiser update holds this one group and nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.configuration.compose import compose_values, folders, options
from harness.configuration.error import ConfigError
from harness.configuration.schema import load_dataclass
from harness.configuration.sections import AlgorithmConfig
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch, response_index


@dataclass(frozen=True)
class Group:
    """One group of rollouts.

    Attributes:
        rewards: shaped rewards, taken as they are.
        old_log_probs: of each rollout's tokens under the sampling policy (also the reference policy).
        new_log_probs: under the policy that is updated.
        correct: which rollouts are right (matters to imitation and positive-example losses).
        cap: the response cap, Dr.GRPO's constant.
        value: the critic's prediction at every token (it is not told more).
    """

    rewards: tuple[float, ...]
    lengths: tuple[int, ...]
    old_log_probs: tuple[tuple[float, ...], ...]
    new_log_probs: tuple[tuple[float, ...], ...]
    correct: tuple[bool, ...]
    cap: int
    value: float


LogProbs = Sequence[float | Sequence[float]]


def make_group(
    rewards: Sequence[float],
    lengths: Sequence[int],
    old_log_probs: LogProbs | None = None,
    new_log_probs: LogProbs | None = None,
    correct: Sequence[bool] | None = None,
    cap: int | None = None,
    value: float | None = None,
) -> Group:
    """Check and complete a group; log-probabilities are one number a rollout, or one a token. Raises `ConfigError`.

    Defaults: old and new log-probabilities equal (ratio 1); right is what lies above the middle of the group's rewards (all equal: what is
    positive); the cap is the longest length; the critic's value is the mean reward.
    """
    if not rewards or len(rewards) != len(lengths):
        raise ConfigError(f"explain needs one length a reward; got {len(rewards)} rewards and {len(lengths)} lengths")
    longest = max(lengths)
    cap = longest if cap is None else cap
    value = sum(rewards) / len(rewards) if value is None else float(value)
    if correct is None:
        middle = (max(rewards) + min(rewards)) / 2
        correct = [r > middle if max(rewards) > min(rewards) else r > 0 for r in rewards]
    whole_lengths = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in lengths)
    finite = all(map(math.isfinite, (*rewards, value)))
    whole_correct = len(correct) == len(rewards) and {0, 1}.issuperset(correct)
    large_cap = isinstance(cap, int) and cap >= longest
    for holds, demand in (
        (whole_lengths, f"lengths={list(lengths)} must be whole numbers of tokens, at least 1"),
        (finite, f"rewards={list(rewards)} and value={value} must be finite"),
        (whole_correct, f"correct={list(correct)} must have true or false (or 1 or 0) a reward"),
        (large_cap, f"cap={cap} must be a whole number of tokens, at least the longest of lengths, {longest}"),
    ):
        if not holds:
            raise ConfigError(demand)
    given = {"old_log_probs": old_log_probs, "new_log_probs": new_log_probs}
    rows = {name: _per_token(name, values, lengths) for name, values in given.items() if values is not None}
    default_rows = next(iter(rows.values()), _per_token("old_log_probs", None, lengths))
    old, new = (rows.get(name, default_rows) for name in given)
    return Group(tuple(map(float, rewards)), tuple(lengths), old, new, tuple(map(bool, correct)), cap, value)


def _per_token(name: str, values: LogProbs | None, lengths: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    if values is None:
        return tuple((-1.0,) * length for length in lengths)
    if len(values) != len(lengths):
        raise ConfigError(f"{name} must have one entry a rollout ({len(lengths)}), got {len(values)}")
    rows = []
    for rollout, length in zip(values, lengths, strict=True):
        row = (float(rollout),) * length if isinstance(rollout, int | float) else tuple(map(float, rollout))
        if len(row) != length:
            raise ConfigError(f"{name}: a rollout of {length} tokens has {len(row)} values; give one a token, or one")
        if not all(-math.inf < log_prob <= 0 for log_prob in row):
            raise ConfigError(f"{name} must be finite numbers of at most 0: logarithms of probabilities")
        rows.append(row)
    return tuple(rows)


@dataclass(frozen=True)
class ExplainedRollout:
    """One rollout under one system; token-level quantities are means over its tokens."""

    reward: float
    length: int
    advantage: float
    coefficient: float
    share: float


def systems(cap: int, names: Sequence[str] | None = None) -> dict[str, AlgorithmConfig]:
    """The algorithms under `conf/algorithm` and in folders of one's own (all by default), composed for a response cap."""
    names, common, sections = names or options("algorithm"), f"sampling.max_response_tokens={cap}", list[object]()
    # Eight side by side cost as much as two alone. A file of one's own may refer to keys by their place in a run.
    size, group, primary = (1, "algorithm", "compose") if folders() else (8, "+algorithm@systems.{}", "systems")
    for part in (names[first : first + size] for first in range(0, len(names), size)):
        values = compose_values([common, *(f"{group.format(n)}={name}" for n, name in enumerate(part))], primary)
        sections += values["systems"].values() if size > 1 else [values["algorithm"]]
    return {name: load_dataclass(AlgorithmConfig, one, "algorithm") for name, one in zip(names, sections, strict=True)}


def explain_one(group: Group, algorithm: AlgorithmConfig) -> list[ExplainedRollout]:
    """One system's advantages, coefficients and shares. Where no rollout has gradient, all shares are 0."""
    objective = Objective(algorithm)
    rewards = torch.tensor([group.rewards], dtype=torch.float64)
    lengths_R, correct_R = torch.tensor(group.lengths), torch.tensor(group.correct)
    number = len(group.lengths)
    response_N = response_index(lengths_R)
    old_N = torch.tensor([x for row in group.old_log_probs for x in row], dtype=torch.float64)
    new_N = torch.tensor([x for row in group.new_log_probs for x in row], dtype=torch.float64)
    new_N.requires_grad_()
    reference_N = old_N if objective.needs_reference else None
    old_NK, new_NK = map(_binary, (old_N, new_N))
    batch = RolloutBatch(
        rewards_PG=rewards,
        correct_PG=correct_R[None],
        lengths_PG=lengths_R[None],
        counted_PG=torch.ones(1, number, dtype=torch.bool),
        components_PGC=torch.stack([rewards, rewards * 0, rewards * 0], -1),
        kl_penalty_N=None if reference_N is None else objective.kl_penalty(old_N, reference_N),
        values_N=torch.full_like(old_N, group.value),
        old_logprobs_N=old_N,
    )
    advantages_N = objective.advantages(batch, torch.float64)
    group_R = torch.zeros(number, dtype=torch.long)
    draws_N = torch.linspace(0, 1, len(old_N), dtype=torch.float64)  # of Clip-Cov: the earliest tokens
    counts = objective.count(lengths_R, group_R, correct_R)
    likelihood_R = objective.likelihood_weights(lengths_R, correct_R, counts)
    loss, _ = objective(
        new_N,
        TokenBatch(
            lengths_R=lengths_R,
            group_R=group_R,
            old_logprobs_N=old_N,
            advantages_N=advantages_N,
            weights_R=objective.aggregation.response_weights(lengths_R, group_R, counts),
            ref_logprobs_N=reference_N,
            likelihood_weights_R=likelihood_R,
            sampler_logprobs_NK=old_NK,
            logprobs_NK=new_NK,
            selected_N=objective.surrogate.select(new_N.detach(), old_N, advantages_N, draws_N)
            if objective.surrogate.selects
            else None,
        ),
    )
    coefficient_N = torch.zeros_like(old_N)
    if loss.requires_grad:
        coefficient_N = -torch.autograd.grad(loss, new_N)[0]
    zero = torch.zeros(number, dtype=torch.float64)
    advantage, coefficient, mass = (
        zero.index_add(0, response_N, values_N).tolist()
        for values_N in (advantages_N, coefficient_N, coefficient_N.abs())
    )
    total, columns = sum(mass), (group.rewards, group.lengths, advantage, coefficient, mass)
    return [
        ExplainedRollout(reward, length, a / length, c / length, m / total if total else 0.0)
        for reward, length, a, c, m in zip(*columns, strict=True)
    ]


def _binary(logprobs_N: torch.Tensor) -> torch.Tensor:
    """Token against all others, [N, 2]: what a member that reads the likeliest tokens is told here."""
    others_N = torch.log1p(-logprobs_N.exp().clamp(max=1 - 1e-6))
    return torch.stack([logprobs_N, others_N], -1)
