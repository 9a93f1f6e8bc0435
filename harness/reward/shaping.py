"""Rewards of verdicts: outcome values, format credit, and the soft overlong punishment."""

from __future__ import annotations

import torch

from harness.configuration.sections import OverlongConfig, RewardConfig


def overlong_ramp(lengths: torch.Tensor, cap: int, buffer_fraction: float) -> torch.Tensor:
    """Return the share in [0, 1] of the soft punishment: 0 up to L_max - L_cache, linear to 1 at L_max (DAPO, arXiv:2503.14476 Eq. 13)."""
    buffer = cap * buffer_fraction
    return ((lengths.double() - (cap - buffer)) / buffer).clamp(0.0, 1.0)


def shaped_rewards(
    correct: torch.Tensor,
    answered: torch.Tensor,
    lengths: torch.Tensor,
    cap: int,
    reward: RewardConfig,
    overlong: OverlongConfig,
    truncated: torch.Tensor,
    outcome: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return rewards (float32) of responses, all tensors of one shape: outcome value, format credit, then the length penalty.

    Under `overlong.policy=wrong` a truncated response earns `reward.wrong` and nothing else, whatever the verifier says of it.
    `outcome`: rewards of a function of one's own, instead of those of the verdicts.
    """
    if overlong.policy == "wrong":
        correct, answered = correct & ~truncated, answered & ~truncated
    values = torch.where(correct, reward.correct, reward.wrong).double()
    if outcome is not None:
        values = torch.where(truncated, reward.wrong, outcome) if overlong.policy == "wrong" else outcome
    values = values + reward.format_credit * answered
    if overlong.punishes:
        ramp = overlong_ramp(lengths, cap, overlong.buffer_fraction)
        keep = (1 - overlong.penalty * ramp).clamp(min=0.0)
        values = values - overlong.penalty * ramp if overlong.shape == "additive" else values * keep
    return values.float()


def reward_components(
    correct: torch.Tensor,
    answered: torch.Tensor,
    lengths: torch.Tensor,
    cap: int,
    reward: RewardConfig,
    overlong: OverlongConfig,
    truncated: torch.Tensor,
) -> torch.Tensor:
    """Return the addends of `shaped_rewards` apart, float64 [..., 3]: outcome value, format credit, length penalty (negative).

    Their sum is the shaped reward; a multiplicative punishment has no addends and is refused by the configuration.
    """
    if overlong.policy == "wrong":
        correct, answered = correct & ~truncated, answered & ~truncated
    outcome = torch.where(correct, reward.correct, reward.wrong).double()
    penalty = torch.zeros_like(outcome)
    if overlong.punishes:
        penalty = -overlong.penalty * overlong_ramp(lengths, cap, overlong.buffer_fraction)
    return torch.stack([outcome, reward.format_credit * answered.double(), penalty], -1)
