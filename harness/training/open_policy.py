"""The policy to train, by what the configuration says of the model."""

from __future__ import annotations

from pathlib import Path

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.schema import RunConfig
from harness.model.policy import NativePolicy, Policy
from harness.model.ranks import Ranks


def open_policy(config: RunConfig, folder: Path, linear_kernel: str, ranks: Ranks) -> Policy:
    """The native policy for the testbed's model on one rank, the transformers policy for everything else.

    Raises:
        ConfigError: the checkpoint does not fit the configuration or the machine.
    """
    device = "cuda" if config.runtime.device == "cuda" else "cpu"
    settings = config.model
    if settings.kind == "testbed":
        if ranks.world == 1:
            return NativePolicy.load(folder, linear_kernel, device)
        settings = Pretrained(precision="float32")
    from harness.model.transformers_policy import TransformersPolicy

    return TransformersPolicy.load(folder, settings, config.runtime)
