"""Shares of a gain: factorial effects and Shapley values of patches, per seed first, then t intervals.

Both work on ``score[subset][seed]``, the score of the arm that applies exactly that set of patches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.statistics.estimate import Estimate
from harness.statistics.families import Paired, judge

Subset = frozenset[str]
Scores = Mapping[Subset, Mapping[int, float]]
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
    """Effect per patch (or per pair) in the order of the plan; the intervals hold together over the whole list."""

    names: tuple[str, ...]
    effects: tuple[Estimate, ...]
    orders: int = 0


def main_effects(patches: Sequence[str], scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Mean change when a patch is switched on, over all settings of the others (full factorial only)."""
    contrasts = {name: _signs(patches, [name]) for name in patches}
    return _contrast_effects(patches, scores, contrasts, judging)


def interactions(patches: Sequence[str], scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Two-factor interactions: the change of one patch's effect when the other is switched on, over all settings of the rest.

    The whole change, in the unit of the effects, so that a margin means the same; textbooks of factorial designs print half of it.
    """
    pairs = list(itertools.combinations(patches, 2))
    contrasts = {f"{a} × {b}": _signs(patches, [a, b]) for a, b in pairs}
    return _contrast_effects(patches, scores, contrasts, judging, scale=2.0)


def last_minus_first(patches: Sequence[str], scores: Scores, judging: Judging = EVERY_SEED) -> Attribution:
    """Compute what a patch is worth on top of all the others minus what it is worth alone: what a ladder's order can do to it.

    Four arms a patch, so its intervals are wider than those of the other effects.

    Raises:
        IncompleteDesign: an arm of them has not run.
    """
    everything, nothing = frozenset(patches), frozenset[str]()
    weights: dict[str, dict[Subset, float]] = {}
    for name in patches:
        own = weights.setdefault(name, {})
        for subset, sign in (
            (everything, 1),
            (everything - {name}, -1),
            (frozenset({name}), -1),
            (nothing, 1),
        ):
            own[subset] = own.get(subset, 0.0) + sign
    _require({subset for one in weights.values() for subset in one}, scores)
    return _weighted(patches, scores, weights, 0, judging)


def shapley(
    patches: Sequence[str],
    scores: Scores,
    orders: Iterable[Sequence[str]] | None = None,
    judging: Judging = EVERY_SEED,
) -> Attribution:
    """Shapley value of each patch: mean over orders of its gain when it is added.

    With every subset present the value is exact over all |patches|! orders. Otherwise ``orders`` (or, without
    them, every order whose prefixes all exist) are averaged; the interval then covers seeds, not the choice
    of orders. The values of a seed add up to full minus base.

    Raises:
        IncompleteDesign: if no order is complete.
    """
    present = {subset for subset, by_seed in scores.items() if by_seed}
    if orders is None and len(present) == 2 ** len(patches):
        return _exact_shapley(patches, scores, judging)
    candidates = list(orders) if orders is not None else _complete_orders(patches, present)
    usable = [order for order in candidates if all(p in present for p in _prefixes(order))]
    if not usable:
        raise IncompleteDesign("no order of the patches has a finished arm for every prefix")
    weights = {name: _order_weights(name, usable) for name in patches}
    return _weighted(patches, scores, weights, len(usable), judging)


def _exact_shapley(patches: Sequence[str], scores: Scores, judging: Judging) -> Attribution:
    count = len(patches)
    weights: dict[str, dict[Subset, float]] = {}
    for name in patches:
        others = [p for p in patches if p != name]
        own: dict[Subset, float] = {}
        for size in range(count):
            share = math.factorial(size) * math.factorial(count - 1 - size) / math.factorial(count)
            for subset in map(frozenset, itertools.combinations(others, size)):
                own[subset | {name}] = own.get(subset | {name}, 0.0) + share
                own[subset] = own.get(subset, 0.0) - share
        weights[name] = own
    return _weighted(patches, scores, weights, math.factorial(count), judging)


def _order_weights(name: str, orders: Sequence[Sequence[str]]) -> dict[Subset, float]:
    weights: dict[Subset, float] = {}
    for order in orders:
        before = frozenset(order[: list(order).index(name)])
        weights[before | {name}] = weights.get(before | {name}, 0.0) + 1 / len(orders)
        weights[before] = weights.get(before, 0.0) - 1 / len(orders)
    return weights


def _weighted(
    names: Sequence[str],
    scores: Scores,
    weights: Mapping[str, Mapping[Subset, float]],
    orders: int,
    judging: Judging,
) -> Attribution:
    """Weighted sums of arm scores per seed; the seeds that every arm in use has finished."""
    differences = {}
    for name in names:
        used = {s: weight for s, weight in weights[name].items() if weight != 0.0} or weights[name]
        seeds = sorted(set.intersection(*(set(scores[subset]) for subset in used)))
        by_seed = {seed: sum(weight * scores[s][seed] for s, weight in used.items()) for seed in seeds}
        differences[name] = Paired(judging.replicates(by_seed), len(by_seed))
    effects = judge(differences, margin=judging.margin, columns=judging.columns)
    return Attribution(tuple(names), tuple(effects.values()), orders)


def _contrast_effects(
    patches: Sequence[str],
    scores: Scores,
    contrasts: Mapping[str, Mapping[Subset, int]],
    judging: Judging,
    scale: float = 1.0,
) -> Attribution:
    subsets = _all_subsets(patches)
    _require(subsets, scores)
    part = scale / (len(subsets) / 2)
    weights = {name: {s: sign * part for s, sign in signs.items()} for name, signs in contrasts.items()}
    return _weighted(list(contrasts), scores, weights, 0, judging)


def _require(subsets: Collection[Subset], scores: Scores) -> None:
    """Raises `IncompleteDesign` where an arm has no finished run."""
    missing = sorted(("+".join(sorted(s)) or "base" for s in subsets if not scores.get(s)), key=len)
    if missing:
        names = "; ".join(missing[:4])
        raise IncompleteDesign(f"this needs {len(subsets)} arms; no finished run of: {names}")


def _signs(patches: Sequence[str], chosen: Sequence[str]) -> dict[Subset, int]:
    return {
        subset: math.prod(1 if name in subset else -1 for name in chosen) for subset in _all_subsets(patches)
    }


def _all_subsets(patches: Sequence[str]) -> list[Subset]:
    sizes = range(len(patches) + 1)
    return [frozenset(c) for size in sizes for c in itertools.combinations(patches, size)]


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
