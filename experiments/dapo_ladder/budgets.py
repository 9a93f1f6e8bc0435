"""The ladder's rungs at equal steps, equal generated tokens and equal seconds, out of the curves of its runs.

    python experiments/dapo_ladder/budgets.py results [results_b ...]

Equal tokens: both runs of a pair stop at what the cheaper of the two had spent at its end; the dearer one's accuracy there is
linear between
its evaluations (a little low, since curves bend down). Seconds are wall time without evaluations, on the machine of the day.
"""

from __future__ import annotations

import numpy as np
from ladder_runs import command, ladder
from run_curves import AGAINST, Against, run_curve

from analysis import Results
from analysis.evidence.stored_plan import StoredArm
from harness.statistics.families import Paired, judge

Curve = tuple[np.ndarray, np.ndarray]


def at_equal(ours: Curve, theirs: Curve) -> float:
    """Difference of two curves (spent, score) at the smaller of what both had spent at their ends."""
    budget = min(ours[0][-1], theirs[0][-1])
    return float(np.interp(budget, *ours) - np.interp(budget, *theirs))


def paired(results: Results, arm: StoredArm, below: StoredArm, against: Against) -> Paired:
    """Differences in points at an equal budget, by base policy."""
    values = {}
    for seed in results.scores(arm, "avg"):
        if seed in results.scores(below, "avg"):
            ours, theirs = (
                run_curve(results, one.name, one.runs[seed], against, "evaluation") for one in (arm, below)
            )
            values[seed] = 100 * at_equal(ours, theirs)
    return Paired(results.experiment.plan.replicates(values), len(values))


def report(root: str) -> None:
    """One row a rung, one column a budget; the five of a column hold together."""
    results = ladder(root)
    plan = results.experiment.plan
    pairs = [(arm, plan.reference_of(arm)) for arm in plan.arms]
    columns = {}
    for against in AGAINST:
        column = {arm.name: paired(results, arm, below, against) for arm, below in pairs if below is not None}
        columns[against] = judge(column, margin=plan.margins.get("avg"))
        columns[against]["full"] = judge(
            {"full": paired(results, plan.arms[-1], plan.arms[0], against)}, margin=3
        )["full"]
    print(
        f"\n| {root} | spent by it, of the rung below's: tokens | seconds | "
        + " | ".join(f"at equal {name}" for name in AGAINST)
        + " |"
    )
    print("|---|---|---|" + "---|" * len(AGAINST))
    rows = [(arm.label, arm.name, arm, below) for arm, below in pairs if below is not None]
    for label, key, arm, below in [*rows, ("full DAPO over naive", "full", plan.arms[-1], plan.arms[0])]:
        cost = [f"{_cost(results, arm, one) / _cost(results, below, one):.2f}" for one in AGAINST[1:]]
        found = [columns[name][key] for name in AGAINST]
        text = [f"{e.value:+.1f} [{e.low:+.1f}, {e.high:+.1f}] {e.words()}" for e in found]
        print(f"| {label} | " + " | ".join([*cost, *text]) + " |")


def _cost(results: Results, arm: StoredArm, against: Against) -> float:
    """Mean spent at the end of the first eight seeds, which every arm has."""
    ends = [run_curve(results, arm.name, arm.runs[seed], against, "evaluation")[0][-1] for seed in range(8)]
    return float(np.mean(ends))


def main(roots: list[str]) -> None:
    """The report of each root."""
    for root in roots:
        report(root)


if __name__ == "__main__":
    command(main, __doc__)
