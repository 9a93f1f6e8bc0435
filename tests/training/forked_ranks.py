"""Ranks as torchrun starts them, forked by `multiprocessing`'s fork server, which has loaded their libraries once."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

import torch
import torch.distributed as dist

from harness.model.ranks import Ranks
from harness.rollout.types import Completions
from harness.sampling.selection import Groups
from harness.training import torchrun
from harness.training.micro_batches import rank_shares
from harness.training.step_data import StepData


def _rank(rank: int, world: int, port: int, run: str, attempt: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # whoever starts the ranks keeps their store
    os._exit(torchrun.main(Path(run), attempt))


def share_a_step(rank: int, folder: Path) -> None:
    """As one of two ranks: tell the other of half of a step's groups, fetch what an update gives this one, and write what went out.

    The numbers: tokens sampled here, bytes told to all, bytes sent to the other rank and to this one.
    """
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    ranks, draw = Ranks(rank, 2), torch.Generator().manual_seed(0)
    lengths_R = torch.randint(1, 200, (128,), generator=draw)
    tokens_N, *scores = (torch.rand(int(lengths_R.sum()), generator=draw) for _ in range(3))
    head_NK = torch.rand(len(tokens_N), 16, generator=draw)
    made = Completions((1e6 * tokens_N).long(), *scores, lengths_R, lengths_R > 9, head_NK, (1e6 * head_NK).int())
    grid_PG = torch.ones(32, 4, dtype=torch.bool)
    whole = Groups(torch.arange(32), made, grid_PG, grid_PG, grid_PG.float())
    own = whole.select(torch.arange(32)[ranks.share(32)])
    told = ranks.gather(own.ledger())
    groups = Groups.concatenate([own if number == rank else each for number, each in enumerate(told)])
    data, wanted = (StepData.of_groups(each, [[0]] * 32, ~grid_PG) for each in (groups, whole))
    shares = rank_shares(torch.arange(128), data, 2, pairs=False)
    sent, scatter = [0, 0], dist.scatter_object_list

    def counted(box: list[object], values: list[object] | None, **more: object) -> None:
        for place, value in enumerate(values or ()):
            sent[place == rank] += len(pickle.dumps(value))
        scatter(box, values, **more)  # type: ignore[arg-type]

    dist.scatter_object_list = counted  # type: ignore[assignment]
    fetched, expected = data.fetch(shares, ranks).select(shares[rank]), wanted.select(shares[rank])
    for name, value in vars(expected).items():
        assert not isinstance(value, torch.Tensor) or torch.equal(getattr(fetched, name), value), name
    numbers = [len(own.completions.tokens_N), len(pickle.dumps(own.ledger())), *sent]
    (folder / f"{rank}.json").write_text(json.dumps(numbers))
    dist.destroy_process_group()


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
