"""How often every interval of the harness holds its truth, in one table: worlds with known truth, nominal 95 %.

``python experiments/statistics/simulation.py intervals``. Each row draws its world anew from its own name, so that rows can come and go.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import simulated_ladders
import simulated_looks
from numpy.typing import NDArray
from scipy import special, stats
from simulated_skew import KINDS

from analysis import judge as judge_table
from harness.statistics.attribution import Crossing, Judging, main_effects
from harness.statistics.intervals import (
    Estimate,
    Independent,
    Paired,
    clopper_pearson,
    judge,
    judge_one,
    mean_interval,
    paired_difference,
    problems_interval,
    replicates,
    welch_difference,
)
from harness.statistics.pairs import paired_shares

Floats = NDArray[np.float64]
Generator = np.random.Generator
SPREAD = 0.54  # a + b of the Beta distribution of difficulties, as measured on sets like AIME


@dataclass(frozen=True)
class Model:
    """score = mean over problems of Binomial(n, p) / n, logit p = problem + seed + seed x problem + effect.

    Problem difficulty is Beta with a + b = `SPREAD`; effects are in logits. The seed effect has a part shared by both arms of a pair
    (``shared_variance``), which is what pairing by seed removes.
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
    """Measured rates of one design."""

    false_positive: float
    coverage: float


def difficulties(accuracy: float, shape: int | tuple[int, int], rng: Generator) -> Floats:
    """Shares of right answers of problems whose mean is `accuracy`."""
    return rng.beta(SPREAD * accuracy, SPREAD * (1 - accuracy), shape)


def simulate(model: Model, seeds: int, simulations: int, rng: Generator) -> tuple[Floats, Floats]:
    """Per-seed scores of two arms [simulations, 2, seeds] and the true difference of each simulation."""
    difficulty = difficulties(model.accuracy, (simulations, model.problems), rng)
    logit_NP = special.logit(np.clip(difficulty, 1e-4, 1 - 1e-4))
    shared_NS = rng.normal(size=(simulations, 1, seeds)) * np.sqrt(model.shared_variance)
    own_NAS = rng.normal(size=(simulations, 2, seeds)) * np.sqrt(1 - model.shared_variance)
    seed_NAS = model.seed_sd * (shared_NS + own_NAS)
    scores = np.empty((simulations, 2, seeds))
    for arm, index in itertools.product(range(2), range(seeds)):
        cell = rng.normal(0, model.cell_sd, logit_NP.shape)
        p = special.expit(logit_NP + model.effect * arm + seed_NAS[:, arm, index, None] + cell)
        scores[:, arm, index] = rng.binomial(model.samples, p).mean(axis=1) / model.samples
    return scores, _true_difference(model, logit_NP)


def over_normal(function: Callable[[float], Floats | float], spread: float) -> Floats:
    """The mean of a function of a normal variable, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    parts = [weight * function(spread * node) for node, weight in zip(nodes, weights / weights.sum(), strict=True)]
    return np.asarray(sum(parts))


def _true_difference(model: Model, logit_NP: Floats) -> Floats:
    """Expected difference on these problems over new seeds."""
    if model.effect == 0.0:
        return np.zeros(len(logit_NP))

    def gain(move: float) -> Floats:
        return (special.expit(logit_NP + model.effect + move) - special.expit(logit_NP + move)).mean(axis=1)

    return over_normal(gain, float(np.hypot(model.seed_sd, model.cell_sd)))


def rates(seeds: int, *, paired: bool, simulations: int, seed: int = 0, model: Model | None = None) -> Rates:
    """False-positive rate at no effect, and coverage at an effect of 0.3 logits."""
    model = model or Model(shared_variance=0.5 if paired else 0.0)
    rng = np.random.default_rng([seed, seeds, int(paired)])
    test = paired_difference if paired else welch_difference
    null, _ = simulate(model, seeds, simulations, rng)
    resolved = [test(b, a).resolved for a, b in null]
    scores, truth = simulate(Model(**{**vars(model), "effect": 0.3}), seeds, simulations, rng)
    coverage = [holds(test(b, a), t) for (a, b), t in zip(scores, truth, strict=True)]
    return Rates(float(np.mean(resolved)), float(np.mean(coverage)))


def holds(estimate: Estimate, truth: float = 0.0) -> bool:
    return bool(estimate.low <= truth <= estimate.high)


# ---- rows: the share of intervals that hold the truth ----

Share = Callable[[Generator, int], float]


def each(one: Callable[[Generator], bool], part: int = 1) -> Share:
    """Draw one at a time, a ``part`` of the simulations."""
    return lambda rng, count: float(np.mean([one(rng) for _ in range(max(1, count // part))]))


def _designed(seeds: int, *, paired: bool) -> Share:
    return lambda rng, count: rates(seeds, paired=paired, simulations=count, seed=int(rng.integers(2**31))).coverage


def _high_share(rng: Generator) -> bool:
    """Accuracies near 100 %: the logit has mean 4 and spread 1."""
    truth = float(over_normal(lambda move: special.expit(4 + move), 1.0))
    return holds(mean_interval(special.expit(4 + rng.normal(size=8)), within=(0.0, 1.0)), truth)


def _shared_bases(rng: Generator, bases: int | None) -> bool:
    """16 seeds of 8 base policies, whose part of the variance is half."""
    differences = np.tile(rng.normal(size=8), 2) + rng.normal(size=16)
    return holds(judge_one(Paired(replicates(dict(enumerate(differences)), bases))))


def _evaluations(rng: Generator, *, averaged: bool) -> bool:
    """Two arms, five runs each, every run evaluated four times; half of the variance is the evaluations'."""
    runs_AS = rng.normal(size=(2, 5))
    scores = runs_AS[:, :, None] + rng.normal(size=(2, 5, 4))
    if averaged:
        places = itertools.product("ab", range(5), range(4))
        rows = [(*place, score) for place, score in zip(places, scores.ravel(), strict=True)]
        frame = pd.DataFrame(rows, columns=["arm", "seed", "evaluation_seed", "score"])
        return holds(judge_table(frame, unit="raw", pair="none").primary[0].estimate)
    return holds(welch_difference(scores[1], scores[0]))


def _column(name: str, seeds: int) -> Share:
    ladder = simulated_ladders.LADDERS[name]
    return lambda rng, count: 1 - simulated_ladders.false_words(ladder, seeds, count, int(rng.integers(2**31)))[0]


def _all_pairs(rng: Generator) -> bool:
    arms_AS = rng.normal(size=(6, 5))
    pairs = itertools.combinations(range(6), 2)
    return all(map(holds, judge({f"{i} {j}": Paired(arms_AS[i] - arms_AS[j]) for i, j in pairs}).values()))


def _factorial(rng: Generator) -> bool:
    crossing = Crossing.of_patches(["a", "b", "c"])
    scores = {frozenset(cell) - {"none"}: dict(enumerate(rng.normal(size=5))) for cell in crossing.cells}
    return all(map(holds, main_effects(crossing, scores, Judging()).effects))


def _looks(looks: tuple[int, ...], *, paired: bool) -> Share:
    def share(rng: Generator, count: int) -> float:
        course = simulated_looks.simulate_ladders(looks, 0.0, count, paired=paired, seed=int(rng.integers(2**31)))
        return 1 - simulated_looks.any_of(course, simulated_looks.LOWER, simulated_looks.HIGHER)

    return share


def _problems(accuracy: float, problems: int, samples: int) -> Share:
    def one(rng: Generator) -> bool:
        right = rng.binomial(samples, difficulties(accuracy, problems, rng))
        interval = problems_interval(right / samples)
        return interval is not None and interval[0] <= accuracy <= interval[1]

    return each(one)


def _checkpoints(rng: Generator) -> bool:
    """100 problems, 8 samples: the other side solves p^0.7 where the first solves p."""
    a, b = SPREAD * 0.3, SPREAD * 0.7
    p = rng.beta(a, b, 100)
    truth = float(np.exp(special.betaln(a + 0.7, b) - special.betaln(a, b))) - 0.3
    other, first = (rng.binomial(8, share) / 8 for share in (p**0.7, p))
    return holds(paired_difference(other, first), truth)


def _greedy(wins: float, losses: float, pairs: int, test: Callable[..., Estimate] = paired_shares) -> Share:
    def one(rng: Generator) -> bool:
        place = rng.random(pairs)
        return holds(test(place < wins, (place >= wins) & (place < wins + losses)), wins - losses)

    return each(one)


def _collapses(probability: float, seeds: int = 8) -> Share:
    """Exact: no simulation."""
    inside = [low <= probability <= high for low, high in (clopper_pearson(k, seeds) for k in range(seeds + 1))]
    return lambda rng, count: float(stats.binom.pmf(range(seeds + 1), seeds, probability) @ inside)


def _skewed(kind: str) -> Share:
    return each(lambda rng: holds(paired_difference(KINDS[kind](rng, (1, 8))[0], 0.0)))


NORMAL = "normal scores"
MODEL = "128 problems × 32 samples"
ROWS: Mapping[str, Mapping[str, Share]] = {
    "mean over seeds, t": {
        f"3 seeds, {NORMAL}": each(lambda rng: holds(mean_interval(rng.normal(size=3)))),
        f"8 seeds, {NORMAL}": each(lambda rng: holds(mean_interval(rng.normal(size=8)))),
        "8 seeds, accuracies near 97 %, cut at 100 %": each(_high_share),
    },
    "difference, paired t": {
        **{f"{seeds} seeds, {MODEL}": _designed(seeds, paired=True) for seeds in (3, 5, 8)},
        "8 seeds, exponential": _skewed("exponential"),
        "8 seeds, one in ten collapses": _skewed("one in ten collapses"),
        "16 seeds of 8 base policies": each(lambda rng: _shared_bases(rng, 8)),
        "the same, seeds taken for replicates (not done)": each(lambda rng: _shared_bases(rng, None)),
    },
    "difference, Welch's t": {
        **{f"{seeds} seeds, {MODEL}": _designed(seeds, paired=False) for seeds in (3, 5, 8)},
        "3 seeds of spread 1 against 8 of spread 4": each(
            lambda rng: holds(judge_one(Independent(rng.normal(size=3), 4 * rng.normal(size=8))))
        ),
        "`judge`: 5 runs, each evaluated 4 times": each(lambda rng: _evaluations(rng, averaged=True), 20),
        "the same, evaluations taken for runs (not done)": each(lambda rng: _evaluations(rng, averaged=False)),
    },
    "column, all together": {
        **{f"5 differences, 5 seeds, {name}": _column(name, 5) for name in list(simulated_ladders.LADDERS)[:4]},
        "all 15 pairs of 6 arms, 5 seeds": each(_all_pairs, 5),
        "main effects of three patches, 5 seeds": each(_factorial, 5),
    },
    "all looks of a column": {
        f"5 differences, looks at {simulated_looks.looks_text(looks)}, {'paired' if paired else 'Welch'}": _looks(
            looks, paired=paired
        )
        for looks in simulated_looks.LOOKS[::3]
        for paired in (True, False)
    },
    "one evaluation, over problems": {
        f"{problems} problems × {samples}, accuracy {accuracy:.1%}": _problems(accuracy, problems, samples)
        for problems, samples in ((30, 32), (100, 1), (500, 4))
        for accuracy in (0.001, 0.01, 0.1, 0.5)
    },
    "two checkpoints": {
        "t over 100 problems × 8": each(_checkpoints),
        "Tango, 100 pairs, 3 % wins, no losses": _greedy(0.03, 0.0, 100),
        "Tango, 100 pairs, 10 % wins, 8 % losses": _greedy(0.10, 0.08, 100),
        "Tango, 500 pairs, 2 % wins, 1 % losses": _greedy(0.02, 0.01, 500),
        "t over 100 pairs, 3 % wins, no losses (not done)": _greedy(0.03, 0.0, 100, paired_difference),
    },
    "share of collapsed seeds, exact": {f"8 seeds, {share:.0%} collapse": _collapses(share) for share in (0.1, 0.3)},
}


def table(simulations: int, seed: int) -> Iterator[str]:
    """The table, line by line as it is computed."""
    yield "| interval | world | holds the truth, % |\n|---|---|---|\n"
    for interval, worlds in ROWS.items():
        for world, share in worlds.items():
            rng = np.random.default_rng([seed, *f"{interval}: {world}".encode()])
            yield f"| {interval} | {world} | {100 * share(rng, simulations):.1f} |\n"
