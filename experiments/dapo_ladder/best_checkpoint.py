"""What choosing each run's best checkpoint on the test set does to scores and to differences.

    python experiments/dapo_ladder/best_checkpoint.py results [results_b ...]

On all 256 problems, and as if the test set had 30 (random subsets; the other 226 say what the chosen checkpoint is worth). Runs
were evaluated
three times after step 0, the first two with 8 samples a problem. Last, what samples alone do: evaluations of one unchanged policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from ladder_runs import command, ladder

from analysis import Results
from analysis.evidence.stored_plan import StoredPlan
from harness.statistics.estimate import Estimate
from harness.statistics.families import Paired, judge
from harness.statistics.intervals import mean_interval

SIZE, SUBSETS = 30, 400


def chosen(scores_CP: np.ndarray, subsets_BP: np.ndarray) -> np.ndarray:
    """What choosing on a test set reports, what it is worth, and how often it is not the last: means over test sets.

    The first two are points above the last checkpoint's score, on the test set and on all other problems.

    Args:
        scores_CP: of each checkpoint on each problem, fractions, the last one last.
        subsets_BP: whether a problem is in the test set.
    """
    size = subsets_BP.sum(axis=1)
    inside_BC = subsets_BP @ scores_CP.T / size[:, None]
    outside_BC = (~subsets_BP) @ scores_CP.T / (subsets_BP.shape[1] - size)[:, None]
    rows, best = np.arange(len(size)), inside_BC.argmax(axis=1)
    reported = inside_BC[rows, best] - inside_BC[:, -1]
    worth = outside_BC[rows, best] - outside_BC[:, -1]
    return 100 * np.array([reported.mean(), worth.mean(), (best < scores_CP.shape[0] - 1).mean()])


def maximum_of(checkpoints: int, draws: int = 200_000) -> float:
    """Mean of the largest of so many standard normal numbers."""
    return float(np.random.default_rng(0).normal(size=(draws, checkpoints)).max(axis=1).mean())


def run_scores(results: Results) -> dict[str, dict[int, np.ndarray]]:
    """Arm's label to seed to scores [checkpoints after step 0, problems]."""
    plan, averages = results.experiment.plan, results.experiment.problem_avg
    found: dict[str, dict[int, np.ndarray]] = {}
    for arm in plan.arms:
        found[arm.label] = {}
        for seed in results.scores(arm, "avg"):
            steps = sorted(
                step
                for run, step, cap in averages
                if run == arm.runs[seed] and cap == plan.primary_cap and step
            )
            found[arm.label][seed] = np.array(
                [averages[arm.runs[seed], step, plan.primary_cap] for step in steps]
            )
    return found


def report(root: str) -> None:
    """The tables of one results root."""
    results = ladder(root)
    plan, runs = results.experiment.plan, run_scores(results)
    problems = len(results.experiment.problem_ids)
    rng = np.random.default_rng(0)
    subsets = np.argsort(rng.random((SUBSETS, problems)), axis=1) < SIZE
    print(
        f"\n| {root}: arm | best - last, 256 problems | last is not best | best - last, 30 problems | of it real | last is not best |"
    )
    print("|---|---|---|---|---|---|")
    inflated: dict[str, dict[str, dict[int, float]]] = {"last": {}, "best": {}, "best of 30": {}}
    for label, own in runs.items():
        whole = {seed: 100 * (s.mean(axis=1).max() - s.mean(axis=1)[-1]) for seed, s in own.items()}
        few = {seed: chosen(s, subsets) for seed, s in own.items()}
        first = mean_interval(plan.replicates(whole))
        cells = [
            mean_interval(plan.replicates({seed: float(x[i]) for seed, x in few.items()})) for i in range(3)
        ]
        text = [f"{one.value:+.2f} [{one.low:+.2f}, {one.high:+.2f}]" for one in (first, *cells[:2])]
        print(
            f"| {label} | {text[0]} | {100 * np.mean([x > 0 for x in whole.values()]):.0f} % | {text[1]} | {text[2]} | "
            f"{cells[2].value:.0f} % |"
        )
        inflated["last"][label] = {seed: 100 * float(s[-1].mean()) for seed, s in own.items()}
        inflated["best"][label] = {seed: inflated["last"][label][seed] + x for seed, x in whole.items()}
        inflated["best of 30"][label] = {
            seed: inflated["last"][label][seed] + float(x[0]) for seed, x in few.items()
        }
    print("\n| difference to the rung below | last | best on 256 | best on 30 |\n|---|---|---|---|")
    columns = {name: _differences(plan, scores) for name, scores in inflated.items()}
    for label in list(runs)[1:]:
        shown = [column[label] for column in columns.values()]
        print(
            f"| {label} | "
            + " | ".join(f"{e.value:+.1f} [{e.low:+.1f}, {e.high:+.1f}] {e.words()}" for e in shown)
            + " |"
        )
    rates = np.concatenate([s[-1] for own in runs.values() for s in own.values()])
    print(
        "\n| one unchanged policy, 32 samples | standard error | best of 3 | best of 10 | best of 20 |\n|---|---|---|---|---|"
    )
    for size in (SIZE, problems):
        error = 100 * ((rates * (1 - rates)).mean() / 31 / size) ** 0.5
        print(
            f"| {size} problems | {error:.2f} | "
            + " | ".join(f"+{error * maximum_of(c):.2f}" for c in (3, 10, 20))
            + " |"
        )


def _differences(plan: StoredPlan, scores: Mapping[str, Mapping[int, float]]) -> dict[str, Estimate]:
    """Of each arm to the one before it; the five hold together."""
    pairs = list(scores.items())
    column = {}
    for (_, below), (label, own) in itertools.pairwise(pairs):
        values = {seed: own[seed] - below[seed] for seed in own if seed in below}
        column[label] = Paired(plan.replicates(values), len(values))
    return judge(column, margin=plan.margins.get("avg"))


def main(roots: list[str]) -> None:
    """The report of each root."""
    for root in roots:
        report(root)


if __name__ == "__main__":
    command(main, __doc__)
