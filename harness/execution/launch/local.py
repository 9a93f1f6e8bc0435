"""Processes on this machine: `runtime.workers` runs at once, GPUs leased by file locks."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.configuration.sections import RuntimeConfig
    from harness.execution.progress import Progress
    from harness.execution.supervisor import GpuLeases, RunBatch, Summary


@dataclass
class Config:
    """Nothing to set here; see `runtime.workers`, `runtime.runs_per_gpu` and `runtime.gpus_per_run`."""

    kind: str = "local"


def launch(config: Config, work: RunBatch, progress: Progress, *, leases: Path | None = None) -> Summary:
    """Run the work to its end in this process.

    `leases` is the folder of the GPU locks; a job whose GPUs are its own alone has a folder of its own.

    Raises:
        ConfigError: a run wants more GPUs than are visible.
    """
    # Every command reads the settings of this launcher, and few launch.
    from harness.execution.attempt import hardware
    from harness.execution.supervisor import supervise
    from harness.tracking._feed import absent

    for name, reason in absent(work.runtime.trackers).items():
        sys.stderr.write(f"tracker {name} gets nothing, {reason}; then run the same command again\n")
    work = dataclasses.replace(work, provenance={**work.provenance, "hardware": hardware()})
    return supervise(work, progress, gpus=_gpu_leases(work.runtime, leases or work.store.cache_dir("leases")))


def _gpu_leases(runtime: RuntimeConfig, folder: Path) -> GpuLeases | None:
    from harness.configuration.error import ConfigError
    from harness.configuration.sections import visible_gpus
    from harness.execution.supervisor import GpuLeases

    gpus = visible_gpus() if runtime.device == "cuda" else []
    if not gpus:
        return None
    if runtime.gpus_per_run > len(gpus):
        raise ConfigError(
            f"runtime.gpus_per_run={runtime.gpus_per_run}, but only {len(gpus)} GPUs are visible here; lower it, or widen "
            "CUDA_VISIBLE_DEVICES"
        )
    return GpuLeases(folder, gpus, runs_per_gpu=runtime.runs_per_gpu, gpus_per_run=runtime.gpus_per_run)
