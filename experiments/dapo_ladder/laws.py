"""Laws of the field fitted to every run of an experiment, with intervals over seeds.

``python experiments/dapo_ladder/laws.py ROOT EXPERIMENT``.
``--law sigmoid``: accuracy against compute, its asymptote A and midpoint (ScaleRL, arXiv:2510.13786). ``--law entropy``:
R = -a exp(H) + b (Cui et al., arXiv:2505.22617). One fit a run; a parameter's interval is Student's t over seeds, or over the means of
each base policy's seeds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from curve_fits import EntropyFit, SigmoidFit, fit_entropy_law, fit_sigmoid
from run_curves import AGAINST, SOURCES, Against, Source, entropy_points, run_curve

from analysis.evidence.results import Results
from analysis.evidence.stored_plan import StoredArm, StoredPlan
from analysis.tables import one_table
from analysis.tables.table import Cell, Column, Table
from harness.statistics.estimate import Estimate
from harness.statistics.intervals import mean_interval

Fit = SigmoidFit | EntropyFit

_SHARED = (
    "One fit a run. Intervals: 95 %, Student's t over seeds, or over the means of each base policy's seeds where seeds share one; "
    "each stands alone.",
    "A run whose parameters its points cannot tell is not left out of a mean, which would choose by outcome: the cell says in how "
    "many it is so.",
)


def sigmoid_fits(results: Results, arm: StoredArm, against: Against, source: Source) -> dict[int, SigmoidFit]:
    """Seed to the sigmoid of its run. R_0 of evaluations is the measured one before RL; of training steps it is fitted."""
    found = {}
    for seed in results.scores(arm, "avg"):
        spent, score = run_curve(results, arm.name, arm.runs[seed], against, source)
        first = float(score[0]) if source == "evaluation" and len(spent) and spent[0] == 0 else None
        after = slice(1, None) if first is not None else slice(None)
        if len(spent[after]):
            found[seed] = fit_sigmoid(spent[after], score[after], first)
    return found


def entropy_fits(results: Results, arm: StoredArm, source: Source) -> dict[int, EntropyFit]:
    """Seed to the entropy law of its run."""
    points = {
        seed: entropy_points(results, arm.name, arm.runs[seed], source) for seed in results.scores(arm, "avg")
    }
    return {seed: fit_entropy_law(*pair) for seed, pair in points.items() if len(pair[0])}


def over_seeds(plan: StoredPlan, fits: Mapping[int, Fit], parameter: str) -> Estimate:
    """Mean of a parameter with its t interval; no value unless it is identified in every seed."""
    told = sum(not fit.missing for fit in fits.values())
    if not fits or told < len(fits):
        lead = parameter in ("asymptote", "ceiling")  # said once a row
        return Estimate(math.nan, absent=f"identified in {told} of {len(fits)} seeds" * lead)
    values = {seed: float(getattr(fit, parameter)) for seed, fit in fits.items()}
    return replace(mean_interval(plan.replicates(values)), seeds=len(values))


def law_table(results: Results, law: str, against: Against, source: Source) -> Table:
    """One row an arm: the law's parameters, the quality of the fit, and in how many seeds it is identified."""
    plan = results.experiment.plan
    unit = {"steps": "rollout steps", "tokens": "k tokens", "seconds": "s"}[against]
    scale = 1e-3 if against == "tokens" else 1.0
    shown: list[tuple[str, str, float, int]] = (
        [
            ("start", "R_0 %", 100, 1),
            ("asymptote", "asymptote A %", 100, 1),
            ("midpoint", f"midpoint, {unit}", scale, 1),
            ("exponent", "exponent B", 1, 2),
        ]
        if law == "sigmoid"
        else [
            ("a", "a", 1, 3),
            ("b", "b", 1, 3),
            ("ceiling", "R at H = 0, %", 100, 1),
            ("r_squared", "R²", 1, 3),
        ]
    )
    rows: list[Mapping[str, Cell]] = []
    reasons: Counter[str] = Counter()
    for arm in plan.arms:
        fits: Mapping[int, Fit] = (
            sigmoid_fits(results, arm, against, source)
            if law == "sigmoid"
            else entropy_fits(results, arm, source)
        )
        reasons.update(fit.missing for fit in fits.values() if fit.missing)
        rmse = [fit.rmse for fit in fits.values() if math.isfinite(fit.rmse)]
        cells: dict[str, Cell] = {"arm": arm.label, "seeds": len(fits)}
        cells |= {key: over_seeds(plan, fits, key) for key, *_ in shown}
        rows.append({**cells, "rmse": float(np.mean(rmse)) if rmse else None})
    columns = [Column("arm", "arm"), Column("seeds", "seeds", digits=0)]
    columns += [Column(key, header, digits, factor) for key, header, factor, digits in shown]
    columns.append(Column("rmse", "residual, points", 1, 100))
    told = [f"Not identified: {reason} ({count} runs)." for reason, count in sorted(reasons.items())]
    where = "accuracy on each step's prompts" if source == "training" else f"avg on {plan.benchmark}"
    title = f"{plan.title}: {law} law, {where}" + (
        f" against {against}" if law == "sigmoid" else " against entropy"
    )
    return Table(f"{plan.name}-{law}", title, tuple(columns), tuple(rows), (*_SHARED, *told))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown; 0, or 2 with one line where the experiment cannot be read."""
    parser = one_table.arguments("laws", __doc__)
    parser.add_argument("--law", choices=("sigmoid", "entropy"), default="sigmoid")
    parser.add_argument("--against", choices=AGAINST, default="steps", help="compute of the sigmoid")
    parser.add_argument("--score", choices=SOURCES, default="training", help="where points come from")
    options = parser.parse_args(arguments)
    return one_table.print_table(
        options, lambda results: law_table(results, options.law, options.against, options.score)
    )


if __name__ == "__main__":
    raise SystemExit(main())
