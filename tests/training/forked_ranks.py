"""Ranks as torchrun starts them, forked by `multiprocessing`'s fork server, which has loaded their libraries once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

import torch.distributed as dist

from harness.training import torchrun


def _rank(rank: int, world: int, port: int, run: str, attempt: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # whoever starts the ranks keeps their store
    os._exit(torchrun.main(Path(run), attempt))


class ForkedRanks:
    """In the place of `torchrun.Child`, for a command of `torchrun_command`; like torchrun it ends with the first rank that fails."""

    def __init__(self, command: Sequence[str]) -> None:
        world = next(int(item.partition("=")[2]) for item in command if item.startswith("--nproc-per-node="))
        store = dist.TCPStore  # type: ignore[attr-defined]  # its stub file does not list it
        self._store = store("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        context = get_context("forkserver")
        context.set_forkserver_preload(["harness.execution.worker", "transformers.modeling_layers"])
        places = [(rank, world, self._store.port, command[-2], int(command[-1])) for rank in range(world)]
        self._ranks = [context.Process(target=_rank, args=place) for place in places]
        for rank in self._ranks:
            rank.start()

    def wait(self, seconds: float) -> bool:
        wait([rank.sentinel for rank in self._ranks if rank.exitcode is None], seconds)
        codes = [rank.exitcode for rank in self._ranks]
        return None in codes and not any(codes)

    @property
    def code(self) -> int | None:
        return next((rank.exitcode for rank in self._ranks if rank.exitcode), 0)

    def stop(self) -> None:
        for rank in self._ranks:
            rank.kill()
            rank.join()
