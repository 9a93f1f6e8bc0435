"""The machine's side of a run: nothing here changes its numbers beyond rounding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.families import LAUNCH, TRACKING, family
from harness.configuration.gpus import GPU_MEMORY_GIB
from harness.configuration.limits import Checked, choice, ranged

VERL_VERSION = "0.9.1"
_OVERRIDES = ("runtime.", "runtime=", "launcher=", "tracker=", "checks=", "config_dir=")


def of_machine(override: str) -> bool:
    """Say if an override is about the place and manner of runs, not about their numbers."""
    return override.lstrip("+~").startswith(_OVERRIDES)


@dataclass
class Assumptions(Checked, key="runtime.assumed"):
    """What `harness plan` assumes of machines and lengths where it counts memory and prices.

    Attributes:
        gpu: the kind of GPU (`harness.configuration.gpus`).
        prompt_tokens: mean tokens of a prompt.
        usable_memory: share of a GPU's memory that tensors can fill (the rest: context, communication buffers, fragments).
        price_per_gpu_hour: what an hour of one GPU costs, in any currency; null: `harness plan` tells GPU-hours alone.
    """

    gpu: str = choice("h100", of=tuple(GPU_MEMORY_GIB))
    prompt_tokens: int = ranged(256, low=1)
    usable_memory: float = ranged(0.92, low=1e-3, high=1.0)
    price_per_gpu_hour: float | None = ranged(None, low=0.0)


@dataclass
class VerlRuntime(Checked, key="runtime.verl"):
    """The machine's side of backend=verl; no part of a run's identity.

    Attributes:
        python: the interpreter of verl's own environment (docs/verl.md says how to make it).
        ray_address: of the Ray cluster that verl joins (`auto`: the one running here); null: it starts its own and ends it.
        tensor_parallel: GPUs that hold one copy of the sampler.
        sequence_parallel: GPUs that share one sequence in the update (Ulysses).
        gpu_memory_utilization: share of each GPU's memory that the sampler takes while it samples.
        offload: parameters and optimiser state wait in the host's memory while they are not used.
        reward_workers: processes that grade responses, spread over the nodes.
    """

    python: str = ""
    ray_address: str | None = None
    tensor_parallel: int = ranged(1, low=1)
    sequence_parallel: int = ranged(1, low=1)
    gpu_memory_utilization: float = 0.5
    offload: bool = False
    reward_workers: int = ranged(8, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gpu_memory_utilization < 1:
            raise ConfigError(
                f"runtime.verl.gpu_memory_utilization={self.gpu_memory_utilization} must lie between 0 and 1"
            )


@dataclass
class RuntimeConfig(Checked, key="runtime"):
    """The keys that cannot change the numbers (beyond rounding). They are no part of a run's identity.

    Attributes:
        results: root of the result store.
        config_dir: folders of one's own that hold members in Python; filled from `config_dir=FOLDER`.
        workers: runs at once on this machine; 0: as many as cores (or GPUs).
        threads: torch threads a run.
        device: cpu, cuda, or auto: training then runs on the CPU, `harness evaluate` on a GPU where there is one.
        linear_kernel: auto (onednn on AMD's processors, else torch; a run that resumes keeps its own), torch or onednn.
        rollout_rows: responses decoded together.
        micro_batch_tokens: tokens at most in one forward and backward; with model=testbed rows times the longest, padding included.
        checkpoint_every: rollout steps between resumable checkpoints.
        keep_checkpoints: newest checkpoints kept; the last step's holds the policy without the optimizer.
        verifier_workers: processes for answers that need the symbolic verifier.
        runs_per_gpu: small runs sharing one GPU.
        gpus_per_run: GPUs that one run gets on each node (all of them appear in its CUDA_VISIBLE_DEVICES).
        ranks: processes that train one run together (FSDP2 under torchrun); 0: one a GPU of the run, one on a CPU.
        nodes: nodes that train one run together (backend=verl).
        gradient_checkpointing: recompute a layer's activations in backward instead of keeping them.
        deterministic: bits that repeat on a GPU, too: torch's deterministic algorithms, slower, and an error at an operator that has none;
            with engine=vllm its batch invariance (beta, compute capability 8.0 and above); not with backend=verl.
        record_rollouts: write every response of the run's engine, training and evaluation, to `rollouts.jsonl` in the run directory.
        launcher: where runs are sent: processes here, Slurm or local jobs by submitit, or a Ray cluster.
        trackers: name → tracker that receives every metrics row beside the store (wandb, TensorBoard).
        assumed: hardware and rates behind the estimates of `harness plan`.
        verl: verl's environment and how it uses this machine (backend=verl).
        checks: warn, refuse or off: what a vacuous or confounded comparison does before launch.
    """

    results: str = "results"
    config_dir: list[str] = field(default_factory=list)
    workers: int = ranged(0, low=0)
    threads: int = ranged(1, low=1)
    device: str = choice("auto", of=("auto", "cpu", "cuda"))
    linear_kernel: str = choice("auto", of=("auto", "torch", "onednn"))
    rollout_rows: int = ranged(1024, low=1)
    micro_batch_tokens: int = ranged(2048, low=1)
    checkpoint_every: int = ranged(25, low=1)
    keep_checkpoints: int = ranged(1, low=1)
    verifier_workers: int = 1
    runs_per_gpu: int = ranged(1, low=1)
    gpus_per_run: int = ranged(1, low=1)
    ranks: int = ranged(0, low=0)
    nodes: int = ranged(1, low=1)
    gradient_checkpointing: bool = False
    deterministic: bool = False
    record_rollouts: bool = False
    launcher: Any = family(LAUNCH, "local")
    trackers: dict[str, Any] = field(default_factory=dict, metadata={"family_values": TRACKING})
    assumed: Assumptions = field(default_factory=Assumptions)
    verl: VerlRuntime = field(default_factory=VerlRuntime)
    checks: str = choice("warn", of=("warn", "refuse", "off"))
