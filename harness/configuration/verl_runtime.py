"""The place of verl on this machine and its use of it. Importable without anything of verl."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.configuration.limits import Checked, ranged

VERSION = "0.9.1"


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
