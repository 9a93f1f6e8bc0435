"""What the mechanisms of an algorithm affected in a step's updates (docs/objective/engagement.md)."""

import dataclasses
from dataclasses import dataclass, field

import torch

from harness.configuration.registry import AGGREGATION, kinds, member
from harness.configuration.schema import RunConfig
from harness.engagement.measure import weighs_as
from harness.objective.advantage.group import centre, equal_returns, group_std
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenCounts
from harness.reward.shaping import overlong_ramp, reward_components, shaped_rewards
from harness.sampling.selection import Groups
from harness.training.step_data import StepData

_NAN = float("nan")
# The aggregations that weights are compared with; the columns of the metrics stand in this order.
COMPARED_KINDS = tuple(kind for kind in sorted(kinds(AGGREGATION), reverse=True) if weighs_as(kind) == kind)
MOVE_THRESHOLD = 1e-3  # an engine weight further from 1 than this has moved


@dataclass
class MechanismShares:
    """What the updates of one step affected. `weight_changes` are summed over `responses`, those with gradient."""

    masked_fraction: float = _NAN
    punished_fraction: float = _NAN
    length_penalty_mean: float = _NAN
    sigma_weight_change: float = _NAN
    correction_moved_fraction: float = _NAN
    correction_change_mean: float = _NAN
    weighting_change: float | None = None  # where something weighs responses
    kl_reward_share: float = _NAN
    weight_changes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COMPARED_KINDS, 0.0))
    responses: int = 0

    def add_update(
        self,
        objective: Objective,
        weights_R: torch.Tensor,
        lengths_R: torch.Tensor,
        group_R: torch.Tensor,
        counts: TokenCounts,
        has_gradient_R: torch.Tensor,
    ) -> None:
        """Count one update: the weights (float64), loss tokens and groups of its responses, and which have gradient, [R] each."""
        responses = int(has_gradient_R.sum())
        if not responses:
            return
        self.responses += responses
        for kind in COMPARED_KINDS:
            if kind == objective.config.aggregation.kind:
                continue  # no change
            other_R = member(AGGREGATION, kind).Config().response_weights(lengths_R, group_R, counts)
            change = weight_change((weights_R * lengths_R)[has_gradient_R], (other_R * lengths_R)[has_gradient_R])
            self.weight_changes[kind] += responses * change

    def row(self) -> dict[str, float]:
        row = dataclasses.asdict(self)
        responses, changes = row.pop("responses"), row.pop("weight_changes")
        del row["kl_reward_share"]  # part of `kl_share`
        if self.weighting_change is None:
            del row["weighting_change"]
        for kind, total in changes.items():
            row[f"weight_change_{kind}"] = total / responses if responses else _NAN
        return row


def mechanism_shares(
    config: RunConfig,
    objective: Objective,
    groups: Groups,
    data: StepData,
    rollouts: RolloutBatch,
    has_advantage_R: torch.Tensor,
) -> MechanismShares:
    """Measure what masks, punishment, standard deviations, corrections and a KL in the reward touch in a step's kept groups."""
    masked_R = (data.loss_lengths_R == 0) & (data.lengths_R > 0)
    excludes = config.algorithm.overlong.statistics == "exclude"
    fraction, penalty = _length_punishment(config, groups, masked_R & excludes)
    shares = MechanismShares(
        # An excluded response left the statistics of its group, too, whatever its advantage would have been.
        masked_fraction=float((masked_R & (has_advantage_R | excludes)).double().mean()),
        punished_fraction=fraction,
        length_penalty_mean=penalty,
        sigma_weight_change=sigma_weight_change(rollouts),
        kl_reward_share=_kl_reward_share(objective, rollouts, data.advantages_N),
        weighting_change=weighting_change(objective, rollouts),
    )
    if data.correction_N is not None:
        change_N = (data.correction_N[data.completion_mask_N].double() - 1).abs()
        shares.correction_moved_fraction = float((change_N > MOVE_THRESHOLD).double().mean())
        shares.correction_change_mean = float(change_N.mean())
    elif config.algorithm.engine_correction.kind == "none":
        shares.correction_moved_fraction = shares.correction_change_mean = 0.0
    return shares


def sigma_weight_change(rollouts: RolloutBatch) -> float:
    """Measure how unevenly the group's standard deviation divides: the change of the groups' shares of Σ|advantage|.

    0 where all live groups have one standard deviation (then it is a constant factor); NaN where no group is live.
    """
    returns, counted_PG = rollouts.returns_PG, rollouts.counted_PG.double()
    contrast_P = (counted_PG.sum(1) > 1) & ~equal_returns(returns, counted_PG)
    if not bool(contrast_P.any()):
        return _NAN
    size_P = (centre(returns, counted_PG, "group_mean") * counted_PG).abs().sum(1)[contrast_P]
    return weight_change(size_P / group_std(returns, counted_PG, 1)[contrast_P, 0], size_P)


def weighting_change(objective: Objective, rollouts: RolloutBatch) -> float | None:
    """Measure what `response_factors` move: the change of the responses' shares of Σ_t |advantage|; None without any factor.

    1 where they take all of it; NaN where no response has any.
    """
    if not objective.weighs_responses(rollouts):
        return None
    plain_N = objective.plain_advantages(rollouts)
    factors_PG = objective.response_factors(rollouts, plain_N)
    size_R = rollouts.sums_PG(plain_N.abs()).double().reshape(-1)
    moved_R = size_R * factors_PG.reshape(-1)
    if size_R.sum() > 0 and moved_R.sum() == 0:
        return 1.0
    return weight_change(moved_R, size_R)


def weight_change(weights: torch.Tensor, other: torch.Tensor) -> float:
    """Σ_i |p_i - q_i| with p and q the two weightings divided by their sums: the mean relative change of a weight, between 0 and 2.

    The mean is over the weight of `other`, so that it is over items alike where `other` weighs them alike. A common factor is no change.
    """
    return float((weights / weights.sum() - other / other.sum()).abs().sum())


def _length_punishment(config: RunConfig, groups: Groups, excluded_R: torch.Tensor) -> tuple[float, float]:
    """Share of responses whose reward the length punishment lowers (without `excluded_R`), and the mean it takes off a reward.

    The mean is NaN where the punishment multiplies the rewards of a user's function, whose own values are not kept.
    """
    reward, overlong = config.algorithm.reward, config.algorithm.overlong
    if not overlong.punishes:
        return 0.0, 0.0
    cap = config.sampling.max_response_tokens
    ramp_PG = overlong_ramp(groups.lengths_PG, cap, overlong.buffer_fraction)
    penalty_PG = overlong.penalty * ramp_PG
    if overlong.shape == "multiplicative":
        plain = dataclasses.replace(overlong, policy="score")
        inputs = groups.correct_PG, groups.answered_PG, groups.lengths_PG, cap, reward, plain, groups.truncated_PG
        rewards_PG = shaped_rewards(reward_components(*inputs), plain)
        penalty_PG = _NAN * ramp_PG if reward.function else rewards_PG * penalty_PG.clamp(max=1.0)
    punished_R = (ramp_PG.reshape(-1) > 0) & ~excluded_R
    return float(punished_R.double().mean()), float(penalty_PG.mean())


def _kl_reward_share(objective: Objective, rollouts: RolloutBatch, advantages_N: torch.Tensor) -> float:
    """Σ|A - A₀| / (Σ|A₀| + Σ|A - A₀|), A₀ the advantages without the KL placed in the reward; NaN where there is none."""
    if rollouts.kl_penalty_N is None:
        return _NAN
    plain_N = objective.advantages(dataclasses.replace(rollouts, kl_penalty_N=None))
    change = float((advantages_N - plain_N).abs().double().sum())
    whole = change + float(plain_N.abs().double().sum())
    return change / whole if whole else _NAN
