"""Processes on this machine: `runtime.workers` runs at once, GPUs leased by file locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.execution.launch._supervise import RunBatch
    from harness.execution.progress import Progress
    from harness.execution.supervise import Summary


@dataclass
class Config:
    """Nothing to set here; see `runtime.workers`, `runtime.runs_per_gpu` and `runtime.gpus_per_run`."""

    kind: str = "local"


def launch(config: Config, work: RunBatch, progress: Progress) -> Summary:
    """Run the work to its end in this process."""
    # The default launcher: every command reads its settings, and few launch.
    from harness.execution.launch._supervise import supervise_here

    return supervise_here(work, progress)
