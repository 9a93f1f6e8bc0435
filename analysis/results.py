"""Per-seed results at the last evaluation, what is compared by them, and the same on every other benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from analysis import declared
from analysis.declared import FollowedComparison
from analysis.frames import Frames
from analysis.samples import column_of, is_computed, value_of
from analysis.values import Values
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import PlannedArm
from harness.statistics.attribution import Attribution
from harness.statistics.intervals import Estimate, judge

TOKEN_COLUMNS = ("generated_tokens_total", "updates", "step")


@dataclass(frozen=True, eq=False)
class Results(Values):
    """What is compared by the values, computed once for answer, tables, figures and files."""

    def about(self, metric: Metric) -> Results:
        """The same results with answers about another metric; its values are computed where they are not there yet."""
        return replace(with_metrics(self, [metric]), selected_metric=metric)

    @cached_property
    def each_metric(self) -> tuple[Results, ...]:
        """These results about each metric of the experiment, in its order; what one of them has computed it keeps."""
        metrics = self.experiment.plan.metrics
        return tuple(self if metric == self.metric else self.about(metric) for metric in metrics)

    @cached_property
    def declared(self) -> dict[str, Estimate]:
        """Arm → its difference to what it is declared against, one family; of a sequential design that of the newest look."""
        if self.experiment.plan.looks:
            guessed = {one.arm.name: self.guessed_reason(one.arm, one.reference) for one in self.looks}
            absent = {name: Estimate(math.nan, absent=reason) for name, reason in guessed.items() if reason}
            return {one.arm.name: one.newest for one in self.looks} | absent
        return self.differences_to_reference()

    @cached_property
    def to_base(self) -> dict[str, Estimate]:
        """Arm → its difference to the base, a family of its own.

        None in a sequential design: seeds stop where the declared comparisons tell them to, which would bias these.
        """
        plan = self.experiment.plan
        if plan.stopped_by_results or plan.design not in ("cumulative", "leave_one_out") or len(plan.arms) < 3:
            return {}
        return self.differences({arm.name: (arm, plan.base) for arm in plan.arms if arm.name != plan.base.name})

    @cached_property
    def looks(self) -> list[FollowedComparison]:
        """Every declared comparison of a sequential design over its looks; nothing of another one."""
        return declared.followed_comparisons(self)

    @cached_property
    def attributions(self) -> dict[str, Attribution]:
        """Each kind of effect of a factorial; nothing of another design."""
        return declared.attributions_of(self)

    def difference(self, arm: PlannedArm, reference: PlannedArm, margin: float | None = None) -> Estimate:
        """Arm minus reference as a comparison that stands alone: its interval is corrected for nothing.

        ``margin``: one that is given now, in the stored unit; None: the declared one.
        """
        estimate = self.differences({arm.name: (arm, reference)}, columns=1)[arm.name]
        return estimate if margin is None else replace(estimate, margin=margin)

    def differences_to_reference(self, columns: int | None = None) -> dict[str, Estimate]:
        """Arm → its difference to what it is declared against, over all of its seeds (`differences`)."""
        return self.differences({arm.name: (arm, other) for arm, other in self.experiment.plan.comparisons}, columns)

    def differences(
        self, pairs: Mapping[str, tuple[PlannedArm, PlannedArm]], columns: int | None = None
    ) -> dict[str, Estimate]:
        """Arm minus reference of the comparisons of one column, with simultaneous intervals over ``columns`` (one a metric).

        All of them count, whatever has run: the family is known before anything runs.
        """
        estimates = judge(
            {name: self.contrast(*pair) for name, pair in pairs.items()},
            margin=self.margin,
            columns=columns or self.columns,
        )
        reasons = {name: reason for name, pair in pairs.items() if (reason := self.guessed_reason(*pair))}
        engagements = self.experiment.engagements
        for name, (arm, reference) in pairs.items():
            if self.experiment.plan.reference_of(arm) == reference:
                estimates[name] = engagements[arm.name].judged(estimates[name])
        return estimates | {name: Estimate(math.nan, absent=reason) for name, reason in reasons.items()}


_RUN, _ROW = ["run_id", "arm"], ["run_id", "arm", "cap"]


def results_of(experiment: Frames, checkpoints: pd.DataFrame | None = None) -> Results:
    """Take the last evaluation of every finished run; runs without one become notes, and one without that of its last step is not scored.

    ``checkpoints``: rows of ``per_seed`` whose steps are taken instead, on another benchmark; a run without one at its step is left out.
    """
    plan, evaluated = experiment.plan, _finished_evaluations(experiment)
    if checkpoints is None:
        lacks = "finished without an evaluation after step 0"
        # The policy before RL counts where nothing was trained.
        rows = evaluated[evaluated["step"] >= evaluated["trained"]].groupby(_ROW).tail(1)
    else:
        lacks = f"not evaluated on {plan.benchmark} at its checkpoint"
        rows = evaluated.merge(checkpoints[[*_ROW, "checkpoint"]], on=_ROW).assign(due=0)
        rows = rows[rows["step"] == rows["checkpoint"]]
    rows = rows.assign(checkpoint=rows["step"])
    per_seed = _per_seed(experiment, rows[rows["checkpoint"] >= rows["due"]])
    before = evaluated.loc[evaluated["step"] == 0, list(experiment.cells.columns)].reset_index(drop=True)
    results = Results(experiment, per_seed, before, _notes(experiment, rows, lacks))
    return with_metrics(results, plan.metrics)


def _finished_evaluations(experiment: Frames) -> pd.DataFrame:
    """The cells of finished runs, in the order of the runs: whether each was ``trained``, and when its last evaluation is ``due``."""
    runs = experiment.finished_runs[_RUN]
    last_step = runs.join(experiment.steps.groupby(_RUN)["step"].max(), on=_RUN)["step"]
    runs = runs.assign(place=range(len(runs)), trained=last_step.notna(), due=last_step.fillna(0))
    return runs.merge(experiment.cells, on=_RUN).sort_values(["place", "cap", "step"], ignore_index=True)


def _notes(experiment: Frames, rows: pd.DataFrame, lacks: str) -> tuple[str, ...]:
    """Say which finished runs are not scored."""
    notes, ends = list[str](), dict[tuple[str, str], list[tuple[int, float]]]()
    for *run, last, due in rows[[*_RUN, "checkpoint", "due"]].itertuples(index=False):
        ends.setdefault(tuple(run), []).append((last, due))
    for arm, seed, run_id in experiment.finished_runs[["arm", "seed", "run_id"]].itertuples(index=False):
        title, own = f"{arm}, seed {seed}", ends.get((run_id, arm))
        if own is None:
            notes.append(f"{title}: {lacks}")
        for last, due in own or ():
            if last < due:
                missing = f"its last evaluation is of step {last} and the one of step {due:.0f} is missing"
                notes.append(f"{title}: not scored, {missing}")
    return tuple(dict.fromkeys(notes))


def _per_seed(experiment: Frames, rows: pd.DataFrame) -> pd.DataFrame:
    """The means of the rows of each run and cap, with what training had spent at the checkpoint."""
    keys = ["arm", "seed", "run_id", "cap", "checkpoint"]
    if not len(rows):
        return rows[keys].assign(avg=np.nan)
    numbers = rows[experiment.cells.columns].select_dtypes("number").columns.difference([*keys, "step"], sort=False)
    means = rows.astype(dict.fromkeys(numbers, np.float64)).groupby(keys, sort=False)[[*numbers]].mean().reset_index()
    if not len(experiment.steps):
        return means
    columns = [name for name in TOKEN_COLUMNS if name in experiment.steps]
    spent = means[[*_ROW, "checkpoint"]].merge(experiment.steps[[*_RUN, *columns]], on=_RUN)
    spent = spent[spent["step"] <= spent["checkpoint"]].sort_values("step").groupby(_ROW).tail(1)
    return means.join(spent.set_index(_ROW)[columns].astype(np.float64).add_prefix("train_"), on=_ROW)


def with_metrics(results: Results, metrics: Sequence[Metric]) -> Results:
    """The results with a column for each metric that no evaluation has by itself."""
    missing = [metric for metric in metrics if is_computed(metric) and column_of(metric) not in results.per_seed]
    if not missing:
        return results
    evaluations, training = results.experiment.evaluations, results.experiment.training
    no_steps = results.experiment.steps.iloc[:0]
    runs = [
        (evaluations[run_id, arm, cap], training.get((run_id, arm), no_steps), int(step))
        for run_id, arm, cap, step in results.per_seed[[*_ROW, "checkpoint"]].itertuples(index=False)
    ]
    new = {column_of(metric): [value_of(metric, *run) for run in runs] for metric in missing}
    return replace(results, per_seed=results.per_seed.assign(**new))


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
    view = results_of(experiment.further[benchmark], results.per_seed)
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
    plan = replace(first.experiment.plan, chances=None)  # of the declared benchmark alone
    experiment, per_seed = replace(first.experiment, plan=plan), values_by_run.mean()[complete].reset_index()
    return replace(first, experiment=experiment, per_seed=per_seed)
