"""GPUs by name. Used for estimates only: what a run really has is asked of the driver."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """Memory as torch reports it; dense bfloat16 peak and memory bandwidth as in NVIDIA's data sheets (SXM where there is one)."""

    memory_gib: float
    teraflops: float
    terabytes_per_second: float


GPUS = {
    "h200": Gpu(139.8, 989, 4.8),
    "h100": Gpu(79.1, 989, 3.35),
    "a100_80g": Gpu(79.1, 312, 2.04),
    "a100_40g": Gpu(39.4, 312, 1.56),
    "l40s": Gpu(44.4, 362, 0.864),
    "rtx4090": Gpu(23.6, 165, 1.008),
}


@functools.cache
def visible_memory_gib() -> float | None:
    """Memory of the smallest GPU that this process may use, GiB; None without one."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return None
    rows = [
        [part.strip() for part in line.split(",")]
        for line in listed.stdout.splitlines()
        if line.count(",") == 2
    ]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = {name.strip() for name in chosen.split(",")}
        rows = [row for row in rows if row[0] in names or row[1] in names]
    sizes = [float(row[2]) / 1024 for row in rows if row[2].replace(".", "", 1).isdigit()]
    return min(sizes) if sizes else None


def host_memory_gib() -> float:
    """Memory of this machine, GiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
