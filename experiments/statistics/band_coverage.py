"""How often the band of a Pass@k difference covers the whole true curve, by simulation; a table of Markdown.

python experiments/statistics/band_coverage.py [REPETITIONS]     # 2000 take about ten minutes on one core

Problems are of mixed difficulty: their log-odds come from three normal distributions. Every training seed moves the log-odds of all
problems together and of each problem alone; samples are binomial. Truths are integrals over the normal distributions, not simulated.
Arms differ in nothing (`same`), or as after RL: better at problems that are solved now and then, worse at the hard ones (`crossing`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from simulated_ladders import welch_band

from harness.evaluation.metrics.names import pass_at_every_k
from harness.statistics.bands import simultaneous_band
from harness.statistics.intervals import t_band

Floats = NDArray[np.float64]
CENTRES = np.array([-4.0, 0.0, 3.0])  # log-odds of hard, middling and easy problems
SPREAD = 1.0  # standard deviation within a kind
TOGETHER, ALONE = 0.15, 0.5  # of a seed's move of all problems, and of one
MOVES = {"same": np.zeros(3), "crossing": np.array([-0.7, 0.7, 0.3])}
NODES = np.linspace(-8, 8, 2001)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


@dataclass(frozen=True)
class Case:
    """`seeds` None: the problems are the replicates, as of two single runs."""

    kind: str
    seeds: int | None
    paired: bool
    problems: int
    samples: int


CASES = [
    *(Case(kind, seeds, True, 64, 64) for kind in MOVES for seeds in (2, 3, 5, 8, 16)),
    *(Case(kind, None, True, problems, 64) for kind in MOVES for problems in (30, 100, 256, 500)),
    *(Case(kind, seeds, False, 64, 64) for kind in MOVES for seeds in (3, 5, 8, 16)),
]


def expected(centre_P: Floats, spread: float, samples: int) -> Floats:
    """Pass@k of each problem over its moves, [P, K]."""
    wrong_PN = 1 / (1 + np.exp(centre_P[:, None] + spread * NODES))
    return np.stack([1 - wrong_PN**k @ WEIGHTS for k in range(1, samples + 1)], axis=1)


def counts(log_odds: Floats, samples: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return generator.binomial(samples, 1 / (1 + np.exp(-log_odds)))


def arms(case: Case, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Curves of both arms, [replicates, k]."""
    table, move = pass_at_every_k(np.arange(case.samples + 1), case.samples), MOVES[case.kind]
    if case.seeds is not None:
        a_RK, b_RK = (_of_seeds(case, at, table, generator) for at in _fixed(case))
        return a_RK, b_RK
    kinds = generator.integers(3, size=case.problems)
    shared = CENTRES[kinds] + SPREAD * generator.normal(size=case.problems)
    own = [at + ALONE * generator.normal(size=case.problems) for at in (shared, shared + move[kinds])]
    a_RK, b_RK = (table[counts(at, case.samples, generator)] for at in own)
    return a_RK, b_RK


def _fixed(case: Case) -> tuple[Floats, Floats]:
    """Log-odds of the benchmark's problems in both arms."""
    kinds = np.arange(case.problems) % 3
    before = CENTRES[kinds] + SPREAD * np.random.default_rng(0).normal(size=case.problems)
    return before, before + MOVES[case.kind][kinds]


def _of_seeds(case: Case, log_odds_P: Floats, table: Floats, generator: np.random.Generator) -> Floats:
    """Mean Pass@k over problems, one curve a seed."""
    assert case.seeds is not None
    together = TOGETHER * generator.normal(size=(case.seeds, 1))
    alone = ALONE * generator.normal(size=(case.seeds, case.problems))
    return table[counts(log_odds_P + together + alone, case.samples, generator)].mean(axis=1)


def true_curve(case: Case) -> Floats:
    """The difference that the band is about: of other seeds, or of other problems."""
    if case.seeds is None:
        centres, spread = (CENTRES, CENTRES + MOVES[case.kind]), float(np.hypot(SPREAD, ALONE))
    else:
        centres, spread = _fixed(case), float(np.hypot(TOGETHER, ALONE))
    before, after = (expected(centre, spread, case.samples).mean(axis=0) for centre in centres)
    return after - before


def coverage(case: Case, repetitions: int, level: float = 0.95) -> dict[str, float]:
    """Share of bands that hold the whole true curve, the same of t intervals of single k, and the width against Sidak's."""
    generator, truth = np.random.default_rng([case.seeds or 0, case.paired, len(case.kind)]), true_curve(case)
    whole, single, width = 0, 0, []
    for _ in range(repetitions):
        a_RK, b_RK = arms(case, generator)
        band = simultaneous_band(*([b_RK - a_RK] if case.paired else [b_RK, a_RK]), level=level)
        known = np.isfinite(band.low_K)
        separate = [level, level ** (1 / known.sum())]
        halves = [t_band(b_RK - a_RK, x, 0)[1] if case.paired else welch_band(b_RK, a_RK, x, 0)[1] for x in separate]
        off, half = np.abs(band.value_K - truth)[known], (band.high_K - band.value_K)[known]
        whole += bool((off <= half).all())
        single += bool((off <= halves[0][known]).all())
        width.append(float(np.mean(half / halves[1][known])))
    return {"band": whole / repetitions, "single": single / repetitions, "width": float(np.mean(width))}


def main() -> int:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(
        f"{repetitions} repetitions, 95 % bands; a share of 95 % has a standard error of {100 * (0.0475 / repetitions) ** 0.5:.1f} points"
    )
    print(
        "\n| arms | replicates | together hold, % | t intervals of single k, % | width / Šidák's |\n|---|---|---|---|---|"
    )
    for case in CASES:
        over = (
            f"{case.problems} problems"
            if case.seeds is None
            else f"{case.seeds} seeds{'' if case.paired else ', unpaired'}"
        )
        row = coverage(case, repetitions)
        print(
            f"| {case.kind} | {over} | {100 * row['band']:.1f} | {100 * row['single']:.1f} | {row['width']:.2f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
