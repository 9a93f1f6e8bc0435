"""Search over configuration keys: Optuna asks, ordinary runs answer, the study is told.

A trial is a configuration; its value is the mean over seeds, each seed a run in the store like any other: shared with experiments, resumed
after a crash, never run twice. The study lies in the store as an append-only journal, so a search can be stopped and continued at any
moment, by several processes at once, until it has the wanted number of trials.
"""

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna

from harness.configuration.compose import compose_run, parse_overrides
from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash, flatten, identity
from harness.configuration.schema import RunConfig, load_dataclass
from harness.configuration.sections import of_machine
from harness.execution.supervisor import Summary, worker_count
from harness.experiment.checks import Objection, absent, check_plan, refusals, report
from harness.experiment.declaration import Experiment, refuse_seed
from harness.experiment.designs import short_names
from harness.experiment.plan import Arm, Plan, PlannedArm, RunSpec
from harness.experiment.planning import (
    common_overrides,
    declared_values,
    plan_of,
    planned_arm,
    refuse_benchmark,
)
from harness.experiment.power import score
from harness.model.system import visible_gpus
from harness.search.study import (
    SearchSettings,
    grid_values,
    open_study,
    overrides_of,
    parse_space,
    sampler_of,
    search_of,
)
from harness.store import ResultStore

_ASKING_SECONDS = 60.0
_DRAWN_TRIALS = 8
_TRIAL = "trial_"
_REPEATS = "repeats"  # of a trial: the number of the failed one that it stands for
_DECLARED = {"name", "title", "question", "benchmark"}
_SEEDS = "'experiment.seeds=[0,1]', or hydra.sweeper.seeds=[0,1]"


class Search:
    """A study and its trials: ask for some, dispatch their runs like any others, tell what came of them."""

    def __init__(
        self, experiment: Experiment, fixed_overrides: Sequence[str], store: ResultStore, command: str
    ) -> None:
        self.experiment, self.store, self._command = experiment, store, command
        self.settings = settings = search_of(experiment)
        if experiment.match != "steps":
            raise ConfigError(
                f"experiment.match={experiment.match} holds for arms, not for the trials of a search; leave it out, or give every "
                "trial a budget: training.generated_tokens="
            )
        self.parameters = parse_space(settings.space)
        self.fixed_overrides = list(fixed_overrides)
        self._refuse_what_would_not_count()
        base = compose_run(self.fixed_overrides)
        if not any(parameter.key.lstrip("+").startswith("evaluation") for parameter in self.parameters):
            refuse_benchmark(experiment.benchmark, base, "the trials")
        self._refuse_what_cannot_run()
        if base.runtime.checks != "off":
            report(self._shared_objections(), base.runtime.checks)
        self.study = open_study(settings, self.parameters, store, experiment.name, self._declaration(base))
        self.total = settings.trials
        if settings.sampler == "grid":
            self.total = min(self.total, math.prod(map(len, grid_values(self.parameters).values())))
        self._open: dict[int, list[RunSpec]] = {}  # runs of the trials that are not told yet
        self.reasons: list[str] = []  # why trials of this call could not begin
        self.summary = Summary()  # of all runs of this call
        self._arms: dict[int, PlannedArm] = {}
        self._adopt()

    def _declaration(self, base: RunConfig) -> dict[str, Any]:
        """Return what every trial of the study has in common."""
        settings = flatten({key: value for key, value in identity(base).items() if key != "seed"})
        return {
            "space": self.settings.space,
            "objectives": self.settings.objectives,
            "seeds": self.experiment.seeds,
            "benchmark": self.experiment.benchmark,
            **settings,
        }

    def _refuse_what_would_not_count(self) -> None:
        """Raise `ConfigError` for a fixed value of a key that is searched, and for a name whose plan would be written over."""
        keys = {parameter.key.lstrip("+") for parameter in self.parameters}
        for item in parse_overrides(self.fixed_overrides):
            if item.key_or_group in keys:
                raise ConfigError(
                    f"{item.input_line}: {item.key_or_group} is searched, so a fixed value has no effect; leave one of the two out"
                )
        name, store = self.experiment.name, self.store
        arms = store.plan(name)["arms"] if name in store.plans() else []
        if not all(arm["name"].startswith(_TRIAL) for arm in arms):
            raise ConfigError(f"experiment.name={name} is another experiment of the store; choose another")

    def _refuse_what_cannot_run(self) -> None:
        """Raise `ConfigError` for a key of the space none of whose values can be composed by itself, before anything runs."""
        for parameter in self.parameters:
            errors = []
            for override in parameter.edge_overrides:
                try:
                    compose_run([*self.fixed_overrides, override])
                except ConfigError as error:
                    errors.append(f"{override}: {error}")
            if len(errors) == len(parameter.edge_overrides):
                raise ConfigError(f"experiment.search.space: {errors[0]}")
            for line in errors:
                sys.stderr.write(f"note: trials with {line}\n")

    def _shared_objections(self) -> list[Objection]:
        """The objections that trials drawn at random have in common: those to a searched value are no objections to the search."""
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        objections = []
        for _ in range(_DRAWN_TRIALS):
            trial = study.ask({item.key: item.distribution for item in self.parameters})
            with contextlib.suppress(ConfigError):  # a combination that cannot run
                plan = plan_of(self.experiment, [self._arm_of(trial)], self._command)
                objections.append([dataclasses.replace(item, arm="every trial") for item in check_plan(plan)])
        if len(objections) < 2:  # what one alone has may be of its values
            return []
        return [item for item in objections[0] if all(item in others for others in objections)]

    def run(self, dispatch: Callable[[Sequence[RunSpec]], Summary], places: int) -> Summary:
        """Bring the study to its total: `dispatch` as many trials as fill the `places`, tell, and again."""
        while self.summary.stopped_by is None and (specs := self.ask(places)):
            self.record()
            self.summary = self.summary.then(dispatch(specs))
            self.tell(self.summary)
        self.record()
        return self.summary

    def record(self) -> None:
        """Store the trials as an experiment, for tables, figures and status; nothing before one could be composed."""
        if self._arms:
            self.store.write_plan(self.experiment.name, self.plan.record())

    def answer(self) -> None:
        """Print the best trials."""
        print("\n".join(best_lines(self)))

    def ask(self, places: int) -> list[RunSpec]:
        """Runs of the trials that are open already, else of so many new ones that they fill the places."""
        while len(self._specs()) < places and (trial_count := self.trial_count) < self.total:
            # Seeded by the number of trials: a search that goes on, or a second process, does not propose the first points again.
            self.study.sampler = sampler_of(self.settings, self.parameters, self.settings.seed + trial_count)
            self._begin(self.study.ask({item.key: item.distribution for item in self.parameters}))
        return self._specs()

    def tell(self, summary: Summary) -> None:
        """Tell the study how trials ended. One whose runs were interrupted or are another process's stays open for the next call."""
        for number in list(self._open):
            self._settle(number, self._open.pop(number), summary)

    def _specs(self) -> list[RunSpec]:
        specs = (spec for specs in self._open.values() for spec in specs)
        return list({spec.run_id: spec for spec in specs}.values())

    # ---- the study's side -----------------------------------------------------------------------------------------------

    @property
    def trials(self) -> list[Any]:
        """The trials of the study; a failed one that was asked for again is left out."""
        trials = self.study.get_trials(deepcopy=False)
        repeated = {trial.user_attrs.get(_REPEATS) for trial in trials}
        return [trial for trial in trials if trial.number not in repeated]

    @property
    def trial_count(self) -> int:
        """Trials that the study has; those that wait to be asked for again are none yet."""
        return sum(trial.state != optuna.trial.TrialState.WAITING for trial in self.trials)

    @property
    def running_count(self) -> int:
        """Trials that are asked for and not told."""
        return sum(trial.state == optuna.trial.TrialState.RUNNING for trial in self.trials)

    @property
    def has_failed(self) -> bool:
        """Say if a run of this call failed, or the study holds a trial that failed by a run."""
        return bool(self.summary.failed or self.reasons or any(map(self._is_failed, self.trials)))

    @property
    def is_complete(self) -> bool:
        """Say if the study has its trials, and all of them are told."""
        return self.running_count == 0 and self.trial_count >= self.total and self.summary.stopped_by is None

    @property
    def plan(self) -> Plan:
        """The trials as an experiment, for tables, figures and status; those that other processes brought to their end, too."""
        for trial in self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)):
            if trial.number not in self._arms:
                self._plan_arm(trial)
        arms = [self._arms[number] for number in sorted(self._arms)]
        labels = short_names([arm.overrides[len(self.fixed_overrides) :] for arm in arms])
        arms = [dataclasses.replace(arm, label=label) for arm, label in zip(arms, labels, strict=True)]
        return plan_of(self.experiment, arms, self._command)

    def _adopt(self) -> None:
        """Take up the trials of earlier calls: done ones for the plan, others to bring them to their end, failed ones once more."""
        for trial in self.trials:
            if self._is_failed(trial):
                self.study.enqueue_trial(trial.params, user_attrs={_REPEATS: trial.number})
            elif not self._is_whole(trial):
                self._abandon(trial)
            elif trial.state == optuna.trial.TrialState.RUNNING:
                self._begin(trial)
            elif trial.state == optuna.trial.TrialState.COMPLETE:
                self._plan_arm(trial)

    def _is_whole(self, trial: Any) -> bool:
        """Say if a trial has a value of every key."""
        return bool(trial.params.keys() == {parameter.key for parameter in self.parameters})

    def _is_failed(self, trial: Any) -> bool:
        """Say if a trial failed by a run, which may go better another time: not since it cannot run, or since its runs have no value."""
        if trial.state != optuna.trial.TrialState.FAIL or not self._is_whole(trial):
            return False
        try:
            arm = self._arm_of(trial)
        except ConfigError:
            return False
        return any(self.store.run(arm.spec(seed).run_id).status != "finished" for seed in self.experiment.seeds)

    def _abandon(self, trial: Any) -> None:
        """A trial whose process died before it knew what to try is no trial; one that was asked for just now may be another process's."""
        start = trial.datetime_start
        is_stale = start is None or (datetime.now(UTC) - start.astimezone(UTC)).total_seconds() > _ASKING_SECONDS
        if trial.state == optuna.trial.TrialState.RUNNING and is_stale:
            self._fail(trial.number)

    def _begin(self, trial: Any) -> None:
        try:
            arm = self._plan_arm(trial)
        except ConfigError as error:  # a combination that cannot run is a failed trial, not the end
            settings = " ".join(overrides_of(self.parameters, trial.params))
            self.reasons.append(f"trial {trial.number} failed: {settings}: {error}")
            self._fail(trial.number)
            return
        self._open[trial.number] = [arm.spec(seed) for seed in self.experiment.seeds]

    def _plan_arm(self, trial: Any) -> PlannedArm:
        self._arms[trial.number] = self._arm_of(trial)
        return self._arms[trial.number]

    def _arm_of(self, trial: Any) -> PlannedArm:
        arm = Arm(f"{_TRIAL}{trial.number:04d}", (*self.fixed_overrides, *overrides_of(self.parameters, trial.params)))
        return planned_arm(arm, compose_run(arm.overrides), self.experiment)

    def _settle(self, number: int, specs: Sequence[RunSpec], summary: Summary) -> None:
        finished = all(self.store.run(spec.run_id).status == "finished" for spec in specs)
        values = self._values(specs) if finished else None
        if values is not None:
            self.study.tell(number, values, skip_if_finished=True)
            return
        if finished:  # it will never have one
            names = " or ".join(self.settings.objectives)
            self.reasons.append(f"trial {number} failed: its runs have no value of {names}")
        if finished or any(spec.run_id in summary.failed for spec in specs):
            self._arms.pop(number, None)
            self._fail(number)

    def _fail(self, number: int) -> None:
        # Another process that works on the same study may have told it first, here and in `_settle`.
        self.study.tell(number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)

    def _values(self, specs: Sequence[RunSpec]) -> list[float] | None:
        means = []
        for name in self.settings.objectives:
            values = [self._objective(spec, name.lstrip("-")) for spec in specs]
            scores = [value for value in values if value is not None]
            if len(scores) < len(values):
                return None
            means.append(sum(scores) / len(scores))
        return means

    def _objective(self, spec: RunSpec, name: str) -> float | None:
        if name == "avg":
            return score(self.store, spec.run_id, self.experiment.benchmark, spec.config.score_cap)
        if name == "seconds":
            return float(self.store.run(spec.run_id).steps()["seconds_total"].sum())
        # A column that these runs do not have is no value: the trial fails, and the search tells so at its end.
        value = (self.store.run(spec.run_id).last_step() or {}).get(name)
        return None if value is None else float(value)


def best_lines(search: Search) -> list[str]:
    """The best trials in words: one for a single objective, the Pareto front for several."""
    states = [trial.state for trial in search.trials]
    counts = [f"{states.count(state)} {state.name.lower()}" for state in optuna.trial.TrialState if state in states]
    lines = [f"{search.experiment.name}: {', '.join(counts)}", *search.reasons]
    if optuna.trial.TrialState.COMPLETE not in states:
        return [*lines, "no trial is complete yet"]
    for trial in search.study.best_trials:
        pairs = zip(search.settings.objectives, trial.values, strict=True)
        named = [(name.lstrip("-"), value) for name, value in pairs]
        values = ", ".join(
            f"avg {100 * value:.1f} %" if name == "avg" else f"{name} {value:.4g}" for name, value in named
        )
        settings = " ".join(overrides_of(search.parameters, trial.params))
        lines.append(f"trial {trial.number}: {values}: {settings}")
    return lines


def open_search(
    arguments: Sequence[str], options: Mapping[str, Any], command: str, experiment: Experiment | None = None
) -> tuple[Search, int]:
    """The study of a declaration, or of the ranges among the arguments; and how many runs fit at once. Raises `ConfigError`."""
    refuse_seed(arguments, _SEEDS)
    if experiment is not None:
        _refuse_options(options)
        fixed_overrides = [*experiment.base, *experiment.overrides, *common_overrides(arguments)]
    else:
        experiment, fixed_overrides = _from_arguments(arguments, options)
    base = compose_run(fixed_overrides)
    if reasons := [*refusals(base), *absent(base)]:
        raise ConfigError(f"{experiment.name} cannot be run: {'; '.join(reasons)}")
    gpus = len(visible_gpus()) if base.runtime.device == "cuda" else 0
    search = Search(experiment, fixed_overrides, ResultStore(base.runtime.results), command)
    return search, worker_count(base.runtime, gpus)


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for an option of the sweeper beside a declared search, which has its own."""
    defaults = {**dataclasses.asdict(SearchSettings()), "seeds": [0]}
    for key, value in options.items():
        if value != defaults[key]:
            own_key = "experiment.seeds" if key == "seeds" else f"experiment.search.{key}"
            raise ConfigError(f"hydra.sweeper.{key}={value} is for ranges, and this one is declared; set {own_key}=")


def _from_arguments(arguments: Sequence[str], options: Mapping[str, Any]) -> tuple[Experiment, list[str]]:
    values, arguments = declared_values(arguments)
    if unknown_keys := sorted(values.keys() - _DECLARED):
        raise ConfigError(
            f"experiment.{unknown_keys[0]} is not for a search of ranges, which may say experiment.name, title, question and benchmark; "
            "set hydra.sweeper.objectives, seeds, trials and sampler, or declare an experiment with experiment.search"
        )
    space = [str(item.input_line) for item in parse_overrides(arguments) if item.is_sweep_override()]
    fixed_overrides = [item for item in arguments if item not in space]
    if not space:
        raise ConfigError("nothing to search: give 'KEY=interval(low,high)' or 'KEY=choice(a,b)' or name an experiment")
    search, seeds = dict(options), list(options["seeds"])
    del search["seeds"]
    identity_overrides = [item for item in fixed_overrides if not of_machine(item)]
    name = f"search_{content_hash(sorted(space), sorted(identity_overrides), seeds, search['objectives'])[:8]}"
    benchmark = next(iter(compose_run(fixed_overrides).evaluation.benchmarks), "")
    defaults = {"name": name, "title": " ".join([*space, *identity_overrides]), "benchmark": benchmark, "seeds": seeds}
    declaration = {**defaults, **values, "search": {"space": space, **search}}
    return load_dataclass(Experiment, declaration, "experiment"), fixed_overrides
