"""Weights on their way to an engine: rounded first, many tensors in one collective."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from harness.model import ranks

SHAPES = [(5, 3), (1, 4), (7,), (4, 2, 3), (64, 8)]


def gather(rank: int, folder: str) -> None:
    """One of two ranks: what arrives, and the size and number type of each collective."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    mesh, sent, plain = init_device_mesh("cpu", (2,)), [], dist.all_gather
    dist.all_gather = lambda out, part: sent.append((part.numel(), part.dtype)) or plain(out, part)
    whole = [torch.arange(torch.Size(shape).numel()).view(shape) / 7 for shape in SHAPES]
    shards = [distribute_tensor(tensor, mesh, [Shard(0)]) for tensor in whole]
    ranks.BUCKET_NUMBERS = 100
    arrived = list(ranks.whole_tensors(shards, torch.bfloat16))
    assert all(torch.equal(a, b.bfloat16()) for a, b in zip(arrived, whole, strict=True))
    torch.save(sent, Path(folder) / f"{rank}.pt")


def test_shards_travel_rounded_and_in_buckets(tmp_path: Path) -> None:
    mp.spawn(gather, (str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    halves = (9 + 4 + 4 + 12, 256)  # 50 numbers with padding, then the one tensor that fills a bucket by itself
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt") == [(size, torch.bfloat16) for size in halves]
