"""The policy to train, by what the configuration says of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import decodable
from harness.model.linear import BFLOAT16
from harness.model.policy import NativePolicy, Policy
from harness.model.ranks import Ranks


def open_policy(config: RunConfig, folder: Path, linear_kernel: str, ranks: Ranks, shards: bool) -> Policy:
    """Open the native policy where it computes what is asked, the transformers policy otherwise.

    The native one serves the testbed's model, and pretrained models in float32 or mixed precision on one rank of a CPU: there it is
    faster, and the native engine samples from the very weights that are trained. `shards`: the run goes on
    from a checkpoint that only the other one reads.

    Raises:
        ConfigError: the checkpoint does not fit the configuration or the machine.
    """
    device = "cuda" if config.runtime.device == "cuda" else "cpu"
    settings = config.model
    if settings.kind == "testbed":
        if ranks.world == 1:
            return NativePolicy.load(folder, linear_kernel, device)
        settings = Pretrained(precision="float32")
    elif not shards and _native(settings, folder, device, ranks, config.runtime.gradient_checkpointing):
        return NativePolicy.load(
            folder, BFLOAT16 if settings.precision == "mixed" else linear_kernel, shares_prompts=True
        )
    elif settings.precision == "mixed":
        raise ConfigError(
            "model.precision=mixed is for a Llama, Qwen2 or Qwen3 model on one CPU rank, without adapters or gradient checkpointing; "
            "use model.precision=bfloat16 or float32"
        )
    from harness.model.transformers_policy import TransformersPolicy

    return TransformersPolicy.load(folder, settings, config.runtime)


def _native(settings: Any, folder: Path, device: str, ranks: Ranks, checkpointing: bool) -> bool:
    if (
        device != "cpu"
        or ranks.world > 1
        or settings.precision not in ("float32", "mixed")
        or settings.lora.rank
        or checkpointing
    ):
        return False
    return decodable(folder)
