"""A step's row of metrics: what was rolled out, what its updates did, and what each mechanism affected."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from harness.configuration.schema import RunConfig
from harness.objective.correction import Mismatch
from harness.objective.objective import ObjectiveStats
from harness.sampling.selection import Selection
from harness.training.grading import Tally
from harness.training.mechanisms import MechanismShares


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
        "surplus_groups": selection.unused,
        "refill_rounds": selection.rounds,
        "generated_groups": selection.generated_groups,
        "generated_tokens": selection.generated_tokens,
        "trained_tokens": int(selection.kept.completions.lengths_R.sum()),
    }


def verdicts_row(tallies: Sequence[Tally], config: RunConfig) -> dict[str, float]:
    """Return the verdicts of all ranks: faults, unfinished answers, and those that a noisy verifier or a reward function changed."""
    verdicts = sum(tally.verdicts for tally in tallies) or float("nan")
    row: dict[str, float] = {"verifier_faults": sum(tally.faults for tally in tallies)}
    row["unevaluated_fraction"] = sum(tally.unevaluated for tally in tallies) / verdicts
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
        "ratio_max": objective.ratio_max if objective.total("tokens") else float("nan"),
        "kl_to_reference": objective.mean("kl") if config.algorithm.kl.coefficient else float("nan"),
        **mismatch_row(stats),
        **special,
    }


def engagement_row(selection: Selection, stats: UpdateStats, config: RunConfig) -> dict[str, float]:
    """Return what each mechanism affected (docs/objective/engagement.md); 0 where it is off, NaN where there was nothing to affect."""
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
        first.mean("gap"), first.gap_max if first.total("tokens") else float("nan"), first.mean("gap_kl")
    )
    return {
        "sampler_log_prob_gap_mean": mismatch.gap_mean,
        "sampler_log_prob_gap_max": mismatch.gap_max,
        "sampler_kl_nats": mismatch.kl,
    }


def groups_row(selection: Selection, config: RunConfig) -> dict[str, float]:
    """Return the dead groups taken out of the first round, and the groups that replaced them, as shares of the first round."""
    dead_groups, first_groups = config.algorithm.dead_groups, len(selection.first)
    if dead_groups.policy == "keep":
        return {"removed_fraction": 0.0, "refilled_fraction": 0.0}
    number = int(selection.first.contrast_P(dead_groups.metric).sum())
    refilled_groups = max(0, len(selection.kept) - number) if dead_groups.policy == "refill" else 0
    return {"removed_fraction": 1 - number / first_groups, "refilled_fraction": refilled_groups / first_groups}


def average(values: torch.Tensor | np.ndarray) -> float:
    """The mean, NaN without any."""
    return float(values.mean()) if len(values) else float("nan")
