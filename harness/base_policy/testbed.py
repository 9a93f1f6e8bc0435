"""The testbed's tiny policy: one that ships, or randomly initialised and warmed up on the demonstrator."""

import dataclasses
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.testbed.recipe import Config as Config
from harness.testbed.recipe import base_set, check_recipe


def check(config: Config, task: Any) -> None:
    """Refuse a task that the demonstrator does not know, or a recipe that the shipped policies were not made by."""
    if task.kind != "arithmetic":
        raise ConfigError(f"model=testbed is warmed up on task=arithmetic only, not on task={task.kind}")
    if config.bases.set is not None:
        names = ("architecture", "demonstrator", "warmup")
        sections = {name: dataclasses.asdict(getattr(config, name)) for name in names}
        check_recipe(config.bases.set, sections, task.max_operations, task.modulus)


def prepare(config: Config, task: Any, seed: int, cache: Path, linear_kernel: str) -> Path:
    """The shipped policy of this training seed, or the warm-up of this recipe, made once. Raises as `check`."""
    check(config, task)
    bases = config.bases
    if bases.set is not None:
        return base_set(bases.set).checkpoint(bases.index(seed), cache)
    from harness.testbed.warm_up import prepare_testbed

    if config.warmup.seed is None:
        config = dataclasses.replace(config, warmup=dataclasses.replace(config.warmup, seed=seed))
    return prepare_testbed(config, task, cache, linear_kernel)
