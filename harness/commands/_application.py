"""The Hydra application: `python -m harness.train OVERRIDES` trains one composed run into the store. `harness run` is the same program.

`-m` is Hydra's multirun, `hydra/launcher=` names where its jobs run, `hydra/sweeper=` what they are; an experiment is a sweep.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from harness.commands._sweep import Answer, Outcome, outcome, run_alone, run_job
from harness.configuration.compose import (
    compose_run,
    config_directory,
    explanation,
    hydra_overrides,
    of_hydra,
    refuse_below_a_list,
    refuse_second_choice,
    searchpath,
)
from harness.configuration.error import ConfigError
from harness.experiment.planning import replace_whole, shared_overrides, spell_out
from harness.store import StoreError

# Flags of Hydra that take the argument after them.
_WITH_VALUE = {"--cfg", "-c", "--package", "-p", "--info", "-i"}
_COMPLETION = {"--shell-completion", "-sc"}
_PRIMARY = ("--config-path", "-cp", "--config-name", "-cn", "--experimental-rerun")
_EXTRA = {"submitit_slurm": "slurm", "submitit_local": "slurm", "ray": "ray", "ray_aws": "ray", "joblib": "joblib"}


def train(config: DictConfig) -> float | list[float]:
    """Bring one composed run to its end in the store, or return at once where it is finished.

    Returns:
        The metric that is declared (`experiment.metric`; by default avg of the first benchmark at the training cap), a list of several:
        for sweepers that optimise it. NaN where the run of a sweep failed, so that the sweep goes on.
    """
    is_single_run = HydraConfig.get().mode == RunMode.RUN
    try:
        return run_alone(config) if is_single_run else run_job(config)
    except (ConfigError, StoreError) as error:
        _leave_nothing(Path(HydraConfig.get().runtime.output_dir), HydraConfig.get().output_subdir)
        if not is_single_run:
            raise
        outcome.get().error = error  # Hydra would say more than one line of it
        return math.nan


def _leave_nothing(directory: Path, subdirectory: str | None) -> None:
    """Remove what Hydra wrote of a run that is refused before it begins, and the folders that are empty without it."""
    if subdirectory and not (directory / "config.yaml").exists():
        shutil.rmtree(directory / subdirectory, ignore_errors=True)
    for folder in (directory, *directory.parents[:2]):
        with contextlib.suppress(OSError):
            folder.rmdir()


application = hydra.main(config_path=str(config_directory()), config_name="config", version_base="1.3")(train)


def main(arguments: Sequence[str]) -> int:
    """Run the application with these arguments and return the exit code. Raises `ConfigError` for what does not compose."""
    outcome.set(Outcome(arguments))
    hydra_argv = hydra_arguments(arguments)
    # Hydra would print its exceptions and exit: ours are one line with the nearest key.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    argv, sys.argv = sys.argv, ["harness run", *hydra_argv]
    try:
        application()
    except SystemExit:
        if outcome.get().error is None:
            raise
    except (HydraException, OmegaConfBaseException, yaml.MarkedYAMLError) as error:
        # Of the run's directory: composing says what is wrong with the run.
        if isinstance(error, InterpolationResolutionError):
            compose_run(outcome.get().overrides)
        if (match := re.search("'hydra/launcher/(.+?)'", str(error))) and match[1] in _EXTRA:
            raise _missing_package_error(match[1]) from error
        raise ConfigError(explanation(error, outcome.get().overrides)) from error
    except Exception as error:
        if isinstance(error, ValueError):
            refuse_below_a_list(error, outcome.get().overrides)
            if "--" in str(error):
                raise ConfigError(str(error)) from error  # of flags that do not go together
        # Of Hydra's own folders; a launcher's errors have other numbers.
        bad_disk = isinstance(error, OSError) and error.errno in (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
        if isinstance(error, OSError) and outcome.get().sweep is None and (bad_disk or outcome.get().multirun is None):
            raise StoreError(f"cannot write {error.filename} ({error.strerror}); set runtime.results") from error
        _answer_from_store(error)
    finally:
        sys.argv = argv
    return outcome.get().code()


def _answer_from_store(error: Exception) -> None:
    """Answer from what the store holds where a launcher that is not ours ends with an error. Raises what has another cause."""
    state = outcome.get()
    if state.multirun is None:
        raise error
    name = state.multirun.hydra.runtime.choices["hydra/launcher"]
    if isinstance(error, ImportError) and name in _EXTRA:
        raise _missing_package_error(name) from error
    if state.sweep is not None:
        raise error
    state.lose(error)
    Answer(state.multirun.hydra.callbacks.answer.write).on_multirun_end(state.multirun)


def _missing_package_error(launcher: str) -> ConfigError:
    return ConfigError(
        f"hydra/launcher={launcher} needs packages that are not installed: pip install -e '.[{_EXTRA[launcher]}]'"
    )


def hydra_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments as Hydra takes them: short forms spelled out, and folders of one's own on its search path. Raises `ConfigError`."""
    if _COMPLETION & set(arguments):
        return list(arguments)
    flags, overrides, items = [], list[str](), iter(arguments)
    for item in items:
        if item == "--no-answer":
            overrides.append("hydra.callbacks.answer.write=false")
        elif item.partition("=")[0] in _PRIMARY:
            raise ConfigError(
                f"{item}: every run is composed from config.yaml; put what differs into a preset or an experiment of --config-dir FOLDER"
            )
        elif item.startswith("-"):
            flags += [item, next(items, "")] if item in _WITH_VALUE else [item]
        else:
            overrides += replace_whole(spell_out(item))
    own_overrides = [item for item in overrides if not of_hydra(item)]
    refuse_second_choice(own_overrides)
    for item in overrides:
        if item.startswith(("hydra.run.dir=", "hydra.sweep.subdir=")):
            raise ConfigError(f"{item}: a run lies in runs/ID of the results root; set runtime.results=DIR instead")
    settings = [item for item in overrides if item not in own_overrides]
    outcome.get().overrides = own_overrides
    return [*flags, *settings, *shared_overrides(own_overrides), *hydra_overrides(own_overrides), *searchpath()]
