"""Shares of a gain: effects of crossed factors and Shapley values of patches, per seed first, then t intervals.

All are sums of ``score[subset][seed]``, the score of the arm that applies exactly that set of patches, with a weight for each arm. The
levels of a factor are patches, and ``none`` is the level without one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.statistics.intervals import Estimate, Paired, judge

NONE = "none"
Subset = frozenset[str]
Scores = Mapping[Subset, Mapping[int, float]]
Weights = Mapping[Subset, float]


@dataclass(frozen=True)
class Judging:
    """What turns effects per seed into intervals: ``margin`` in the unit of the scores, ``columns`` that hold together, one a metric.

    ``replicates``: one number for seeds that count as one; without, every seed counts.
    """

    margin: float | None = None
    columns: int = 1
    replicates: Callable[[Mapping[int, float]], Sequence[float]] = lambda by_seed: list(by_seed.values())


class IncompleteDesign(ValueError):
    """Arms that the attribution needs are not there; the message names them."""


@dataclass(frozen=True)
class Attribution:
    """Effect per patch (or pair) in the order of the plan, whose intervals hold together, or in ``missing`` why there is none."""

    names: tuple[str, ...] = ()
    effects: tuple[Estimate, ...] = ()
    missing: str = ""

    @property
    def pairs(self) -> list[tuple[str, Estimate]]:
        """Each name with its effect."""
        return list(zip(self.names, self.effects, strict=True))


@dataclass(frozen=True)
class Crossing:
    """Factors whose levels are crossed, by name; a level's name stands in one factor only, but for ``none``."""

    factors: Mapping[str, Sequence[str]]

    @classmethod
    def of_patches(cls, patches: Sequence[str]) -> Crossing:
        return cls({patch: (NONE, patch) for patch in patches})

    @cached_property
    def cells(self) -> list[tuple[str, ...]]:
        """The levels of each cell in the order of the factors; fewest changes of the first cell first."""
        numbered_cells = itertools.product(*map(enumerate, self.factors.values()))
        numbers = {tuple(level for _, level in cell): tuple(number for number, _ in cell) for cell in numbered_cells}
        return sorted(numbers, key=lambda c: (sum(map(bool, numbers[c])), [not n for n in numbers[c]], numbers[c]))

    def main_weights(self) -> dict[str, Weights]:
        return {
            level if first == NONE else f"{level} against {first}": self._contrast({factor: level})
            for factor, (first, *others) in self.factors.items()
            for level in others
        }

    def interaction_weights(self) -> dict[str, Weights]:
        """Weights of the change of one level's effect when another factor leaves its first level, over all settings of the rest."""
        changes = [[(factor, level) for level in others] for factor, (_, *others) in self.factors.items()]
        pairs = [pair for factor_pair in itertools.combinations(changes, 2) for pair in itertools.product(*factor_pair)]
        return {f"{a[1]} × {b[1]}": self._contrast(dict((a, b))) for a, b in pairs}

    def _contrast(self, changes: Mapping[str, str]) -> Weights:
        """Weights of each cell: 1 and -1 for the new and the first level of a changed factor, the mean over those of the others."""
        return {
            subset_of(cell): math.prod(
                (level == changes[factor]) - (level == names[0]) if factor in changes else 1 / len(names)
                for level, (factor, names) in zip(cell, self.factors.items(), strict=True)
            )
            for cell in self.cells
        }


def subset_of(cell: Sequence[str]) -> Subset:
    return frozenset(cell) - {NONE}


def main_effects(crossing: Crossing, scores: Scores, judging: Judging) -> Attribution:
    """Mean change from a factor's first level to another, over all settings of the others."""
    return _judge_sums(crossing.main_weights(), scores, judging, map(subset_of, crossing.cells))


def interactions(crossing: Crossing, scores: Scores, judging: Judging) -> Attribution:
    """The change of one level's effect when another factor leaves its first level.

    The whole change, in the unit of the effects, so that a margin means the same; textbooks of factorial designs print half of it.
    """
    return _judge_sums(crossing.interaction_weights(), scores, judging, map(subset_of, crossing.cells))


def shapley(patches: Sequence[str], scores: Scores, judging: Judging) -> Attribution:
    """Shapley value of each patch: its gain when it is added, averaged over all orders; they add up to full minus base.

    Raises `IncompleteDesign` where a subset of the patches has no finished run.
    """
    count = len(patches)
    subsets = [frozenset(subset) for size in range(count + 1) for subset in itertools.combinations(patches, size)]

    def share(size: int) -> float:
        """Of all orders, those in which exactly these ``size`` patches stand before one."""
        return 1 / (count * math.comb(count - 1, size))

    weights = {
        name: {subset: share(len(subset) - 1) if name in subset else -share(len(subset)) for subset in subsets}
        for name in patches
    }
    return _judge_sums(weights, scores, judging)


def _judge_sums(
    weights: Mapping[str, Weights], scores: Scores, judging: Judging, arms: Iterable[Subset] = ()
) -> Attribution:
    """Weighted sums of the scores per seed, of the seeds that every arm with a weight has finished.

    Raises `IncompleteDesign` where an arm, of ``arms`` or with a weight, has no finished run.
    """
    required_arms = dict.fromkeys(itertools.chain(arms, *weights.values()))
    missing = sorted(("+".join(sorted(arm)) or "base" for arm in required_arms if not scores.get(arm)), key=len)
    if missing:
        raise IncompleteDesign(f"this needs {len(required_arms)} arms; no finished run of: {'; '.join(missing[:4])}")
    differences = {}
    for name, row in weights.items():
        weighted_arms = [arm for arm, weight in row.items() if weight] or list(row)
        seeds = sorted(set.intersection(*(set(scores[arm]) for arm in weighted_arms)))
        # without rounding on the way, so that arms which score the same add up to exactly nothing
        by_seed = {seed: math.fsum(row[arm] * scores[arm][seed] for arm in weighted_arms) for seed in seeds}
        differences[name] = Paired(judging.replicates(by_seed), len(by_seed))
    effects = judge(differences, margin=judging.margin, columns=judging.columns)
    return Attribution(tuple(weights), tuple(effects.values()))
