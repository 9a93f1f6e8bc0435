"""Shares of a gain: effects of crossed factors and Shapley values of patches, per seed first, then t intervals.

All are sums of ``score[subset][seed]``, the score of the arm that applies exactly that set of patches, with a weight for each arm. The
levels of a factor are patches, and ``none`` is the level without one.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
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
    """Settings that turn per-seed effects into intervals.

    Attributes:
        margin: differences below it do not matter, in the unit of the scores; None for no margin.
        columns: that hold together, one for each metric of the experiment.
        replicates: one number for seeds that count as one; without, every seed counts.
    """

    margin: float | None = None
    columns: int = 1
    replicates: Callable[[Mapping[int, float]], Sequence[float]] = lambda by_seed: list(by_seed.values())


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
        ordered = sorted(numbers, key=lambda cell: (sum(map(bool, cell)), [not number for number in cell], cell))
        return [tuple(names[number] for names, number in zip(levels, cell, strict=True)) for cell in ordered]

    def main_weights(self) -> dict[str, Weights]:
        return {
            level if first == NONE else f"{level} against {first}": self._contrast({factor: level})
            for factor, (first, *others) in self.factors.items()
            for level in others
        }

    def interaction_weights(self) -> dict[str, Weights]:
        """Weights of the change of one level's effect when another factor leaves its first level, over all settings of the rest."""
        changes = [[(factor, level) for level in others] for factor, (_, *others) in self.factors.items()]
        return {
            f"{a[1]} × {b[1]}": self._contrast(dict((a, b)))
            for ours, theirs in itertools.combinations(changes, 2)
            for a, b in itertools.product(ours, theirs)
        }

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


def main_effects(crossing: Crossing, scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Mean change from a factor's first level to another, over all settings of the others."""
    return _judged(crossing.main_weights(), scores, judging, arms=map(subset_of, crossing.cells))


def interactions(crossing: Crossing, scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Interactions of two factors: the change of one level's effect when the other factor leaves its first level.

    The whole change, in the unit of the effects, so that a margin means the same; textbooks of factorial designs print half of it.
    """
    return _judged(crossing.interaction_weights(), scores, judging, arms=map(subset_of, crossing.cells))


def last_minus_first(patches: Sequence[str], scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Compute what a patch is worth on top of all the others minus what it is worth alone: what a ladder's order can do to it.

    Four arms a patch, so its intervals are wider than those of the other effects.

    Raises:
        IncompleteDesign: an arm of them has not run.
    """
    weights = {name: defaultdict[Subset, float](float) for name in patches}
    for name, signs in weights.items():
        alone, everything = frozenset({name}), frozenset(patches)
        for subset, sign in ((everything, 1), (everything - alone, -1), (alone, -1), (frozenset[str](), 1)):
            signs[subset] += sign
    return _judged(weights, scores, judging)


def shapley(
    patches: Sequence[str], scores: Scores, orders: Iterable[Sequence[str]] | None = None, judging: Judging = EVERY_SEED
) -> Attribution:
    """Shapley value of each patch: mean over orders of its gain when it is added.

    It is averaged over exactly these ``orders``. Without them: over all orders, or those of them whose arms have all run. The interval
    covers seeds, not the choice of orders. The values of a seed add up to full minus base.

    Raises:
        IncompleteDesign: no finished run of an arm of ``orders``; or, without them, no order is complete.
    """
    finished = {subset for subset, by_seed in scores.items() if by_seed}
    taken = _complete(patches, finished) if orders is None else list(map(tuple, orders))
    if not taken:
        raise IncompleteDesign("no order of the patches has a finished arm for every prefix")
    weights = {name: defaultdict[Subset, float](float) for name in patches}
    for order in taken:
        for place, name in enumerate(order):
            weights[name][frozenset(order[: place + 1])] += 1 / len(taken)
            weights[name][frozenset(order[:place])] -= 1 / len(taken)
    return _judged(weights, scores, judging, len(taken))


def _judged(
    weights: Mapping[str, Weights], scores: Scores, judging: Judging, orders: int = 0, arms: Iterable[Subset] = ()
) -> Attribution:
    """Weighted sums of the scores per seed, of the seeds that every arm with a weight has finished.

    Raises:
        IncompleteDesign: an arm, of ``arms`` or with a weight, has no finished run.
    """
    needed = list(dict.fromkeys(itertools.chain(arms, *weights.values())))
    missing = sorted(("+".join(sorted(arm)) or "base" for arm in needed if not scores.get(arm)), key=len)
    if missing:
        raise IncompleteDesign(f"this needs {len(needed)} arms; no finished run of: {'; '.join(missing[:4])}")
    differences = {}
    for name, row in weights.items():
        used = [arm for arm, weight in row.items() if weight] or list(row)
        seeds = sorted(set.intersection(*(set(scores[arm]) for arm in used)))
        # without rounding on the way, so that arms which score the same add up to exactly nothing
        by_seed = {seed: math.fsum(row[arm] * scores[arm][seed] for arm in used) for seed in seeds}
        differences[name] = Paired(judging.replicates(by_seed), len(by_seed))
    effects = judge(differences, margin=judging.margin, columns=judging.columns)
    return Attribution(tuple(weights), tuple(effects.values()), orders)


def _complete(patches: Sequence[str], present: set[Subset], order: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Orders that begin with this one and whose every prefix is present."""
    if frozenset(order) not in present:
        return []
    left = [name for name in patches if name not in order]
    longer = [whole for name in left for whole in _complete(patches, present, (*order, name))]
    return longer if left else [order]
