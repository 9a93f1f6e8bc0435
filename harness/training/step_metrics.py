"""The row of `metrics.jsonl` that records a rollout step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from harness.configuration.schema import RunConfig
from harness.objective.correction import Mismatch
from harness.sampling.selection import Collected
from harness.training.engagement import groups_row
from harness.training.loss_scale import LossScale
from harness.training.roll_out import UNFINISHED, Tally
from harness.training.update import UpdateStats


def rollout_row(collected: Collected) -> dict[str, float]:
    """Metrics of the first, unfiltered round (the policy as it is), and the ledger of groups and tokens over all rounds."""
    first = collected.first
    lengths = first.lengths_PG.double()
    correct, truncated = first.correct_PG, first.truncated_PG
    accuracy = first.accuracy_P
    return {
        "reward_mean": float(first.rewards_PG.mean()),
        "accuracy_mean": float(accuracy.mean()),
        "entropy_nats": float(first.completions.entropy_N.mean()),
        "response_tokens_mean": float(lengths.mean()),
        "response_tokens_p95": float(np.percentile(lengths.numpy(), 95)),
        "response_tokens_mean_right": _mean(lengths, correct),
        "response_tokens_mean_wrong": _mean(lengths, ~correct),
        "response_tokens_mean_truncated": _mean(lengths, truncated),
        "truncated_fraction": float(truncated.double().mean()),
        "groups": len(first),
        "all_right_groups": int((accuracy == 1).sum()),
        "all_wrong_groups": int((accuracy == 0).sum()),
        "kept_groups": len(collected.kept),
        "discarded_groups": collected.dead + collected.unused,
        "surplus_groups": collected.unused + (len(collected.surplus) if collected.surplus else 0),
        "refill_rounds": collected.rounds,
        "generated_groups": collected.generated_groups,
        "generated_tokens": collected.generated_tokens,
        "trained_tokens": int(collected.kept.completions.lengths_R.sum()),
    }


def verdicts_row(tallies: Sequence[Tally], config: RunConfig) -> dict[str, float]:
    """Return what the verdicts of all ranks came to: faults, answers with something left to work out, and verdicts turned round.

    The last are of a noisy verifier or a reward function; there is nothing of them without.
    """
    verdicts = sum(tally.verdicts for tally in tallies) or float("nan")
    row: dict[str, float] = {"verifier_faults": sum(tally.faults for tally in tallies)}
    for status in UNFINISHED:
        row[f"{status}_fraction"] = sum(tally.unfinished[status] for tally in tallies) / verdicts
    if not config.algorithm.reward.exact:
        row["flipped_verdicts_fraction"] = sum(tally.flipped for tally in tallies) / verdicts
    return row


def update_row(stats: UpdateStats, config: RunConfig, loss_scale: LossScale) -> dict[str, float]:
    """Metrics of the step's optimiser updates; means over updates or over trained tokens."""
    objective = stats.objective
    tokens = stats.loss_tokens or float("nan")
    own: dict[str, float] = {}  # of some algorithms only
    if stats.value_losses:
        own["value_loss"] = _average(stats.value_losses)
        own["value_explained_variance"] = stats.value_explained_variance
    if stats.entropy_coefficient is not None:
        own["entropy_coefficient"] = stats.entropy_coefficient
    if stats.selected_tokens is not None:
        own["selected_fraction"] = stats.selected_tokens / tokens
    if loss_scale.active:
        own["loss_scale"] = loss_scale.value
        own["skipped_updates"] = stats.skipped_updates
    return {
        "loss": _average(stats.losses),
        "gradient_norm": _average(stats.gradient_norms),
        "gradient_clipped_fraction": stats.clipped_updates / stats.updates if stats.updates else float("nan"),
        "gradient_groups": stats.gradient_groups,
        "clip_fraction_low": objective.total("clipped_low") / tokens,
        "clip_fraction_high": objective.total("clipped_high") / tokens,
        "up_clipped_old_probability_mean": objective.up_clipped_old_probability,
        "ratio_max": objective.ratio_max if stats.updates else float("nan"),
        "kl_to_reference": objective.mean("kl") if config.algorithm.kl.coefficient else float("nan"),
        **mismatch_row(stats),
        **own,
    }


def engagement_row(collected: Collected, stats: UpdateStats, config: RunConfig) -> dict[str, float]:
    """Return what each mechanism touched (docs/objective/engagement.md); 0 where it is off, NaN where there was nothing to touch."""
    algorithm, objective, touched = config.algorithm, stats.objective, stats.touched
    kl = 0.0
    if algorithm.kl.coefficient:
        in_loss = algorithm.kl.placement == "loss"
        kl = objective.share_of_pull("kl") if in_loss else touched.kl_reward_share
    entropy, likelihood = algorithm.entropy_coefficient, algorithm.positive_nll_coefficient
    controlled = algorithm.entropy_control.target_nats is not None
    tokens = stats.loss_tokens or float("nan")
    return {
        "clip_released_fraction": objective.total("clip_released") / tokens,
        "off_policy_masked_fraction": objective.total("off_policy_masked") / tokens,
        **touched.row(),
        **groups_row(collected, config),
        "kl_share": kl,
        "entropy_share": objective.share_of_pull("entropy") if entropy or controlled else 0.0,
        "nll_share": objective.share_of_pull("nll") if likelihood else 0.0,
    }


def mismatch_row(stats: UpdateStats) -> dict[str, float]:
    """Distance of the sampler from the trainer: over all trained tokens where old log-probs are recomputed, else the first update's."""
    first = stats.first_update
    seen = stats.mismatch or Mismatch(
        first.mean("gap"), first.gap_max if stats.updates else float("nan"), first.mean("gap_kl")
    )
    return {
        "sampler_log_prob_gap_mean": seen.gap_mean,
        "sampler_log_prob_gap_max": seen.gap_max,
        "sampler_kl_nats": seen.kl,
    }


def _mean(values: torch.Tensor, where: torch.Tensor) -> float:
    return float(values[where].mean()) if bool(where.any()) else float("nan")


def _average(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
