"""Every engine over a given checkpoint, and small checkpoints of real architectures."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_model import random_model

from harness.configuration.registry import kinds, member
from harness.configuration.sections import RuntimeConfig
from harness.model.policy import NativePolicy
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import Completions, RolloutEngine
from harness.testbed.demonstrator import testbed_tokenizer

FAMILY = "harness.rollout.engine"
ROWS = 64
# Members with weights of their own, to be loaded after an update: a new one is in the suite by itself.
COPIES = tuple(sorted(kinds(FAMILY)))
HAS_VLLM = importlib.util.find_spec("vllm") is not None
Opener = Callable[[str, Path, NativePolicy], RolloutEngine]  # engine's name, checkpoint, policy


def cases(*names: str) -> list[Any]:
    """Parameters for these engines; vLLM's are marked `vllm`."""
    vllm = [
        pytest.mark.vllm,
        pytest.mark.skipif(
            not HAS_VLLM, reason="vLLM is not installed here; tests/vllm_cpu/setup.sh makes an environment that has it"
        ),
    ]
    return [pytest.param(name, marks=vllm if name == "vllm" else []) for name in names]


def open_engine(name: str, folder: Path, policy: NativePolicy, **settings: Any) -> RolloutEngine:
    """The engine of that name over the checkpoint, float32 on the CPU. `shared` samples from the policy's own tensors."""
    runtime = RuntimeConfig(rollout_rows=ROWS)
    if name == "shared":
        built: RolloutEngine = member(FAMILY, "native").build(member(FAMILY, "native").Config(), policy, runtime)
        return built
    engine = member(FAMILY, name)
    opened: RolloutEngine = engine.open_folder(
        engine.Config(**settings), folder, runtime, "cpu", torch.float32, "torch"
    )
    return opened


def seeds_for(prompts: Sequence[Sequence[int]], samples: int, stream: str = "contract") -> np.ndarray:
    return sample_seeds(key(stream), np.arange(len(prompts), dtype=np.uint64), samples)


def scores(
    policy: NativePolicy, prompts: Sequence[Sequence[int]], made: Completions, temperature: float = 1.0
) -> torch.Tensor:
    """The trainer's log-probabilities of an engine's responses, [N]."""
    rows = [prompt for prompt in prompts for _ in range(len(made.lengths_R) // len(prompts))]
    with torch.no_grad():
        return policy.token_log_probs(rows, made.tokens_N, made.lengths_R, temperature)[0]


def tiny_checkpoint(folder: Path, architecture: str, tied: bool, hidden: int = 128, seed: int = 0) -> Path:
    """A random model of the architecture with the testbed's tokenizer."""
    sizes = {"hidden_size": hidden, "intermediate_size": 2 * hidden, "head_dim": hidden // 4, "initializer_range": 0.1}
    random_model(architecture, seed, **sizes, tie_word_embeddings=tied).save_pretrained(folder)
    testbed_tokenizer().save_pretrained(folder)
    return folder


@torch.no_grad()
def shift(policy: NativePolicy, seed: int, only: str | None = None, amount: float = 0.1) -> None:
    """Move every tensor of the policy, or one, by noise."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in policy.named_weights():
        if only is None or name == only:
            tensor.add_(amount * torch.randn(tensor.shape, generator=generator))
