"""Replicates: seeds that count as one, and the spread between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Value = TypeVar("Value", float, NDArray[np.float64])


def replicate_of(seed: int, bases: int | None) -> int:
    """The base policy that a seed starts from, the seed itself where every seed has its own (``bases`` None)."""
    return seed if bases is None else seed % bases


def replicate_means(values: Mapping[int, Value], bases: int | None) -> dict[int, Value]:
    """Replicate to the mean over its seeds, of a value or an array a seed.

    Two runs from one base policy tell the same about other base policies as one does (docs/statistics.md).
    """
    groups: dict[int, list[Value]] = {}
    for seed, value in values.items():
        groups.setdefault(replicate_of(seed, bases), []).append(value)
    return {replicate: sum(group[1:], group[0]) / len(group) for replicate, group in groups.items()}


def replicates(values: Mapping[int, float], bases: int | None) -> list[float]:
    """The numbers that intervals and spreads are taken over (see `replicate_means`)."""
    return list(replicate_means(values, bases).values())


def replicate_count(seeds: Iterable[int], bases: int | None) -> int:
    """The number of replicates among the seeds."""
    return len({replicate_of(seed, bases) for seed in seeds})


def pooled_spread(groups: Iterable[ArrayLike | Sequence[float]]) -> tuple[float, int]:
    """Root of the pooled variance within groups, and how many groups it comes from: those of two or more finite values.

    NaN and 0 where there is none.
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    filled = [values for values in arrays if len(values) > 1 and np.isfinite(values).all()]
    if not filled:
        return math.nan, 0
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in filled)
    return math.sqrt(squares / sum(len(values) - 1 for values in filled)), len(filled)
