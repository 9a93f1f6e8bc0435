"""An experiment as four tidy frames: runs, steps, samples and scores; everything else here is a function of them (docs/python.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.engagement import Engagement
from analysis.samples import Floats, RunCells, answer_equality, records, reduce_run
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import replicate_of
from harness.store import ResultStore, StoreError, layout

# The columns that each frame begins with; steps have every logged metric behind them.
RUNS = (
    "arm", "seed", "run_id", "status", "error", "base_policy", "code", "packages", "device", "versions",
)  # fmt: skip
STEPS = ("arm", "seed", "run_id", "step")
SPENT = ("steps", "updates", "tokens", "seconds")
SCORES = ("arm", "seed", "run_id", "benchmark", "cap", "step", "metric", "value")
SAMPLES = (
    "arm", "seed", "run_id", "benchmark", "step", "cap", "problem_id", "sample_index", "correct", "answer", "tokens",
)  # fmt: skip
_WIDE = ["arm", "seed", "run_id", "step", "cap", "benchmark"]


@dataclass(frozen=True, eq=False)
class Frames:
    """What tables and figures read of an experiment, one row a thing.

    ``runs``: a row a planned run. ``steps``: a row a rollout step, as logged. ``cells``: a row per run, cap and evaluated step, a column a
    metric, on the plan's benchmark; `scores` are the same with a row for each metric. `samples`: a row a graded response. ``problem_avg``:
    avg@n per problem of (run_id, step, cap), of runs on ``problem_ids``. ``further``: the same runs on each other benchmark. ``store``:
    where the samples lie; None where there are none.
    """

    plan: Plan
    runs: pd.DataFrame
    steps: pd.DataFrame
    cells: pd.DataFrame
    problem_avg: dict[tuple[str, int, int], Floats] = field(default_factory=dict)
    problem_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    further: Mapping[str, Frames] = field(default_factory=dict)
    store: ResultStore | None = None

    @property
    def scores(self) -> pd.DataFrame:
        """A row for each metric of a cell (`SCORES`)."""
        return long(self.cells)

    @property
    def finished_runs(self) -> pd.DataFrame:
        """The rows of ``runs`` that have finished."""
        return self.runs[self.runs["status"] == "finished"]

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Every graded response of the finished runs on the plan's benchmark (`SAMPLES`). Raises `StoreError`: they cannot be read."""
        fields, parts, benchmark = {"max_response_tokens": "cap", "response_tokens": "tokens"}, [], self.plan.benchmark
        names = ["problem_id", "sample_index", *fields, "correct", "answer"]
        for labels in records(self.finished_runs[list(STEPS[:3])]):
            if self.store is None:
                break
            run = self.store.run(labels["run_id"])
            for step in run.sample_steps(benchmark):
                table = run.samples(benchmark, step, names).rename(columns=fields)
                parts.append(table.assign(**labels, benchmark=benchmark, step=step))
        return pd.concat(parts, ignore_index=True)[list(SAMPLES)] if parts else _no_rows(SAMPLES)

    @cached_property
    def evaluations(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """Evaluations by run, arm and cap (two arms may be the same run), steps ascending."""
        return groups(self.cells.sort_values("step", kind="stable"), "run_id", "arm", "cap")

    @cached_property
    def training(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """Step metrics by run and arm, steps ascending."""
        return groups(self.steps.sort_values("step", kind="stable"), "run_id", "arm")

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Arm to the configuration of one of its finished runs; one that cannot be read is left out, which is said elsewhere."""
        found: dict[str, dict[str, Any]] = {}
        for run in records(self.finished_runs.drop_duplicates("arm")):
            with suppress(StoreError):
                found[run["arm"]] = self.store.run(run["run_id"]).settings() if self.store is not None else {}
        return found

    @cached_property
    def spent(self) -> pd.DataFrame:
        """What each finished run took: arm, seed, run_id, steps, updates, generated tokens, and seconds without evaluations."""
        logged = ["updates", "generated_tokens_total", "seconds_total", "seconds_evaluate"]
        steps = self.steps.reindex(columns=[*STEPS, *logged]).sort_values("step", kind="stable")
        steps = steps.drop_duplicates(["arm", "run_id", "step"], keep="last")
        keys = [steps["arm"], steps["run_id"]]
        training = steps["seconds_total"].astype(np.float64) - steps["seconds_evaluate"].astype(np.float64).fillna(0)
        steps["seconds"] = training.groupby(keys).transform("sum", min_count=1)
        last = steps.groupby(["arm", "run_id"]).tail(1)
        last = last.rename(columns={"step": "steps", "generated_tokens_total": "tokens"})[["arm", "run_id", *SPENT]]
        runs = self.finished_runs[["arm", "seed", "run_id"]].merge(last, on=["arm", "run_id"])
        return runs.astype(dict.fromkeys(SPENT, np.float64))

    @cached_property
    def collapses(self) -> set[tuple[str, int]]:
        """Arm and seed of each finished run whose last evaluation is below half of its own best one, before RL included."""
        collapses = set()
        for arm, seed, run_id in self.finished_runs[["arm", "seed", "run_id"]].itertuples(index=False):
            if (cells := self.evaluations.get((run_id, arm, self.plan.primary_cap))) is None:
                continue
            accuracies = cells["avg"].dropna()
            if len(accuracies) and accuracies.iloc[-1] < accuracies.max() / 2:
                collapses.add((str(arm), int(seed)))
        return collapses

    @cached_property
    def engagements(self) -> dict[str, Engagement]:
        """Each arm by name to what its difference to its reference affected: its measures' means over steps and seeds of finished runs."""
        arms, shown = self.plan.arms, self._training_of
        values = {arm.name: tuple(one.value(shown.get(one.arm, ())) for one in arm.engagement) for arm in arms}
        return {arm.name: Engagement(tuple(arm.engagement), values[arm.name]) for arm in arms}

    @cached_property
    def _training_of(self) -> dict[str, list[pd.DataFrame]]:
        """Arm → the step metrics of each of its finished runs."""
        steps: dict[str, list[pd.DataFrame]] = {}
        for key in zip(self.finished_runs["run_id"], self.finished_runs["arm"], strict=True):
            if key in self.training:
                steps.setdefault(key[1], []).append(self.training[key])
        return steps

    def engagement_of(self, effect: str) -> Engagement:
        """What an effect of a factorial affected: its level, the most in any setting; of an interaction the level that hardly acted."""
        found = []
        for level in (name.partition(" against ")[0] for name in effect.split(" × ")):
            others = next({*levels[1:]} for levels in self.plan.crossing.factors.values() if level in levels[1:])
            having = [arm for arm in self.plan.arms if level in arm.patches]  # alone first
            lacking = [arm for arm in self.plan.arms if not others & {*arm.patches}]
            values = []
            for measure in having[0].engagement:  # read off the side whose runs show it
                side = having if measure.arm == having[0].name else lacking
                values.append(np.fmax.reduce([measure.value(self._training_of.get(arm.name, ())) for arm in side]))
            found.append(Engagement(having[0].engagement, tuple(map(float, values))))
        return found[0] if len(found) == 1 else next((one for one in found if one.hardly), Engagement())

    @property
    def unfinished(self) -> bool:
        """True while a planned run has not finished: what the experiment says may still change."""
        return bool((self.runs["status"] != "finished").any())

    @property
    def provisional(self) -> str:
        """``provisional, 3 runs of 12``; ``so far`` where a sequential design may ask for more."""
        total = "so far" if self.plan.looks else f"of {len(self.runs)}"
        return f"provisional, {len(self.finished_runs)} runs {total}"

    def finished_seeds(self, arm: PlannedArm) -> list[int]:
        """Planned seeds of an arm whose run finished, in the order of the plan."""
        seeds = set(self.finished_runs["seed"][self.finished_runs["arm"] == arm.name])
        return [seed for seed in self.plan.seeds_of(arm) if seed in seeds]


@dataclass
class _BenchmarkCells:
    """Cells of one benchmark, run by run; ``notes`` say what cannot be scored or compared."""

    benchmark: str
    notes: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    problem_avg: dict[tuple[str, int, int], Floats] = field(default_factory=dict)
    problem_ids: tuple[str, ...] = ()

    def add(self, run_name: str, labels: Mapping[str, Any], cells: RunCells) -> None:
        """Add what a run was evaluated on; ``run_name`` names it."""
        self.notes += [f"{run_name}, {self.benchmark}: {line}" for line in cells.refusals]
        self.rows += [{**labels, **row, "benchmark": self.benchmark} for row in cells.rows]
        self.problem_ids = self.problem_ids or cells.problem_ids
        if cells.problem_ids in ((), self.problem_ids):
            self.problem_avg |= {(labels["run_id"], *key): value for key, value in cells.problem_avg.items()}
        else:
            self.notes.append(f"{run_name}: evaluated on other problems than the first run")

    def put_in(self, experiment: Frames) -> Frames:
        return replace(
            experiment,
            cells=_cells(self.rows) if self.rows else _no_rows(_WIDE),
            problem_avg=self.problem_avg,
            problem_ids=self.problem_ids,
            notes=(*experiment.notes, *self.notes),
        )


def load_experiment(root: Path | str, name: str, **options: Any) -> Frames:
    """Read an experiment with the ``options`` of `load_plan`. Raises `StoreError` without such a plan, and `PlanError`."""
    store = ResultStore(root)
    return load_plan(store, Plan.read(store.plan(name)), **options)


def load_plan(store: ResultStore, plan: Plan, *, curves: bool = True, extra_metrics: Sequence[Metric] = ()) -> Frames:
    """Read what the store holds of a plan, stored or not; unfinished, failed or unreadable runs become rows and notes, no exception.

    ``curves``: Pass@k and Maj@k for every k that a figure draws, and the other benchmarks that the runs were evaluated on; without, for
    k = n and those of the plan's metrics and ``extra_metrics`` on the plan's own (faster).
    """
    states, notes = _read_runs(store, plan)
    logs: list[tuple[dict[str, Any], pd.DataFrame]] = []
    own_cells, other_cells = _BenchmarkCells(plan.benchmark), dict[str, _BenchmarkCells]()
    metrics = (*plan.metrics, *extra_metrics)
    ks = {metric.parameter for metric in metrics if metric.kind in ("pass", "maj")}
    with answer_equality() as equality:
        reduce = partial(reduce_run, store, curves=curves, ks=ks, equality=equality)
        for state in records(states[~states["status"].isin(["not started", layout.INCOMPLETE])]):
            run, run_name = store.run(state["run_id"]), f"{state['arm']}, seed {state['seed']}"
            labels = {"arm": state["arm"], "seed": state["seed"], "run_id": run.run_id}
            try:
                log = run.steps()
                logs.append((labels, log))
                benchmarks = set(run.benchmarks())
                if plan.benchmark in benchmarks:
                    own_cells.add(run_name, labels, reduce(run.run_id, plan.benchmark))
            except StoreError as error:
                own_cells.notes.append(f"{run_name}: {error}")
                continue
            for name in sorted(benchmarks - {plan.benchmark}) if curves else ():
                other = other_cells.setdefault(name, _BenchmarkCells(name))
                try:
                    other.add(run_name, labels, reduce(run.run_id, name))
                except (StoreError, ValueError, KeyError) as error:  # it takes nothing from the plan's own
                    other.notes.append(f"{run_name}: {error}")
    steps = _label_steps([log for log in logs if len(log[1])])
    base = Frames(plan, states, steps, _no_rows(_WIDE), notes=tuple(notes), store=store)
    further_frames = {
        name: other_cells[name].put_in(replace(base, plan=plan.view_on(name))) for name in sorted(other_cells)
    }
    return replace(own_cells.put_in(base), further=further_frames)


def _read_runs(store: ResultStore, plan: Plan) -> tuple[pd.DataFrame, list[str]]:
    """A row a planned run with its state and what made it, and a line for each that is not finished."""
    rows: list[tuple[str, int, str, str, str]] = []
    notes: list[str] = []
    for arm in plan.arms:
        notes.extend(f"{arm.name}: refused, {reason}" for reason in arm.refused)
        for seed in [seed for seed in plan.seeds_of(arm) if seed in arm.runs or not arm.refused]:
            run_id, manifest, troubles = arm.runs.get(seed, ""), None, []
            try:
                manifest = store.run(run_id).checked_manifest() if run_id else None
            except StoreError as error:
                troubles.append(str(error))
            if layout.RUN_ID.fullmatch(run_id) and (damage := store.run(run_id).without_manifest()):
                troubles.append(damage)
            manifest = manifest or {"status": "not started"}
            status, error_text = str(manifest["status"]), str(manifest.get("error") or "")
            troubles += [error_text] if status == layout.INCOMPLETE else []
            notes += [f"{arm.name}, seed {seed}: {trouble}" for trouble in troubles]
            rows.append((arm.name, seed, run_id, status, error_text))
    runs = pd.DataFrame(rows, columns=["arm", "seed", "run_id", "status", "error"])
    unfinished_runs = runs[~runs["status"].isin(["finished", layout.INCOMPLETE])]
    for (name, state), group in unfinished_runs.groupby(["arm", "status"], sort=False):
        seeds = ", ".join(str(seed) for seed in group["seed"])
        notes.append(f"{name}, seed{'s' if len(group) > 1 else ''} {seeds}: {state}")
    started_ids = dict.fromkeys(runs.loc[runs["status"] != "not started", "run_id"])
    bases = runs["seed"].map(lambda seed: str(replicate_of(seed, plan.base_policies)))
    runs = runs.assign(base_policy=bases).merge(store.provenance_frame(started_ids), how="left", on="run_id")
    return runs.reindex(columns=list(RUNS)), notes


def _cells(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Cells as a frame, numbers as floats; a metric that none has is no column."""
    cells = pd.DataFrame.from_records(rows).dropna(axis="columns", how="all")
    return cells.astype(dict.fromkeys(cells.columns.difference(_WIDE), np.float64)).reindex(
        columns=[*_WIDE, *(name for name in cells if name not in _WIDE)]
    )


def long(cells: pd.DataFrame) -> pd.DataFrame:
    """A row for each metric of a wide frame that has one column a metric; what is not known has no row."""
    keys = [name for name in SCORES[:-2] if name in cells]
    tall = cells.melt(keys, var_name="metric", value_name="value").dropna(subset="value")
    return tall.astype({"value": np.float64}).reindex(columns=list(SCORES)).reset_index(drop=True)


def groups(frame: pd.DataFrame, *keys: str) -> dict[tuple[Any, ...], pd.DataFrame]:
    """The rows by their values of ``keys``, in the order of the frame."""
    return {tuple(key): rows for key, rows in frame.groupby(list(keys), sort=False)} if len(frame) else {}


def _label_steps(logs: Sequence[tuple[dict[str, Any], pd.DataFrame]]) -> pd.DataFrame:
    """All step metrics in one frame, the labels of their runs first."""
    if not logs:
        return _no_rows()
    keys = list(STEPS[:3])
    labels, steps = zip(*logs, strict=True)
    labelled: pd.DataFrame = pd.concat(steps, keys=[tuple(run[key] for key in keys) for run in labels], names=keys)
    return labelled.drop(columns=keys, errors="ignore").reset_index(keys).reset_index(drop=True)


def _no_rows(columns: Sequence[str] = STEPS) -> pd.DataFrame:
    types = {"seed": np.int64, "cap": np.int64, "step": np.int64, "value": np.float64}
    return pd.DataFrame({name: pd.Series(dtype=types.get(name, object)) for name in columns})
