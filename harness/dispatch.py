"""Bring a plan's runs to their end on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess

from harness.config import RuntimeConfig
from harness.identity import IDENTITY_VERSION
from harness.plan import Plan
from harness.progress import Progress
from harness.provenance import provenance
from harness.store import ResultStore
from harness.supervise import GpuLeases, Summary, run_all


def dispatch(plan: Plan, store: ResultStore, progress: Progress) -> Summary:
    """Run what is not finished, several at once; see `harness.supervise.run_all`."""
    runtime = plan.arms[0].config.runtime
    gpus = visible_gpus() if runtime.device != "cpu" else []
    leases = GpuLeases(store.cache_dir("leases"), gpus, runs_per_gpu=runtime.runs_per_gpu) if gpus else None
    return run_all(
        plan.specs,
        store,
        workers=worker_count(runtime, len(gpus)),
        progress=progress,
        provenance=provenance(plan.command),
        identity_version=IDENTITY_VERSION,
        threads=runtime.threads,
        gpus=leases,
    )


def worker_count(runtime: RuntimeConfig, gpus: int) -> int:
    """`runtime.workers`, or by default one run a GPU slot, or one a core."""
    if runtime.workers:
        return runtime.workers
    if gpus:
        return gpus * runtime.runs_per_gpu
    return max(1, len(os.sched_getaffinity(0)) // runtime.threads)


def visible_gpus() -> list[str]:
    """The GPUs this process may use, without importing torch: CUDA_VISIBLE_DEVICES, else what the driver lists."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [
            gpu
            for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")
            if gpu.strip() and gpu.strip() != "-1"
        ]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.stdout.split() if listed.returncode == 0 else []
