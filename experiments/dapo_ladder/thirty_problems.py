"""What a benchmark of 30 problems x 32 samples can tell: the smallest difference found with 80 % power, by seeds.

    python experiments/dapo_ladder/thirty_problems.py results [results_b ...]

Two runs of one configuration from one base policy differ by training seed and samples. The variance of their difference on a
random subset of
the 256 problems is exact: no subset is drawn. Problems keep their own difficulties, which are not AIME's.
"""

from __future__ import annotations

import itertools

import numpy as np
from ladder_runs import bases_of, command, ladder

from analysis import Results
from harness.statistics.intervals import minimum_detectable_difference

SIZES = (30, 256)
SEEDS = (2, 3, 5, 8, 16, 32)


def subset_square(values_P: np.ndarray, size: int) -> float:
    """E[(mean over a random subset of ``size`` problems)^2], without replacement: mean^2 + (1 - size / P) S^2 / size."""
    rest = 1 - size / len(values_P)
    return float(values_P.mean() ** 2 + (rest * values_P.var(ddof=1) / size if rest else 0.0))


def null_variance(results: Results, size: int) -> tuple[float, int]:
    """Variance of the difference of two runs that differ by seed alone, in squared points, and the number of pairs.

    Under no difference its mean is zero on every subset, so its variance is its mean square.
    """
    squares = []
    for arm in results.experiment.plan.arms:
        runs = results.problem_scores(arm)
        for a, b in itertools.combinations(sorted(runs), 2):
            if a % bases_of(results) == b % bases_of(results):
                squares.append(subset_square(100 * (runs[a] - runs[b]), size))
    if not squares:
        raise ValueError("no two seeds of an arm start from one base policy; run more seeds, or fewer base policies")
    return float(np.mean(squares)), len(squares)


def sampling_part(results: Results, size: int, samples: int = 32) -> float:
    """The part of that variance that independent samples make: 2 p(1 - p) / (n - 1) / size, mean over runs and problems, squared points."""
    rates = np.concatenate([p for arm in results.experiment.plan.arms for p in results.problem_scores(arm).values()])
    return float(2 * 100**2 * (rates * (1 - rates)).mean() / (samples - 1) / size)


def problem_spread(results: Results, upper: int, lower: int) -> float:
    """SD over problems of the true difference between two arms, points: variance of the mean difference less its noise over seeds."""
    arms = results.experiment.plan.arms
    ours, theirs = results.problem_scores(arms[upper]), results.problem_scores(arms[lower])
    d_SP = 100 * np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
    noise = float((d_SP.var(axis=0, ddof=1) / len(d_SP)).mean())
    return max(0.0, float(d_SP.mean(axis=0).var(ddof=1)) - noise) ** 0.5


def main(roots: list[str]) -> None:
    """Print the tables."""
    for root in roots:
        results = ladder(root)
        print(
            f"\n| {root}: problems | SD of a difference of two runs | of it independent samples | "
            + " | ".join(f"{s} seeds" for s in SEEDS)
            + " |"
        )
        print("|---|---|---|" + "---|" * len(SEEDS))
        for size in SIZES:
            variance, pairs = null_variance(results, size)
            points = [minimum_detectable_difference(variance**0.5, seeds, paired=True, alpha=0.05) for seeds in SEEDS]
            text = " | ".join(f"{x:.1f}" for x in points)
            print(
                f"| {size} | {variance**0.5:.2f} ({pairs} pairs) | {sampling_part(results, size) ** 0.5:.2f} | {text} |"
            )
        for name, pair in {"dynamic sampling over the rung below": (5, 4), "full over naive": (5, 0)}.items():
            spread = problem_spread(results, *pair)
            print(f"\n{name}: its effect varies by {spread:.1f} points over problems;", end=" ")
            print(f"for *other* 30 problems add {spread / 30**0.5:.1f} points of standard error")


if __name__ == "__main__":
    command(main, __doc__)
