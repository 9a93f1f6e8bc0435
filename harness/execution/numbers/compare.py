"""From measured values and reference points to findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.execution.numbers.intervals import per_comparison, prediction_interval, within_spread
from harness.execution.numbers.measured import FIRST, GAP, LOG_PROBS, OTHER, OUTCOME
from harness.execution.numbers.reference import Reference

FALSE_ALARM = 0.01  # of all intervals together
# Share of the spread between runs of one base policy that rounding may move a first-step value by.
ROUNDING = 0.02
GAP_TOLERANCE = 1e-4  # nats a token, as for every engine in float32
LOG_PROB_TOLERANCE = 4e-4  # nats, the same for a response of four tokens


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes:
        name: what was compared, with its unit.
        value: of the check's runs.
        low: smallest value that is inside.
        high: largest.
        meaning: what is usually wrong when it is out.
    """

    name: str
    value: float
    low: float
    high: float
    meaning: str

    @property
    def inside(self) -> bool:
        """Whether the value lies within the bounds; NaN does not."""
        return self.low <= self.value <= self.high

    @property
    def beyond(self) -> float:
        """How far outside the nearer bound, in the statistic's unit; 0 inside."""
        return 0.0 if self.inside else max(self.low - self.value, self.value - self.high)


@dataclass(frozen=True)
class Found:
    """What the check's runs gave.

    Attributes:
        runs: arm → seed → statistic → value (see `measured`).
        log_probs: base policy → log-probabilities of fixed responses.
        own_noise: the engine draws otherwise than the reference's: first steps agree in distribution only.
    """

    runs: Mapping[str, Mapping[int, Mapping[str, float]]]
    log_probs: Mapping[int, Sequence[float]]
    own_noise: bool = False


def compare(found: Found, reference: Reference, false_alarm: float = FALSE_ALARM) -> list[Finding]:
    """Every comparison: the base policy, the first step, then the outcome.

    Args:
        found: of the check.
        reference: reference points.
        false_alarm: chance that any interval misses although all is right, at most.
    """
    findings = [_log_probs(found, reference), _gap(found)]
    if not found.own_noise:
        findings += [_close(found, reference, arm, key) for arm in found.runs for key in FIRST]
    spread = [*(FIRST if found.own_noise else ()), *OUTCOME]
    chance = per_comparison(false_alarm, len(found.runs) * len(spread))
    return findings + [_interval(found, reference, arm, key, chance) for arm in found.runs for key in spread]


def _log_probs(found: Found, reference: Reference) -> Finding:
    differences = [np.subtract(values, reference.log_probs[base]) for base, values in found.log_probs.items()]
    worst = float(np.abs(differences).max())  # NaN where one is
    return Finding(f"{LOG_PROBS}: largest difference, nats", worst, 0.0, LOG_PROB_TOLERANCE, OTHER[LOG_PROBS])


def _gap(found: Found) -> Finding:
    worst = float(np.max([run["gap"] for runs in found.runs.values() for run in runs.values()]))
    return Finding(GAP, worst, 0.0, GAP_TOLERANCE, OTHER[GAP])


def _close(found: Found, reference: Reference, arm: str, key: str) -> Finding:
    """The median over runs, not the largest: once in a thousand runs rounding alone turns one token into another."""
    values = reference.values(arm, key)
    distances = [abs(run[key] - values[seed]) for seed, run in found.runs[arm].items()]
    tolerance = ROUNDING * within_spread(values, {seed: reference.base(seed) for seed in values})
    return Finding(
        f"{arm}, first step: {FIRST[key].label}, difference",
        float(np.median(distances)),
        0.0,
        tolerance,
        FIRST[key].meaning,
    )


def _interval(found: Found, reference: Reference, arm: str, key: str, chance: float) -> Finding:
    first = key in FIRST
    statistic = FIRST[key] if first else OUTCOME[key]
    values, runs = reference.values(arm, key), found.runs[arm]
    stratum = {seed: reference.base(seed) for seed in {*values, *runs}}
    low, high = prediction_interval(values, stratum, list(runs), chance)
    mean = float(np.mean([run[key] for run in runs.values()]))
    where = f"{arm}, first step: {statistic.label}" if first else f"{arm}: {statistic.label}"
    return Finding(where, mean, low, high, statistic.meaning)
