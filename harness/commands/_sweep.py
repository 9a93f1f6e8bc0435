"""The runs of a sweep on their way to their end, whatever sweeper made the jobs and whatever launcher takes them."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from harness.commands._answer import (
    answer_stands,
    answered_runs,
    code_change_lines,
    decide,
    dropped_runs_line,
    metrics_of,
    put_back,
    table_so_far,
    write_answer,
)
from harness.commands._arguments import Exit
from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id, run_id
from harness.configuration.numbers import format_count
from harness.configuration.schema import RunConfig, load
from harness.execution.progress import PlainProgress, progress_on
from harness.execution.slurm import RequeueError, requeue_if_it_has_to_leave, slurm_job
from harness.execution.supervisor import Decisions, Summary, dispatch, dispatch_runs, until_decided
from harness.experiment.checks import Objection, absent, refusal_lines, refusals, refuse, report_checks
from harness.experiment.claim import remember
from harness.experiment.history import longest_first, mixed_devices_note
from harness.experiment.plan import Plan, PlannedArm, RunSpec, content_hashes
from harness.experiment.planning import (
    cost_labels,
    job_config,
    plan_experiment,
    plan_jobs,
    plan_multirun,
    refuse_declarations,
    run_overrides,
    shared_overrides,
    with_runs,
)
from harness.experiment.power import score
from harness.store import ResultStore, StoreError, layout
from harness.store.atomic import write_file
from harness.store.reader import run_state
from harness.tracking._feed import TrackerFeed, send_results

if TYPE_CHECKING:
    from harness.search.ask_and_tell import Sweep as SearchSweep

_JOBS = ".harness_jobs"  # in the sweep's directory, a file for each job of another launcher
_SECONDS_TO_LEAVE = 600.0
_REMOTE_LAUNCHERS = ("submitit_slurm", "ray", "ray_aws", "rq")  # launchers that send runs to other machines
Bring = Callable[[Plan], Summary]


@dataclass
class Outcome:
    """What one call of the application does: its sweep, how that ended, and an error that a callback met.

    `overrides` are those of keys among its `arguments`. `jobs` are those of a sweeper that is not ours, which knows of no arms; `summary`
    is of the runs that were launched last. `checks`: what was said of the jobs before another launcher took them. `multirun` is Hydra's
    configuration of the sweep; `lost_job`: a job of it died.
    """

    arguments: Sequence[str] = ()
    overrides: Sequence[str] = ()
    sweep: Sweep | SearchSweep | None = None
    jobs: list[Sequence[str]] = field(default_factory=list)
    summary: Summary | None = None
    checks: list[Objection] | None = None
    exit_code: int = Exit.DONE
    multirun: DictConfig | None = None
    lost_job: bool = False
    error: Exception | None = None

    def code(self) -> int:
        """The exit code. Raises what a callback could not raise, since Hydra turns exceptions of callbacks into warnings."""
        if self.error is not None:
            raise self.error
        return Exit.FOUND if self.lost_job else self.exit_code

    def lose(self, error: Exception) -> None:
        """Go on where a launcher that is not ours raised an error, since a job died. Raises `ConfigError` where no job has begun."""
        if isinstance(error, ConfigError | StoreError | ImportError) or self.multirun is None:
            raise error
        launcher = self.multirun.hydra.runtime.choices["hydra/launcher"]
        if launcher == "processes":
            raise error
        if not _notes(self.multirun):
            raise ConfigError(f"hydra/launcher={launcher} began no run: {type(error).__name__}: {error}") from error
        self.lost_job = True
        traceback.print_exception(error)
        print(f"a job died; run the same command again to finish what it left: {self.command}")

    @property
    def command(self) -> str:
        return shlex.join(["harness", "run", *self.arguments])


outcome: ContextVar[Outcome] = ContextVar("outcome")


class Sweep:
    """The runs of a plan on their way to their end. `bring` runs a part of it, by default here; `tables`: show them between looks.

    `part` is what was asked for at last, in a sequential design less than the whole plan at most times, and `record` what is stored of it.
    """

    part: Plan
    record: dict[str, Any]
    summary: Summary

    def __init__(self, plan: Plan, bring: Bring | None = None) -> None:
        config, state = plan.arms[0].config, outcome.get()
        self.plan, self.bring, self.store = plan, bring or self.supervise, ResultStore(config.runtime.results)
        self.tables = "--no-answer" not in state.arguments
        refuse_imported(self.store, plan.name)
        objections = report_checks(plan, config.runtime.checks) if state.checks is None else state.checks
        self.checks = [str(objection) for objection in objections]
        if state.checks is None:
            report_data(config)
        self._previous_runs = answered_runs(self.store, plan.name)
        _say(dropped_runs_line(plan, self._previous_runs))
        _say("\n".join(code_change_lines(plan, self.store)))

    def run_to_end(self) -> Summary:
        """Run what is not finished, say what became of it, and set the exit code."""
        summary = self._bring_all()
        if self.plan.waits_for and summary.ended_well:  # the budget of the other arms is known now
            self.plan = refuse(with_runs(self.plan))
            summary = self._bring_all()
        if self.plan.looks and summary.ended_well:  # how many seeds are asked for is known now
            _say(dropped_runs_line(self.part, self._previous_runs))
        self.summary = summary
        outcome.get().exit_code = exit_code(summary) or (Exit.FOUND if self._is_blocked(summary) else Exit.DONE)
        return summary

    def answer(self) -> None:
        summary, store, name = self.summary, self.store, self.plan.name
        put_back(store, name, self.record)
        # Tables that stand already are shown, in a second instead of twenty.
        is_current = summary.complete and answer_stands(store, name)
        # Who stops it wants the prompt back: figures take a minute or two, tables seconds.
        part = "table" if is_current else "tables" if summary.stopped_by is not None else "all"
        write_answer(store, name, only=part)
        send_results(store, name, self.plan.arms[0].config.runtime.trackers)
        if part == "tables":
            print(f"figures and page are left out; they come with: harness report experiment={name}")

    def _bring_all(self) -> Summary:
        plan, name = self.plan, self.plan.name
        _say(mixed_devices_note(self.store, [spec.run_id for spec in plan.specs], plan.arms[0].config.runtime))
        undecidable_count = 0
        if plan.looks:
            _, decisions, summary = until_decided(
                plan, decide=partial(decide, store=self.store), record=self._record, bring=self.bring, show=self._show
            )
            undecidable_count = decisions.open if summary.ended_well and not plan.waits_for else 0
        else:
            self._record(plan)
            summary = self.bring(plan)
        if self._is_blocked(summary):
            print(
                f"{name}: nothing was run: {format_count(len(summary.skipped))} finished before, and all arms that lack runs are refused"
            )
        else:
            print(describe(name, len(self.part.specs), summary, outcome.get().command))
        if undecidable_count:
            print(
                f"{name}: {undecidable_count} comparisons wait for scores that no run brings (of refused arms, or of runs without an "
                f"evaluation); `harness status experiment={name}` names them"
            )
        if refused_arms := {arm.name: arm.refused for arm in plan.arms if arm.refused}:
            print(f"{len(refused_arms)} of {len(plan.arms)} arms were refused and not run:")
            print("\n".join(f"  {line}" for line in refusal_lines(refused_arms)))
        return summary

    def _is_blocked(self, summary: Summary) -> bool:
        """Say if nothing is left but runs of refused arms."""
        return len(summary.skipped) == len(self.part.specs) and any(arm.refused for arm in self.plan.arms)

    def _record(self, part: Plan, decisions: Decisions | None = None) -> None:
        decision_record = {} if decisions is None else {"decisions": list(decisions.comparisons)}
        self.part, self.record = part, {**part.record(), **decision_record, "checks": self.checks}
        self.store.write_plan(part.name, self.record)
        if "declaration" in self.record:
            remember(self.store, part.name, self.record["declaration"])

    def _show(self, decisions: Decisions) -> None:
        name = self.plan.name
        print(f"{name}: {decisions.headline()}, the next look needs more seeds")
        if self.tables:
            put_back(self.store, name, self.record)
            print(table_so_far(self.store, name))

    def supervise(self, part: Plan, run_ids: Collection[str] | None = None) -> Summary:
        """Bring runs of a part of the plan to their end in processes of this machine: all, or those whose ids are in `run_ids`."""
        return dispatch(part, self.store, progress_on(), run_ids)


# ---- a declared experiment as jobs, for whatever launcher ---------------------------------------------------------------------


@dataclass
class Jobs:
    """Runs as jobs of a launcher. `returns`: what it returned, a list for each batch."""

    config: DictConfig
    launcher: Launcher
    returns: list[Sequence[JobReturn]] = field(default_factory=list)

    def bring(self, part: Plan, specs: Sequence[RunSpec], store: ResultStore) -> Summary:
        """Have the launcher bring runs of the plan to their end, and say what became of them."""
        state, old_ids = outcome.get(), finished_runs(part, store)
        skips_finished = getattr(self.launcher, "skips_finished_runs", False)
        if not skips_finished:
            send_rest([spec for spec in specs if spec.run_id in old_ids], store)
            specs = [spec for spec in specs if spec.run_id not in old_ids]
        state.summary = None
        if specs:
            jobs = [job_of(part, spec) for spec in specs]
            try:
                self.returns.append(self.launcher.launch(jobs, initial_job_idx=sum(map(len, self.returns))))
            except Exception as error:
                state.lose(error)
        return (state.summary if skips_finished else None) or summary_of(part, store, old_ids, _notes(self.config))


def send_rest(specs: Sequence[RunSpec], store: ResultStore) -> None:
    """Send what trackers lack of runs that were finished before this command, where no supervisor sees them again."""
    if specs:
        feed = TrackerFeed(specs[0].config.runtime.trackers)
        for spec in specs:
            feed.end(store.run(spec.run_id))
        feed.close()


def _launcher_overrides(config: DictConfig, overrides: Sequence[str]) -> list[str]:
    """The overrides, and that runs are sent to other machines where the chosen launcher does so."""
    is_remote = config.hydra.runtime.choices["hydra/launcher"] in _REMOTE_LAUNCHERS
    return [*overrides, *["++runtime.elsewhere=true"] * is_remote]


def sweep_design(config: DictConfig, arguments: Sequence[str], launcher: Launcher) -> list[Sequence[JobReturn]]:
    """Plan the experiment that `arguments` declare, and have the launcher bring its jobs to their end, look by look."""
    refuse_settings(config.hydra)
    if (config.get("experiment") or {}).get("search"):
        return sweep_search(config, arguments, launcher, {})
    arguments = _launcher_overrides(config, arguments)
    jobs = Jobs(config, launcher)
    shared_items = set(shared_overrides(arguments))
    plan = refuse(plan_experiment([item for item in arguments if item not in shared_items]))
    store = ResultStore(plan.arms[0].config.runtime.results)
    sweep = outcome.get().sweep = Sweep(plan, lambda part: jobs.bring(part, longest_first(part, store), store))
    sweep.run_to_end()
    return jobs.returns


def sweep_search(
    config: DictConfig, arguments: Sequence[str], launcher: Launcher, options: Mapping[str, Any]
) -> list[Sequence[JobReturn]]:
    """Search what the experiment declares, or the ranges among the arguments: Optuna asks, the launcher runs, the study is told."""
    refuse_settings(config.hydra)
    try:
        from harness.search.ask_and_tell import sweep_of
    except ModuleNotFoundError as error:
        raise ConfigError("a search needs Optuna; install it with: pip install -e '.[sweep]'") from error
    state, jobs = outcome.get(), Jobs(config, launcher)
    sweep, places = sweep_of(_launcher_overrides(config, arguments), options, state.command)
    refuse_imported(sweep.store, sweep.experiment.name)
    state.sweep = sweep
    send_rest(
        [spec for spec in sweep.begun_specs if run_state(sweep.store, spec.run_id).status == "finished"], sweep.store
    )
    sweep.run(lambda specs: jobs.bring(sweep.part, specs, sweep.store), places)
    failed = sweep.has_failed and sweep.summary.stopped_by is None
    state.exit_code = Exit.FOUND if failed else Exit.DONE if sweep.is_complete else Exit.AGAIN
    return jobs.returns


def job_of(plan: Plan, spec: RunSpec) -> list[str]:
    """The overrides of a planned run; `experiment.name` tells its job which plan it belongs to."""
    arm = next(arm for arm in plan.arms if spec.run_id in arm.runs.values())
    training = spec.config.training
    budget = {"generated_tokens": training.generated_tokens, "seconds": training.seconds, "steps": training.steps}
    limits = [f"++training.{key}={value}" for key, value in budget.items() if value is not None]
    budgets = limits if plan.match != "steps" else []
    return [*arm.overrides, *arm.common, *budgets, f"seed={spec.seed}", f"++experiment.name={plan.name}"]


# ---- jobs as processes of this machine ----------------------------------------------------------------------------------------


def launch_here(config: DictConfig, jobs: Sequence[Sequence[str]]) -> list[JobReturn]:
    """Bring jobs to their end, `runtime.workers` at once; see `harness.execution.supervisor.supervise`."""
    refuse_settings(config.hydra)
    state = outcome.get()
    run_ids = [run_id(job_config(run_overrides(job))) for job in jobs]  # several jobs may be one run
    if state.sweep is not None and not state.jobs:  # of our own sweeper, which knows their plan
        planned_ids = {spec.run_id for spec in state.sweep.part.specs}
        assert planned_ids.issuperset(run_ids), "a job composes to another run than its plan has"
        state.summary = state.sweep.supervise(state.sweep.part, run_ids)
    elif state.summary is None or state.summary.stopped_by is None:
        state.jobs += jobs
        plan = refuse(plan_jobs(state.jobs, outcome.get().overrides))
        last_summary = state.summary or Summary()
        sweep = state.sweep = Sweep(plan)
        sweep.bring = lambda part: last_summary.then(sweep.supervise(part, run_ids))
        state.summary = sweep.run_to_end()
    assert state.sweep is not None
    specs = {spec.run_id: spec for spec in state.sweep.plan.specs}
    pairs = zip(run_ids, map(list, jobs), strict=True)
    return [_job_return(config, state.sweep, specs.get(name), job) for name, job in pairs]


def _job_return(config: DictConfig, sweep: Sweep | SearchSweep, spec: RunSpec | None, job: list[str]) -> JobReturn:
    """What a launcher returns of a job, and `.hydra/` of it in the directory of its run."""
    value: float | list[float] = math.nan
    directory = sweep.store.root
    if spec is not None:
        value = run_value(sweep.store, sweep.plan, spec.run_id)
        directory = sweep.store.run(spec.run_id).path
        folder = directory / str(config.hydra.output_subdir)
        if config.hydra.output_subdir is not None and directory.is_dir() and not folder.is_dir():
            contents = {"config": spec.config_yaml, "overrides": yaml.safe_dump(job)}
            contents["hydra"] = OmegaConf.to_yaml(OmegaConf.create({"hydra": config.hydra}))
            for name, text in contents.items():
                write_file(folder / f"{name}.yaml", text.encode(), durable=False)
    job_return = JobReturn(job, config, config, str(directory), "train", JobStatus.COMPLETED)
    job_return.return_value = value
    return job_return


# ---- one run: alone, or as a job of a launcher that is not ours ---------------------------------------------------------------


def run_alone(config: DictConfig) -> float | list[float]:
    """Train the composed run as an experiment of one arm, and write its answer; returns its value."""
    refuse_settings(HydraConfig.get())
    state, job = outcome.get(), list(HydraConfig.get().overrides.task)
    sweep = state.sweep = Sweep(refuse(plan_jobs([job], outcome.get().overrides)))
    sweep.run_to_end()
    if HydraConfig.get().callbacks.answer.write:
        sweep.answer()
    (spec,) = sweep.plan.specs
    return run_value(sweep.store, sweep.plan, spec.run_id)


def run_job(config: DictConfig) -> float | list[float]:
    """Train one job of a sweep; returns its value, or NaN where it did not finish, so that the sweep goes on."""
    hydra = HydraConfig.get()
    refuse_settings(hydra)
    refuse_declarations(hydra.overrides.task)
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    experiment = (values.pop("experiment", None) or {}).get("name", "")
    run = load({str(key): value for key, value in values.items()})
    store, name = ResultStore(run.runtime.results), run_id(run)
    is_planned = experiment in store.plans()
    plan = Plan.read(store.plan(experiment)) if is_planned else plan_jobs([hydra.overrides.task], hydra.overrides.task)
    is_finished = run_state(store, name).status == "finished"
    note = {"overrides": list(hydra.overrides.task), "run": name, "before": is_finished, "error": ""}
    file = Path(hydra.sweep.dir) / _JOBS / f"{hydra.job.num}.json"
    write_file(file, json.dumps(note).encode())  # now, since a job that dies is of the sweep, too
    try:
        _train_job(run, store, plan, hydra)
    except (ConfigError, StoreError, RequeueError) as error:
        print(error, file=sys.stderr)
        write_file(file, json.dumps({**note, "error": str(error)}).encode())
    return run_value(store, plan, name)


def _train_job(run: RunConfig, store: ResultStore, plan: Plan, hydra: DictConfig) -> None:
    """Bring a run to its end here, or a part of the way where a stop comes; after a stop this process begins no other."""
    state = outcome.get(Outcome())  # the sweep's own where its jobs run in its process (hydra/launcher=basic)
    if state.summary is not None and state.summary.stopped_by is not None:
        return
    local_run = dataclasses.replace(run, runtime=dataclasses.replace(run.runtime, elsewhere=False))
    if reasons := [*refusals(local_run), *absent(local_run)]:
        raise ConfigError(f"this run cannot be trained here: {'; '.join(reasons)}")
    name = run_id(run)
    arm = next((arm.name for arm in plan.arms if name in arm.runs.values()), "")
    spec = RunSpec(run, name, arm_id(run), {"experiment": plan.name, "arm": arm, **cost_labels(run)})
    old_step = store.run(name).resume_step()
    with tempfile.TemporaryDirectory(prefix="harness-leases-") as leases:
        state.summary = dispatch_runs(
            [spec], store, run.runtime, PlainProgress(sys.stdout), f"job {hydra.job.num} of a sweep",
            content_hashes([run]), Path(leases) if slurm_job() else None,
        )  # fmt: skip
    if requeue_if_it_has_to_leave(state.summary, store.run(name).resume_step() > old_step):
        time.sleep(_SECONDS_TO_LEAVE)  # Slurm ends this job; a return would say that it is done


def run_value(store: ResultStore, plan: Plan, name: str) -> float | list[float]:
    """What a run answers to the metrics of the plan, in the unit that tables show: a number, or a list of several, for sweepers.

    NaN where the run is not finished or has no such value, which is said.
    """
    arm = next((arm for arm in plan.arms if name in arm.runs.values()), None)
    values = [math.nan] * len(plan.metrics)
    try:
        if arm is not None and store.run(name).status == "finished":
            values = _values(store, plan, arm, name)
    except StoreError as error:
        print(error, file=sys.stderr)
    missing_metrics = [metric.name for metric, value in zip(plan.metrics, values, strict=True) if math.isnan(value)]
    if missing_metrics and arm is not None and store.run(name).status == "finished":
        print(f"run {name} has no {', '.join(missing_metrics)}: a sweeper gets NaN for it", file=sys.stderr)
    return values[0] if len(values) == 1 else values


def _values(store: ResultStore, plan: Plan, arm: PlannedArm, name: str) -> list[float]:
    if plan.about_score:  # without the analysis, which takes a second to load
        value = score(store, name, plan.benchmark, plan.primary_cap)
        return [math.nan if value is None else plan.score.scale * value]
    seed = next(seed for seed, run in arm.runs.items() if run == name)
    single_arm = dataclasses.replace(arm, parent=None, runs={seed: name})
    return metrics_of(store, dataclasses.replace(plan, arms=(single_arm,), seeds=(seed,)))


# ---- the end ------------------------------------------------------------------------------------------------------------------


class Answer(Callback):  # type: ignore[misc]
    """Hydra's callback at the end of a sweep: tables, figures and page, whatever launched the runs."""

    def __init__(self, write: bool = True) -> None:
        self.write = write

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Forget the jobs of an earlier sweep that had the same directory, and check those that another launcher will take.

        Raises:
            SystemExit: they are refused, and `Outcome.code` raises the reason; Hydra goes on after any other error of a callback.
        """
        state, choices = outcome.get(), config.hydra.runtime.choices
        state.multirun = config
        shutil.rmtree(Path(config.hydra.sweep.dir) / _JOBS, ignore_errors=True)
        if choices["hydra/sweeper"] == "basic" and choices["hydra/launcher"] != "processes":
            try:
                state.checks = _check_jobs(config)
            except (ConfigError, StoreError) as error:
                state.error = error
                raise SystemExit from error

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Judge what the store holds of the sweep's runs; an error is raised by `Outcome.code`."""
        state = outcome.get()
        try:
            if state.sweep is None:
                _gather(config)
            if self.write and state.sweep is not None:
                state.sweep.answer()
        except Exception as error:
            state.error = error


def _check_jobs(config: DictConfig) -> list[Objection]:
    """Say what is wrong with the jobs of Hydra's own sweeper before any begins. Raises `ConfigError` and `StoreError` as `Sweep` does."""
    plan = refuse(plan_multirun(_launcher_overrides(config, outcome.get().overrides)))
    runtime = plan.arms[0].config.runtime
    refuse_imported(ResultStore(runtime.results), plan.name)
    objections = report_checks(plan, runtime.checks)
    report_data(plan.arms[0].config)
    return objections


def _gather(config: DictConfig) -> None:
    if notes := _notes(config):
        jobs = [_launcher_overrides(config, note["overrides"]) for note in notes]
        plan = refuse(plan_jobs(jobs, outcome.get().overrides))
        store = ResultStore(plan.arms[0].config.runtime.results)
        run_ids = {spec.run_id for spec in plan.specs}
        old_ids = run_ids & {note["run"] for note in notes if note["before"]}
        sweep = outcome.get().sweep = Sweep(plan, partial(summary_of, store=store, old_ids=old_ids, notes=notes))
        sweep.run_to_end()


def _notes(config: DictConfig) -> list[dict[str, Any]]:
    """What jobs of another launcher wrote of themselves: overrides, run, if it was finished before, and what error ended them."""
    files = sorted((Path(config.hydra.sweep.dir) / _JOBS).glob("*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


def finished_runs(part: Plan, store: ResultStore) -> frozenset[str]:
    names = (spec.run_id for spec in part.specs)
    return frozenset(name for name in names if run_state(store, name).status == "finished")


def summary_of(part: Plan, store: ResultStore, old_ids: Collection[str], notes: Sequence[Mapping[str, Any]]) -> Summary:
    """Summarise what other launchers made of runs, by what the store holds now; those in `old_ids` were finished before."""
    last_summary = outcome.get().summary  # of the last job in this process
    summary = Summary(skipped=list(old_ids), stopped_by=None if last_summary is None else last_summary.stopped_by)
    errors = {note["run"]: note["error"] for note in notes if note["error"]}
    for name in (spec.run_id for spec in part.specs if spec.run_id not in old_ids):
        state = run_state(store, name)
        if state.status == "finished":
            summary.finished.append(name)
        elif state.status == "running":
            summary.elsewhere.append(name)
        elif state.status in ("failed", "unreadable", layout.INCOMPLETE) or (
            name in errors and state.status != "interrupted"
        ):
            summary.failed.append(name)
        else:
            (summary.interrupted if state.attempts else summary.not_started).append(name)
        if name not in summary.finished and (reason := errors.get(name) or state.problem):
            summary.errors[name] = reason
    return summary


def refuse_settings(hydra: DictConfig) -> None:
    """Raise `ConfigError` where jobs would change the folder that a run's relative paths start from."""
    if hydra.job.chdir:
        raise ConfigError(
            "hydra.job.chdir=true: paths of a run (results, problems, checkpoints) are relative to where you call; leave it out"
        )


# ---- what is said -------------------------------------------------------------------------------------------------------------


def report_data(config: RunConfig) -> None:
    """Say what is wrong with the data before anything runs: golds the verifier cannot read, duplicates, train/test overlap."""
    from harness.problems.hygiene import report
    from harness.verify import VerifierConfig

    rules = VerifierConfig(**dataclasses.asdict(config.verifier))
    for finding in report(config.evaluation.benchmarks, config.task, rules):
        print(f"data {finding.name}: [{finding.check}] {finding.text}", file=sys.stderr)


def refuse_imported(store: ResultStore, name: str) -> None:
    """Refuse the name of an experiment of imported logs: it has no runs to make, and writing over its plan would lose it."""
    if name in store.plans() and store.plan(name).get("foreign"):
        raise ConfigError(f"experiment.name={name}: the store holds imported logs under this name; choose another")


def _say(line: str) -> None:
    if line:
        print(line, file=sys.stderr)


def describe(name: str, total: int, summary: Summary, command: str) -> str:
    if len(summary.skipped) == total:
        runs = f"all {total} runs were" if total > 1 else "its run was"
        return f"{name}: {runs} finished already; nothing to do"
    parts = [f"{len(summary.finished)} finished", *[f"{len(summary.skipped)} finished before"] * bool(summary.skipped)]
    for label in ("failed", "interrupted", "elsewhere", "not_started"):
        count = len(getattr(summary, label))
        if count:
            parts.append(f"{count} {label.replace('_', ' ')}")
    lines = [f"{name}: {format_count(total)}: {', '.join(parts)}"]
    lines += [
        f"  {run_id} {_outcome(summary, run_id)}: {_shorten(reason)}"
        for run_id, reason in summary.errors.items()
        if reason.strip()
    ]
    if not summary.ended_well:
        lines.append(f"run the same command again to finish the rest: {command}")
    return "\n".join(lines)


def _outcome(summary: Summary, run_id: str) -> str:
    run_ids_by_outcome = {"failed": summary.failed, "was interrupted": summary.interrupted}
    return next((words for words, run_ids in run_ids_by_outcome.items() if run_id in run_ids), "was not run")


def _shorten(reason: str) -> str:
    """Return the line that says why a run failed: what killed it, else the last line that it wrote."""
    lines = reason.strip().splitlines()
    killed = lines[0].startswith("killed by")
    return lines[0].partition("; ")[0] if killed else lines[-1]


def exit_code(summary: Summary) -> int:
    """75: stopped or elsewhere, repeat the command; 1: something failed; 0: complete."""
    if summary.failed and summary.stopped_by is None:
        return Exit.FOUND
    return Exit.DONE if summary.ended_well else Exit.AGAIN
