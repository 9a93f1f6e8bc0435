"""The machine's side of a run: nothing here changes its numbers beyond rounding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.configuration.assumptions import Assumptions
from harness.configuration.families import LAUNCH, TRACKING, family
from harness.configuration.limits import Checked, choice, ranged
from harness.configuration.verl_runtime import VerlRuntime

_OVERRIDES = ("runtime.", "runtime=", "launcher=", "tracker=", "checks=", "config_dir=")


def of_machine(override: str) -> bool:
    """Say if an override is about the place and manner of runs, not about their numbers."""
    return override.lstrip("+~").startswith(_OVERRIDES)


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
