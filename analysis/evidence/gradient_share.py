"""The share of the gradient that each response carries, by its length and by its group's success rate.

Training rollouts are not stored, so the shares are computed: stored evaluation samples of a policy are put into groups
of the training's size, and the run's own configuration gives every response its advantage A and token weight w. At the
first update of a step the importance ratio is 1, so the size of a response's gradient coefficients is |A| w L over its
L tokens (what ``harness explain`` computes by autograd for one group). The batch is all groups of the evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.results import Results
from harness.experiment.plan import PlannedArm
from harness.store import ResultStore

Floats = NDArray[np.float64]
COLUMNS = (
    "problem_id", "sample_index", "max_response_tokens", "response_tokens", "finish_reason", "answer", "correct",
)  # fmt: skip


class NotCovered(ValueError):
    """An algorithm whose shares are not of this form; the message names the setting."""


@dataclass(frozen=True)
class Responses:
    """Responses in groups, all arrays [groups, group size]; ``share_PG`` sums to one (or is zero throughout)."""

    lengths_PG: Floats
    accuracy_P: Floats
    share_PG: Floats


def shares(
    correct_PG: NDArray[np.bool_],
    lengths_PG: Floats,
    truncated_PG: NDArray[np.bool_],
    algorithm: Mapping[str, Any],
    cap: int,
    answered_PG: NDArray[np.bool_] | None = None,
) -> Responses:
    """Gradient shares of one batch under the ``algorithm`` section of a run's configuration.

    Raises:
        NotCovered: for algorithms with a critic, imitation, sequence-level pairs or a KL term in the loss.
    """
    _refuse_others(algorithm)
    answered = ~truncated_PG if answered_PG is None else answered_PG
    rewards_PG = _rewards(correct_PG, answered, lengths_PG, algorithm, cap)
    overlong, dead = algorithm["overlong"], algorithm["dead_groups"]
    masked_PG = truncated_PG & (overlong["policy"] in ("mask", "mask_and_soft"))
    counted_PG = ~masked_PG if overlong["statistics"] == "exclude" else np.ones_like(masked_PG)
    accuracy_P = correct_PG.mean(axis=1)
    kept_P = np.ones(len(accuracy_P), dtype=bool)
    if dead["policy"] != "keep":
        equal = rewards_PG.max(axis=1) == rewards_PG.min(axis=1)
        kept_P = ~equal if dead["metric"] == "reward" else (accuracy_P > 0) & (accuracy_P < 1)
    advantage_PG = _advantages(
        rewards_PG, counted_PG.astype(np.float64), lengths_PG, algorithm["advantage"], kept_P
    )
    loss_tokens_PG = np.where(masked_PG, 0.0, lengths_PG)
    weight_PG = _token_weights(loss_tokens_PG, algorithm["aggregation"]["kind"])
    mass_PG = np.abs(advantage_PG) * weight_PG * loss_tokens_PG * kept_P[:, None]
    total = float(mass_PG.sum())
    return Responses(lengths_PG, accuracy_P, mass_PG / total if total else mass_PG)


def run_shares(store: ResultStore, results: Results, arm: PlannedArm, seed: int, step: int) -> Responses:
    """The shares of one run's policy at an evaluated step under the run's own algorithm.

    Raises:
        NotCovered: see :func:`shares`; or the evaluation has fewer samples a problem than a group.
    """
    plan, run = results.experiment.plan, store.run(arm.runs[seed])
    algorithm = run.settings().get("algorithm") or {}
    if not isinstance(algorithm, dict) or "responses_per_prompt" not in algorithm:
        raise NotCovered("the run's configuration has no algorithm of ours")
    frame = run.samples(plan.benchmark, step, COLUMNS)
    frame = frame[frame["max_response_tokens"] == plan.primary_cap]
    frame = frame.sort_values(["problem_id", "sample_index"])
    size = int(algorithm["responses_per_prompt"])
    samples = len(frame) // max(frame["problem_id"].nunique(), 1)
    whole = samples // size * size
    if not whole:
        raise NotCovered(f"{samples} samples a problem do not make a group of {size}")

    def grouped(column: pd.Series) -> NDArray[Any]:
        """Consecutive samples of a problem as [groups, size]; what does not fill a group is left out."""
        return column.to_numpy().reshape(-1, samples)[:, :whole].reshape(-1, size)

    return shares(
        grouped(frame["correct"].astype(bool)),
        grouped(frame["response_tokens"].astype(np.float64)),
        grouped(frame["finish_reason"] == "length"),
        algorithm,
        plan.primary_cap,
        grouped(frame["answer"].notna()),
    )


def _refuse_others(algorithm: Mapping[str, Any]) -> None:
    checks = {
        "advantage.kind": algorithm["advantage"]["kind"] in ("group",),
        "source.kind": algorithm["source"]["kind"] == "policy",
        "surrogate.kind": algorithm["surrogate"]["kind"] in ("ppo_clip", "clipped_is", "policy_gradient"),
        "aggregation.kind": algorithm["aggregation"]["kind"] in _WEIGHTS,
        "kl.coefficient": not algorithm["kl"]["coefficient"],
        "entropy_coefficient": not algorithm["entropy_coefficient"],
        "positive_nll_coefficient": not algorithm["positive_nll_coefficient"],
    }
    other = [key for key, fine in checks.items() if not fine]
    if other:
        raise NotCovered(f"algorithm.{other[0]} gives gradient in another way")


def _rewards(
    correct: NDArray[np.bool_],
    answered: NDArray[np.bool_],
    lengths: Floats,
    algorithm: Mapping[str, Any],
    cap: int,
) -> Floats:
    reward, overlong = algorithm["reward"], algorithm["overlong"]
    outcome = np.where(correct, reward["correct"], reward["wrong"])
    values: Floats = outcome + reward["format_credit"] * answered
    if overlong["policy"] not in ("soft", "mask_and_soft"):
        return values
    buffer = cap * overlong["buffer_fraction"]
    ramp = np.clip((lengths - (cap - buffer)) / buffer, 0.0, 1.0) * overlong["penalty"]
    return values - ramp if overlong["shape"] == "additive" else values * np.maximum(1 - ramp, 0.0)


def _advantages(
    rewards: Floats, counted: Floats, lengths: Floats, config: Mapping[str, Any], kept_P: NDArray[np.bool_]
) -> Floats:
    number = counted.sum(axis=1, keepdims=True)
    mean = (rewards * counted).sum(axis=1, keepdims=True) / np.maximum(number, 1)
    centred = rewards if config["baseline"] == "none" else rewards - mean
    if config["baseline"] == "leave_one_out":
        centred = centred * number / np.maximum(number - 1, 1)
    if config["baseline"] != "none":
        out = counted == 0
        high = np.where(out, -np.inf, rewards).max(axis=1)
        low = np.where(out, np.inf, rewards).min(axis=1)
        centred = np.where((high <= low)[:, None], 0.0, centred)
    if config["scale"] == "group_std":
        squares = ((rewards - mean) ** 2 * counted).sum(axis=1, keepdims=True)
        centred = centred / (np.sqrt(squares / np.maximum(number - config["ddof"], 1)) + config["epsilon"])
    over_tokens = config["whiten_over"] == "tokens"
    if config["scale"] == "batch_whiten" and (config["baseline"] == "none" or over_tokens):
        weight = counted * (lengths if over_tokens else 1.0) * kept_P[:, None]
        centred = centred - (centred * weight).sum() / np.maximum(weight.sum(), 1)
    return centred * counted  # a scale shared by the batch does not change shares


_WEIGHTS = ("response_mean", "group_token_mean", "batch_token_mean", "constant_sum")


def _token_weights(loss_tokens: Floats, kind: str) -> Floats:
    if kind == "response_mean":
        return 1.0 / np.maximum(loss_tokens, 1)
    if kind == "group_token_mean":
        return np.broadcast_to(1.0 / np.maximum(loss_tokens.sum(axis=1, keepdims=True), 1), loss_tokens.shape)
    return np.ones_like(loss_tokens)
