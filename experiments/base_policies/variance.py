"""Base policy, training seed, samples: what the spread of an experiment's scores is made of.

python experiments/base_policies/variance.py [RESULTS] [EXPERIMENT]      (default: results base_variance)

One row an arm, and one a difference between an arm and the first, seed by seed: the base policy and seed parts of the difference are what a
comparison at equal seeds still meets. All runs share the evaluation's noise, so the samples' part is an upper bound.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from variance_components import Components, sampling_variance, variance_components

from analysis import StoreError
from analysis.frames import load_experiment
from analysis.results import Results, results_of
from harness.experiment.plan import PlannedArm
from harness.statistics.intervals import replicate_of


def cells(results: Results, arm: PlannedArm) -> pd.DataFrame:
    """Per finished seed of an arm: `score` (avg@n at the checkpoint, fraction) and `noise` (its variance from sampling)."""
    plan, frame = results.experiment.plan, results.per_seed
    own = frame[(frame["arm"] == arm.name) & (frame["cap"] == plan.primary_cap)]
    rows = {}
    for run_id, seed, step, score, samples in zip(
        own["run_id"], own["seed"], own["checkpoint"], own["avg"], own["samples"], strict=True
    ):
        problem_averages = results.experiment.problem_avg[run_id, step, plan.primary_cap]
        rows[int(seed)] = {"score": float(score), "noise": sampling_variance(problem_averages, int(samples))}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["score", "noise"])


def decompose(results: Results) -> dict[str, Components]:
    """Components of every arm's scores, and of its difference to the first arm's at equal seeds.

    Raises:
        ValueError: the runs start from no base policy of several.
    """
    plan = results.experiment.plan
    if plan.base_policies is None:
        raise ValueError(f"{plan.name}: its seeds take no base policies in turn (model.bases)")
    components: dict[str, Components] = {}
    first = cells(results, plan.arms[0])
    for arm in plan.arms:
        own = cells(results, arm)
        components[arm.label] = _fit_components(own, plan.base_policies)
        if arm is not plan.arms[0]:
            difference = pd.DataFrame({"score": own["score"] - first["score"], "noise": own["noise"] + first["noise"]})
            components[f"{arm.label} - {plan.arms[0].label}"] = _fit_components(difference.dropna(), plan.base_policies)
    return components


def _fit_components(frame: pd.DataFrame, base_policies: int) -> Components:
    bases = [replicate_of(int(seed), base_policies) for seed in frame.index]
    return variance_components(frame["score"].to_numpy(), bases, frame["noise"].to_numpy())


def table(components: dict[str, Components]) -> str:
    """Standard deviations in points (hundredths), with the 95 % intervals of the two that are estimated, as Markdown."""
    lines = [
        "| score | runs | bases | mean, % | SD base policy | SD training seed | SD samples | share base / seed / samples |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, parts in components.items():
        sds = [_sd(parts.base, parts.base_interval), _sd(parts.seed, parts.seed_interval), _sd(parts.samples)]
        shares = " / ".join(f"{share:.0%}" for share in parts.shares)
        lines.append(
            f"| {name} | {parts.runs} | {parts.bases} | {100 * parts.mean:.1f} | {' | '.join(sds)} | {shares} |"
        )
    return "\n".join(lines) + "\n"


def _sd(variance: float, interval: tuple[float, float] | None = None) -> str:
    text = f"{100 * variance**0.5:.2f}"
    return text if interval is None else f"{text} [{100 * interval[0] ** 0.5:.2f}, {100 * interval[1] ** 0.5:.2f}]"


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0, or 2 with one line where it cannot be made."""
    root, name = [*arguments, *("results", "base_variance")[len(arguments) :]][:2]
    try:
        results = results_of(load_experiment(Path(root), name, curves=False))
        sys.stdout.write(table(decompose(results)))
    except (StoreError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
