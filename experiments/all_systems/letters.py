"""Arms by the experiment's metric; those that cannot be told apart share a letter.

``python experiments/all_systems/letters.py ROOT EXPERIMENT``.
Arms and seeds are a randomised block design, the residual variance is pooled over arms, and all pairs are compared by Tukey's HSD
(`tukey.py`). ``--leave-out A,B`` leaves out arms that break the one spread; ``--out FOLDER`` writes letters.md,
letters.csv and letters.tex.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from tukey import (
    BlockFit,
    compact_letters,
    fit_blocks,
    honest_difference,
    odd_spreads,
)

from analysis.results import Results
from analysis.tables.table import Cell, Column, Table
from analysis.tables.words import metric_header
from harness.evaluation.metrics.names import LOWER
from harness.experiment.plan import PlannedArm
from harness.statistics.intervals import mean_interval, replicate_count
from harness.store import ResultStore

sys.path.append(str(Path(__file__).resolve().parents[1]))

from table_script import print_table, script_parser

_TOKENS = "train_generated_tokens_total"
_RATE = "optimizer.learning_rate"
_TIMES = 3.0


@dataclass(frozen=True)
class Blocks:
    """What the letters are computed from.

    Attributes:
        arms: those that are compared.
        seeds: those that every arm has.
        values_AB: metric by arm and block: a seed, or a base policy with the mean of its seeds.
        unused_seeds: planned ones that some arm lacks.
        planned_blocks: of all planned seeds.
        excluded_arms: arms that are not compared.
    """

    arms: tuple[PlannedArm, ...]
    seeds: tuple[int, ...]
    values_AB: NDArray[np.float64]
    unused_seeds: tuple[int, ...]
    planned_blocks: int
    excluded_arms: tuple[PlannedArm, ...]


def blocks_of(results: Results, excluded_names: Sequence[str] = ()) -> Blocks:
    """The complete blocks of the compared arms.

    Raises:
        PlanError: an arm to leave out that there is not.
        ValueError: seeds that are no blocks, an arm that never reached its target, or fewer than two arms or blocks.
    """
    plan = results.experiment.plan
    if not plan.paired:
        raise ValueError(f"{plan.name}: its arms are not paired (experiment.paired=false), so seeds are no blocks")
    omissions = tuple(plan.arm(name) for name in dict.fromkeys(excluded_names))
    arms = tuple(arm for arm in plan.arms if arm not in omissions)
    values = {arm.name: results.values(arm) for arm in arms}
    seeds = tuple(seed for seed in plan.seeds if all(seed in own for own in values.values()))
    rows = [plan.replicates({seed: values[arm.name][seed] for seed in seeds}) for arm in arms]
    if len(rows) < 2 or len(rows[0]) < 2:
        seed_counts = [f"{arm.name} {len(values[arm.name])}" for arm in arms]
        raise ValueError(
            f"{plan.name}: {len(arms)} arms and {len(seeds)} seeds that all of them have, two of each are needed; finished seeds: "
            f"{', '.join(seed_counts)}. Run the missing ones, or leave arms out (--leave-out)"
        )
    gaps = tuple(seed for seed in plan.seeds if seed not in seeds)
    return Blocks(arms, seeds, np.array(rows), gaps, replicate_count(plan.seeds, plan.base_policies), omissions)


def letters_table(results: Results, blocks: Blocks, rates: Mapping[str, float]) -> Table:
    """One row an arm, best first, with its letters.

    Args:
        results: of the experiment.
        blocks: its complete blocks.
        rates: learning rate by the arm's name; shown where arms differ in it.

    Raises:
        ValueError: no residual spread.
    """
    plan, metric = results.experiment.plan, results.metric
    fit = fit_blocks(blocks.values_AB)
    least_difference = honest_difference(fit)
    order = np.argsort(fit.means_A if metric.better == LOWER else -fit.means_A, kind="stable")
    means = fit.means_A[order]
    letters = compact_letters(np.abs(means[:, None] - means[None, :]) > least_difference)
    tokens = _tokens(results, blocks)
    rows: list[Mapping[str, Cell]] = []
    for place, index in enumerate(order):
        arm = blocks.arms[index]
        rows.append(
            {
                "arm": arm.label,
                "score": replace(mean_interval(blocks.values_AB[index], within=metric.within), seeds=len(blocks.seeds)),
                "letters": letters[place],
                "rate": _scientific(rates.get(arm.name)),
                "tokens": tokens.get(arm.name),
                "sd": float(fit.own_sd_A[index]),
            }
        )
    columns = [
        Column("arm", "arm"),
        Column("score", f"{metric_header(results)} (95 % interval)", metric.digits, metric.scale),
        Column("letters", "letters"),
    ]
    if len(set(rates.values())) > 1:
        columns.append(Column("rate", "learning rate"))
    if tokens:
        columns.append(Column("tokens", "generated tokens, k", 0, 1e-3))
    columns.append(Column("sd", f"residual sd, {metric.unit}", metric.digits, metric.scale))
    return Table(
        f"{plan.name}-letters",
        f"{plan.title}: what can be told apart",
        tuple(columns),
        tuple(rows),
        _notes(results, blocks, fit, least_difference),
    )


def learning_rates(store: ResultStore, blocks: Blocks) -> dict[str, float]:
    """Learning rate of each arm's first run; arms whose configuration has none are left out."""
    rates = {}
    for arm in blocks.arms:
        config = yaml.safe_load(store.run(arm.runs[blocks.seeds[0]]).config())
        section, key = _RATE.split(".")
        rate = (config.get(section) or {}).get(key)
        if rate is not None:
            rates[arm.name] = float(rate)
    return rates


def _tokens(results: Results, blocks: Blocks) -> dict[str, float]:
    """Mean generated tokens up to the checkpoint over the compared seeds, where runs have logged them."""
    tokens = {}
    for arm in blocks.arms:
        own = results.scores(arm, _TOKENS)
        if all(seed in own for seed in blocks.seeds):
            tokens[arm.name] = float(np.mean([own[seed] for seed in blocks.seeds]))
    return tokens


def _notes(results: Results, blocks: Blocks, fit: BlockFit, least_difference: float) -> tuple[str, ...]:
    plan, metric = results.experiment.plan, results.metric

    def to_text(value: float) -> str:
        return f"{metric.scale * value:.{metric.digits + 1}f} {metric.unit}"

    block_name = "base policies" if plan.shares_bases else "seeds"
    notes = [
        "Two arms share a letter if and only if their difference is not resolved; that is no sign that they are the same.",
        f"Tukey's HSD at 95 %, all {len(blocks.arms) * (len(blocks.arms) - 1) // 2} pairs together: means that differ by more than "
        f"{to_text(least_difference)} are told apart. Residual standard deviation, pooled over {len(blocks.arms)} arms: {to_text(fit.sd)}, "
        f"{fit.degrees} degrees of freedom.",
        f"Blocks: {fit.blocks} of {blocks.planned_blocks} planned {block_name}; {blocks.planned_blocks - fit.blocks} left out"
        + (_describe_unused(blocks.unused_seeds) if blocks.unused_seeds else "."),
        "Intervals: 95 %, Student's t over an arm's own blocks, each stands alone. They hold what blocks share, which the letters do not; "
        "read differences off the letters.",
    ]
    for index, others in odd_spreads(blocks.values_AB, _TIMES).items():
        arm = blocks.arms[index]
        notes.append(
            f"{arm.label}: its residual standard deviation of {to_text(float(fit.own_sd_A[index]))} is more than {_TIMES:g} times the "
            f"{to_text(others)} of the others. One spread does not hold for it, and it widens every comparison; --leave-out {arm.name} "
            "leaves it out."
        )
    for arm in blocks.excluded_arms:
        mean = results.mean(arm)
        value = mean.absent or ("no finished seed" if not mean.seeds else to_text(mean.value))
        notes.append(f"Left out on request: {arm.label} ({value}, {mean.seeds} seeds).")
    return tuple(notes)


def _describe_unused(seeds: Sequence[int]) -> str:
    names = ", ".join(map(str, seeds))
    return f". Some arm lacks seed{'s' * (len(seeds) > 1)} {names}."


def _scientific(rate: float | None) -> str | None:
    """``2e-4``."""
    return None if rate is None else np.format_float_scientific(rate, trim="-", exp_digits=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown; 0, or 2 with one line where it cannot be made."""
    parser = script_parser("letters", __doc__)
    parser.add_argument("--leave-out", default="", help="comma-separated names of arms that are not compared")
    options = parser.parse_args(arguments)

    def make(results: Results) -> Table:
        blocks = blocks_of(results, [name for name in options.leave_out.split(",") if name])
        return letters_table(results, blocks, learning_rates(ResultStore(options.root), blocks))

    return print_table(options, make)


if __name__ == "__main__":
    raise SystemExit(main())
