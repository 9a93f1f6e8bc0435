"""Compare the order of systems at two sizes of the policy: rank correlation, what noise leaves of it, and pairs that turn round.

``python experiments/two_sizes/ranks.py ROOT EXPERIMENT [--out FOLDER]``. Arms are named SIZE_SYSTEM, two sizes, one of the systems
is grpo. The statistics are declared in README.md here.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from analysis import seed_frame
from analysis.results import Results
from analysis.tables.table import Column, Table
from harness.statistics.intervals import Estimate, Paired, judge

sys.path.append(str(Path(__file__).resolve().parents[1]))

from table_script import print_table, script_parser

REFERENCE = "grpo"
RESAMPLES = 10_000
SAME, INVERTED, ONE, NEITHER = "same order at both", "inverted", "told apart at one size only", "at neither"


@dataclass(frozen=True)
class Orders:
    """Differences to the reference in points, by system and seed, at two sizes; systems and seeds in one order."""

    sizes: tuple[str, str]
    systems: tuple[str, ...]
    effects_ZAS: NDArray[np.float64]

    def tau(self, first: NDArray[np.intp] | None = None, second: NDArray[np.intp] | None = None) -> float:
        """Kendall's tau-b of the mean effects at both sizes, over all seeds or these ones of each."""
        places = (slice(None) if seeds is None else seeds for seeds in (first, second))
        one, other = (self.effects_ZAS[z][:, own].mean(axis=1) for z, own in enumerate(places))
        return float(kendalltau(one, other).statistic)

    def interval(self, resamples: int = RESAMPLES) -> tuple[float, float]:
        """The 95 % percentile interval of `tau` over seeds, drawn with replacement, the same ones for both sizes."""
        rng, seeds = np.random.default_rng(0), self.effects_ZAS.shape[2]
        taus = [self.tau(own, own) for own in rng.integers(0, seeds, (resamples, seeds))]
        low, high = np.nanpercentile(taus, [2.5, 97.5])
        return float(low), float(high)

    def halves(self, first: int, second: int) -> float:
        """The mean of tau over all splits of the seeds: half of them at one size (by its place) against the others at a size."""
        seeds = range(self.effects_ZAS.shape[2])
        pair = Orders(self.sizes, self.systems, self.effects_ZAS[[first, second]])
        splits = combinations(seeds, len(seeds) // 2)
        return float(np.mean([pair.tau(np.array(own), np.setdiff1d(seeds, own)) for own in splits]))

    def pairs(self) -> dict[tuple[str, str], tuple[Estimate, Estimate]]:
        """Both sizes' differences between every two systems; the intervals of all of them, at both sizes, hold together at 95 %."""
        pairs = [*combinations(range(len(self.systems)), 2)]
        columns = [
            judge({f"{i} {j}": Paired([*(effects_AS[i] - effects_AS[j])]) for i, j in pairs}, columns=2)
            for effects_AS in self.effects_ZAS
        ]
        return {(self.systems[i], self.systems[j]): (columns[0][f"{i} {j}"], columns[1][f"{i} {j}"]) for i, j in pairs}


def order_of(pair: tuple[Estimate, Estimate]) -> str:
    """One of `SAME`, `INVERTED`, `ONE` and `NEITHER`."""
    signs = [0 if one.low <= 0 <= one.high else 1 if one.low > 0 else -1 for one in pair]
    if 0 in signs:
        return ONE if any(signs) else NEITHER
    return SAME if signs[0] == signs[1] else INVERTED


def read_orders(results: Results) -> Orders:
    """The effects of an experiment over the seeds that all arms have finished.

    Raises:
        ValueError: arms that are not systems at two sizes, or fewer than four common seeds.
    """
    plan = results.experiment.plan
    names = [arm.name.partition("_")[::2] for arm in plan.arms]
    sizes = [*dict.fromkeys(size for size, _ in names)]
    systems = [*dict.fromkeys(system for _, system in names if system != REFERENCE)]
    if len(sizes) != 2 or {*names} != {(size, system) for size in sizes for system in (REFERENCE, *systems)}:
        raise ValueError(f"{plan.name}: arms are SIZE_SYSTEM, every system and {REFERENCE} at two sizes")
    metric = plan.metrics[0].name
    scores = seed_frame(results).pivot(index="seed", columns="arm", values=metric)
    scores = scores.reindex(columns=[f"{size}_{system}" for size, system in names]).dropna()
    if len(scores) < 4:
        raise ValueError(f"{plan.name}: {len(scores)} seeds are finished in all arms, halves of seeds take four")
    effects = [[scores[f"{size}_{system}"] - scores[f"{size}_{REFERENCE}"] for system in systems] for size in sizes]
    return Orders((sizes[0], sizes[1]), tuple(systems), np.array(effects, dtype=float))


def rank_table(orders: Orders) -> Table:
    """One row a system, the first size's order; the statistics are its notes."""
    estimates = [
        judge(
            {system: Paired([*row]) for system, row in zip(orders.systems, effects_AS, strict=True)},
            columns=2,
        )
        for effects_AS in orders.effects_ZAS
    ]
    rows = [
        {"system": system, "first": estimates[0][system], "second": estimates[1][system]}
        for system in sorted(orders.systems, key=lambda system: -estimates[0][system].value)
    ]
    columns = (
        Column("system", f"system against {REFERENCE}"),
        Column("first", f"{orders.sizes[0]}, points", 1, signed=True),
        Column("second", f"{orders.sizes[1]}, points", 1, signed=True),
    )
    return Table("ranks", "Systems at two sizes of the policy", columns, rows, tuple(_notes(orders)))


def _notes(orders: Orders) -> list[str]:
    low, high = orders.interval()
    pairs = orders.pairs()
    counts = Counter(map(order_of, pairs.values()))
    flips = [" and ".join(pair) for pair, both in pairs.items() if order_of(both) == INVERTED]
    count, seeds = orders.effects_ZAS.shape[1:]
    tau_between = (orders.halves(0, 1) + orders.halves(1, 0)) / 2
    return [
        f"Kendall's tau-b of the {count} effects: {orders.tau():.2f}, 95 % [{low:.2f}, {high:.2f}] (bootstrap over {seeds} seeds, the same "
        "at both sizes).",
        f"Half of the seeds against the other half, mean over all splits: {orders.sizes[0]} {orders.halves(0, 0):.2f}, {orders.sizes[1]} "
        f"{orders.halves(1, 1):.2f}, between the sizes {tau_between:.2f}. An order that travels as well as it "
        "repeats has as much between them as within.",
        f"Of {len(pairs)} pairs: {', '.join(f'{counts[word]} {word}' for word in (SAME, INVERTED, ONE, NEITHER))}; the intervals of all "
        f"{2 * len(pairs)} differences hold together at 95 %. " + (f"Inverted: {', '.join(flips)}." if flips else ""),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown; 0, or 2 with one line where it cannot be made."""
    options = script_parser("ranks", __doc__).parse_args(arguments)
    return print_table(options, lambda results: rank_table(read_orders(results)))


if __name__ == "__main__":
    raise SystemExit(main())
