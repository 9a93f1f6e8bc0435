"""One sample after RL against several before it, at equal generated tokens.

``python experiments/inference_budget/budget.py ROOT EXPERIMENT [--out FOLDER]``. The experiment has two arms, before and after; what is
compared was declared in README.md here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import load, seed_frame
from analysis.results import Results
from analysis.tables.table import Cell, Column, Table
from harness.statistics.intervals import Paired, judge

sys.path.append(str(Path(__file__).resolve().parents[1]))

from table_script import print_table, script_parser

RESPONSES = (1, 2, 4, 8, 16, 32)  # budgets at inference, in responses after RL
QUESTIONS = (500, 1_000, 2_000, 10_000, 100_000)  # that share the tokens of training
MARGIN = 3.0
_TRAINING = "train_generated_tokens_total"


@dataclass(frozen=True)
class Side:
    """A policy: points of accuracy by seed and number of samples, seeds in the same order on both sides.

    Attributes:
        majority_SK, best_SK: Maj@k and Pass@k, column k - 1.
        tokens: mean generated tokens a response, over problems and seeds.
    """

    majority_SK: NDArray[np.float64]
    best_SK: NDArray[np.float64]
    tokens: float

    def samples(self, budget: float) -> int:
        """The number of responses that a budget of tokens pays, one at least and as many as were sampled at most."""
        return min(self.best_SK.shape[1], max(1, math.floor(budget / self.tokens)))


@dataclass(frozen=True)
class Sides:
    """Before and after RL, and the tokens generated in training (mean over seeds)."""

    before: Side
    after: Side
    training: float

    def budgets(self) -> dict[str, float]:
        """Tokens a question of every declared budget, by its name."""
        tokens = self.after.tokens
        budgets = {f"{count} x a response after RL": count * tokens for count in RESPONSES}
        return budgets | {f"training over {count:,} questions": tokens + self.training / count for count in QUESTIONS}

    @property
    def enough(self) -> int:
        """The smallest k whose best of k before RL is not below one sample after it, on average; 0 where none is."""
        is_enough = self.before.best_SK.mean(axis=0) >= self.after.best_SK[:, 0].mean()
        return int(is_enough.argmax()) + 1 if is_enough.any() else 0

    @property
    def break_even(self) -> float:
        """Questions up to which best of `enough` before RL costs no more than training and one response each; infinite: always."""
        extra_tokens = self.enough * self.before.tokens - self.after.tokens
        if not self.enough:
            return 0.0
        return self.training / extra_tokens if extra_tokens > 0 else math.inf


def read_sides(root: Path, first: Results) -> Sides:
    """Both arms of an experiment at their last evaluation, over the seeds that both have finished.

    Raises:
        ValueError: not two arms, or fewer than two seeds in common.
    """
    experiment = first.experiment.plan.name
    samples = int(_last(first)["samples"].min())
    names = [f"{kind}@{k}" for kind in ("maj", "pass") for k in range(1, samples + 1)]
    results = load(root, experiment, names)
    arms = [arm.name for arm in results.experiment.plan.arms]
    if len(arms) != 2:
        raise ValueError(f"{experiment} has {len(arms)} arms; before and after RL are two")
    frame = seed_frame(results, names)
    by_arm = {arm: frame[frame["arm"] == arm].set_index("seed") for arm in arms}
    seeds = sorted(set.intersection(*(set(own.index) for own in by_arm.values())))
    if len(seeds) < 2:
        raise ValueError(f"{experiment}: its arms have {len(seeds)} finished seeds in common; an interval takes two")
    length = _last(results)["tokens_all_mean"]
    training = results.scores(results.experiment.plan.arms[1], _TRAINING)

    def side(arm: str) -> Side:
        own = by_arm[arm].loc[seeds]
        majority, best = (own[[name for name in names if name.startswith(kind)]] for kind in ("maj", "pass"))
        return Side(majority.to_numpy(float), best.to_numpy(float), float(length[arm].loc[seeds].mean()))

    return Sides(side(arms[0]), side(arms[1]), float(np.mean([training[seed] for seed in seeds])))


def _last(results: Results) -> pd.DataFrame:
    """The evaluation of every arm and seed after its last step, at the experiment's cap."""
    cells = results.experiment.cells
    cells = cells[cells["cap"] == results.experiment.plan.primary_cap]
    return cells.sort_values("step").groupby(["arm", "seed"]).last()


def budget_table(sides: Sides) -> Table:
    """One row a budget: the samples that it pays before and after, and what they bring over one sample after RL, in points."""
    before, after, budgets = sides.before, sides.after, sides.budgets()
    one_S = after.best_SK[:, 0]
    counts = {name: (before.samples(budget), after.samples(budget)) for name, budget in budgets.items()}

    def column(side: int, field: str) -> Mapping[str, Cell]:
        scores_SK = getattr((before, after)[side], field)
        differences = {name: Paired([*(scores_SK[:, count[side] - 1] - one_S)]) for name, count in counts.items()}
        return {**judge(differences, margin=MARGIN)}

    estimates = {(side, field): column(side, field) for side in (0, 1) for field in ("majority_SK", "best_SK")}
    rows: list[Mapping[str, Cell]] = [
        {
            "budget": name,
            "tokens": budget,
            "k": counts[name][0],
            "majority": estimates[0, "majority_SK"][name],
            "best": estimates[0, "best_SK"][name],
            "j": counts[name][1],
            "own_majority": estimates[1, "majority_SK"][name],
            "own_best": estimates[1, "best_SK"][name],
        }
        for name, budget in budgets.items()
    ]
    columns = (
        Column("budget", "budget a question"),
        Column("tokens", "tokens", 0),
        Column("k", "samples before RL", 0),
        Column("majority", "majority before RL", 1),
        Column("best", "best of them", 1),
        Column("j", "samples after RL", 0),
        Column("own_majority", "majority after RL", 1),
        Column("own_best", "best of them", 1),
    )
    return Table("budget", "One sample after RL, or several before", columns, rows, tuple(_notes(sides)))


def _notes(sides: Sides) -> list[str]:
    before, after = sides.before, sides.after
    seeds = len(before.best_SK)
    enough = "no number of samples tried is enough"
    if sides.enough:
        limit = "for any number" if math.isinf(sides.break_even) else f"up to {sides.break_even:,.0f}"
        enough = (
            f"{sides.enough} samples are the fewest whose best is not below it on average, {sides.enough * before.tokens:.0f} tokens a "
            f"question: with training counted they cost no more {limit} questions"
        )
    return [
        f"Points over one sample after RL ({after.best_SK[:, 0].mean():.1f} %), paired over {seeds} seeds; Student's t, the intervals of a "
        "column hold together at 95 %. Best of k needs a verifier without errors at inference.",
        f"A response has {before.tokens:.1f} tokens before RL and {after.tokens:.1f} after it; training generated {sides.training:,.0f}.",
        f"Best of k before RL: {enough}. The largest majority before RL is {before.majority_SK.mean(axis=0).max():.1f} %.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown; 0, or 2 with one line where it cannot be made."""
    options = script_parser("budget", __doc__).parse_args(arguments)
    return print_table(options, lambda results: budget_table(read_sides(options.root, results)))


if __name__ == "__main__":
    raise SystemExit(main())
