"""The Hydra application. `harness run OVERRIDES` and `python -m harness.train OVERRIDES` are the same program.

One way leads from a command to its answer. `main` makes an `Application` and gives its `task` to Hydra. Hydra hands that to its sweeper and
to its launcher, and both find the application in it:

    main → Hydra → sweeper → Application.sweep: plan, check, store the plan → launcher.launch → runs in the store → answer

A single run is a sweep of one. `hydra/launcher=` names where runs are trained, `hydra/sweeper=` who makes them.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
import yaml
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from harness.commands._arguments import Exit
from harness.commands._experiment_run import ExperimentRun, run_value
from harness.commands._job import run_job
from harness.commands._launch import Launch
from harness.configuration.compose import (
    VERSION_BASE,
    compose_run,
    config_directory,
    explanation,
    folder_flags,
    hydra_overrides,
    of_hydra,
    options,
    refuse_below_a_list,
    refuse_second_choice,
    searchpath,
)
from harness.configuration.error import ConfigError
from harness.configuration.identity import run_id
from harness.execution.progress import Progress
from harness.experiment.declaration import Experiment
from harness.experiment.plan import RunSpec
from harness.experiment.planning import (
    declared_experiment,
    declares,
    job_config,
    make_plan,
    plan_jobs,
    replace_whole,
    run_overrides,
    spell_out,
)
from harness.store import StoreError

if TYPE_CHECKING:
    from harness.search.ask_and_tell import Search

# Flags of Hydra that take the argument after them.
_WITH_VALUE = {"--cfg", "-c", "--package", "-p", "--info", "-i"}
_COMPLETION = {"--shell-completion", "-sc"}
_PRIMARY = ("--config-path", "-cp", "--config-name", "-cn", "--experimental-rerun")
_OWN_DIRECTORIES = ("hydra.run.dir=", "hydra.sweep.subdir=")
_BAD_DISK = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_EXTRA = {"submitit_slurm": "slurm", "submitit_local": "slurm", "ray": "ray", "ray_aws": "ray", "joblib": "joblib"}


class Application:
    """One call of `harness run`: what is asked, what launches it, and its runs. Raises `ConfigError` for arguments that cannot be.

    `overrides`: the typed ones of keys, as Hydra takes them. `experiment`: what they declare, read once. `launch`: who brings runs to their
    end. `run`: the experiment or the search on its way.
    """

    run: ExperimentRun | Search | None = None
    experiment: Experiment | None = None

    def __init__(self, arguments: Sequence[str]) -> None:
        self.answers = "--no-answer" not in arguments
        self.launch = Launch(shlex.join(["harness", "run", *folder_flags(), *arguments]))
        self._given: list[list[str]] = []  # jobs of a sweeper that is not ours
        if _COMPLETION & set(arguments):
            self.hydra_arguments, self.overrides = list(arguments), []
            return
        self.flags, overrides = _split([item for item in arguments if item != "--no-answer"])
        settings = [item for item in overrides if of_hydra(item)]
        own_overrides = [item for item in overrides if not of_hydra(item)]
        refuse_second_choice(own_overrides)
        if declares(own_overrides):
            self.experiment = declared_experiment(own_overrides)
        self.overrides = hydra_overrides(own_overrides)
        # A key on the command line may exist only in a group that all arms choose (`model.precision`).
        shared = [] if self.experiment is None else hydra_overrides(self.experiment.overrides)
        self.hydra_arguments = [*self.flags, *settings, *shared, *self.overrides, *searchpath()]

    def __getstate__(self) -> dict[str, Any]:
        """What a job in another process needs: nothing of the sweep that it belongs to, which is stored."""
        return {"launch": Launch(self.launch.command)}

    @property
    def is_multirun(self) -> bool:
        return bool({"-m", "--multirun"} & set(self.flags))

    def task(self, config: DictConfig) -> None:
        """Hydra's task: train one composed run here, as a job of a launcher that is not ours; after a stop no other begins."""
        if self.launch.stopped_by is None:
            self.launch.stopped_by = run_job(config)

    def sweep(self, config: DictConfig, launcher: Launcher) -> list[Sequence[JobReturn]]:
        """Plan what is asked, and have the launcher bring its runs to their end, part by part and look by look."""
        _refuse_settings(config)
        self.launch.launcher, self.launch.name = launcher, config.hydra.runtime.choices["hydra/launcher"]
        if self.experiment is not None and self.experiment.search:
            return self._search(self.experiment)
        if self.is_multirun and self.experiment is None:
            folder = Path(config.hydra.sweep.dir)
            folder.mkdir(parents=True, exist_ok=True)
            OmegaConf.save(config, folder / "multirun.yaml")
        plan = make_plan([*self.overrides, *self.launch.overrides], self.is_multirun, self.experiment)
        self.run = ExperimentRun(plan, self.launch, tables=self.answers)
        self.run.to_end()
        return self.launch.returns

    def _search(self, experiment: Experiment) -> list[Sequence[JobReturn]]:
        """Search what the experiment declares: Optuna asks, the launcher runs, the study is told."""
        try:
            from harness.search.ask_and_tell import open_search
        except ModuleNotFoundError as error:
            raise ConfigError("a search needs Optuna; install it with: pip install -e '.[sweep]'") from error
        search, places = open_search(experiment, [*self.overrides, *self.launch.overrides], self.launch.command)
        self.run = search
        search.run(lambda specs: self.launch.bring(search.plan, specs, search.store), places)
        return self.launch.returns

    def take(self, config: DictConfig, jobs: Sequence[Sequence[str]], first: int) -> list[RunSpec | None]:
        """The runs of jobs, the first of which has the number `first`: as they are planned, or planned now for a sweeper that is not ours.

        None for a run of a refused arm.
        """
        if self.run is not None and not self._given:
            return list(self.launch.specs[first : first + len(jobs)])
        _refuse_settings(config)
        self._given += map(list, jobs)
        plan = plan_jobs(self._given, self.overrides, whole=False)
        if self.run is None:
            self.run = ExperimentRun(plan, self.launch)
        else:
            self._experiment_run.ask_for(plan)
        run = self._experiment_run
        run.store_plan(run.plan)
        specs = {spec.run_id: spec for spec in run.plan.specs}
        return [specs.get(run_id(job_config(run_overrides(job)))) for job in jobs]

    def train(self, specs: Sequence[RunSpec], progress: Progress) -> None:
        """Bring runs to their end in processes of this machine, `runtime.workers` at once."""
        assert self.run is not None
        train = partial(self.launch.train_here, store=self.run.store, progress=progress)
        if self._given:
            run = self._experiment_run
            run.summary = run.summary.then(self.launch.settle(specs, run.store, train))
        else:
            train(specs)

    def folder_of(self, run_id: str) -> Path:
        """Where a run is stored."""
        assert self.run is not None
        return self.run.store.run(run_id).path

    def value_of(self, run_id: str) -> float | list[float]:
        """What a run answers, for sweepers and callbacks: a number, or a list of several metrics; NaN where it is not finished."""
        assert self.run is not None
        plan = getattr(self.run, "part", self.run.plan)  # trials are of the first part
        return run_value(self.run.store, plan, run_id)

    @property
    def _experiment_run(self) -> ExperimentRun:
        assert isinstance(self.run, ExperimentRun)
        return self.run

    def end(self) -> int:
        """Answer from what the store holds now, and return the exit code."""
        if self.run is None:  # Hydra has shown a configuration
            return Exit.DONE
        if self._given:
            self._experiment_run.tell()
        if self.answers:
            self.run.answer()
        return self._experiment_run.exit_code if isinstance(self.run, ExperimentRun) else _code_of_a_search(self.run)


def main(arguments: Sequence[str]) -> int:
    """Run the application with these arguments and return the exit code. Raises `ConfigError` and `StoreError`.

    ``claim=all`` runs every declared claim, one after the other; a stop ends all of them, and the code is the first that is not 0.
    """
    if "claim=all" in arguments:
        return _every_claim([item for item in arguments if item != "claim=all"])
    application = Application(arguments)
    decorate = hydra.main(config_path=str(config_directory()), config_name="config", **VERSION_BASE)
    # Hydra would print its exceptions and exit: ours are one line with the nearest key.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    argv, sys.argv = sys.argv, ["harness run", *application.hydra_arguments]
    try:
        decorate(application.task)()
    except Exception as error:
        _explain(error, application)
        raise
    finally:
        sys.argv = argv
    return application.end()


def _every_claim(rest: Sequence[str]) -> int:
    names, first_code = options("claim"), int(Exit.DONE)
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] claim {name}", flush=True)
        try:
            code = main([f"claim={name}", *rest])
        except ConfigError as error:  # of this claim alone
            print(f"harness run: {error}", file=sys.stderr)
            code = Exit.REFUSED
        if code == Exit.AGAIN:
            return code
        first_code = first_code or code
    return first_code


def _explain(error: Exception, application: Application) -> None:
    """Raise `ConfigError` or `StoreError` for an error of Hydra, OmegaConf or a launcher whose cause is known."""
    overrides = application.overrides
    if isinstance(error, HydraException | OmegaConfBaseException | yaml.MarkedYAMLError):
        # Of the run's directory: composing says what is wrong with the run.
        if isinstance(error, InterpolationResolutionError):
            compose_run(overrides)
        if (match := re.search("'hydra/launcher/(.+?)'", str(error))) and match[1] in _EXTRA:
            raise _missing_package_error(match[1]) from error
        raise ConfigError(explanation(error, overrides)) from error
    if isinstance(error, ImportError) and application.launch.name in _EXTRA:
        raise _missing_package_error(application.launch.name) from error
    if isinstance(error, ValueError):
        refuse_below_a_list(error, overrides)
        if "--" in str(error):
            raise ConfigError(str(error)) from error  # of flags that do not go together
    # Of Hydra's own folders; a launcher's errors have other numbers.
    if isinstance(error, OSError) and (application.run is None or error.errno in _BAD_DISK):
        raise StoreError(f"cannot write {error.filename} ({error.strerror}); set runtime.results") from error


def _missing_package_error(launcher: str) -> ConfigError:
    return ConfigError(
        f"hydra/launcher={launcher} needs packages that are not installed: pip install -e '.[{_EXTRA[launcher]}]'"
    )


def _code_of_a_search(search: Search) -> int:
    if search.has_failed and search.summary.stopped_by is None:
        return Exit.FOUND
    return Exit.DONE if search.is_complete else Exit.AGAIN


def _refuse_settings(config: DictConfig) -> None:
    """Raise `ConfigError` where jobs would change the folder that a run's relative paths start from."""
    if config.hydra.job.chdir:
        raise ConfigError(
            "hydra.job.chdir=true: paths of a run (results, problems, checkpoints) are relative to where you call; leave it out"
        )


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Hydra's flags, and overrides with short forms spelled out. Raises `ConfigError` for what is not available here."""
    flags, overrides, items = list[str](), list[str](), iter(arguments)
    for item in items:
        if item.partition("=")[0] in _PRIMARY:
            raise ConfigError(
                f"{item}: every run is composed from config.yaml; put what differs into a preset or an experiment of --config-dir FOLDER"
            )
        if item.startswith("-"):
            flags += [item, next(items, "all" if item in ("-i", "--info") else "")] if item in _WITH_VALUE else [item]
        else:
            overrides += replace_whole(spell_out(item))
    for item in overrides:
        if item.lstrip("+~").startswith(_OWN_DIRECTORIES):
            raise ConfigError(f"{item}: a run lies in runs/ID of the results root; set runtime.results=DIR instead")
        if item.lstrip("+~").startswith("hydra.mode="):
            raise ConfigError(f"{item}: every command is a sweep, a single run a sweep of one; leave it out")
    return flags, overrides


if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, "-m", "harness", "run", *sys.argv[1:]])
