"""Columns of several comparisons with known truth: how often a word is false, how often it finds what is there.

A ladder is six arms, each compared with the one below, so neighbouring differences share an arm and are negatively
correlated. Scores are in points; an arm's score over seeds is normal, with a part that all arms of a seed share
where the design is paired. The bounds are those of `harness.statistics.intervals`, for all simulations at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.statistics.intervals import FAMILY_LEVEL, comparison_level

Floats = NDArray[np.float64]
SEEDS = (3, 5, 8, 12)
SPREADS = (1.0, 1.6, 2.3, 3.2, 4.2)  # of a paired difference over seeds, points
MARGIN = 3.0
SHARED_SPREAD = 2.0


@dataclass(frozen=True)
class Ladder:
    """Arms from the bottom up: spread over seeds, true score, and seeds as multiples of the simulated number."""

    spreads: Sequence[float] = (1.0,) * 6
    truth: Sequence[float] = (0.0,) * 6
    paired: bool = True
    seed_multiples: Sequence[int] = (1,) * 6

    @property
    def steps(self) -> Floats:
        """True differences between neighbours."""
        return np.diff(np.asarray(self.truth, dtype=np.float64))


LADDERS = {
    "paired, arms alike": Ladder(),
    "paired, spreads of arms 0.5 to 4": Ladder((0.5, 1.0, 1.5, 2.0, 3.0, 4.0)),
    "Welch, arms alike": Ladder(paired=False),
    "Welch, spreads of arms 0.5 to 4": Ladder((0.5, 1.0, 1.5, 2.0, 3.0, 4.0), paired=False),
    "Welch, every second arm twice the seeds": Ladder(paired=False, seed_multiples=(1, 2) * 3),
}


def draw(ladder: Ladder, seeds: int, simulations: int, rng: np.random.Generator) -> list[Floats]:
    """Scores per arm, float64[simulations, the arm's seeds]."""
    offset = SHARED_SPREAD * rng.normal(size=(simulations, seeds)) if ladder.paired else 0.0
    parts = zip(ladder.spreads, ladder.truth, ladder.seed_multiples, strict=True)
    return [truth + spread * rng.normal(size=(simulations, seeds * times)) + offset for spread, truth, times in parts]


def welch_band(a: Floats, b: Floats, level: float, axis: int = -1) -> tuple[Floats, Floats]:
    """Differences of means along an axis and the half widths of Welch's t intervals."""
    parts = [(one.var(axis=axis, ddof=1) / one.shape[axis], one.shape[axis] - 1) for one in (a, b)]
    variance = sum(error for error, _ in parts)
    degrees = variance**2 / sum(error**2 / count for error, count in parts)
    return a.mean(axis=axis) - b.mean(axis=axis), stats.t.ppf(0.5 + level / 2, degrees) * np.sqrt(variance)


def statistics(arms: Sequence[Floats], *, paired: bool) -> tuple[Floats, Floats, Floats]:
    """Value, standard error and degrees of freedom of each neighbouring difference, float64[simulations, comparisons]."""
    pairs = list(zip(arms[1:], arms[:-1], strict=True))
    values = np.stack([a.mean(axis=1) - b.mean(axis=1) for a, b in pairs], axis=1)
    if paired:
        seeds = arms[0].shape[1]
        errors = np.stack([(a - b).std(axis=1, ddof=1) for a, b in pairs], axis=1) / np.sqrt(seeds)
        return values, errors, np.full_like(values, seeds - 1)
    parts = [(a.var(axis=1, ddof=1) / a.shape[1], b.var(axis=1, ddof=1) / b.shape[1]) for a, b in pairs]
    squares = [u**2 / (a.shape[1] - 1) + v**2 / (b.shape[1] - 1) for (a, b), (u, v) in zip(pairs, parts, strict=True)]
    variances = np.stack([u + v for u, v in parts], axis=1)
    return values, np.sqrt(variances), variances**2 / np.stack(squares, axis=1)


def bounds(ladder: Ladder, arms: Sequence[Floats], level: float | None = None) -> tuple[Floats, Floats]:
    """Both ends of the printed intervals; ``level`` of each instead of the column's for comparison."""
    values, errors, degrees = statistics(arms, paired=ladder.paired)
    level = comparison_level(values.shape[1]) if level is None else level
    half = stats.t.ppf(0.5 + level / 2, degrees) * errors
    return values - half, values + half


def false_words(ladder: Ladder, seeds: int, simulations: int, seed: int = 0) -> tuple[float, float]:
    """Share of columns with at least one wrong *higher* or *lower*, with the column's intervals and with uncorrected ones.

    A step whose truth is zero is called neither; one that is not zero must not be called the other way.
    """
    arms = draw(ladder, seeds, simulations, np.random.default_rng([seed, seeds]))
    shares = []
    for level in (None, FAMILY_LEVEL):
        low, high = bounds(ladder, arms, level)
        is_wrong = ((low > 0) & (ladder.steps <= 0)) | ((high < 0) & (ladder.steps >= 0))
        shares.append(float(is_wrong.any(axis=1).mean()))
    return shares[0], shares[1]


def false_words_of_max_t(seeds: int, simulations: int, seed: int = 0, draws: int = 4000) -> float:
    """The same for the single-step maximum of a multivariate t whose correlations are estimated from the seeds.

    Kept to show why the tables do not use it: paired ladder, arms alike, true steps zero.
    """
    rng = np.random.default_rng([seed, seeds])
    arms = draw(Ladder(), seeds, simulations, rng)
    values, errors, _ = statistics(arms, paired=True)
    differences = np.stack([a - b for a, b in zip(arms[1:], arms[:-1], strict=True)], axis=1)
    residual = differences - differences.mean(axis=2, keepdims=True)
    residual /= np.sqrt((residual**2).sum(axis=2, keepdims=True))
    normal = rng.normal(size=(seeds, draws))
    scale = np.sqrt(rng.chisquare(seeds - 1, size=draws) / (seeds - 1))
    hits = 0
    for one, t in zip(residual, np.abs(values / errors).max(axis=1), strict=True):
        hits += int(t > np.quantile(np.abs(one @ normal / scale).max(axis=0), FAMILY_LEVEL))
    return hits / simulations


def false_within(spread: float, seeds: int, margin: float, simulations: int, seed: int = 0) -> float:
    """Share of columns with a difference called equivalent, or less than the margin, where all truly lie at the margin.

    ``spread`` is that of a paired difference over seeds, in points.
    """
    truth = [margin * (arm % 2) for arm in range(6)]
    ladder = Ladder((spread / np.sqrt(2),) * 6, truth)
    arms = draw(ladder, seeds, simulations, np.random.default_rng([seed, seeds]))
    low, high = bounds(ladder, arms)
    return float(((low > -margin) & (high < margin)).any(axis=1).mean())


def detection_rate(
    step: float, spread: float, seeds: int, simulations: int, *, margin: float | None = None, seed: int = 0
) -> float:
    """How often one true step of five is called *higher*; with a margin, how often it is shown to lie inside it."""
    ladder = Ladder((spread / np.sqrt(2),) * 6, (0.0, 0.0, 0.0, step, step, step))
    arms = draw(ladder, seeds, simulations, np.random.default_rng([seed, seeds]))
    low, high = (bound[:, 2] for bound in bounds(ladder, arms))
    hits = low > 0 if margin is None else (low > -margin) & (high < margin)
    return float(hits.mean())


def report(simulations: int, seed: int = 0) -> str:
    """The measured tables in Markdown; the maximum t, which is slow, with a tenth of the simulations."""
    rows = [_row("at least one false *higher* or *lower*, no true step", [f"{n} seeds" for n in SEEDS])]
    for name, ladder in LADDERS.items():
        rates = [false_words(ladder, seeds, simulations, seed) for seeds in SEEDS]
        rows.append(_row(name, [rate for rate, _ in rates]))
        if ladder == Ladder():
            rows.append(_row("the same, intervals not corrected", [rate for _, rate in rates]))
            max_t_rates = [false_words_of_max_t(seeds, max(1, simulations // 10), seed) for seeds in SEEDS]
            rows.append(_row("the same, maximum t with estimated correlations", max_t_rates))
    edge = [
        _row(
            f"at least one false *within {MARGIN:g}*, every true step ±{MARGIN:g}",
            [f"{n} seeds" for n in SEEDS],
        )
    ]
    for spread in SPREADS:
        edge_rates = [false_within(spread, seeds, MARGIN, simulations, seed) for seeds in SEEDS]
        edge.append(_row(f"spread {spread:g} points", edge_rates))
    few = (5, 8)
    headers = [text for n in few for text in (f"+8 called higher, {n} seeds", f"0 called within {MARGIN:g}, {n} seeds")]
    power = [_row("one step of five, its spread", headers)]
    for spread in SPREADS:
        cells = []
        for seeds in few:
            cells.append(detection_rate(8.0, spread, seeds, simulations, seed=seed))
            cells.append(detection_rate(0.0, spread, seeds, simulations, margin=MARGIN, seed=seed))
        power.append(_row(f"{spread:g} points", cells))
    return (
        "\n\n".join("\n".join([t[0], "|---" * t[0].count(" | ") + "|---|", *t[1:]]) for t in (rows, edge, power)) + "\n"
    )


def _row(name: str, cells: Sequence[float] | Sequence[str]) -> str:
    texts = [cell if isinstance(cell, str) else f"{cell:.1%}" for cell in cells]
    return f"| {' | '.join([name, *texts])} |"
