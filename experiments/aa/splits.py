"""How often two groups of seeds of one configuration are called different.

    python experiments/aa/splits.py [RESULTS]

Both arms of `experiment=aa` are one configuration, so every difference is chance. Their seeds are pooled and split at random into two
disjoint groups of S seeds, each split judged by Welch's t as arms that are not paired. All splits share the pool, so the rate has the
pool's own noise. Nominal: 5 %.
"""

from __future__ import annotations

import sys

import numpy as np

from analysis import load
from harness.statistics.intervals import welch_difference

SPLITS = 2000


def splits(pool: np.ndarray, seeds: int, rng: np.random.Generator) -> tuple[float, float]:
    """Share of random splits into two groups of so many seeds that are called resolved, and the mean half width of their intervals."""
    effects = []
    for _ in range(SPLITS):
        order = rng.permutation(len(pool))
        effects.append(welch_difference(pool[order[:seeds]], pool[order[seeds : 2 * seeds]]))
    resolved = np.mean([effect.resolved for effect in effects])
    return float(resolved), float(np.nanmean([(effect.high - effect.low) / 2 for effect in effects]))


def main(root: str) -> None:
    """Print a row for each number of seeds that the pool allows."""
    results = load(root, "aa")
    scores = [results.scores(arm, "avg").values() for arm in results.experiment.plan.arms]
    pool = 100 * np.array([score for arm in scores for score in arm])
    rng = np.random.default_rng(0)
    print("| seeds | runs in the pool | null called resolved % | mean half width, points |\n|---|---|---|---|")
    for seeds in (3, 5, 10):
        if len(pool) >= 2 * seeds:
            rate, half = splits(pool, seeds, rng)
            print(f"| {seeds} against {seeds} | {len(pool)} | {100 * rate:.1f} | {half:.1f} |")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["results"])
