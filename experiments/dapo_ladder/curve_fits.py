"""Two laws of the field fitted to one run: accuracy against compute, and accuracy against entropy.

Each run is fitted by itself, by least squares; intervals are then Student's t over runs or base policies, as for any other number of a run.
A parameter that the data cannot tell is said to be *not identified* and never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

Floats = NDArray[np.float64]

_EXPONENTS = (0.2, 10.0)  # of the sigmoid: below, a line on a log axis; above, a jump between two points
# Where searches begin: share of the largest compute, exponent.
_STARTS = tuple((share, exponent) for share in (0.1, 0.5) for exponent in (0.7, 1.5, 3.0))
_LARGEST_MIDPOINT = 10.0  # times the largest compute: beyond, the asymptote is anything


@dataclass(frozen=True)
class SigmoidFit:
    """R(C) = start + (asymptote - start) / (1 + (midpoint / C)^exponent); ``missing`` says why it is not identified, empty where it is.

    ``rmse`` is the root mean squared residual, ``asymptote_error`` the asymptote's standard error from the residuals (NaN where
    there is none).
    """

    start: float
    asymptote: float
    midpoint: float
    exponent: float
    rmse: float
    asymptote_error: float
    missing: str = ""

    def __call__(self, compute: ArrayLike) -> Floats:
        """The fitted score at each compute."""
        return _sigmoid(
            np.asarray(compute, dtype=np.float64), self.start, self.asymptote, self.midpoint, self.exponent
        )


@dataclass(frozen=True)
class EntropyFit:
    """R = -a exp(H) + b; ``ceiling`` is R at H = 0, which is b - a. ``missing`` says why it is not identified, empty where it is."""

    a: float
    b: float
    r_squared: float
    rmse: float
    missing: str = ""

    @property
    def ceiling(self) -> float:
        """The score that the law predicts for a policy without entropy."""
        return self.b - self.a


def fit_sigmoid(
    compute: Sequence[float] | Floats, score: Sequence[float] | Floats, start: float | None = None
) -> SigmoidFit:
    """The sigmoid of ScaleRL (arXiv:2510.13786) through the points of one run.

    Args:
        compute: at least 0, in any unit; the midpoint has the same.
        score: at each compute, a fraction of 1, which also bounds the asymptote.
        start: R_0 where it is known; None: fitted with the others (then points at or near compute 0 are needed).

    Returns:
        The fit. It is not identified with no more points than parameters, with a midpoint beyond the largest compute, with a parameter
        at its bound, or where the asymptote's standard error is above a quarter of the rise.

    Raises:
        ValueError: arrays of unequal length, negative compute, or a score that is no number.
    """
    C, R = _points(compute, score)
    if (C < 0).any():
        raise ValueError("compute must be 0 or more")
    free = 3 if start is not None else 4
    largest = float(C.max())
    if len(C) <= free or len(np.unique(C)) <= free or largest <= 0:
        empty = (math.nan,) * 6
        return SigmoidFit(*empty, missing=f"{len(np.unique(C))} points for {free} parameters")

    def curve(p: Floats) -> Floats:
        first = start if start is not None else p[3]
        return _sigmoid(C, first, p[0], largest * math.exp(p[1]), math.exp(p[2]))

    low = [0.0, math.log(1e-4), math.log(_EXPONENTS[0])]
    high = [1.0, math.log(_LARGEST_MIDPOINT), math.log(_EXPONENTS[1])]
    ends = [float(np.clip(R.max(), 0.01, 0.99)), float(np.clip(R[C.argmin()], 0.01, 0.99))]
    if start is None:
        low, high = [*low, 0.0], [*high, 1.0]

    def residual(p: Floats) -> Floats:
        return curve(p) - R

    begins = [[ends[0], math.log(share), math.log(exponent), ends[1]][:free] for share, exponent in _STARTS]
    found = [optimize.least_squares(residual, begin, bounds=(low, high)) for begin in begins]
    best = min(found, key=lambda one: float(one.cost))
    return _judged(best, C, start, np.array(low), np.array(high))


def _judged(
    best: optimize.OptimizeResult, C: Floats, start: float | None, low: Floats, high: Floats
) -> SigmoidFit:
    """The fit with its errors, and the first reason not to read its asymptote."""
    p, points, largest = np.asarray(best.x), len(C), float(C.max())
    rmse = math.sqrt(2 * best.cost / points)
    first = float(start if start is not None else p[3])
    asymptote, midpoint, exponent = float(p[0]), largest * math.exp(p[1]), math.exp(p[2])
    variance = 2 * best.cost / (points - len(p))
    try:
        error = math.sqrt(float(np.linalg.inv(best.jac.T @ best.jac)[0, 0]) * variance)
    except (np.linalg.LinAlgError, ValueError):
        error = math.nan
    bound = np.minimum(p - low, high - p) < 1e-4 * (high - low)
    if midpoint > largest:
        missing = "the midpoint lies beyond the largest compute"
    elif bound[0]:
        missing = "the asymptote is at its bound"
    elif bound[1:].any():
        missing = "midpoint, exponent or start is at its bound"
    elif not error <= abs(asymptote - first) / 4:
        missing = "the asymptote's standard error is above a quarter of the rise"
    else:
        missing = ""
    return SigmoidFit(first, asymptote, midpoint, exponent, rmse, error, missing)


def fit_entropy_law(entropy_nats: Sequence[float] | Floats, score: Sequence[float] | Floats) -> EntropyFit:
    """R = -a exp(H) + b (Cui et al., arXiv:2505.22617) by ordinary least squares on exp(H).

    Args:
        entropy_nats: H per token at each point.
        score: R at each point.

    Returns:
        The fit; not identified with fewer than three points or one entropy. A negative a is reported as it is: there accuracy
        rises with entropy.

    Raises:
        ValueError: arrays of unequal length or a value that is no number.
    """
    H, R = _points(entropy_nats, score)
    X = np.exp(H)
    if len(X) < 3 or np.ptp(X) <= 1e-12:
        return EntropyFit(*(math.nan,) * 4, missing="fewer than three points or one entropy")
    centred = X - X.mean()
    slope = float(centred @ R / (centred @ centred))
    b = float(R.mean() - slope * X.mean())
    residual = R - (slope * X + b)
    total = float(((R - R.mean()) ** 2).sum())
    r_squared = 1 - float((residual**2).sum()) / total if total > 0 else math.nan
    return EntropyFit(-slope, b, r_squared, float(np.sqrt((residual**2).mean())))


def _sigmoid(C: Floats, start: float, asymptote: float, midpoint: float, exponent: float) -> Floats:
    """The law, with its limit at C = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return start + (asymptote - start) / (1 + (midpoint / C) ** exponent)


def _points(x: Sequence[float] | Floats, score: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    X, R = np.asarray(x, dtype=np.float64), np.asarray(score, dtype=np.float64)
    if X.shape != R.shape or X.ndim != 1 or not len(X):
        raise ValueError(f"{X.size} points on one axis and {R.size} on the other")
    if not (np.isfinite(X).all() and np.isfinite(R).all()):
        raise ValueError("a point is no number; leave it out")
    return X, R
