"""An experiment out of the result store: plan, run states, step metrics and cells as tidy frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.cells import SAMPLE_COLUMNS, RunCells, k_curve, run_cells, table_ks
from analysis.evidence.checkpoint_rule import CheckpointRule, parse_rule
from analysis.evidence.logged import logged_cells
from analysis.evidence.stored_plan import Arm, Plan, parse_plan
from harness.evaluation.metrics.names import Metric
from harness.store import ResultStore, StoreError
from harness.verify import MathVerifier

Floats = NDArray[np.float64]
Reduce = Callable[
    [ResultStore, str, Plan, bool, Collection[Any], MathVerifier], dict[str, RunCells]
]  # as `reduce_run`


@dataclass(frozen=True)
class Experiment:
    """Everything tables and figures read.

    ``states`` has one row per planned run (arm, seed, run_id, status, error); ``steps`` the training metrics
    and ``cells`` the evaluation metrics of every run that has any, with columns arm and seed first;
    ``problem_avg`` avg@n per problem of (run_id, step, cap). ``notes`` are lines about what is missing or
    refused; ``makers`` says which code, packages and device made each run.
    """

    plan: Plan
    states: pd.DataFrame
    steps: pd.DataFrame
    cells: pd.DataFrame
    problem_avg: dict[tuple[str, int, int], Floats] = field(default_factory=dict)
    problem_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    makers: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=["run_id", "code", "packages", "device"])
    )

    @property
    def rule(self) -> CheckpointRule:
        """The declared checkpoint rule."""
        return parse_rule(self.plan.checkpoint_rule)

    @cached_property
    def curves(self) -> dict[str, list[dict[str, Floats]]]:
        """Training metrics per arm: one dict of float arrays (by step) per run, in the order of seeds."""
        found: dict[str, list[dict[str, Floats]]] = {arm.name: [] for arm in self.plan.arms}
        if not len(self.steps):
            return found
        numeric = self.steps.select_dtypes("number").columns
        ordered = self.steps.sort_values(["seed", "step"], kind="stable")
        for (arm, _), run in ordered.groupby(["arm", "seed"], sort=True):
            values = run[numeric].to_numpy(dtype=np.float64)
            found[str(arm)].append({str(name): values[:, i] for i, name in enumerate(numeric)})
        return found

    @property
    def unfinished(self) -> bool:
        """Whether a planned run has not finished: what the experiment says may still change."""
        return bool((self.states["status"] != "finished").any())

    @property
    def provisional(self) -> str:
        """``provisional, 3 runs of 12``; ``so far`` where a sequential design may ask for more."""
        more = "so far" if self.plan.looks else f"of {len(self.states)}"
        return f"provisional, {int((self.states['status'] == 'finished').sum())} runs {more}"

    def finished_seeds(self, arm: Arm) -> list[int]:
        """Planned seeds of an arm whose run finished, in the order of the plan."""
        done = self.states[(self.states["arm"] == arm.name) & (self.states["status"] == "finished")]
        return [seed for seed in self.plan.seeds_of(arm) if seed in set(done["seed"])]


def load_experiment(
    root: Path | str, name: str, *, curves: bool = True, also: Sequence[Metric] = ()
) -> Experiment:
    """Read an experiment; unfinished, failed or unreadable runs become rows and notes, never an exception.

    Args:
        root: results root.
        name: of the experiment.
        curves: Pass@k and Maj@k for every k that a figure draws; without, for those of a table only (faster).
        also: metrics beside the declared ones whose k is wanted.

    Raises:
        StoreError: if there is no such plan.
        PlanError: if the plan cannot be read.
    """
    store = ResultStore(root)
    return load_plan(store, parse_plan(store.plan(name)), curves=curves, also=also)


def load_plan(
    store: ResultStore,
    plan: Plan,
    *,
    curves: bool = True,
    also: Sequence[Metric] = (),
    reduce: Reduce | None = None,
) -> Experiment:
    """What the store holds of a plan, which itself need not be stored (see `load_experiment`).

    ``reduce`` stands in for `reduce_run`, for a caller that remembers what it reduced before.
    """
    states, notes = _states(store, plan)
    steps: list[pd.DataFrame] = []
    cells: list[pd.DataFrame] = []
    problem_avg: dict[tuple[str, int, int], Floats] = {}
    problem_ids: tuple[str, ...] = ()
    ks = {one.parameter for one in (*plan.metrics, *also) if one.kind in ("pass", "maj")}
    with MathVerifier() as verifier:  # for votes; it starts no process unless answers need algebra
        for state in records(states[states["status"] != "not started"]):
            run_id, where = state["run_id"], f"{state['arm']}, seed {state['seed']}"
            labels = {"arm": state["arm"], "seed": state["seed"], "run_id": run_id}
            try:
                logged = store.run(run_id).steps()
                steps.append(logged.assign(**labels))
                found_cells = (reduce or reduce_run)(store, run_id, plan, curves, ks, verifier)
                reduced = found_cells or logged_cells(logged, plan)
            except StoreError as error:
                notes.append(f"{where}: {error}")
                continue
            for benchmark, found in reduced.items():
                notes.extend(f"{where}, {benchmark}: {line}" for line in found.refused)
                cells.append(found.frame.assign(**labels, benchmark=benchmark))
                if benchmark == plan.benchmark:
                    problem_ids = problem_ids or found.problem_ids
                    if found.problem_ids not in ((), problem_ids):
                        notes.append(f"{where}: evaluated on other problems than the first run")
                    problem_avg.update({(run_id, *key): value for key, value in found.problem_avg.items()})
    started = [str(run_id) for run_id in states.loc[states["status"] != "not started", "run_id"]]
    return Experiment(
        plan,
        states,
        _concat(steps),
        _concat(cells),
        problem_avg,
        problem_ids,
        tuple(notes),
        store.made_by(started),
    )


def _states(store: ResultStore, plan: Plan) -> tuple[pd.DataFrame, list[str]]:
    rows: list[tuple[str, int, str, str, str]] = []
    notes: list[str] = []
    for arm in plan.arms:
        notes.extend(f"{arm.name}: refused, {reason}" for reason in arm.refused)
        for seed in plan.seeds_of(arm):
            if arm.refused and seed not in arm.runs:
                continue
            run_id = arm.runs.get(seed, "")
            try:
                manifest = store.run(run_id).manifest() if run_id else None
            except StoreError as error:
                manifest = None
                notes.append(f"{arm.name}, seed {seed}: {error}")
            status = "not started" if manifest is None else str(manifest["status"])
            error_text = "" if manifest is None else str(manifest.get("error") or "")
            rows.append((arm.name, seed, run_id, status, error_text))
    states = pd.DataFrame(rows, columns=["arm", "seed", "run_id", "status", "error"])
    unfinished = states[states["status"] != "finished"]
    for (name, state), group in unfinished.groupby(["arm", "status"], sort=False):
        seeds = ", ".join(str(seed) for seed in group["seed"])
        notes.append(f"{name}, seed{'s' if len(group) > 1 else ''} {seeds}: {state}")
    return states, notes


def reduce_run(
    store: ResultStore, run_id: str, plan: Plan, curves: bool, asked: Collection[Any], verifier: MathVerifier
) -> dict[str, RunCells]:
    """The cells of a run by benchmark, out of its samples: what takes longest in loading an experiment.

    Raises:
        StoreError: samples that cannot be read.
    """
    run = store.run(run_id)
    found: dict[str, RunCells] = {}
    for benchmark in dict.fromkeys([plan.benchmark, plan.dev_benchmark]):
        if benchmark is None:
            continue
        evaluated = run.sample_steps(benchmark)
        if not evaluated:
            continue
        samples = store.samples([run_id], benchmark, columns=SAMPLE_COLUMNS)
        largest = int(samples.groupby(["problem_id", "step", "max_response_tokens"]).size().max())
        wanted = {evaluated[0], *evaluated[-parse_rule(plan.checkpoint_rule).last :]}
        ks = sorted({*(k_curve(largest) if curves else table_ks(largest)), *asked})
        steps = evaluated if asked and curves else wanted  # a curve over training is drawn of what is asked
        ks_by_step: dict[int, Sequence[int]] = {
            step: ks if step in wanted else sorted({*asked, largest}) for step in steps
        }
        found[benchmark] = run_cells(samples, ks_by_step, verifier.equivalent)
    return found


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _concat(frames: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return pd.DataFrame({"arm": [], "seed": [], "run_id": [], "step": [], "cap": [], "benchmark": []})
    frame = pd.concat(filled, ignore_index=True)
    first = ["arm", "seed", "run_id"]
    return frame[[*first, *(column for column in frame.columns if column not in first)]]
