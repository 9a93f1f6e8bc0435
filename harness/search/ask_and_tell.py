"""Search over configuration keys: Optuna proposes, ordinary runs answer, the study is told.

A trial is a configuration, an arm of the search's stored plan; its value is the mean over seeds, each seed a run in the store like any
other: shared with experiments, resumed after a crash, never run twice. Nothing else is stored. Each call makes the study anew from plan and
runs, so a search can be stopped and continued at any moment, until it has the wanted number of trials.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import TrialState

from harness.configuration.compose import compose_run, parse_overrides
from harness.configuration.error import ConfigError
from harness.configuration.numbers import format_count
from harness.configuration.schema import load_dataclass
from harness.execution.supervisor import Summary, worker_count
from harness.experiment.checks import absent, refusals
from harness.experiment.declaration import Experiment, refuse_seed
from harness.experiment.designs import short_names
from harness.experiment.plan import Arm, Plan, PlannedArm, RunSpec
from harness.experiment.planning import common_overrides, plan_of, planned_arm, refuse_benchmark
from harness.experiment.power import score
from harness.model.system import visible_gpus
from harness.search.study import SearchSettings, overrides_of, parse_space
from harness.store import ResultStore, layout
from harness.store.lease import acquire

_TRIAL = "trial_"


class Search:
    """A study and its trials: ask for some, dispatch their runs like any others, tell what came of them."""

    def __init__(
        self, experiment: Experiment, fixed_overrides: Sequence[str], store: ResultStore, command: str
    ) -> None:
        self.experiment, self.store, self._command = experiment, store, command
        self.settings = settings = load_dataclass(SearchSettings, experiment.search, "experiment.search")
        if experiment.match != "steps":
            raise ConfigError(f"experiment.match={experiment.match} holds for arms; set training.generated_tokens=")
        self.parameters = parse_space(settings.space)
        self._distributions = {item.key: item.distribution for item in self.parameters}
        self.fixed_overrides = list(fixed_overrides)
        self._refuse_what_would_not_count()
        base = compose_run(self.fixed_overrides)
        if not any(parameter.key.lstrip("+").startswith("evaluation") for parameter in self.parameters):
            refuse_benchmark(experiment.benchmark, base, "the trials")
        self._refuse_what_cannot_run()
        self.study = optuna.create_study(directions=settings.directions)
        self._open: dict[int, list[RunSpec]] = {}  # runs of the trials that are not told yet
        self.reasons: list[str] = []  # why trials of this call have no value
        self.summary = Summary()  # of all runs of this call
        self._arms: dict[int, PlannedArm] = {}
        self._adopt()

    def _refuse_what_would_not_count(self) -> None:
        """Raise `ConfigError` for a fixed value of a key that is searched, and for a name whose plan would be written over."""
        keys = {parameter.key.lstrip("+") for parameter in self.parameters}
        for item in parse_overrides(self.fixed_overrides):
            if item.key_or_group in keys:
                raise ConfigError(f"{item.input_line}: the key is searched, so a fixed value has no effect")
        if not all(re.fullmatch(rf"{_TRIAL}\d+", arm["name"]) for arm in self._stored_arms()):
            raise ConfigError(f"experiment.name={self.experiment.name} is another experiment's; choose another")

    def _stored_arms(self) -> list[dict[str, Any]]:
        name, store = self.experiment.name, self.store
        return list(store.plan(name)["arms"]) if name in store.plans() else []

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

    def run(self, dispatch: Callable[[Sequence[RunSpec]], Summary], places: int) -> Summary:
        """Bring the study to its total: `dispatch` as many trials as fill the `places`, tell, and again.

        Raises `RunClaimed` where another process is at the same search.
        """
        lock = layout.experiment_dir(self.store.root, self.experiment.name) / layout.CLAIM_LOCK
        with acquire(lock):
            self._adopt()  # what another process did since this search was opened
            while self.summary.stopped_by is None and (specs := self.ask(places)):
                self.record()
                latest = dispatch(specs)
                self.summary = self.summary.then(latest)
                self.tell(self.summary)
                if not (latest.finished or latest.skipped or latest.failed):
                    break  # others have what is open
            self.record()
        return self.summary

    def record(self) -> None:
        """Store the trials as an experiment, for tables, figures, status and the next call; nothing before one could be composed."""
        if self._arms:
            self.store.write_plan(self.experiment.name, self.plan.record())

    def answer(self) -> None:
        """Print the best trials."""
        print("\n".join(best_lines(self)))

    def ask(self, places: int) -> list[RunSpec]:
        """Runs of the trials that are open already, else of so many new ones that they fill the places."""
        while len(self._specs()) < places and (number := self.trial_count) < self.settings.trials:
            self.study.sampler = self.settings.sampler_at(number)
            trial = self.study.ask(self._distributions)
            try:
                self._arms[number] = self._arm_of(number, trial.params)
            except ConfigError as error:  # a combination that cannot run is a failed trial, not the end
                settings = " ".join(overrides_of(self.parameters, trial.params))
                self._fail(number, f"{settings}: {error}")
            else:
                self._begin(number)
        return self._specs()

    def tell(self, summary: Summary) -> None:
        """Tell the study how trials ended. One whose runs were interrupted or are another process's stays open for the next call."""
        for number, specs in list(self._open.items()):
            if not self._settle(number) and any(spec.run_id in summary.failed for spec in specs):
                self._fail(number, "")

    def _specs(self) -> list[RunSpec]:
        specs = (spec for specs in self._open.values() for spec in specs)
        return list({spec.run_id: spec for spec in specs}.values())

    @property
    def trial_count(self) -> int:
        return len(self.study.trials)

    @property
    def has_failed(self) -> bool:
        """Say if a run failed, or a trial has no value."""
        return bool(self.summary.failed or self.reasons)

    @property
    def is_complete(self) -> bool:
        """Say if the study has its trials, and all of them are told."""
        return not self._open and self.trial_count >= self.settings.trials and self.summary.stopped_by is None

    @property
    def plan(self) -> Plan:
        """The trials as an experiment, for tables, figures and status."""
        arms = [self._arms[number] for number in sorted(self._arms)]
        labels = short_names([arm.overrides[len(self.fixed_overrides) :] for arm in arms])
        arms = [dataclasses.replace(arm, label=label) for arm, label in zip(arms, labels, strict=True)]
        found, plan = self.settings, plan_of(self.experiment, arms, self._command)
        note = (
            f"The arms are {format_count(len(arms), 'trial')} of a search ({found.sampler}) over {' and '.join(found.space)}. "
            f"A trial's value is {' and '.join(found.objectives)}, the mean over its seeds. "
            "The best of so many is chosen on the benchmark that is reported, so its score is too high: other seeds tell what it is"
        )
        return dataclasses.replace(plan, notes=(*plan.notes, note))

    def _adopt(self) -> None:
        """Take up the trials of earlier calls: a value is read from the store, what lacks one is run, failed ones once more.

        Raises `ConfigError` where they are of another declaration.
        """
        for stored in self._stored_arms():
            if (number := int(stored["name"].removeprefix(_TRIAL))) in self._arms:
                continue
            while self.trial_count < number:  # one that could not be composed
                self.study.add_trial(optuna.trial.create_trial(state=TrialState.FAIL))
            texts = dict(item.partition("=")[::2] for item in stored["overrides"])
            try:
                params = {item.key: item.value(texts[item.key]) for item in self.parameters}
                arm = self._arm_of(number, params)
            except (KeyError, ValueError):  # a ConfigError is one
                arm = None
            if arm is None or arm.arm_id != stored["arm_id"]:
                name = self.experiment.name
                raise ConfigError(
                    f"the search {name} was begun with another declaration: {stored['name']} is no trial of it"
                )
            self.study.enqueue_trial(params)
            self.study.ask(self._distributions)
            self._arms[number] = arm
            self._begin(number)

    def _begin(self, number: int) -> None:
        self._open[number] = [self._arms[number].spec(seed) for seed in self.experiment.seeds]
        self._settle(number)

    def _arm_of(self, number: int, params: Mapping[str, Any]) -> PlannedArm:
        arm = Arm(f"{_TRIAL}{number:04d}", (*self.fixed_overrides, *overrides_of(self.parameters, params)))
        return planned_arm(arm, compose_run(arm.overrides), self.experiment)

    def _settle(self, number: int) -> bool:
        """Tell the study of a trial whose runs are all finished; returns whether they are."""
        specs = self._open[number]
        if any(self.store.run(spec.run_id).status != "finished" for spec in specs):
            return False
        if (values := self._values(specs)) is None:  # it will never have one
            self._fail(number, f"its runs have no value of {' or '.join(self.settings.objectives)}")
        else:
            self.study.tell(number, values)
            del self._open[number]
        return True

    def _fail(self, number: int, reason: str) -> None:
        self.study.tell(number, state=TrialState.FAIL)
        self._open.pop(number, None)
        if reason:
            self.reasons.append(f"trial {number} failed: {reason}")

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
    states = [trial.state for trial in search.study.trials]
    counts = [f"{states.count(state)} {state.name.lower()}" for state in TrialState if state in states]
    lines = [f"{search.experiment.name}: {', '.join(counts)}", *search.reasons]
    if TrialState.COMPLETE not in states:
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


def open_search(experiment: Experiment, arguments: Sequence[str], command: str) -> tuple[Search, int]:
    """The study of a declared search, with the overrides of a command; and how many runs fit at once. Raises `ConfigError`."""
    refuse_seed(arguments)
    fixed_overrides = [*experiment.base, *experiment.overrides, *common_overrides(arguments)]
    base = compose_run(fixed_overrides)
    if reasons := [*refusals(base), *absent(base)]:
        raise ConfigError(f"{experiment.name} cannot be run: {'; '.join(reasons)}")
    gpus = len(visible_gpus()) if base.runtime.device == "cuda" else 0
    search = Search(experiment, fixed_overrides, ResultStore(base.runtime.results), command)
    return search, worker_count(base.runtime, gpus)
