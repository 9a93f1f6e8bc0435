"""Open a run's policy, and the engine that samples from it or from a checkpoint folder."""

from pathlib import Path
from typing import Any

import torch

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.error import ConfigError
from harness.configuration.registry import ENGINE, implementation
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import decodable
from harness.model.policy import NativePolicy, Policy
from harness.model.ranks import Ranks
from harness.rollout.types import RolloutEngine
from harness.training.sampler_process import SamplerProcess


def open_policy(
    config: RunConfig, folder: Path, linear_kernel: str, ranks: Ranks, transformers: bool = False
) -> Policy:
    """Open the native policy where it computes what is asked, the transformers policy otherwise. Raises `ConfigError`.

    The native one serves the testbed's model, and pretrained Llama, Qwen2 and Qwen3 models on one rank of a CPU: there it is
    faster, and the native engine samples from the very weights that are trained. `transformers`: the run goes
    on from a checkpoint that only the other one reads.
    """
    device = device_of(config)
    settings = config.model
    if settings.kind == "testbed":
        if ranks.world == 1:
            return NativePolicy.load(folder, linear_kernel, device)
        settings = Pretrained(precision="float32")
    elif (
        not (transformers or config.model.lora.rank or config.runtime.gradient_checkpointing)
        and (device, ranks.world) == ("cpu", 1)
        and decodable(folder)
    ):
        kernel = linear_kernel if settings.precision == "float32" else settings.precision
        return NativePolicy.load(folder, kernel, shares_prompts=True, head_kernel=linear_kernel)
    elif settings.precision == "mixed":
        raise ConfigError("model.precision=mixed is for Llama, Qwen2 and Qwen3 on a CPU; use bfloat16 or float32")
    from harness.model.transformers_policy import TransformersPolicy

    return TransformersPolicy.load(folder, settings, config.runtime)


def device_of(config: RunConfig) -> str:
    return "cuda" if config.runtime.device == "cuda" else "cpu"


def build_engine(config: RunConfig, policy: Policy, tokenizer: Any) -> RolloutEngine:
    build = implementation(ENGINE, config.engine).build
    beside = config.runtime.sampler_gpus > 0
    engine = SamplerProcess(config, policy) if beside else build(config.engine, policy, config.runtime)
    return engine.with_stops(tokenizer)


def open_folder(config: RunConfig, folder: Path, linear_kernel: str, tokenizer: Any) -> RolloutEngine:
    """The run's engine over a checkpoint folder, in the precision of the policy that the built-in trainer would open there."""
    precision, device = getattr(config.model, "precision", "float32"), device_of(config)
    dtype, kernel = torch.float32 if precision == "float32" else torch.bfloat16, "torch"
    if config.engine.kind == "native" and device == "cpu" and decodable(folder):  # as of the native policy
        dtype, kernel = torch.float32, linear_kernel if precision == "float32" else precision
    member = implementation(ENGINE, config.engine)
    engine: RolloutEngine = member.open_folder(config.engine, folder, config.runtime, device, dtype, kernel)
    return engine.with_stops(tokenizer)
