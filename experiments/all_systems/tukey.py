"""Which arms can be told from which, all pairs at once: Tukey's HSD over blocks, and letters that show it."""

from __future__ import annotations

import itertools
import math
import string
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_ALPHABET = string.ascii_lowercase + string.ascii_uppercase


@dataclass(frozen=True)
class BlockFit:
    """Arms in a randomised complete block design: value = arm + block + residual, one spread for all arms.

    Attributes:
        means_A: mean of each arm over the blocks.
        own_sd_A: each arm's own residual standard deviation; the mean of their squares is ``sd`` squared.
        sd: the pooled one, on ``degrees`` = (A - 1)(B - 1) degrees of freedom.
        blocks: B.
    """

    means_A: Floats
    own_sd_A: Floats
    sd: float
    degrees: int
    blocks: int


def fit_blocks(values_AB: ArrayLike) -> BlockFit:
    """Least squares of the additive model (Montgomery, Design and Analysis of Experiments, section 4.1).

    Args:
        values_AB: one value for every arm and block, two of each or more.

    Raises:
        ValueError: a value that is no number, or no residual spread at all.
    """
    values = np.asarray(values_AB, dtype=np.float64)
    arms, blocks = values.shape
    if not np.isfinite(values).all():
        raise ValueError("a value of an arm and block is no number")
    means = values.mean(axis=1)
    residuals = values - means[:, None] - values.mean(axis=0) + values.mean()
    degrees = (arms - 1) * (blocks - 1)
    squares = (residuals**2).sum(axis=1)
    sd = math.sqrt(squares.sum() / degrees)
    if sd <= 1e-12 * max(float(np.abs(values).max()), 1e-3):
        raise ValueError("no spread is left beside arms and blocks, so there is nothing to judge with")
    return BlockFit(means, np.sqrt(squares * arms / degrees), sd, degrees, blocks)


def honest_difference(fit: BlockFit, level: float = 0.95) -> float:
    """Tukey's HSD: two means that differ by more are told apart; with ``level`` no two equal ones are, of all pairs together.

    The quantile of the studentized range of A means on the fit's degrees of freedom, times sd / sqrt(B).
    """
    from scipy.stats import studentized_range  # seconds to import, and only letters need it

    quantile = studentized_range.ppf(level, len(fit.means_A), fit.degrees)
    return float(quantile) * fit.sd / math.sqrt(fit.blocks)


def odd_spreads(values_AB: ArrayLike, times: float = 3.0) -> dict[int, float]:
    """Arms whose own residual standard deviation is more than ``times`` the pooled one of the others, fitted without it, and that one.

    Pooling takes one spread for all arms; such an arm breaks it. With two arms there are no others to compare with.
    """
    values = np.asarray(values_AB, dtype=np.float64)
    if len(values) < 3:
        return {}
    own = fit_blocks(values).own_sd_A
    odd = {}
    for arm in range(len(values)):
        try:
            others = fit_blocks(np.delete(values, arm, axis=0)).sd
        except ValueError:
            others = 0.0  # the others agree exactly
        if own[arm] > times * others:
            odd[arm] = others
    return odd


def compact_letters(resolved_AA: ArrayLike) -> list[str]:
    """Letters of each arm: two arms share a letter if and only if their difference is not resolved.

    Insert and absorb, then sweeping (Piepho, J. Comput. Graph. Stat. 13, 2004, 456-466). No letter of an arm could be taken away, and
    no letter's arms are all among those of another. Letters come in the order of the arms: the first arm has an a.

    Args:
        resolved_AA: whether the difference of two arms is resolved, symmetric, false on the diagonal; any such matrix will do.
    """
    resolved = np.asarray(resolved_AA, dtype=bool)
    arms = len(resolved)
    columns = [frozenset(range(arms))]
    for first, second in itertools.combinations(range(arms), 2):
        if resolved[first, second]:
            columns = _split_columns(columns, first, second)
    members = sorted(map(sorted, _sweep_columns(columns)))
    names = [_letter(index) for index in range(len(members))]
    return ["".join(name for name, column in zip(names, members, strict=True) if arm in column) for arm in range(arms)]


def _split_columns(columns: list[frozenset[int]], first: int, second: int) -> list[frozenset[int]]:
    """Columns in which the two no longer stand together; those that lie within another are absorbed by it."""
    split_columns = [column for column in columns if not {first, second} <= column]
    for column in columns:
        if {first, second} <= column:
            split_columns += [column - {first}, column - {second}]
    distinct = list(dict.fromkeys(split_columns))
    return [column for column in distinct if not any(column < other for other in distinct)]


def _sweep_columns(columns: list[frozenset[int]]) -> list[frozenset[int]]:
    """Columns without the letters that other columns make redundant, until none is left."""
    remaining, previous = list(columns), None
    while remaining != previous:
        previous = list(remaining)
        for index in range(len(remaining)):
            for arm in sorted(remaining[index], reverse=True):
                others = [column for place, column in enumerate(remaining) if place != index and arm in column]
                if all(any(partner in column for column in others) for partner in remaining[index]):
                    remaining[index] = remaining[index] - {arm}
        remaining = [column for column in remaining if column]
    return remaining


def _letter(index: int) -> str:
    """From a to z, from A to Z, then a2 and so on."""
    turn, place = divmod(index, len(_ALPHABET))
    return _ALPHABET[place] + (str(turn + 1) if turn else "")
