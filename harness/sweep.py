"""Search over configuration keys: Optuna asks, ordinary runs answer, the study is told.

A trial is a configuration; its value is the mean over seeds, each seed a run in the store like any other: shared with experiments, resumed
after a crash, never run twice. The study lies in the store as an append-only journal, so a search can be stopped and continued at any
moment, by several processes at once, until it has the wanted number of trials.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna

from harness.compose import compose_run
from harness.config_error import ConfigError, require, require_range
from harness.ladder import Arm
from harness.plan import Experiment, Plan, PlannedArm, RunSpec
from harness.spread import score
from harness.store import ResultStore, layout
from harness.supervise import Feed
from harness.supervise.attempt import Runnable
from harness.sweep_space import Parameter, overrides_of, parse_space

SAMPLERS = ("tpe", "random", "grid", "cmaes", "nsga2")
PRUNERS = ("none", "median", "halving")
STUDY = "study.journal"


@dataclass
class Search:
    """What `experiment.search` declares.

    Attributes:
        space: overrides with `interval`, `range` or `choice` values (`tag(log,interval(...))` for a logarithmic scale).
        sampler: tpe, random, grid (all values countable), cmaes (numbers only, one objective) or nsga2.
        trials: how many the study is to have in total, counting those it has.
        objectives: avg (the experiment's benchmark at the training cap), or a column of the newest metrics row such as
            generated_tokens_total; a minus sign in front: less is better. Two or more: a Pareto front.
        pruner: none, median or halving: ends trials whose first seed lags behind at an evaluation (one objective only).
        seed: of the sampler.
    """

    space: list[str] = field(default_factory=list)
    sampler: str = "tpe"
    trials: int = 20
    objectives: list[str] = field(default_factory=lambda: ["avg"])
    pruner: str = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        require("experiment.search.sampler", self.sampler, SAMPLERS)
        require("experiment.search.pruner", self.pruner, PRUNERS)
        require_range("experiment.search.trials", self.trials, 1)
        if not self.objectives:
            raise ConfigError("experiment.search.objectives must name at least one, for example [avg]")
        if len(self.objectives) > 1 and self.pruner != "none":
            raise ConfigError("experiment.search.pruner needs a single objective; set it to none")
        if len(self.objectives) > 1 and self.sampler == "cmaes":
            raise ConfigError("experiment.search.sampler=cmaes has a single objective; use tpe or nsga2")

    @property
    def directions(self) -> list[str]:
        """Optuna's direction of each objective."""
        return ["minimize" if name.startswith("-") else "maximize" for name in self.objectives]


def open_study(
    search: Search, parameters: Sequence[Parameter], store: ResultStore, name: str
) -> optuna.Study:
    """The study of this name in the store, made or continued.

    Raises:
        ConfigError: the sampler cannot search this space, or the stored study has other objectives.
    """
    path = layout.plan_file(store.root, name).with_name(STUDY)
    path.parent.mkdir(parents=True, exist_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name=name,
        directions=search.directions,
        load_if_exists=True,
        pruner=_pruner(search),
    )
    if [direction.name.lower() for direction in study.directions] != search.directions:
        raise ConfigError(f"{path} has other objectives; give the search another experiment.name")
    study.sampler = _sampler(search, parameters, search.seed)
    return study


def _pruner(search: Search) -> optuna.pruners.BasePruner:
    if search.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1)
    if search.pruner == "halving":
        return optuna.pruners.SuccessiveHalvingPruner()
    return optuna.pruners.NopPruner()


def _sampler(search: Search, parameters: Sequence[Parameter], seed: int) -> optuna.samplers.BaseSampler:
    samplers = optuna.samplers
    if search.sampler == "random":
        return samplers.RandomSampler(seed=seed)
    if search.sampler == "nsga2":
        return samplers.NSGAIISampler(seed=seed)
    if search.sampler == "grid":
        sampler = samplers.GridSampler(grid_values(parameters), seed=search.seed)
        # It would stop `Study.optimize` after the last point, which we do not use: the number of points bounds the trials.
        sampler.after_trial = lambda *_: None
        return sampler
    if search.sampler == "cmaes":
        if any(parameter.choices for parameter in parameters):
            raise ConfigError("experiment.search.sampler=cmaes needs numbers; use tpe for choice(...)")
        try:
            return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        except ImportError as error:
            raise ConfigError(
                "experiment.search.sampler=cmaes needs the package cmaes: pip install cmaes"
            ) from error
    # constant_liar: trials that still run count as bad ones, so that parallel workers spread out.
    return samplers.TPESampler(
        seed=seed, constant_liar=True, n_startup_trials=min(10, max(2, search.trials // 3))
    )


def grid_values(parameters: Sequence[Parameter]) -> dict[str, list[Any]]:
    """All values of each parameter. Raises `ConfigError` for one that has no end of them."""
    for parameter in parameters:
        if parameter.values is None:
            raise ConfigError(
                f"experiment.search.sampler=grid cannot count the values of {parameter.key}; use choice() or range()"
            )
    return {parameter.key: list(parameter.values or ()) for parameter in parameters}


@dataclass
class _Trial:
    """A trial that is not told yet."""

    trial: Any
    number: int
    specs: list[RunSpec]
    open: set[str]
    outcomes: dict[str, str] = field(default_factory=dict)
    reported: int = 0


class Sweep(Feed):
    """Feeds a supervisor with the runs of trials and tells the study how they ended."""

    def __init__(
        self,
        experiment: Experiment,
        search: Search,
        fixed: Sequence[str],
        store: ResultStore,
        command: str,
    ) -> None:
        self.experiment, self.search, self.store = experiment, search, store
        self.parameters = parse_space(search.space)
        self.fixed = list(fixed)
        self.study = open_study(search, self.parameters, store, experiment.name)
        self.total = search.trials
        if search.sampler == "grid":
            points = 1
            for values in grid_values(self.parameters).values():
                points *= len(values)
            self.total = min(self.total, points)
        self._command = command
        self._trials: dict[int, _Trial] = {}
        self._queue: list[RunSpec] = []
        self._stopping: set[str] = set()
        self._arms: dict[int, PlannedArm] = {}
        self._adopt()

    # ---- the supervisor's side ------------------------------------------------------------------------------------------

    def more(self, free: int) -> Sequence[Runnable]:
        """Runs of trials already asked for, else of a new one."""
        while len(self._queue) < free and (asked := self.asked) < self.total:
            # Seeded by the number of trials: a search that goes on, or a second process, does not propose the first points again.
            self.study.sampler = _sampler(self.search, self.parameters, self.search.seed + asked)
            trial = self.study.ask()
            overrides = [parameter.suggest(trial) for parameter in self.parameters]
            self._begin(trial, trial.number, overrides)
        taken, self._queue = self._queue[:free], self._queue[free:]
        return taken

    def observe(self, run_id: str, row: Mapping[str, Any]) -> None:
        """Report the evaluations of a trial's first seed, and end the trial if it lags behind."""
        if self.search.pruner == "none":
            return
        for trial in self._trials.values():
            if trial.specs[0].run_id != run_id or not hasattr(trial.trial, "report"):
                continue
            steps = self.store.run(run_id).sample_steps(self.experiment.benchmark)
            for step in steps[trial.reported :]:
                value = self._score(trial.specs[0], step)
                trial.reported += 1
                if value is not None:
                    trial.trial.report(value, step)
                last = step >= trial.specs[0].config.training.steps
                if step > 0 and not last and trial.trial.should_prune():
                    self._stopping |= trial.open
                    self._queue = [spec for spec in self._queue if spec.run_id not in trial.open]
                    self._tell(trial, state=optuna.trial.TrialState.PRUNED)
                    return

    def to_stop(self) -> Iterable[str]:
        """Runs of pruned trials."""
        return self._stopping

    def ended(self, run_id: str, outcome: str) -> None:
        """Tell the study about every trial that is complete with this run."""
        for trial in list(self._trials.values()):
            if run_id in trial.open:
                trial.open.discard(run_id)
                trial.outcomes[run_id] = outcome
                if not trial.open:
                    self._settle(trial)

    # ---- the study's side -----------------------------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """Trials that the study has, in whatever state."""
        return len(self.study.get_trials(deepcopy=False))

    @property
    def unsettled(self) -> int:
        """Trials that are asked for and not told."""
        running = (optuna.trial.TrialState.RUNNING,)
        return len(self.study.get_trials(deepcopy=False, states=running))

    def settle_rest(self) -> None:
        """Tell about trials whose runs another supervisor finished meanwhile; the others stay open for the next call."""
        for trial in list(self._trials.values()):
            self._settle(trial)

    def plan(self) -> Plan:
        """The trials as an experiment, for tables, figures and status."""
        arms = [self._arms[number] for number in sorted(self._arms)]
        return Plan(self.experiment, arms, self._command)

    def _adopt(self) -> None:
        """Take up the trials of earlier calls: done ones for the plan, unfinished ones to bring them to their end."""
        for frozen in self.study.get_trials(deepcopy=False):
            if not frozen.params:
                continue
            overrides = overrides_of(self.parameters, frozen.params)
            if frozen.state == optuna.trial.TrialState.RUNNING:
                self._begin(frozen, frozen.number, overrides)
            elif frozen.state == optuna.trial.TrialState.COMPLETE:
                self._plan_arm(frozen.number, overrides)

    def _begin(self, trial: Any, number: int, overrides: list[str]) -> None:
        try:
            planned = self._plan_arm(number, overrides)
        except ConfigError:  # a combination that cannot run is a failed trial, not the end of the search
            self._tell_number(number, state=optuna.trial.TrialState.FAIL)
            return
        specs = [planned.runs[seed] for seed in self.experiment.seeds]
        handed_out = {run_id for other in self._trials.values() for run_id in other.open}
        self._trials[number] = _Trial(trial, number, specs, {spec.run_id for spec in specs})
        self._queue += [spec for spec in specs if spec.run_id not in handed_out]

    def _plan_arm(self, number: int, overrides: list[str]) -> PlannedArm:
        config = compose_run([*self.fixed, *overrides])
        name = f"trial_{number:04d}"
        labels = {"experiment": self.experiment.name, "arm": name}
        runs = {
            seed: RunSpec.of(dataclasses.replace(config, seed=seed), labels) for seed in self.experiment.seeds
        }
        arm = Arm(name, (*self.fixed, *overrides), label=", ".join(overrides))
        self._arms[number] = PlannedArm(arm, config, runs)
        return self._arms[number]

    def _settle(self, trial: _Trial) -> None:
        states = [self.store.run(spec.run_id).status for spec in trial.specs]
        if all(state == "finished" for state in states):
            values = self._values(trial.specs)
            if values is not None:
                self._tell(trial, values=values)
                return
        if "failed" in trial.outcomes.values():
            self._tell(trial, state=optuna.trial.TrialState.FAIL)
        elif not trial.open:
            # Interrupted or elsewhere: the trial stays open in the study, and the next call takes it up.
            self._trials.pop(trial.number, None)

    def _tell(self, trial: _Trial, **what: Any) -> None:
        self._trials.pop(trial.number, None)
        if "state" in what:
            self._arms.pop(trial.number, None)
        self._tell_number(trial.number, **what)

    def _tell_number(self, number: int, **what: Any) -> None:
        # Another process that works on the same study may have told it first.
        with contextlib.suppress(ValueError):
            self.study.tell(number, **what)

    def _values(self, specs: Sequence[RunSpec]) -> list[float] | None:
        rows = [
            [self._objective(spec, name.lstrip("-")) for name in self.search.objectives] for spec in specs
        ]
        columns = list(zip(*rows, strict=True))
        if any(value is None for column in columns for value in column):
            return None
        return [sum(float(value or 0.0) for value in column) / len(column) for column in columns]

    def _objective(self, spec: RunSpec, name: str) -> float | None:
        if name == "avg":
            return self._score(spec)
        if name == "seconds":
            return float(self.store.run(spec.run_id).steps()["seconds_total"].sum())
        row = self.store.run(spec.run_id).last_step() or {}
        if name not in row:
            raise ConfigError(
                f"experiment.search.objectives: {name!r} is no column of the metrics; use avg, seconds, or one of "
                f"{', '.join(sorted(row))}"
            )
        return None if row[name] is None else float(row[name])

    def _score(self, spec: RunSpec, step: int | None = None) -> float | None:
        cap = spec.config.sampling.max_response_tokens
        return score(self.store, spec.run_id, self.experiment.benchmark, cap, step)


def best_lines(sweep: Sweep) -> list[str]:
    """The best trials in words: one for a single objective, the Pareto front for several."""
    done = [t for t in sweep.study.get_trials(deepcopy=False) if t.state == optuna.trial.TrialState.COMPLETE]
    counts = {state.name.lower(): 0 for state in optuna.trial.TrialState}
    for trial in sweep.study.get_trials(deepcopy=False):
        counts[trial.state.name.lower()] += 1
    lines = [f"{sweep.experiment.name}: " + ", ".join(f"{n} {state}" for state, n in counts.items() if n)]
    if not done:
        return [*lines, "no trial is complete yet"]
    for trial in sweep.study.best_trials:
        values = ", ".join(
            f"{name.lstrip('-')} {value:.4g}"
            for name, value in zip(sweep.search.objectives, trial.values, strict=True)
        )
        settings = " ".join(overrides_of(sweep.parameters, trial.params))
        lines.append(f"trial {trial.number}: {values}: {settings}")
    return lines


def study_figures(sweep: Sweep, folder: Path) -> list[Path]:
    """Importance of each key for each objective, and contours over pairs of keys, as PDF and PNG. Needs two complete trials."""
    from harness.sweep_figures import draw

    return draw(sweep.study, [name.lstrip("-") for name in sweep.search.objectives], folder)


def search_of(experiment: Experiment) -> Search | None:
    """The experiment's search, None where it declares arms. Raises `ConfigError` for an unknown key."""
    if experiment.search is None:
        return None
    known = [item.name for item in dataclasses.fields(Search)]
    for key in experiment.search:
        require("key of experiment.search", key, known)
    return Search(**experiment.search)
