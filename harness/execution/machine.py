"""The offer of this machine and environment, and what is missing for which use."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.configuration.gpus import visible_gpus
from harness.configuration.runtime import RuntimeConfig
from harness.execution.launch._supervise import usable_cores, worker_count
from harness.execution.provenance import hardware
from harness.store import ResultStore, StoreError
from harness.store.lease import acquire

_PACKAGES = {
    "torch": None,
    "transformers": None,
    "hydra-core": None,
    "math-verify": None,
    "optuna": "sweep",
    "submitit": "slurm",
    "ray": "ray",
    "wandb": "track",
    "tensorboard": "track",
    "peft": "lora",
    "vllm": "vllm",
    "datasets": "data",
}
_LITTLE_SPACE_GIB = 2.0


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, what was found, and whether it is in order (None: optional and absent)."""

    name: str
    found: str
    good: bool | None


def examine(store: ResultStore, runtime: RuntimeConfig) -> Iterator[Check]:
    """All checks, cheap ones first. Nothing is changed but a lock file in the store's cache."""
    version = platform.python_version()
    yield Check("python", version, (3, 11) <= tuple(int(part) for part in version.split(".")[:2]) < (3, 14))
    for package, extra in _PACKAGES.items():
        try:
            yield Check(package, importlib.metadata.version(package), True)
        except importlib.metadata.PackageNotFoundError:
            how = "missing: pip install -e ." if extra is None else f"absent: pip install -e '.[{extra}]'"
            yield Check(package, how, False if extra is None else None)
    machine = hardware()
    yield Check("cpu", f"{machine['cpu']}, {usable_cores()} of {machine['cores']} cores usable", True)
    gpus = visible_gpus() if runtime.device == "cuda" else []
    wanted = runtime.device == "cuda"
    yield Check(
        "gpu",
        "; ".join(machine["gpus"]) or "none visible",
        bool(gpus) if wanted else (True if gpus else None),
    )
    yield Check("runs at once", f"{worker_count(runtime, len(gpus))} (runtime.workers)", True)
    sbatch = shutil.which("sbatch")
    yield Check("slurm", sbatch or "no sbatch: launcher=slurm cannot submit here", True if sbatch else None)
    yield from _store_checks(store)


def _store_checks(store: ResultStore) -> Iterator[Check]:
    try:
        with acquire(store.cache_dir("leases") / "doctor.lock", wait_seconds=1.0):
            yield Check("results", f"{store.root.resolve()}: writable, has file locks", True)
    except StoreError as error:
        yield Check("results", str(error), False)
        return
    free = shutil.disk_usage(store.root).free / 2**30
    yield Check("free space", f"{free:.1f} GiB", free >= _LITTLE_SPACE_GIB)
    problems = store.problems()
    yield Check("store", f"{len(store.run_ids())} runs, {len(store.plans())} experiments", not problems)
    for problem in problems:
        yield Check("store", problem, False)
    shared = _memory_file_system(store.root)
    if shared:
        yield Check("results", f"on {shared}: gone after a restart", False)


def _memory_file_system(path: Path) -> str | None:
    """The file system's type if it lives in memory only (Linux)."""
    command = ["stat", "--file-system", "--format=%T", str(path)]
    kind = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return kind if kind in ("tmpfs", "ramfs") else None
