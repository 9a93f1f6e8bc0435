"""Shares of a gain: effects of crossed factors and Shapley values of patches, per seed first, then t intervals.

Both work on ``score[subset][seed]``, the score of the arm that applies exactly that set of patches. The levels of a factor are patches,
and ``none`` is the level without one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.statistics.intervals import Estimate, Paired, judge

NONE = "none"
Subset = frozenset[str]
Scores = Mapping[Subset, Mapping[int, float]]
Weights = dict[Subset, float]
Replicates = Callable[[Mapping[int, float]], Sequence[float]]


def _each_seed(values: Mapping[int, float]) -> list[float]:
    return list(values.values())


@dataclass(frozen=True)
class Judging:
    """Settings that turn per-seed effects into intervals.

    Attributes:
        margin: differences below it do not matter, in the unit of the scores; None for no margin.
        columns: that hold together, one for each metric of the experiment.
        replicates: one number for seeds that count as one; without, every seed counts.
    """

    margin: float | None = None
    columns: int = 1
    replicates: Replicates = _each_seed


EVERY_SEED = Judging()


class IncompleteDesign(ValueError):
    """Arms that the attribution needs are not there; the message names them."""


@dataclass(frozen=True)
class Attribution:
    """Effect per patch (or per pair) in the order of the plan; the intervals hold together over the whole list.

    ``missing`` says why there is none.
    """

    names: tuple[str, ...] = ()
    effects: tuple[Estimate, ...] = ()
    orders: int = 0
    missing: str = ""

    @property
    def pairs(self) -> list[tuple[str, Estimate]]:
        """Each name with its effect."""
        return list(zip(self.names, self.effects, strict=True))


@dataclass(frozen=True)
class Crossing:
    """Factors whose levels are crossed.

    Attributes:
        factors: name of a factor to its levels; a level's name stands in one factor only, but for ``none``.
    """

    factors: Mapping[str, Sequence[str]]

    @classmethod
    def of_patches(cls, patches: Sequence[str]) -> Crossing:
        return cls({patch: (NONE, patch) for patch in patches})

    @cached_property
    def cells(self) -> list[tuple[str, ...]]:
        """The levels of each cell in the order of the factors; fewest changes of the first cell first."""
        levels = list(self.factors.values())
        numbers = itertools.product(*map(range, map(len, levels)))

        def changes(cell: tuple[int, ...]) -> tuple[int, list[int], tuple[int, ...]]:
            changed = [place for place, number in enumerate(cell) if number]
            return len(changed), changed, cell

        return [
            tuple(names[number] for names, number in zip(levels, cell, strict=True))
            for cell in sorted(numbers, key=changes)
        ]

    def main_weights(self) -> dict[str, Weights]:
        return {
            level if first == NONE else f"{level} against {first}": self._contrast([(place, level, first)])
            for place, (first, *others) in enumerate(self.factors.values())
            for level in others
        }

    def interaction_weights(self) -> dict[str, Weights]:
        """Weights of the change of one level's effect when another factor leaves its first level, over all settings of the rest."""
        levels = [
            [(place, level, first) for level in others] for place, (first, *others) in enumerate(self.factors.values())
        ]
        return {
            f"{a[1]} × {b[1]}": self._contrast([a, b])
            for ours, theirs in itertools.combinations(levels, 2)
            for a, b in itertools.product(ours, theirs)
        }

    def _contrast(self, changes: Sequence[tuple[int, str, str]]) -> Weights:
        """Weights of the mean over cells: plus with each changed factor's level, minus with its first (place, level, first)."""

        def sign(cell: tuple[str, ...]) -> int:
            return math.prod((cell[at] == level) - (cell[at] == first) for at, level, first in changes)

        signs = {subset_of(cell): sign(cell) for cell in self.cells}
        each = sum(map(abs, signs.values())) / 2 ** len(changes)
        return {subset: number / each for subset, number in signs.items()}


def subset_of(cell: Sequence[str]) -> Subset:
    return frozenset(cell) - {NONE}


def main_effects(crossing: Crossing, scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Mean change from a factor's first level to another, over all settings of the others."""
    return _effects(crossing, crossing.main_weights(), scores, judging)


def interactions(crossing: Crossing, scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Interactions of two factors: the change of one level's effect when the other factor leaves its first level.

    The whole change, in the unit of the effects, so that a margin means the same; textbooks of factorial designs print half of it.
    """
    return _effects(crossing, crossing.interaction_weights(), scores, judging)


def _effects(crossing: Crossing, weights: Mapping[str, Weights], scores: Scores, judging: Judging) -> Attribution:
    _require([subset_of(cell) for cell in crossing.cells], scores)
    return _weighted(scores, weights, 0, judging)


def last_minus_first(patches: Sequence[str], scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Compute what a patch is worth on top of all the others minus what it is worth alone: what a ladder's order can do to it.

    Four arms a patch, so its intervals are wider than those of the other effects.

    Raises:
        IncompleteDesign: an arm of them has not run.
    """
    everything, nothing = frozenset(patches), frozenset[str]()
    weights: dict[str, Weights] = {}
    for name in patches:
        signs = weights.setdefault(name, {})
        alone = frozenset({name})
        for subset, sign in ((everything, 1), (everything - alone, -1), (alone, -1), (nothing, 1)):
            signs[subset] = signs.get(subset, 0.0) + sign
    _require({subset for signs in weights.values() for subset in signs}, scores)
    return _weighted(scores, weights, 0, judging)


def shapley(
    patches: Sequence[str],
    scores: Scores,
    orders: Iterable[Sequence[str]] | None = None,
    judging: Judging = EVERY_SEED,
) -> Attribution:
    """Shapley value of each patch: mean over orders of its gain when it is added.

    It is averaged over exactly these ``orders``. Without them: over all orders, or those of them whose arms have all run. The interval
    covers seeds, not the choice of orders. The values of a seed add up to full minus base.

    Raises:
        IncompleteDesign: no finished run of an arm of ``orders``; or, without them, no order is complete.
    """
    if orders is not None:
        taken = list(map(tuple, orders))
        _require({subset for order in taken for subset in _prefixes(order)}, scores)
    else:
        taken = _complete_orders(patches, {subset for subset, by_seed in scores.items() if by_seed})
    if not taken:
        raise IncompleteDesign("no order of the patches has a finished arm for every prefix")
    weights: dict[str, Weights] = {name: {} for name in patches}
    for order in taken:
        for name, before, after in zip(order, _prefixes(order), _prefixes(order)[1:], strict=False):
            weights[name][after] = weights[name].get(after, 0.0) + 1 / len(taken)
            weights[name][before] = weights[name].get(before, 0.0) - 1 / len(taken)
    return _weighted(scores, weights, len(taken), judging)


def _weighted(scores: Scores, weights: Mapping[str, Weights], orders: int, judging: Judging) -> Attribution:
    """Weighted sums of arm scores per seed; the seeds that every arm in use has finished."""
    differences = {}
    for name, of_arms in weights.items():
        used = {s: weight for s, weight in of_arms.items() if weight != 0.0} or of_arms
        seeds = sorted(set.intersection(*(set(scores[subset]) for subset in used)))
        by_seed = {seed: sum(weight * scores[s][seed] for s, weight in used.items()) for seed in seeds}
        differences[name] = Paired(judging.replicates(by_seed), len(by_seed))
    effects = judge(differences, margin=judging.margin, columns=judging.columns)
    return Attribution(tuple(weights), tuple(effects.values()), orders)


def _require(subsets: Collection[Subset], scores: Scores) -> None:
    """Raises `IncompleteDesign` where an arm has no finished run."""
    missing = sorted(("+".join(sorted(s)) or "base" for s in subsets if not scores.get(s)), key=len)
    if missing:
        names = "; ".join(missing[:4])
        raise IncompleteDesign(f"this needs {len(subsets)} arms; no finished run of: {names}")


def _prefixes(order: Sequence[str]) -> list[Subset]:
    return [frozenset(order[:size]) for size in range(len(order) + 1)]


def _complete_orders(patches: Sequence[str], present: set[Subset]) -> list[tuple[str, ...]]:
    """Orders whose every prefix is present, grown from the empty set."""
    orders: list[tuple[str, ...]] = [()] if frozenset() in present else []
    for _ in patches:
        orders = [
            (*order, name)
            for order in orders
            for name in patches
            if name not in order and frozenset((*order, name)) in present
        ]
    return orders
