"""Do the intervals and the words do what they say? Simulation with known truth.

``python experiments/statistics/simulation.py intervals`` prints, for 3, 5 and 10 seeds and for paired and independent seeds, how
often a null difference is called resolved (nominal 5 %) and how often the 95 % interval covers the true
difference, in a model of seeds x problems x samples. ``ladders`` prints how often the
words of a column of five comparisons are false, and how often they find what is there; ``looks`` the same of a
sequential design, and how many seeds it takes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import simulated_ladders
import simulated_looks
import simulated_skew
from numpy.typing import NDArray
from scipy import stats

from harness.statistics.intervals import Estimate, paired_difference, welch_difference

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """score = mean over problems of Binomial(n, p) / n, logit p = problem + seed + seed x problem + effect.

    Problem difficulty is Beta with a + b = 0.54, the spread measured on AIME-like sets; effects are in
    logits. The seed effect has a part shared by both arms of a pair (``shared_variance``), which is what pairing by
    seed removes.
    """

    problems: int = 128
    samples: int = 32
    accuracy: float = 0.3
    seed_sd: float = 0.15
    cell_sd: float = 0.5
    shared_variance: float = 0.5
    effect: float = 0.0


@dataclass(frozen=True)
class Rates:
    """Measured rates of one design; ``standard_error`` is the simulation's own, at the nominal 5 %."""

    seeds: int
    paired: bool
    false_positive: float
    coverage: float
    standard_error: float


def simulate(model: Model, seeds: int, simulations: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Per-seed scores of two arms [simulations, 2, seeds] and the true difference of each simulation."""
    difficulty = rng.beta(0.54 * model.accuracy, 0.54 * (1 - model.accuracy), (simulations, model.problems))
    logit_NP = stats.logistic.ppf(np.clip(difficulty, 1e-4, 1 - 1e-4))
    shared_NS = rng.normal(size=(simulations, 1, seeds)) * np.sqrt(model.shared_variance)
    own_NAS = rng.normal(size=(simulations, 2, seeds)) * np.sqrt(1 - model.shared_variance)
    seed_NAS = model.seed_sd * (shared_NS + own_NAS)
    scores = np.empty((simulations, 2, seeds))
    for arm in range(2):
        shift = model.effect * arm
        for index in range(seeds):
            cell = rng.normal(0, model.cell_sd, logit_NP.shape)
            p = stats.logistic.cdf(logit_NP + shift + seed_NAS[:, arm, index, None] + cell)
            scores[:, arm, index] = rng.binomial(model.samples, p).mean(axis=1) / model.samples
    return scores, _true_difference(model, logit_NP)


def _true_difference(model: Model, logit_NP: Floats) -> Floats:
    """Expected difference on these problems over new seeds, by Gauss-Hermite quadrature."""
    if model.effect == 0.0:
        return np.zeros(len(logit_NP))
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    spread = np.hypot(model.seed_sd, model.cell_sd)
    total = np.zeros(len(logit_NP))
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        effect_NP = stats.logistic.cdf(logit_NP + model.effect + spread * node)
        total += weight * (effect_NP - stats.logistic.cdf(logit_NP + spread * node)).mean(axis=1)
    return total


def rates(seeds: int, *, paired: bool, simulations: int, seed: int = 0, model: Model | None = None) -> Rates:
    """False-positive rate at no effect, and coverage at an effect of 0.3 logits."""
    model = model or Model(shared_variance=0.5 if paired else 0.0)
    rng = np.random.default_rng([seed, seeds, int(paired)])
    test = paired_difference if paired else welch_difference
    null, _ = simulate(model, seeds, simulations, rng)
    resolved = [test(b, a).resolved for a, b in null]
    effect_model = Model(**{**vars(model), "effect": 0.3})
    scores, truth = simulate(effect_model, seeds, simulations, rng)
    coverage = [_covers(test(b, a), t) for (a, b), t in zip(scores, truth, strict=True)]
    return Rates(
        seeds,
        paired,
        float(np.mean(resolved)),
        float(np.mean(coverage)),
        float(np.sqrt(0.05 * 0.95 / simulations)),
    )


def _covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def main(arguments: list[str] | None = None) -> int:
    """Write the table of measured rates to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", "intervals", "ladders", "looks", "skew"), default="all")
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for name, module in (
        ("ladders", simulated_ladders),
        ("looks", simulated_looks),
        ("skew", simulated_skew),
    ):
        if options.what in ("all", name):
            sys.stdout.write(module.report(options.simulations, options.seed) + "\n")
    if options.what not in ("all", "intervals"):
        return 0
    sys.stdout.write("| seeds | design | null called resolved | 95 % interval covers |\n|---|---|---|---|\n")
    for seeds in (3, 5, 10):
        for paired in (True, False):
            r = rates(seeds, paired=paired, simulations=options.simulations, seed=options.seed)
            design = "paired t" if paired else "Welch t"
            sys.stdout.write(f"| {seeds} | {design} | {r.false_positive:.2%} | {r.coverage:.2%} |\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
