"""Seeds that collapsed, differences with and without them, and a test of differences that assumes no normal distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binomtest, permutation_test

from analysis.evidence.results import Results
from harness.experiment.plan import PlannedArm
from harness.statistics.estimate import Estimate

_FEWEST = 6  # pairs: with five the smallest two-sided p of sign flips is 2 / 32
_EXACT = 2**16  # sign patterns that are all taken; of more, as many at random


@dataclass(frozen=True)
class Robust:
    """An arm beside its reference: seeds that collapsed, and the difference read in other ways.

    Attributes:
        arm: the arm.
        seeds: its finished seeds.
        collapsed: those that collapsed.
        all: the difference over all seeds, alone (corrected for nothing); None without a reference.
        without: over the seeds that collapsed in neither arm; None where none did.
        sign_flip: two-sided p of the mean difference over all patterns of signs; None with fewer than six pairs.
    """

    arm: PlannedArm
    seeds: tuple[int, ...]
    collapsed: tuple[int, ...]
    all: Estimate | None = None
    without: Estimate | None = None
    sign_flip: float | None = None

    @property
    def decided_by_collapse(self) -> bool:
        """True where the word on the difference is another one without the seeds that collapsed."""
        return self.all is not None and self.without is not None and self.all.verdict != self.without.verdict

    @property
    def bounds(self) -> tuple[float, float]:
        """The share of collapsed seeds at 95 %: the exact interval (Clopper-Pearson); of none, 0 and the one-sided bound."""
        count, seeds = len(self.collapsed), len(self.seeds)
        if not count:
            return 0.0, 1.0 - 0.05 ** (1 / seeds)
        ends = binomtest(count, seeds).proportion_ci()
        return float(ends.low), float(ends.high)


def robust_readings(results: Results) -> list[Robust]:
    """Read every arm that has finished runs; differences are of the metric, collapses are what the plan declares."""
    plan = results.experiment.plan
    fallen = results.experiment.collapsed
    gone = [
        (arm, seed) in fallen
        for arm, seed in zip(results.per_seed["arm"], results.per_seed["seed"], strict=True)
    ]
    standing = replace(results, per_seed=results.per_seed[~np.array(gone, dtype=bool)])
    found = []
    for arm in plan.arms:
        values, reference = results.values(arm), plan.reference_of(arm)
        if not values:
            continue
        one = Robust(
            arm, tuple(sorted(values)), tuple(seed for seed in sorted(values) if (arm.name, seed) in fallen)
        )
        others = results.values(reference) if reference else {}
        shared = sorted(values.keys() & others.keys())
        if reference is not None and shared:
            differences = np.array([values[seed] - others[seed] for seed in shared])
            touched = {(name, seed) for name in (arm.name, reference.name) for seed in shared} & fallen
            one = replace(
                one,
                all=results.difference(arm, reference),
                without=standing.difference(arm, reference) if touched else None,
                sign_flip=sign_flip_p(differences) if len(shared) >= _FEWEST else None,
            )
        found.append(one)
    return found


def sign_flip_p(differences: np.ndarray) -> float:
    """The share of all patterns of signs whose mean difference is at least as far from zero (Fisher's randomisation test)."""
    test = permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=_EXACT, vectorized=True, rng=0
    )
    return float(test.pvalue)
