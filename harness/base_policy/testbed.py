"""The testbed's tiny policy: one that ships, or randomly initialised and warmed up on the demonstrator."""

import dataclasses
from pathlib import Path
from typing import Any

from harness.testbed.recipe import Config as Config
from harness.testbed.recipe import base_set
from harness.testbed.recipe import check as check


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
