"""The memory of GPUs by name, and the GPUs that the driver of this machine lists."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass

GIB = 2**30
# Compute capability of batch invariance in vLLM 0.32 (docs.vllm.ai/en/v0.32.0/features/batch_invariance).
BATCH_INVARIANT_FROM = 8.0


# As torch reports it.
GPU_MEMORY_GIB = {
    "h200": 139.8,
    "h100": 79.1,
    "a100_80g": 79.1,
    "a100_40g": 39.4,
    "l40s": 44.4,
    "rtx4090": 23.6,
}


@dataclass(frozen=True)
class Installed:
    """A GPU of this machine as the driver lists it."""

    index: str
    uuid: str
    name: str
    driver: str
    memory_mib: str


@functools.cache
def installed_gpus() -> tuple[Installed, ...]:
    """List the GPUs of this machine without importing torch; none where the driver does not answer."""
    if shutil.which("nvidia-smi") is None:
        return ()
    command = [
        "nvidia-smi",
        "--query-gpu=index,uuid,name,driver_version,memory.total",
        "--format=csv,noheader,nounits",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = listed.stdout.splitlines() if listed.returncode == 0 else []
    return tuple(Installed(*map(str.strip, line.split(","))) for line in lines if line.count(",") == 4)


@functools.cache
def compute_capabilities() -> dict[str, float]:
    """List the compute capability of each GPU of this machine by index; nothing where the driver does not answer."""
    if shutil.which("nvidia-smi") is None:
        return {}
    # A question of its own: drivers from before 2022 do not know the field, and would answer nothing at all.
    command = ["nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv,noheader"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    pairs = [line.split(",") for line in listed.stdout.splitlines()] if listed.returncode == 0 else []
    return {index.strip(): float(known) for index, known in pairs}


def visible_gpus() -> list[str]:
    """List the GPUs that this process may use: CUDA_VISIBLE_DEVICES, else the index of all that are installed."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return [gpu.index for gpu in installed_gpus()]
    return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1")]


def visible_memory_gib() -> float | None:
    """Find the memory of the smallest GPU that this process may use, GiB; None without one."""
    names = visible_gpus()
    sizes = [
        float(gpu.memory_mib) / 1024
        for gpu in installed_gpus()
        if (gpu.index in names or gpu.uuid in names) and gpu.memory_mib.replace(".", "", 1).isdigit()
    ]
    return min(sizes, default=None)


def host_memory_gib() -> float:
    """Read the memory of this machine, GiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
