"""The data of one step's updates as flat token tensors, its micro-batches, and its row of metrics.

No cut into micro-batches changes a gradient: weights are per response.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch

from harness.configuration.registry import AGGREGATION, kinds, member
from harness.configuration.schema import RunConfig
from harness.engagement.measure import weighs_as
from harness.model.ranks import Ranks, balance_items
from harness.objective.advantage.group import centre, equal_returns, group_std
from harness.objective.correction import Mismatch, high_entropy_tokens
from harness.objective.objective import Objective, ObjectiveStats
from harness.objective.types import RolloutBatch, TokenBatch
from harness.reward.shaping import overlong_ramp, reward_components, shaped_rewards
from harness.rollout.types import Completions, ragged_index
from harness.sampling.selection import Groups, Selection


class NumericalFault(RuntimeError):
    """Loss, gradient or advantages stopped being finite; `batch` is what the update was made of, for inspection."""

    def __init__(self, message: str, batch: dict[str, Any]) -> None:
        super().__init__(message)
        self.batch = batch


@dataclass(kw_only=True)
class StepData(TokenBatch):
    """Responses as flat tokens with all that trains on them: those of a step, group-major, or some of them (`select`).

    Attributes:
        prompts: token ids of each response's prompt.
        tokens_N: response tokens.
        head_NK: the tokens of the columns of `sampler_logprobs_NK`.
        loss_lengths_R: tokens that carry loss: all of a response, or 0 where it is masked.
        correct_R: 1 where the response is right.
        correction_N: the engine correction's weight of each token.
        values_N: the critic's predictions before the step's updates.
        value_targets_N: what the critic is fitted to.
    """

    prompts: list[Sequence[int]]
    tokens_N: torch.Tensor
    loss_lengths_R: torch.Tensor
    correct_R: torch.Tensor
    head_NK: torch.Tensor | None = None
    correction_N: torch.Tensor | None = None
    values_N: torch.Tensor | None = None
    value_targets_N: torch.Tensor | None = None

    @classmethod
    def of_responses(
        cls,
        prompts: list[Sequence[int]],
        completions: Completions,
        size: int,
        correct_R: torch.Tensor,
        masked_R: torch.Tensor,
    ) -> StepData:
        """Data of responses in groups of `size`; advantages and weights are still 0, and the old log-probabilities the sampler's."""
        lengths_R, old_N = completions.lengths_R, completions.log_probs_N
        return cls(
            prompts=prompts,
            tokens_N=completions.tokens_N,
            lengths_R=lengths_R,
            loss_lengths_R=lengths_R * ~masked_R,
            group_R=torch.arange(len(lengths_R)) // size,
            correct_R=correct_R.float(),
            old_logprobs_N=old_N,
            advantages_N=torch.zeros_like(old_N),
            weights_R=torch.zeros(len(lengths_R)),
            sampler_logprobs_NK=completions.head_log_probs_NK,
            head_NK=completions.head_NK,
        )

    @classmethod
    def of_groups(cls, groups: Groups, prompts: Sequence[Sequence[int]], masked_PG: torch.Tensor) -> StepData:
        """Data of the responses of these groups; `prompts` are the token ids of each group's prompt."""
        size, correct_R = groups.correct_PG.shape[1], groups.correct_PG.reshape(-1)
        prompts_R = [prompt for prompt in prompts for _ in range(size)]
        return cls.of_responses(prompts_R, groups.completions, size, correct_R, masked_PG.reshape(-1))

    @cached_property
    def prompt_lengths_R(self) -> torch.Tensor:
        return torch.tensor([len(prompt) for prompt in self.prompts], dtype=torch.long)

    @property
    def completion_mask_N(self) -> torch.Tensor:
        """The tokens that carry loss, bool."""
        return (self.loss_lengths_R > 0)[self.response_N]

    @property
    def inputs(self) -> tuple[list[Sequence[int]], torch.Tensor, torch.Tensor]:
        return self.prompts, self.tokens_N, self.lengths_R

    def select(self, rows: torch.Tensor) -> StepData:
        index_N, values = self.index(rows), dict[str, Any]()
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, torch.Tensor):
                value = value[index_N if item.name.endswith(("_N", "_NK")) else rows]
            values[item.name] = value
        values["prompts"] = [self.prompts[row] for row in rows.tolist()]
        return StepData(**values)

    def index(self, rows: torch.Tensor) -> torch.Tensor:
        starts_R = self.lengths_R.cumsum(0) - self.lengths_R
        return ragged_index(starts_R[rows], self.lengths_R[rows])

    def rows_of(self, groups: torch.Tensor) -> torch.Tensor:
        size = len(self.group_R) // int(self.group_R[-1] + 1)
        return (groups[:, None] * size + torch.arange(size)).reshape(-1)

    def keep_high_entropy(self, entropy_N: torch.Tensor, fraction: float) -> None:
        """Leave the policy gradient to the loss tokens of highest entropy (nats); a fraction of 1 is all of them."""
        if fraction == 1:
            return
        if bool(entropy_N.isnan().any()):
            raise ValueError(
                f"algorithm.top_entropy_fraction={fraction}: the engine gave no entropies to choose tokens by"
            )
        chosen_N = high_entropy_tokens(entropy_N, self.completion_mask_N, fraction)
        mask_N = chosen_N.to(self.old_logprobs_N.dtype)
        self.policy_weights_N = mask_N if self.policy_weights_N is None else self.policy_weights_N * mask_N


def micro_batches(
    rows: torch.Tensor, data: StepData, limit: int, *, shares_prompts: bool, pairs: bool
) -> Iterator[torch.Tensor]:
    """Parts of `rows` that cost at most `limit` tokens each (one row may cost more).

    Args:
        rows: responses of the update.
        data: the responses of the step.
        limit: `runtime.micro_batch_tokens`.
        shares_prompts: a part costs its responses and each group's prompt once, so groups stay together; else its rows times its longest.
        pairs: the objective needs a group's responses together.
    """
    if not len(rows):
        return
    prompts_R = data.prompt_lengths_R
    totals_R = data.lengths_R + prompts_R
    if shares_prompts and not pairs:
        yield from _packed_parts(rows, prompts_R, totals_R, data.group_R, limit)
        return
    if pairs:
        units = [rows[data.group_R[rows] == group].tolist() for group in data.group_R[rows].unique()]
    else:
        units = [[row] for row in rows[totals_R[rows].argsort(stable=True)].tolist()]
    yield from _padded_parts(units, totals_R.tolist(), limit)


def _padded_parts(units: list[list[int]], totals: list[int], limit: int) -> Iterator[torch.Tensor]:
    """Parts of whole units (rows), each of which costs its rows times its longest."""
    part, longest = list[int](), 0
    for unit in units:
        longest_of_unit = max(totals[row] for row in unit)
        if part and max(longest, longest_of_unit) * (len(part) + len(unit)) > limit:
            yield torch.tensor(part)
            part, longest = [], 0
        part += unit
        longest = max(longest, longest_of_unit)
    yield torch.tensor(part)


def _packed_parts(
    rows: torch.Tensor, prompts_R: torch.Tensor, totals_R: torch.Tensor, group_R: torch.Tensor, limit: int
) -> Iterator[torch.Tensor]:
    """Parts in the order of groups, which cost a group's prompt once; a group that is cut costs it in both parts."""
    rows = rows[group_R[rows].argsort(stable=True)]
    groups, totals, prompts = group_R[rows].tolist(), totals_R[rows].tolist(), prompts_R[rows].tolist()
    start, part_tokens = 0, 0
    for end in range(len(rows)):
        shared_tokens = prompts[end] if end > start and groups[end] == groups[end - 1] else 0
        cost = totals[end] - shared_tokens
        if end > start and part_tokens + cost > limit:
            yield rows[start:end]
            start, part_tokens, cost = end, 0, totals[end]
        part_tokens += cost
    yield rows[start:]


def rank_batches(
    rows: torch.Tensor, data: StepData, limit: int, ranks: Ranks, *, pairs: bool
) -> list[torch.Tensor | None]:
    """This rank's micro-batches under a policy that computes each prompt once; None where it has fewer than another rank.

    Groups go to ranks by balanced token sums (single rows, where groups are too few and the objective does not pair responses). Sharded
    forwards are collective, so every rank makes as many passes as the busiest one.
    """
    whole = pairs or len(data.group_R[rows].unique()) >= 2 * ranks.world
    parts = [
        list(micro_batches(share, data, limit, shares_prompts=True, pairs=pairs))
        for share in _shares(rows, data, ranks.world, whole)
    ]
    passes = max(map(len, parts))
    mine: list[torch.Tensor | None] = list(parts[ranks.rank])
    return mine + [None] * (passes - len(mine))


def _shares(rows: torch.Tensor, data: StepData, world: int, whole: bool) -> list[torch.Tensor]:
    totals_R, group_R = data.lengths_R + data.prompt_lengths_R, data.group_R
    if not whole:
        return [rows[torch.tensor(part, dtype=torch.long)] for part in balance_items(totals_R[rows].tolist(), world)]
    members = [rows[group_R[rows] == group] for group in group_R[rows].unique()]
    costs = [int(totals_R[part].sum()) for part in members]
    empty = rows[:0]
    return [torch.cat([empty, *(members[i] for i in part)]) for part in balance_items(costs, world)]


UNFINISHED_STATUSES = ("unevaluated", "restated")
# The aggregations that weights are compared with; the columns of the metrics stand in this order.
COMPARED_KINDS = tuple(kind for kind in sorted(kinds(AGGREGATION), reverse=True) if weighs_as(kind) == kind)
MOVE_THRESHOLD = 1e-3  # an engine weight further from 1 than this has moved
_NAN = float("nan")


@dataclass
class Tally:
    """Time and verdicts of one step on this rank.

    Attributes:
        seconds_rollout, seconds_verify: spent on responses, and on their verdicts.
        faults: timeouts, killed workers, errors and refused answers of the verifier.
        verdicts, flipped: verdicts given, and those that a noisy verifier or a reward function turned round.
        unfinished: answers of the right value that only restate the problem, or leave something to work out, by their status.
    """

    seconds_rollout: float = 0.0
    seconds_verify: float = 0.0
    faults: int = 0
    verdicts: int = 0
    flipped: int = 0
    unfinished: Counter[str] = field(default_factory=Counter)


@dataclass
class MechanismShares:
    """What the updates of one step touched. `weight_changes` are summed over `responses`, those with gradient."""

    masked_fraction: float = _NAN
    punished_fraction: float = _NAN
    length_penalty_mean: float = _NAN
    sigma_weight_change: float = _NAN
    correction_moved_fraction: float = 0.0
    correction_change_mean: float = 0.0
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
        has_gradient_R: torch.Tensor,
    ) -> None:
        """Count one update: the weights (float64), loss tokens and groups of its responses, and which have gradient, [R] each."""
        responses = int(has_gradient_R.sum())
        if not responses:
            return
        self.responses += responses
        counts = objective.count(lengths_R, group_R)
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


@dataclass
class UpdateStats:
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    clipped_updates: int = 0
    objective: ObjectiveStats = field(default_factory=ObjectiveStats.zero)
    first_update: ObjectiveStats = field(default_factory=ObjectiveStats.zero)
    # None: read it off the first update, which then starts at the sampler's log-probs.
    mismatch: Mismatch | None = None
    gradient_groups: int = 0
    loss_tokens: int = 0
    shares: MechanismShares = field(default_factory=MechanismShares)
    value_losses: list[float] = field(default_factory=list)
    value_explained_variance: float = float("nan")
    entropy_coefficient: float | None = None  # where a controller moves it
    selected_tokens: int | None = None  # that the surrogate treats apart; None: it treats all alike

    @property
    def updates(self) -> int:
        return len(self.losses)


def rollout_row(selection: Selection) -> dict[str, float]:
    """Metrics of the first, unfiltered round (the policy as it is), and the ledger of groups and tokens over all rounds."""
    first = selection.first
    lengths = first.lengths_PG.double()
    correct, truncated = first.correct_PG, first.truncated_PG
    accuracy = first.accuracy_P
    return {
        "reward_mean": float(first.rewards_PG.mean()),
        "accuracy_mean": float(accuracy.mean()),
        "entropy_nats": float(first.completions.entropy_N.mean()),
        "response_tokens_mean": float(lengths.mean()),
        "response_tokens_p95": float(np.percentile(lengths.numpy(), 95)),
        "response_tokens_mean_right": average(lengths[correct]),
        "response_tokens_mean_wrong": average(lengths[~correct]),
        "response_tokens_mean_truncated": average(lengths[truncated]),
        "truncated_fraction": float(truncated.double().mean()),
        "groups": len(first),
        "all_right_groups": int((accuracy == 1).sum()),
        "all_wrong_groups": int((accuracy == 0).sum()),
        "kept_groups": len(selection.kept),
        "discarded_groups": selection.dead + selection.unused,
        "surplus_groups": selection.unused + (len(selection.surplus) if selection.surplus else 0),
        "refill_rounds": selection.rounds,
        "generated_groups": selection.generated_groups,
        "generated_tokens": selection.generated_tokens,
        "trained_tokens": int(selection.kept.completions.lengths_R.sum()),
    }


def verdicts_row(tallies: Sequence[Tally], config: RunConfig) -> dict[str, float]:
    """Return the verdicts of all ranks: faults, unfinished answers, and those that a noisy verifier or a reward function changed."""
    verdicts = sum(tally.verdicts for tally in tallies) or float("nan")
    row: dict[str, float] = {"verifier_faults": sum(tally.faults for tally in tallies)}
    for status in UNFINISHED_STATUSES:
        row[f"{status}_fraction"] = sum(tally.unfinished[status] for tally in tallies) / verdicts
    if not config.algorithm.reward.exact:
        row["flipped_verdicts_fraction"] = sum(tally.flipped for tally in tallies) / verdicts
    return row


def update_row(stats: UpdateStats, config: RunConfig) -> dict[str, float]:
    objective = stats.objective
    tokens = stats.loss_tokens or float("nan")
    special: dict[str, float] = {}  # of some algorithms only
    if stats.value_losses:
        special["value_loss"] = average(np.array(stats.value_losses))
        special["value_explained_variance"] = stats.value_explained_variance
    if stats.entropy_coefficient is not None:
        special["entropy_coefficient"] = stats.entropy_coefficient
    if stats.selected_tokens is not None:
        special["selected_fraction"] = stats.selected_tokens / tokens
    return {
        "loss": average(np.array(stats.losses)),
        "gradient_norm": average(np.array(stats.gradient_norms)),
        "gradient_clipped_fraction": stats.clipped_updates / stats.updates if stats.updates else float("nan"),
        "gradient_groups": stats.gradient_groups,
        "clip_fraction_low": objective.total("clipped_low") / tokens,
        "clip_fraction_high": objective.total("clipped_high") / tokens,
        "up_clipped_old_probability_mean": objective.mean("up_clipped_old_probability", denominator="clipped_high"),
        "ratio_max": objective.ratio_max if stats.updates else float("nan"),
        "kl_to_reference": objective.mean("kl") if config.algorithm.kl.coefficient else float("nan"),
        **mismatch_row(stats),
        **special,
    }


def engagement_row(selection: Selection, stats: UpdateStats, config: RunConfig) -> dict[str, float]:
    """Return what each mechanism touched (docs/objective/engagement.md); 0 where it is off, NaN where there was nothing to touch."""
    algorithm, objective, shares = config.algorithm, stats.objective, stats.shares
    kl = 0.0
    if algorithm.kl.coefficient:
        in_loss = algorithm.kl.placement == "loss"
        kl = objective.gradient_share("kl") if in_loss else shares.kl_reward_share
    entropy, likelihood = algorithm.entropy_coefficient, algorithm.positive_nll_coefficient
    controlled = algorithm.entropy_control.target_nats is not None
    tokens = stats.loss_tokens or float("nan")
    return {
        "clip_released_fraction": objective.total("clip_released") / tokens,
        "off_policy_masked_fraction": objective.total("off_policy_masked") / tokens,
        **shares.row(),
        **groups_row(selection, config),
        "kl_share": kl,
        "entropy_share": objective.gradient_share("entropy") if entropy or controlled else 0.0,
        "nll_share": objective.gradient_share("nll") if likelihood else 0.0,
    }


def mismatch_row(stats: UpdateStats) -> dict[str, float]:
    """Distance of the sampler from the trainer: over all trained tokens where old log-probs are recomputed, else the first update's."""
    first = stats.first_update
    mismatch = stats.mismatch or Mismatch(
        first.mean("gap"), first.gap_max if stats.updates else float("nan"), first.mean("gap_kl")
    )
    return {
        "sampler_log_prob_gap_mean": mismatch.gap_mean,
        "sampler_log_prob_gap_max": mismatch.gap_max,
        "sampler_kl_nats": mismatch.kl,
    }


def average(values: torch.Tensor | np.ndarray) -> float:
    """The mean, NaN without any."""
    return float(values.mean()) if len(values) else float("nan")


def weight_change(weights: torch.Tensor, other: torch.Tensor) -> float:
    """Σ_i |p_i - q_i| with p and q the two weightings divided by their sums: the mean relative change of a weight, between 0 and 2.

    The mean is over the weight of `other`, so that it is over items alike where `other` weighs them alike. A common factor is no change.
    """
    return float((weights / weights.sum() - other / other.sum()).abs().sum())


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


def groups_row(selection: Selection, config: RunConfig) -> dict[str, float]:
    """Return the dead groups taken out of the first round, and the groups that replaced them, as shares of the first round."""
    dead_groups, first_groups = config.algorithm.dead_groups, len(selection.first)
    if dead_groups.policy == "keep":
        return {"removed_fraction": 0.0, "refilled_fraction": 0.0}
    number = int(selection.first.contrast_P(dead_groups.metric).sum())
    refilled_groups = max(0, len(selection.kept) - number) if dead_groups.policy == "refill" else 0
    return {"removed_fraction": 1 - number / first_groups, "refilled_fraction": refilled_groups / first_groups}
