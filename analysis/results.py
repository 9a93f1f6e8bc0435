"""Per-seed results at the last evaluation, contrasts between arms, and the same on every other benchmark."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import Floats, Frames, groups, records
from analysis.samples import column_of, is_computed, tokens_to, value_of
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlanError, PlannedArm
from harness.statistics.intervals import Difference, Estimate, Independent, Paired, judge, mean_interval

TOKEN_COLUMNS = ("generated_tokens_total", "updates", "step")


@dataclass(frozen=True)
class Results:
    """One row per finished (arm, seed, cap), every metric at the checkpoint, the last evaluation; ``before`` the same at step 0.

    ``target`` is the accuracy that *tokens to target* counts to. ``notes`` say which runs could not be
    judged. ``selected_metric`` is the one that answers are about, None for the experiment's first (see `about`).
    """

    experiment: Frames
    per_seed: pd.DataFrame
    before: pd.DataFrame
    target: float
    notes: tuple[str, ...]
    selected_metric: Metric | None = None

    @property
    def metric(self) -> Metric:
        """The metric that answers, tables and figures of differences are about."""
        return self.experiment.plan.metrics[0] if self.selected_metric is None else self.selected_metric

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
        return replace(with_metrics(self, [metric]), selected_metric=metric)

    @property
    def checkpoints(self) -> Checkpoints:
        """The evaluated step of each row."""
        keys = zip(*(self.per_seed[name].tolist() for name in ("run_id", "arm", "cap")), strict=True)
        return dict(zip(keys, self.per_seed["checkpoint"].tolist(), strict=True))

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
        if reason := unreached_text(values):
            return Estimate(math.nan, seeds=len(values), absent=reason)
        return replace(mean_interval(self.experiment.plan.replicates(values)), seeds=len(values))

    def unreached_reason(self, *arms: PlannedArm) -> str:
        """``not reached in 2 of 8 seeds``, for each of the arms where it is so; empty where every seed reached the target."""
        reasons = {arm.label: unreached_text(self.values(arm)) for arm in arms}
        return ", ".join(
            f"{reason} ({label})" if len(arms) > 1 else reason for label, reason in reasons.items() if reason
        )

    def difference(self, arm: PlannedArm, reference: PlannedArm) -> Estimate:
        """Arm minus reference as a comparison that stands alone: its interval is corrected for nothing."""
        return self.differences({arm.name: (arm, reference)}, columns=1)[arm.name]

    def before_rl(self, column: str, cap: int | None = None) -> float | None:
        """Mean of a column over all runs at step 0; None where none was evaluated then."""
        rows = self.before[self.before["cap"] == (cap or self.experiment.plan.primary_cap)]
        return float(rows[column].mean()) if column in rows and len(rows) else None

    def differences(
        self, pairs: Mapping[str, tuple[PlannedArm, PlannedArm]], columns: int | None = None
    ) -> dict[str, Estimate]:
        """Arm minus reference of the comparisons of one column, with intervals that hold together over ``columns`` (one a metric)."""
        reasons = {name: reason for name, pair in pairs.items() if (reason := self.unreached_reason(*pair))}
        contrasts = {name: self.contrast(*pair) for name, pair in pairs.items() if name not in reasons}
        estimates = judge(contrasts, margin=self.margin, columns=columns or self.columns)
        estimates |= {name: Estimate(math.nan, absent=reason) for name, reason in reasons.items()}
        return {name: estimates[name] for name in pairs}

    def contrast(self, arm: PlannedArm, reference: PlannedArm, seeds: Collection[int] | None = None) -> Difference:
        """The ``seeds`` (None: all) behind arm minus reference in the metric: paired where the plan pairs and both have the seed."""
        sides = (self.values(side) for side in (arm, reference))
        values = ({seed: value for seed, value in side.items() if seeds is None or seed in seeds} for side in sides)
        return contrast_of(self.experiment.plan, *values)

    def problem_scores(self, arm: PlannedArm) -> dict[int, Floats]:
        """avg@n per problem (shared order) for each finished seed, at the checkpoint and primary cap.

        Runs without samples (foreign ones) are left out.
        """
        problem_avg, cap = self.experiment.problem_avg, self.experiment.plan.primary_cap
        rows = self._by_arm.get((arm.name, cap), self.per_seed.iloc[:0])
        runs = zip(*(rows[name].tolist() for name in ("seed", "run_id", "checkpoint")), strict=True)
        return {seed: problem_avg[run, step, cap] for seed, run, step in runs if (run, step, cap) in problem_avg}


# Run, arm and cap to the evaluated step that its result is.
Checkpoints = Mapping[tuple[str, str, int], int]


def contrast_of(plan: Plan, a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """What is judged of the values of two arms by seed: paired where the plan pairs and both have the seed."""
    if not plan.paired:
        return Independent(plan.replicates(a), plan.replicates(b), min(len(a), len(b)))
    differences = {seed: a[seed] - b[seed] for seed in a if seed in b}
    return Paired(plan.replicates(differences), len(differences))


def results_of(experiment: Frames, checkpoints: Checkpoints | None = None) -> Results:
    """Take the last evaluation of every finished run (of imported curves the mean of several); runs without one become notes.

    A run without an evaluation of its last step, of an imported one: of the last step that any run of the experiment has, is not scored.

    ``checkpoints``: the steps to take instead, on another benchmark; a run that was not evaluated at its step is left out.
    """
    plan = experiment.plan
    average_count = last_evaluations(plan.checkpoint_rule)
    latest = max((int(cells["step"].max()) for cells in experiment.evaluations.values()), default=0)
    foreign = {arm.name for arm in plan.arms if arm.foreign}
    notes: list[str] = []
    rows: list[dict[str, Any]] = []
    before: list[int] = []
    indices: list[NDArray[np.int64]] = []  # places in the cells of what each row is the mean of
    of_run: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for key in sorted(experiment.evaluations):
        of_run.setdefault(key[:2], []).append(key)
    for state in records(experiment.finished_runs):
        title, judged, training = f"{state['arm']}, seed {state['seed']}", False, _run_steps(experiment, state)
        # A trainer of others may log steps after its last evaluation; then the other runs say where an evaluation is due.
        due = latest if state["arm"] in foreign else int(training["step"].max()) if len(training) else 0
        for key in of_run.get(_row_key(state), ()):
            steps, places = (experiment.evaluations[key][name].to_numpy() for name in ("step", "place"))
            before += places[steps == 0].tolist()
            if checkpoints is None:
                tail = places[steps >= (1 if len(training) else 0)][-average_count:]  # no steps: the policy before RL
                if len(tail) and (last_evaluated := int(steps[-1])) < due:
                    judged = True
                    missing = f"its last evaluation is of step {last_evaluated} and the one of step {due} is missing"
                    notes.append(f"{title}: not scored, {missing}")
                    continue
                if 0 < len(tail) < average_count:
                    notes.append(f"{title}: the mean of {len(tail)} evaluations, not of the last {average_count}")
            else:
                tail = places[steps == checkpoints.get(key, -1)]
            if len(tail):
                judged = True
                last = int(steps[-1]) if checkpoints is None else checkpoints[key]
                labels = {"cap": int(key[2]), "checkpoint": last, **_training_costs(training, last)}
                rows.append({name: state[name] for name in ("arm", "seed", "run_id")} | labels)
                indices.append(tail)
        if not judged:
            missing = "finished without an evaluation after step 0"
            elsewhere = f"not evaluated on {plan.benchmark} at its checkpoint"
            notes.append(f"{title}: {missing if checkpoints is None else elsewhere}")
    per_seed = _add_means(rows, experiment.cells, indices) if rows else _no_rows()
    base = experiment.cells.loc[before].reset_index(drop=True) if before else _no_rows()
    base_rows = per_seed[(per_seed["arm"] == plan.base.name) & (per_seed["cap"] == plan.primary_cap)]
    target = float(base_rows["avg"].mean()) if len(base_rows) else np.nan
    per_seed["tokens_to_target"] = [
        tokens_to(experiment.evaluations[_row_key(row, "cap")], _run_steps(experiment, row), target)
        for row in records(per_seed[["run_id", "arm", "cap"]])
    ]
    results = Results(experiment, per_seed, base, target, tuple(dict.fromkeys(notes)))
    return with_metrics(results, plan.metrics)


def last_evaluations(rule: str) -> int:
    """How many of the last evaluations are averaged: 1 for ``last``; k for ``mean_last_<k>`` of imported curves (the letter: 3).

    Raises `PlanError` for another rule.
    """
    match = re.fullmatch(r"last|mean_last_(k|[1-9]\d*)", rule)
    if match is None:
        raise PlanError(f"checkpoint_rule={rule} is gone; known: last, and mean_last_<k> of imported curves")
    return {None: 1, "k": 3}.get(match[1]) or int(match[1])


def with_metrics(results: Results, metrics: Sequence[Metric]) -> Results:
    """The results with a column for each metric that no evaluation has by itself."""
    missing = [metric for metric in metrics if is_computed(metric) and column_of(metric) not in results.per_seed]
    if not missing:
        return results
    experiment = results.experiment
    runs = [
        (experiment.evaluations[_row_key(row, "cap")], _run_steps(experiment, row), row["checkpoint"])
        for row in records(results.per_seed[["run_id", "arm", "cap", "checkpoint"]])
    ]
    new = {column_of(metric): [value_of(metric, *run) for run in runs] for metric in missing}
    return replace(results, per_seed=results.per_seed.assign(**new))


def unreached_text(values: Mapping[int, float]) -> str:
    """``not reached in 2 of 8 seeds``; empty where every seed reached the target."""
    count = sum(map(math.isinf, values.values()))
    return f"not reached in {count} of {len(values)} seeds" if count else ""


def _add_means(rows: list[dict[str, Any]], cells: pd.DataFrame, indices: Sequence[NDArray[np.int64]]) -> pd.DataFrame:
    """The rows with the mean of every metric over the evaluations at the ``indices`` of each, before what training had spent."""
    frame = pd.DataFrame.from_records(rows)
    numbers = cells.select_dtypes("number").drop(columns=["step", "cap", "seed"], errors="ignore").astype(np.float64)
    row_of = np.repeat(np.arange(len(rows)), [len(places) for places in indices])
    means = numbers.loc[np.concatenate(indices)].groupby(row_of).mean()
    cost_columns = frame.columns.str.startswith("train_")
    return pd.concat([frame.loc[:, ~cost_columns], means, frame.loc[:, cost_columns]], axis=1)


def _training_costs(training: pd.DataFrame, step: int) -> dict[str, float]:
    columns = [name for name in TOKEN_COLUMNS if name in training] if len(training) else []
    last = int(training["step"].searchsorted(step, "right")) - 1
    return {f"train_{name}": float(training[name].to_numpy()[last]) for name in columns}


def _row_key(row: Mapping[str, Any], *more: str) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("run_id", "arm", *more))


def _run_steps(experiment: Frames, row: Mapping[str, Any]) -> pd.DataFrame:
    return experiment.training.get(_row_key(row), experiment.steps.iloc[:0])


def _no_rows() -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in ("arm", "seed", "run_id", "cap", "avg", "checkpoint")})


def on_benchmark(results: Results, benchmark: str) -> Results:
    """The same arms, seeds and checkpoints on another benchmark that runs were evaluated on (see `Plan.view_on`).

    A run that was not evaluated there at its checkpoint is left out. Raises `LookupError` where no run was evaluated on it (names those
    that there are), or these are results on another benchmark already.
    """
    experiment, plan = results.experiment, results.experiment.plan
    if benchmark == plan.benchmark:
        return results
    if plan.declared_on is not None:
        advice = f"ask those on {plan.declared_on} for {benchmark!r}"
        raise LookupError(f"these are results on {plan.benchmark} already; {advice}")
    if benchmark not in experiment.further:
        problem = f"no run was evaluated on it; benchmarks: {', '.join([plan.benchmark, *experiment.further])}"
        raise LookupError(f"{plan.name} has no results on {benchmark!r}: {problem}")
    view = results_of(experiment.further[benchmark], results.checkpoints)
    return view if results.selected_metric is None else view.about(results.selected_metric)


def mean_over(views: Sequence[Results]) -> Results:
    """The metric as a seed's mean over benchmarks, each counting the same; only of seeds that have a value on all of them.

    Nothing but the metric at the primary cap can be asked of it.
    """
    first = views[0]
    keys, column, cap = ["arm", "seed", "run_id", "cap"], first.column, first.experiment.plan.primary_cap
    frames = [view.per_seed[view.per_seed["cap"] == cap].reindex(columns=[*keys, column]) for view in views]
    values_by_run = pd.concat(frames).groupby(keys, sort=False)[[column]]
    complete = values_by_run.count()[column] == len(views)
    return replace(first, per_seed=values_by_run.mean()[complete].reset_index())
