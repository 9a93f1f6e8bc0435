"""A search as a sweep: Optuna asks, the launcher runs, the study is told. What is searched is declared, or stands on the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.commands._arguments import Exit
from harness.configuration.compose import compose_run, parse_overrides
from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.sections import of_machine, visible_gpus
from harness.execution.progress import progress_on
from harness.execution.supervisor import Summary, dispatch_runs, worker_count
from harness.experiment.checks import absent, refusals
from harness.experiment.declaration import Experiment, refuse_seed
from harness.experiment.plan import Plan
from harness.experiment.planning import common_overrides, declared_experiment
from harness.store import ResultStore
from harness.store.layout import experiment_dir

if TYPE_CHECKING:
    from harness.search.ask_and_tell import Sweep

_SEEDS = "'experiment.seeds=[0,1]', or hydra.sweeper.seeds=[0,1]"


@dataclass
class Trials:
    """The trials of a study on their way to their number; to a launcher they are runs like any others."""

    study: Sweep
    command: str
    summary: Summary = field(default_factory=Summary)

    @property
    def store(self) -> ResultStore:
        return self.study.store

    @property
    def part(self) -> Plan:
        """The trials so far as an experiment."""
        return self.study.plan()

    plan = part

    def record(self) -> None:
        """Store the trials as an experiment, for tables, figures and status."""
        if self.study.has_trials:
            self.store.write_plan(self.part.name, self.part.record())

    def supervise(self, part: Plan, run_ids: Collection[str] | None = None) -> Summary:
        """Bring trials' runs to their end in processes of this machine."""
        specs = [spec for spec in part.specs if run_ids is None or spec.run_id in run_ids]
        runtime = specs[0].config.runtime
        return dispatch_runs(specs, self.store, runtime, progress_on(), self.command, part.name)

    def answer(self) -> None:
        """Print the best trials, and draw what matters."""
        from harness.search.ask_and_tell import best_lines
        from harness.search.study import draw

        print("\n".join(best_lines(self.study)))
        if self.summary.stopped_by is None:
            folder = experiment_dir(self.store.root, self.study.experiment.name) / "figures"
            if draw(self.study.study, [name.lstrip("-") for name in self.study.search.objectives], folder):
                print(f"importance and contours: {folder}")

    @property
    def code(self) -> int:
        """The exit code: 0 the study has its trials; 1 some failed; 75 stopped, repeat the command."""
        if self.summary.failed or self.study.reasons:
            return Exit.FOUND
        is_complete = self.study.running_count == 0 and self.study.trial_count >= self.study.total
        return Exit.DONE if is_complete and self.summary.stopped_by is None else Exit.AGAIN


def trials_of(arguments: Sequence[str], options: Mapping[str, Any], command: str) -> tuple[Trials, int]:
    """The study that is declared, or that the ranges among the arguments make; and how many runs fit at once. Raises `ConfigError`."""
    try:
        from harness.search.ask_and_tell import Sweep
        from harness.search.study import search_of
    except ModuleNotFoundError as error:
        raise ConfigError("a search needs Optuna; install it with: pip install -e '.[sweep]'") from error
    refuse_seed(arguments, _SEEDS)
    is_declared = any(item.startswith(("experiment=", "claim=")) for item in arguments)
    experiment, fixed_overrides = _from_declaration(arguments) if is_declared else _from_arguments(arguments, options)
    search = search_of(experiment)
    if search is None:
        raise ConfigError(
            f"experiment {experiment.name!r} declares no search; hydra/sweeper=search needs experiment.search, or ranges of keys"
        )
    base = compose_run(fixed_overrides)
    if reasons := [*refusals(base), *absent(base)]:
        raise ConfigError(f"{experiment.name} cannot be run: {'; '.join(reasons)}")
    study = Sweep(experiment, search, fixed_overrides, ResultStore(base.runtime.results), command)
    gpus = len(visible_gpus()) if base.runtime.device == "cuda" else 0
    return Trials(study, command), worker_count(base.runtime, gpus)


def _from_declaration(arguments: Sequence[str]) -> tuple[Experiment, list[str]]:
    experiment = declared_experiment(arguments)
    return experiment, [*experiment.base, *experiment.overrides, *common_overrides(arguments)]


def _from_arguments(arguments: Sequence[str], options: Mapping[str, Any]) -> tuple[Experiment, list[str]]:
    space = [str(item.input_line) for item in parse_overrides(arguments) if item.is_sweep_override()]
    fixed_overrides = [item for item in arguments if item not in space]
    if not space:
        raise ConfigError("nothing to search: give 'KEY=interval(low,high)' or 'KEY=choice(a,b)' or name an experiment")
    search, seeds = dict(options), list(options["seeds"])
    del search["seeds"]
    identity = [item for item in fixed_overrides if not of_machine(item)]
    name = f"search_{content_hash(sorted(space), sorted(identity), seeds, search['objectives'])[:8]}"
    benchmark = next(iter(compose_run(fixed_overrides).evaluation.benchmarks), "")
    title = " ".join([*space, *identity])
    return Experiment(name, title, seeds=seeds, benchmark=benchmark, search={"space": space, **search}), fixed_overrides
