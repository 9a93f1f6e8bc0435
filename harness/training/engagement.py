"""Step metrics of what each mechanism touched (docs/objective/engagement.md): shares of tokens, responses and groups, and relative changes.

Everything is read off quantities that the update has anyway. Nothing here enters a loss, a sample or a state, and every rank holds the
whole step, so neither micro-batches nor ranks change a number.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import torch

from harness.configuration.families import AGGREGATION
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig
from harness.engagement.rules import weighs_as
from harness.objective.advantage.group import centre, equal_returns, group_std
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch
from harness.reward.shaping import overlong_ramp, shaped_rewards
from harness.sampling.groups import Groups
from harness.sampling.selection import Collected
from harness.training.step_tokens import StepTokens

# what weights are held against; the columns of the metrics stand in this order
COMPARED = tuple(kind for kind in sorted(kinds(AGGREGATION), reverse=True) if weighs_as(kind) == kind)
MOVED = 1e-3  # an engine weight further from 1 than this has moved
_NAN = float("nan")


@dataclass
class Touched:
    """The shares that the updates of one step touched. `weight_changes` are summed over `responses`, those with gradient."""

    masked_fraction: float = _NAN
    punished_fraction: float = _NAN
    length_penalty_mean: float = _NAN
    sigma_weight_change: float = _NAN
    correction_moved_fraction: float = 0.0
    correction_change_mean: float = 0.0
    kl_reward_share: float = _NAN
    weight_changes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COMPARED, 0.0))
    responses: int = 0

    def add_update(
        self,
        objective: Objective,
        weights_R: torch.Tensor,
        lengths_R: torch.Tensor,
        group_R: torch.Tensor,
        live_R: torch.Tensor,
    ) -> None:
        """Count one update: the weights (float64), loss tokens and groups of its responses, and which have gradient, [R] each."""
        live = int(live_R.sum())
        if not live:
            return
        self.responses += live
        counts = objective.count(lengths_R, group_R)
        for kind in COMPARED:
            if kind == objective.config.aggregation.kind:
                continue  # no change
            module = member(AGGREGATION, kind)
            other_R = module.response_weights(lengths_R, group_R, counts, module.Config())
            change = weight_change((weights_R * lengths_R)[live_R], (other_R * lengths_R)[live_R])
            self.weight_changes[kind] += live * change

    def row(self) -> dict[str, float]:
        """Return the step's metrics of rewards, weights and corrections."""
        found = dataclasses.asdict(self)
        responses, changes = found.pop("responses"), found.pop("weight_changes")
        del found["kl_reward_share"]  # part of `kl_share`
        for kind, total in changes.items():
            found[f"weight_change_{kind}"] = total / responses if responses else _NAN
        return found


def weight_change(own: torch.Tensor, other: torch.Tensor) -> float:
    """Σ_i |p_i - q_i| with p and q the two weightings divided by their sums: the mean relative change of a weight, between 0 and 2.

    The mean is over the weight of `other`, so that it is over items alike where `other` weighs them alike. A common factor is no change.
    """
    return float((own / own.sum() - other / other.sum()).abs().sum())


def touched_by(
    config: RunConfig,
    objective: Objective,
    groups: Groups,
    data: StepTokens,
    rollouts: RolloutBatch,
    has_advantage_R: torch.Tensor,
) -> Touched:
    """Measure what masks, punishment, standard deviations, corrections and a KL in the reward touch in a step's kept groups."""
    masked_R = (data.loss_lengths_R == 0) & (data.lengths_R > 0)
    excludes = config.algorithm.overlong.statistics == "exclude"
    punished, penalty = _punished(config, groups, masked_R & excludes)
    touched = Touched(
        # An excluded response left the statistics of its group, too, whatever its advantage would have been.
        masked_fraction=float((masked_R & (has_advantage_R | excludes)).double().mean()),
        punished_fraction=punished,
        length_penalty_mean=penalty,
        sigma_weight_change=sigma_weight_change(rollouts),
        kl_reward_share=_kl_reward_share(objective, rollouts, data.advantages_N),
    )
    if data.correction_N is not None:
        loss_N = (data.loss_lengths_R > 0).repeat_interleave(data.lengths_R)
        moved_N = (data.correction_N[loss_N].double() - 1).abs()
        touched.correction_moved_fraction = float((moved_N > MOVED).double().mean())
        touched.correction_change_mean = float(moved_N.mean())
    return touched


def sigma_weight_change(rollouts: RolloutBatch) -> float:
    """Measure how unevenly the group's standard deviation divides: the change of the groups' shares of Σ|advantage|.

    0 where all live groups have one standard deviation (then it is a constant factor); NaN where no group is live.
    """
    returns, counted = rollouts.returns_PG, rollouts.counted_PG.double()
    live_P = (counted.sum(1) > 1) & ~equal_returns(returns, counted)
    if not bool(live_P.any()):
        return _NAN
    size_P = (centre(returns, counted, "group_mean") * counted).abs().sum(1)[live_P]
    return weight_change(size_P / group_std(returns, counted, 1)[live_P, 0], size_P)


def _punished(config: RunConfig, groups: Groups, out_R: torch.Tensor) -> tuple[float, float]:
    """Share of responses whose reward the length punishment lowers (those in `out_R` do not count), and the mean it takes off a reward."""
    reward, overlong = config.algorithm.reward, config.algorithm.overlong
    if not overlong.punishes:
        return 0.0, 0.0
    cap = config.sampling.max_response_tokens
    ramp_PG = overlong_ramp(groups.lengths_PG, cap, overlong.buffer_fraction)
    unpunished = dataclasses.replace(overlong, policy="score")
    plain_PG = shaped_rewards(
        groups.correct_PG, groups.answered_PG, groups.lengths_PG, cap, reward, unpunished, groups.truncated_PG
    )
    taken_PG = plain_PG.double() - groups.rewards_PG.double()
    inside_R = (ramp_PG.reshape(-1) > 0) & ~out_R
    return float(inside_R.double().mean()), float(taken_PG.mean())


def _kl_reward_share(objective: Objective, rollouts: RolloutBatch, advantages_N: torch.Tensor) -> float:
    """Σ|A - A₀| / (Σ|A₀| + Σ|A - A₀|), A₀ the advantages without the KL placed in the reward; NaN where there is none."""
    if rollouts.kl_penalty_N is None:
        return _NAN
    plain_N = objective.advantages(dataclasses.replace(rollouts, kl_penalty_N=None))
    change = float((advantages_N - plain_N).abs().double().sum())
    whole = change + float(plain_N.abs().double().sum())
    return change / whole if whole else _NAN


def groups_row(collected: Collected, config: RunConfig) -> dict[str, float]:
    """Return the dead groups taken out of the first round, and the groups that replaced them, as shares of the first round."""
    dead_groups, planned = config.algorithm.dead_groups, len(collected.first)
    if dead_groups.policy == "keep":
        return {"removed_fraction": 0.0, "refilled_fraction": 0.0}
    live = int(collected.first.live_P(dead_groups.metric).sum())
    refilled = max(0, len(collected.kept) - live) if dead_groups.policy == "refill" else 0
    return {"removed_fraction": 1 - live / planned, "refilled_fraction": refilled / planned}
