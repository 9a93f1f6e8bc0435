"""What runs of each arm took, what of it compared arms have equal, and a comparison at the tokens of its smaller arm."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.engagement import Untested
from analysis.frames import SPENT, Frames
from analysis.results import Results
from analysis.samples import Floats, is_evaluated, total_at
from analysis.tables.table import Cell, Column, Table, number_text
from analysis.values import contrast_of
from harness.experiment.checks import is_unequal
from harness.experiment.plan import PlannedArm
from harness.statistics.intervals import Estimate, judge_one

Curves = dict[int, tuple[Floats, Floats]]  # by seed: places on an axis, scores
_COUNTED = ("steps", "updates", "tokens")  # seconds are those of the machine and the day


def mean_spent(experiment: Frames) -> pd.DataFrame:
    """Arm → what its finished runs took on average; arms without a logged step have no row."""
    return experiment.spent.groupby("arm", sort=False)[[*SPENT]].mean()


def equal_what(results: Results) -> str:
    """``at equal steps``: what all arms took most alike, to a tenth; ``at unequal budgets``, and empty where no run tells."""
    plan, spent = results.experiment.plan, mean_spent(results.experiment)
    if not plan.comparisons or len(spent) < 2 or not (spent["steps"] > 0).any():
        return ""
    spent = spent.dropna(axis=1)
    most, least = spent.max(), spent.min()
    equal = [key for key in (plan.match, "steps", "tokens") if key in most and not is_unequal(most[key], least[key])]
    return f"at equal {min(equal, key=lambda key: most[key] / least[key])}" if equal else "at unequal budgets"


@dataclass(frozen=True)
class Unequal:
    """What an arm took more or less than a tenth of its reference: quantity → its own and the reference's mean."""

    arm: PlannedArm
    reference: PlannedArm
    means: dict[str, tuple[float, float]]

    @property
    def text(self) -> str:
        """``2.2 times the tokens (868k against 398k)`` of each."""
        return ", ".join(
            f"{number_text(own / other, 1 + (own < other))} times the {name} ({_count(own)} against {_count(other)})"
            for name, (own, other) in self.means.items()
        )


def _count(number: float) -> str:
    return f"{number_text(number / 1000, 0)}k" if number >= 1e4 else number_text(number, int(number < 10))


def unequal_pairs(results: Results) -> list[Unequal]:
    """The comparisons whose arms took steps, updates or tokens that differ by more than a tenth, the most unequal first."""
    spent, pairs = mean_spent(results.experiment), []
    for arm, reference in results.experiment.plan.comparisons:
        own, other = (spent.reindex([one.name]).iloc[0] for one in (arm, reference))
        means = {name: (float(own[name]), float(other[name])) for name in _COUNTED}
        means = {name: pair for name, pair in means.items() if min(pair) > 0 and is_unequal(*pair)}
        pairs += [Unequal(arm, reference, means)] if means else []
    return sorted(pairs, key=lambda pair: -max(max(means) / min(means) for means in pair.means.values()))


def at_equal_tokens(results: Results, pair: Unequal, declared: Estimate) -> Estimate | None:
    """Arm minus reference where both have the tokens of the one that took fewer, linear between stored evaluations.

    Seed by seed where the plan pairs, over the seeds and at the level of the ``declared`` estimate. None where it cannot be read: the
    metric has no curve, or a run no evaluation between its first and its last.
    """
    plan, looked = results.experiment.plan, declared.seeds if results.experiment.plan.looks else None
    sides = [seed_curves(results, arm, plan.seeds[:looked]) for arm in (pair.arm, pair.reference)]
    if plan.paired:
        shared = sides[0].keys() & sides[1].keys()
        sides = [{seed: curve for seed, curve in side.items() if seed in shared} for side in sides]
    if not all(sides) or isinstance(declared, Untested):
        return None
    ends = [{seed: tokens[-1] for seed, (tokens, _) in side.items()} for side in sides]
    least = min(np.mean([*side.values()]) for side in ends)
    values = [
        {
            seed: read_curve(curve, min(end[seed] for end in ends) if plan.paired else least)
            for seed, curve in side.items()
        }
        for side in sides
    ]
    if any(math.isnan(score) for side in values for score in side.values()):
        return None
    estimate = judge_one(contrast_of(plan, *values), margin=results.margin, level=declared.level)
    return results.experiment.engagements[pair.arm.name].judged(replace(estimate, family=declared.family))


def seed_curves(results: Results, arm: PlannedArm, seeds: tuple[int, ...], axis: str = "tokens") -> Curves:
    """Seed → generated tokens (with the axis ``step`` steps) and the metric at each evaluation of a finished run."""
    experiment, curves = results.experiment, Curves()
    if not is_evaluated(results.metric) or results.column not in experiment.cells:
        return curves
    runs = experiment.spent[experiment.spent["arm"] == arm.name]
    for seed, run_id in zip(runs["seed"], runs["run_id"], strict=True):
        cells = experiment.evaluations.get((run_id, arm.name, experiment.plan.primary_cap))
        if cells is not None and seed in seeds and seed in results.values(arm):
            tokens = total_at(experiment.training[run_id, arm.name], "generated_tokens_total", cells["step"])
            spent = tokens if axis == "tokens" else cells["step"].to_numpy(dtype=np.float64)
            scores = cells[results.column].to_numpy(dtype=np.float64)
            known = np.isfinite(spent) & np.isfinite(scores)
            curves |= {int(seed): (spent[known], scores[known])} if known.any() else {}
    return curves


def read_curve(curve: tuple[Floats, Floats], tokens: float) -> float:
    """The score at these tokens; NaN before the first evaluation, and between the first and the last where these are all."""
    x, y = curve
    if tokens >= x[-1]:
        return float(y[-1])
    return float(np.interp(tokens, x, y)) if (len(x) > 2 and tokens >= x[0]) or tokens in x else math.nan


def spent_table(results: Results) -> Table | None:
    """Steps, updates, generated tokens and seconds of each arm, means over its finished runs; None where nothing was trained."""
    spent, plan = mean_spent(results.experiment), results.experiment.plan
    if not (spent["steps"] > 0).any():
        return None
    rows: list[dict[str, Cell]] = [
        {"arm": arm.label, **{name: float(spent[name][arm.name]) for name in SPENT}}
        for arm in plan.arms
        if arm.name in spent.index
    ]
    columns = [
        Column("arm", "a run takes"),
        Column("steps", "steps", digits=0),
        Column("updates", "updates", digits=0),
        Column("tokens", "tokens, k", digits=1, scale=1e-3),
        Column("seconds", "seconds"),
    ]
    return Table("spent", "What a run takes, mean over its seeds", columns, rows)
