"""From the per-seed differences of a column to intervals that hold together, and their words.

All intervals of a column are widened by Šidák's rule: m intervals, each at level 0.95^(1/m), Student's t or
Welch's t. If they were independent, all of them would cover their truths with probability exactly 0.95; whatever
their correlation, some interval fails with probability at most m (1 - 0.95^(1/m)) <= -ln 0.95 = 5.13 %
(Bonferroni's inequality). Nothing is estimated for this but the spread of each comparison itself: the covariance
of five differences cannot be learned from three seeds (see docs/statistics.md for the measured error rates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.statistics.estimate import Estimate
from harness.statistics.intervals import paired_difference, welch_difference

FAMILY_LEVEL = 0.95


@dataclass(frozen=True)
class Paired:
    """One difference a replicate, in any order: two arms that share prompts and sampling seeds, or a contrast of several.

    A replicate is a seed, or the mean over the seeds of one base policy; ``seeds`` is their number where it is another.
    """

    differences: Sequence[float]
    seeds: int | None = None


@dataclass(frozen=True)
class Independent:
    """Scores of two arms whose seeds have nothing in common; their numbers may differ."""

    a: Sequence[float]
    b: Sequence[float]
    seeds: int | None = None


Difference = Paired | Independent


def comparison_level(comparisons: int, family_level: float = FAMILY_LEVEL) -> float:
    """Level of each of ``comparisons`` intervals so that all hold together at ``family_level`` (Šidák 1967, JASA 62, 626)."""
    return float(family_level ** (1 / comparisons))


def judge(
    differences: Mapping[str, Difference],
    *,
    margin: float | None = None,
    level: float = FAMILY_LEVEL,
    columns: int = 1,
) -> dict[str, Estimate]:
    """Estimates of all comparisons of a column, with intervals that hold together at ``level``.

    The family is the comparisons that at least two seeds test; the others have a value at most and no interval.
    A family of one has the ordinary t interval.

    Args:
        differences: name of a comparison to its per-seed numbers, in the unit of ``margin``.
        margin: differences below it do not matter; None for no margin.
        level: that of the family. For one look of a sequential design: 1 minus the look's nominal alpha.
        columns: that hold together with this one, one for each metric of the experiment. Each gets the same part of the
            error, so all hold together whatever number of comparisons the others have.
    """
    family = columns * max(1, sum(_testable(difference) for difference in differences.values()))
    return {
        name: judge_one(difference, family=family, margin=margin, level=level)
        for name, difference in differences.items()
    }


def judge_one(
    difference: Difference, *, family: int = 1, margin: float | None = None, level: float = FAMILY_LEVEL
) -> Estimate:
    """The estimate of one comparison out of ``family``, whose intervals hold together at ``level``."""
    single = comparison_level(family, level)
    if isinstance(difference, Paired):
        found = paired_difference(difference.differences, [0.0] * len(difference.differences), single)
    else:
        found = welch_difference(difference.a, difference.b, single)
    if difference.seeds is not None:
        found = replace(found, seeds=difference.seeds)
    adjusted = -math.expm1(family * math.log1p(-found.p_value)) if found.p_value < 1 else found.p_value
    return replace(found, adjusted_p=adjusted, family=family, margin=margin)


def _testable(difference: Difference) -> bool:
    groups = (difference.differences,) if isinstance(difference, Paired) else (difference.a, difference.b)
    return all(sum(map(math.isfinite, group)) > 1 for group in groups)
