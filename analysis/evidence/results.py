"""Per-seed results at the declared checkpoint, and contrasts between arms."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence.checkpoint_rule import chosen_steps, last_evaluations, rule_scores
from analysis.evidence.load import Floats, StoredExperiment, groups, records
from analysis.evidence.metric_values import column_of, computed, first_reach, tokens_at, value_of
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import PlannedArm
from harness.statistics.estimate import Estimate
from harness.statistics.families import Difference, Independent, Paired, judge
from harness.statistics.intervals import mean_interval, two_way_difference
from harness.statistics.spread import replicate_means

TOKEN_COLUMNS = ("generated_tokens_total", "updates", "step")


@dataclass(frozen=True)
class Results:
    """One row per finished (arm, seed, cap), every metric at the checkpoint; ``before`` the same at step 0.

    ``target`` is the accuracy that *tokens to target* counts to. ``notes`` say which runs could not be
    judged. ``asked`` is the metric that answers are about, None for the experiment's first (see `about`).
    """

    experiment: StoredExperiment
    per_seed: pd.DataFrame
    before: pd.DataFrame
    target: float
    notes: tuple[str, ...]
    asked: Metric | None = None

    @property
    def metric(self) -> Metric:
        """The metric that answers, tables and figures of differences are about."""
        return self.experiment.plan.metrics[0] if self.asked is None else self.asked

    @property
    def column(self) -> str:
        """Its column of ``per_seed``."""
        return column_of(self.metric)

    @property
    def shown_margin(self) -> float | None:
        """The declared margin of the metric, in the unit of a shown difference."""
        return self.experiment.plan.margins.get(self.metric.name)

    @property
    def margin(self) -> float | None:
        """The declared margin of the metric, in the unit of stored values."""
        return None if self.shown_margin is None else self.shown_margin / self.metric.scale

    @property
    def columns(self) -> int:
        """Columns of differences that hold together: the experiment's metrics. One that it does not declare stands alone."""
        metrics = self.experiment.plan.metrics
        return len(metrics) if self.metric in metrics else 1

    def about(self, metric: Metric) -> Results:
        """The same results with answers about another metric; its values are computed where they are not there yet."""
        return replace(with_metrics(self, [metric]), asked=metric)

    @property
    def checkpoints(self) -> Checkpoints:
        """The evaluated steps that each row is made of."""
        return {(row["run_id"], row["arm"], row["cap"]): row["steps"] for row in records(self.per_seed)}

    def each_metric(self) -> list[Results]:
        """These results about each metric of the experiment, in its order."""
        return [self.about(metric) for metric in self.experiment.plan.metrics]

    def scores(self, arm: PlannedArm, metric: str, cap: int | None = None) -> dict[int, float]:
        """Metric per seed of the finished runs of an arm; seeds without a value are left out."""
        cap = self.experiment.plan.primary_cap if cap is None else cap
        rows = self._by_arm.get((arm.name, cap))
        if rows is None or metric not in rows:
            return {}
        values = rows[metric].to_numpy(dtype=np.float64)
        pairs = zip(rows["seed"].tolist(), values.tolist(), strict=True)
        return {int(seed): value for seed, value in pairs if not math.isnan(value)}

    @cached_property
    def _by_arm(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """Rows of ``per_seed`` by arm and cap: filtering all of them for every cell of a table takes longer than the statistics."""
        return groups(self.per_seed, "arm", "cap")

    def values(self, arm: PlannedArm) -> dict[int, float]:
        """The metric per seed of the finished runs of an arm; infinite where a target is never reached."""
        return self.scores(arm, self.column)

    def mean(self, arm: PlannedArm, metric: str | None = None, cap: int | None = None) -> Estimate:
        """Mean over seeds of a column, else of the metric, with its t interval; no value where a seed never reached its target."""
        values = self.scores(arm, self.column if metric is None else metric, cap)
        never = self.unreached(arm) if metric is None else ""
        if never:
            return Estimate(math.nan, seeds=len(values), absent=never)
        return replace(mean_interval(self.experiment.plan.replicates(values)), seeds=len(values))

    def unreached(self, *arms: PlannedArm) -> str:
        """``not reached in 2 of 8 seeds``, for each of the arms where it is so; empty where every seed reached the target."""
        said = []
        for arm in arms:
            values = self.values(arm)
            never = sum(map(math.isinf, values.values()))
            where = f" ({arm.label})" if len(arms) > 1 else ""
            said += [f"not reached in {never} of {len(values)} seeds{where}"] * bool(never)
        return ", ".join(said)

    def difference(self, arm: PlannedArm, reference: PlannedArm) -> Estimate:
        """Arm minus reference as a comparison that stands alone: its interval is corrected for nothing."""
        return self.differences({arm.name: (arm, reference)})[arm.name]

    def before_rl(self, column: str, cap: int | None = None) -> float | None:
        """Mean of a column over all runs at step 0; None where none was evaluated then."""
        rows = self.before[self.before["cap"] == (cap or self.experiment.plan.primary_cap)]
        return float(rows[column].mean()) if column in rows and len(rows) else None

    def differences(
        self, pairs: Mapping[str, tuple[PlannedArm, PlannedArm]], columns: int | None = None
    ) -> dict[str, Estimate]:
        """Arm minus reference of the comparisons of one column, with intervals that hold together over ``columns`` (one a metric)."""
        never = {name: reason for name, pair in pairs.items() if (reason := self.unreached(*pair))}
        contrasts = {name: self.contrast(*pair) for name, pair in pairs.items() if name not in never}
        found = judge(contrasts, margin=self.margin, columns=columns or self.columns)
        found |= {name: Estimate(math.nan, absent=reason) for name, reason in never.items()}
        return {name: found[name] for name in pairs}

    def contrast(
        self, arm: PlannedArm, reference: PlannedArm, seeds: Collection[int] | None = None
    ) -> Difference:
        """The ``seeds`` (None: all) behind arm minus reference in the metric: paired where the plan pairs and both have the seed."""
        plan = self.experiment.plan
        a, b = (
            {seed: value for seed, value in self.values(one).items() if seeds is None or seed in seeds}
            for one in (arm, reference)
        )
        if not plan.paired:
            return Independent(plan.replicates(a), plan.replicates(b), min(len(a), len(b)))
        differences = {seed: a[seed] - b[seed] for seed in a if seed in b}
        return Paired(plan.replicates(differences), len(differences))

    def population_difference(self, arm: PlannedArm, reference: PlannedArm) -> Estimate:
        """Arm minus reference in avg@n for new problems too (two-way seeds and problems)."""
        paired = self.experiment.plan.paired
        a, b = self.problem_scores(arm), self.problem_scores(reference)
        if paired:
            shared = [seed for seed in a if seed in b]
            a, b = {s: a[s] for s in shared}, {s: b[s] for s in shared}
        if not a or not b:
            return mean_interval([])
        a, b = (replicate_means(scores, self.experiment.plan.base_policies) for scores in (a, b))
        found = two_way_difference(np.array([*a.values()]), np.array([*b.values()]), paired=paired)
        return replace(found, margin=self.margin)

    def problem_scores(self, arm: PlannedArm) -> dict[int, Floats]:
        """avg@n per problem (shared order) for each finished seed, at the checkpoint and primary cap.

        Runs without samples (foreign ones) are left out.
        """
        cap, known, found = self.experiment.plan.primary_cap, self.experiment.problem_avg, dict[int, Floats]()
        frame = self.per_seed
        for row in records(frame[(frame["arm"] == arm.name) & (frame["cap"] == cap)]):
            if (row["run_id"], row["steps"][-1], cap) in known:
                found[row["seed"]] = np.mean(
                    [known[row["run_id"], step, cap] for step in row["steps"]], axis=0
                )
        return found


# Run, arm and cap to the evaluated steps that its result is made of.
Checkpoints = Mapping[tuple[str, str, int], list[int]]


def results_of(experiment: StoredExperiment, checkpoints: Checkpoints | None = None) -> Results:
    """Apply the checkpoint rule to every finished run; runs that cannot be judged become notes.

    ``checkpoints``: those that the rule has chosen already, on another benchmark; a run that was not evaluated at all of them is left out.
    """
    plan = experiment.plan
    averaged = last_evaluations(plan.checkpoint_rule)
    notes: list[str] = []
    rows: list[dict[str, Any]] = []
    before: list[pd.DataFrame] = []
    finished = experiment.states[experiment.states["status"] == "finished"]
    for state in records(finished):
        run, where, judged = _place(state), f"{state['arm']}, seed {state['seed']}", False
        training = _training(experiment, state)
        for key in sorted(key for key in experiment.evaluations if key[:2] == run):
            group = experiment.evaluations[key]
            before.append(group[group["step"] == 0])
            first = 1 if len(training) else 0  # an arm of no steps is the policy before RL
            if checkpoints is not None:
                wanted = checkpoints.get(key, [])
                steps = wanted if set(wanted) <= set(group["step"]) else []
            else:
                steps = chosen_steps(group, averaged, first)
            if steps:
                judged = True
                rows.append(_checkpoint_row(state, group, steps, training))
        if not judged:
            missing = "finished without an evaluation after step 0"
            elsewhere = f"not evaluated on {plan.benchmark} at its checkpoint"
            notes.append(f"{where}: {missing if checkpoints is None else elsewhere}")
    per_seed = pd.DataFrame.from_records(rows) if rows else _empty()
    base = pd.concat(before, ignore_index=True) if before else _empty()
    base_rows = per_seed[(per_seed["arm"] == plan.base.name) & (per_seed["cap"] == plan.primary_cap)]
    target = float(base_rows["avg"].mean()) if len(base_rows) else np.nan
    per_seed["tokens_to_target"] = [
        tokens_to_target(experiment.evaluations[_place(row, "cap")], _training(experiment, row), target)
        for row in records(per_seed)
    ]
    results = Results(experiment, per_seed, base, target, tuple(dict.fromkeys(notes)))
    return with_metrics(results, plan.metrics)


def with_metrics(results: Results, metrics: Sequence[Metric]) -> Results:
    """The results with a column for each metric that no evaluation has by itself."""
    missing = [one for one in metrics if computed(one) and column_of(one) not in results.per_seed]
    if not missing:
        return results
    experiment = results.experiment
    runs = [
        (experiment.evaluations[_place(row, "cap")], _training(experiment, row), row["steps"][-1])
        for row in records(results.per_seed)
    ]
    new = {column_of(metric): [value_of(metric, *run) for run in runs] for metric in missing}
    return replace(results, per_seed=results.per_seed.assign(**new))


def tokens_to_target(cells: pd.DataFrame, steps: pd.DataFrame, target: float) -> float:
    """Generated tokens (discarded included) at which avg first reaches ``target``; NaN if it never does.

    Linear between evaluated steps, so its resolution is the evaluation interval.
    """
    found = first_reach(cells, lambda wanted: tokens_at(steps, wanted), target)
    return found if math.isfinite(found) else math.nan


def _checkpoint_row(
    state: Mapping[str, Any], cells: pd.DataFrame, steps: list[int], training: pd.DataFrame
) -> dict[str, Any]:
    row: dict[str, Any] = {name: state[name] for name in ("arm", "seed", "run_id")}
    row |= {"cap": int(cells["cap"].iloc[0]), "steps": steps, **rule_scores(cells, min(1, steps[0]))}
    values = cells[cells["step"].isin(steps)].select_dtypes("number")
    row |= {str(name): mean for name, mean in values.mean().drop(["step", "cap", "seed"]).items()}
    if len(training):
        last = np.flatnonzero(training["step"].to_numpy() <= steps[-1])[-1]
        logged = [name for name in TOKEN_COLUMNS if name in training]
        row |= {f"train_{name}": float(training[name].to_numpy()[last]) for name in logged}
    return row


def _place(row: Mapping[str, Any], *more: str) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("run_id", "arm", *more))


def _training(experiment: StoredExperiment, row: Mapping[str, Any]) -> pd.DataFrame:
    """The step metrics of a run."""
    return experiment.training.get(_place(row), experiment.steps.iloc[:0])


def _empty() -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in ("arm", "seed", "run_id", "cap", "avg", "steps")})
