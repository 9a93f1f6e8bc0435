"""GPUs of this machine, handed out by file locks."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.model.system import installed_gpus
from harness.store import RunClaimed
from harness.store.lease import acquire


@dataclass(frozen=True)
class GpuLease:
    """Some leased GPUs; `devices` is a value for CUDA_VISIBLE_DEVICES. The end of this process gives them back, too."""

    devices: str
    locks: ExitStack

    def release(self) -> None:
        self.locks.close()


class GpuLeases:
    """Hands out GPUs by file locks in a directory, so that two supervisors never exceed `runs_per_gpu` together.

    `gpus`: device names as CUDA_VISIBLE_DEVICES takes them (indices, or UUIDs of GPUs or MIG slices).
    """

    def __init__(
        self, directory: Path, gpus: Sequence[int | str], *, runs_per_gpu: int = 1, gpus_per_run: int = 1
    ) -> None:
        self._directory, self._gpus = directory, [str(gpu) for gpu in gpus]
        self._runs_per_gpu, self._gpus_per_run = runs_per_gpu, gpus_per_run

    @property
    def count(self) -> int:
        return len(self._gpus)

    def take(self) -> GpuLease | None:
        """GPUs for one run, the least shared first; None if too few are free now."""
        with ExitStack() as locks:
            leased_gpus: list[str] = []
            for gpu, path in self._slots():
                if gpu in leased_gpus:
                    continue
                with suppress(RunClaimed):
                    locks.enter_context(acquire(path))
                    leased_gpus.append(gpu)
                if len(leased_gpus) == self._gpus_per_run:
                    return GpuLease(",".join(leased_gpus), locks.pop_all())
        return None

    def _slots(self) -> Iterator[tuple[str, Path]]:
        # One GPU has other indices for jobs of Slurm and for commands that name it by UUID.
        uuids = {gpu.index: gpu.uuid for gpu in installed_gpus()}
        for slot in range(self._runs_per_gpu):
            for gpu in self._gpus:
                name = uuids.get(gpu, gpu).replace("/", "_")
                yield gpu, self._directory / f"{socket.gethostname()}-gpu-{name}-{slot}.lock"
