"""Bands of a whole curve, such as the difference in Pass@k over all k, that hold together."""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Range = tuple[int, int]


@dataclass(frozen=True)
class Band:
    """A curve over k = `first` .. `last` with its band, in the unit of what it was made from; NaN where there is none.

    With probability `level` the true curve lies inside at every k at once. `replicates`: of the smaller group.
    """

    value_K: Floats
    low_K: Floats
    high_K: Floats
    replicates: int
    level: float
    first: int = 1

    @property
    def last(self) -> int:
        """The largest k."""
        return self.first + len(self.value_K) - 1

    @property
    def parts(self) -> list[tuple[int, int, str]]:
        """First and last k of every range over which the whole band lies above or below zero, and that: *higher* or *lower*."""
        sides = ("higher", self.low_K > 0), ("lower", self.high_K < 0)
        return sorted((*span, word) for word, inside_K in sides for span in _ranges(inside_K, self.first))

    @property
    def text(self) -> str:
        """``k 1 to 8: higher; k 64 to 256: lower``, or that there is no such k."""
        if not np.isfinite(self.low_K).any():
            return "no band at any k, for want of replicates or of spread among them"
        words = "; ".join(f"k {low}{f' to {high}' * (low < high)}: {word}" for low, high, word in self.parts)
        return words or f"no k from {self.first} to {self.last} at which they part"


def critical_value(degrees: float, length: float, points: int, level: float = 0.95) -> float:
    """The c such that |t| exceeds it anywhere on a curve with probability 1 - `level` at most.

    c solves P(|t| > c) + L/pi (1 + c^2/nu)^(-(nu-1)/2) = 1 - level: the expected number of pieces of a t field of nu degrees of freedom
    above c, both signs (Worsley 1994, Adv. Appl. Prob. 26, 13). Along polygons it bounds the probability (Naiman 1986, Ann. Stat. 14, 896).
    Never above Sidak's for that many separate points (1967, JASA 62, 626), so that neither many points nor a rough curve cost more; and
    Sidak's at one degree of freedom, where residuals are one number and its sign and do not show how far the curve wanders.

    `length`: L, of the standardised curve on the unit sphere, the sum of arccos(correlation) of neighbours in radians.
    """
    sidak = float(scipy.stats.t.ppf(0.5 + level ** (1 / points) / 2, degrees))

    def excess(c: float) -> float:
        field = length / math.pi * (1 + c * c / degrees) ** (-(degrees - 1) / 2)
        return float(2 * scipy.stats.t.sf(c, degrees)) + field - (1 - level)

    return float(scipy.optimize.brentq(excess, 0.0, sidak)) if degrees > 1 and excess(sidak) < 0 else sidak


def simultaneous_band(*groups_RK: ArrayLike, level: float = 0.95, first: int = 1) -> Band:
    """The mean of one group of curves at every k, or of the first minus that of the second, with a band that covers the whole true curve.

    Student's t at each k, of two groups Welch's with Satterthwaite's degrees, its quantile raised as far as the curve can wander
    (`critical_value`). Replicates are independent: a curve is a training seed's difference of two arms, or a problem's; two groups may
    differ in their number. `first`: the k of the first column. A k where one is NaN or all agree has no band; of one replicate no k has.
    """
    curves = [np.asarray(group, dtype=np.float64) for group in groups_RK]
    value_K, replicates = curves[0].mean(axis=0) - sum(rows.mean(axis=0) for rows in curves[1:]), min(map(len, curves))
    # Deviations whose squares add up, over replicates, to the variance of the mean.
    offsets = [(rows - rows.mean(axis=0)) / math.sqrt(max(1, len(rows) * (len(rows) - 1))) for rows in curves]
    residual_RK, parts = np.concatenate(offsets), [(rows**2).sum(axis=0) for rows in offsets]
    error = np.sqrt(sum(parts))
    # What float rounding leaves of equal numbers is no spread.
    valid = (error > 1e-12 * np.maximum(np.abs(value_K), 1e-3)) & (replicates > 1)
    half = np.full(len(value_K), np.nan)
    if valid.any():
        unit = residual_RK[:, valid] / error[valid]
        length = float(np.arccos(np.clip((unit[:, 1:] * unit[:, :-1]).sum(axis=0), -1, 1)).sum())
        shares = [
            (part[valid] / error[valid] ** 2) ** 2 / (len(rows) - 1) for part, rows in zip(parts, offsets, strict=True)
        ]
        degrees, inverse = np.unique(np.round(1 / sum(shares), 9), return_inverse=True)
        critical = np.array([critical_value(float(nu), length, int(valid.sum()), level) for nu in degrees])
        half[valid] = critical[inverse] * error[valid]
    return Band(value_K, value_K - half, value_K + half, replicates, level, first)


def _ranges(inside_K: NDArray[np.bool_], first: int) -> list[Range]:
    """First and last k, counted from ``first``, of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside_K, [False]])))
    return [(int(start) + first, int(end) + first - 1) for start, end in zip(edges[::2], edges[1::2], strict=True)]
