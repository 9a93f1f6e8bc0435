"""The work that is to be done and what it is done with; the one place that calls the supervisor, on this machine or inside a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.gpus import visible_gpus
from harness.configuration.identity import IDENTITY_VERSION
from harness.configuration.runtime import RuntimeConfig
from harness.execution.follower import tracked
from harness.execution.progress import Progress
from harness.execution.provenance import hardware
from harness.execution.supervise import Feed, GpuLeases, Runnable, Summary, run_all
from harness.store import ResultStore
from harness.tracking._sink import absent


@dataclass(frozen=True)
class RunBatch:
    """Runs and the circumstances that they share. Picklable, so that it can travel to another machine."""

    root: Path
    specs: Sequence[Runnable]
    runtime: RuntimeConfig
    provenance: Mapping[str, Any]
    experiment: str
    entry: str = "harness.execution.worker:main"

    @property
    def store(self) -> ResultStore:
        """The store that all machines share."""
        return ResultStore(self.root)


def supervise_here(
    work: RunBatch, progress: Progress, *, leases: Path | None = None, feed: Feed | None = None
) -> Summary:
    """Run the work on this machine.

    Args:
        work: what.
        progress: who is told.
        leases: where GPU locks lie; jobs whose GPUs are theirs alone use a folder of their own.
        feed: where further runs come from.
    """
    runtime = work.runtime
    gpus = visible_gpus() if runtime.device == "cuda" else []
    held = None
    if gpus:
        if runtime.gpus_per_run > len(gpus):
            raise ConfigError(
                f"runtime.gpus_per_run={runtime.gpus_per_run}, but only {len(gpus)} GPUs are visible here; lower it, or widen "
                "CUDA_VISIBLE_DEVICES"
            )
        held = GpuLeases(
            leases or work.store.cache_dir("leases"),
            gpus,
            runs_per_gpu=runtime.runs_per_gpu,
            gpus_per_run=runtime.gpus_per_run,
        )
    for name, reason in absent(runtime.trackers).items():
        sys.stderr.write(
            f"tracker {name} gets nothing, {reason} (`harness sync` sends finished runs later)\n"
        )
    with tracked(progress, work.store, bool(runtime.trackers)) as listener:
        return run_all(
            work.specs,
            work.store,
            workers=worker_count(runtime, len(gpus)),
            entry=work.entry,
            progress=listener,
            provenance={**work.provenance, "hardware": hardware()},
            identity_version=IDENTITY_VERSION,
            threads=runtime.threads,
            gpus=held,
            feed=feed,
        )


def worker_count(runtime: RuntimeConfig, gpus: int) -> int:
    """`runtime.workers`, or by default one run a GPU slot, or one a core."""
    if runtime.workers:
        return runtime.workers
    if gpus:
        return max(1, gpus // runtime.gpus_per_run * runtime.runs_per_gpu)
    return max(1, usable_cores() // runtime.threads)


def usable_cores() -> int:
    """The cores that this process may use; all of them where the system (macOS) does not say."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
