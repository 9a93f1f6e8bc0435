"""vLLM in this process: paged attention, prefix caching, CUDA graphs and tensor parallelism, beside the policy in training.

Needs `pip install -e '.[vllm]'`, or on a machine without a GPU the environment that `tests/vllm_cpu/setup.sh` makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.configuration.error import Checked, choice, ranged

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from harness.configuration.sections import RuntimeConfig
    from harness.model.policy import Policy
    from harness.rollout.engine.vllm.in_process import VllmEngine

EXACT_ENTROPY = False
PACKAGE = ("vllm", "pip install -e '.[vllm]' on a machine with a GPU, tests/vllm_cpu/setup.sh on one without")


@dataclass
class Config(Checked, key="engine"):
    """Settings of vLLM. Rows decoded together are `runtime.rollout_rows`, the number type is the policy's.

    Attributes:
        gpu_memory_utilization: share of a GPU's memory that weights, activations and cache of the engine may take; the rest is the
            trainer's.
        kv_cache_memory_gib: memory of keys and values in GiB; 0: what the share above leaves on a GPU, 1 GiB on a CPU.
        max_model_len: longest prompt and response together, in tokens; 0: what the model has positions and the cache has room for.
        tensor_parallel: GPUs that one engine is sharded over, with processes of its own.
        enforce_eager: no compilation and no CUDA graphs: slower, starts in seconds; null: on a CPU, where they gain nothing.
        prefix_caching: keep the keys and values of prompts that begin alike (emptied after every weight update).
        sleep_level: what a GPU gets back while the trainer works: 0 nothing, 1 cache and weights (kept in pinned host memory), 2 cache
            and weights (dropped).
    """

    kind: str = "vllm"
    gpu_memory_utilization: float = ranged(0.5, low=0.01, high=1.0)
    kv_cache_memory_gib: float = ranged(0.0, low=0)
    max_model_len: int = ranged(0, low=0)
    tensor_parallel: int = ranged(1, low=1)
    enforce_eager: bool | None = None
    prefix_caching: bool = True
    sleep_level: int = choice(2, of=(0, 1, 2))

    def identity(self) -> dict[str, Any]:
        """Return what a run's id holds: settings change memory, time and rounding, so a run goes on with others."""
        return {"kind": self.kind}


def build(config: Config, policy: Policy, runtime: RuntimeConfig) -> VllmEngine:
    """See the family's contract: an engine of its own weights, read from the policy's folder and then loaded after every update."""
    return open_folder(config, policy.folder, runtime, str(policy.device), policy.compute_dtype, "torch")


def open_folder(
    config: Config, folder: Path, runtime: RuntimeConfig, device: str, dtype: torch.dtype, linear_kernel: str
) -> VllmEngine:
    """See the family's contract. Raises ConfigError where vLLM is not installed or cannot serve the checkpoint."""
    from harness.rollout.engine.vllm.in_process import VllmEngine

    return VllmEngine.load(folder, config, runtime, device, dtype)
