"""Leases on GPUs, shared by all supervisors that use the same results root on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from harness.store import RunClaimed
from harness.store.lease import acquire


class GpuLease:
    """Some leased GPUs; `devices` is a value for CUDA_VISIBLE_DEVICES."""

    def __init__(self, devices: str, held: ExitStack) -> None:
        self.devices = devices
        self._held = held

    def release(self) -> None:
        """Give the GPUs back (the death of this process does so too)."""
        self._held.close()


class GpuLeases:
    """Hands out GPUs by file locks, so that two supervisors never exceed `runs_per_gpu` together.

    Args:
        directory: where the lock files lie (`store.cache_dir("leases")`).
        gpus: device names as CUDA_VISIBLE_DEVICES takes them (indices, or UUIDs of GPUs or MIG slices).
        runs_per_gpu: how many runs may share one GPU.
        gpus_per_run: how many GPUs one run gets.
    """

    def __init__(
        self, directory: Path, gpus: Sequence[int | str], *, runs_per_gpu: int = 1, gpus_per_run: int = 1
    ) -> None:
        if not 1 <= gpus_per_run <= len(gpus):
            raise ValueError(f"gpus_per_run={gpus_per_run} needs that many of gpus={list(gpus)}")
        if runs_per_gpu < 1:
            raise ValueError(f"runs_per_gpu={runs_per_gpu} must be at least 1")
        self._directory, self._gpus = directory, [str(gpu) for gpu in gpus]
        self._runs_per_gpu, self._gpus_per_run = runs_per_gpu, gpus_per_run

    @property
    def count(self) -> int:
        """The number of GPUs to choose from."""
        return len(self._gpus)

    def take(self) -> GpuLease | None:
        """GPUs for one run, the least shared first; None if too few are free now."""
        with ExitStack() as held:
            taken: list[str] = []
            for gpu, path in self._slots():
                if gpu in taken:
                    continue
                with suppress(RunClaimed):
                    held.enter_context(acquire(path))
                    taken.append(gpu)
                if len(taken) == self._gpus_per_run:
                    return GpuLease(",".join(taken), held.pop_all())
        return None

    def _slots(self) -> Iterator[tuple[str, Path]]:
        for slot in range(self._runs_per_gpu):
            for gpu in self._gpus:
                yield gpu, self._directory / f"{socket.gethostname()}-gpu-{gpu.replace('/', '_')}-{slot}.lock"
