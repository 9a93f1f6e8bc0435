"""The processes that train one run together. Every rank runs the same loop; work is divided, and so are the tokens it is done on.

What decides the course of a run (which groups live, when to stop, which micro-batches an update has) is computed on every rank from
gathered data, so the ranks cannot drift apart; rank 0 alone writes to the store.
"""

import functools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

# Ranks wait for one another's values: a download, a warm-up or a long tail of responses on one of them.
_OBJECTS_TIMEOUT = timedelta(hours=4)
# In a collective of tensors they arrive together: one that waits longer waits in the wrong one.
_TENSORS_TIMEOUT = timedelta(minutes=20)
BUCKET_NUMBERS = 2**26  # of weights that one collective gathers


@dataclass(frozen=True)
class Ranks:
    """This process's place. With one rank every method is the identity."""

    rank: int = 0
    world: int = 1

    @classmethod
    def join(cls) -> Self:
        """Join the process group that torchrun's environment names; alone where there is none."""
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world == 1:
            return cls()
        open_group()
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This rank's part of `count` items: contiguous, sizes differ by one at most, in rank order."""
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in rank order, on every rank (pickled; tensors on the CPU)."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value, group=objects_group())
        return values

    def exchange(self, values: Sequence[Any]) -> list[Any]:
        """What the ranks have for this one, in their order: `values` holds a value for each rank, which it alone gets (pickled)."""
        received: list[Any] = [None] * self.world
        for source in range(self.world):
            box, own = [None], list(values) if source == self.rank else None
            dist.scatter_object_list(box, own, src=source, group=objects_group())
            received[source] = box[0]
        return received

    def from_first(self, value: Any) -> Any:
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=objects_group())
        return box[0]

    def any(self, flag: bool) -> bool:
        return any(self.gather(flag)) if self.world > 1 else flag


ALONE = Ranks()


def open_group() -> None:
    """Start the process group, of this process alone where no torchrun started it; does nothing the second time."""
    if dist.is_initialized():
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if "RANK" in os.environ:
        dist.init_process_group(backend, timeout=_TENSORS_TIMEOUT)
    else:
        store = dist.HashStore()  # type: ignore[attr-defined]  # its stub file does not list it
        dist.init_process_group(backend, store=store, rank=0, world_size=1)


def close_groups() -> None:
    """End the process group and all made from it, joining their threads; collective. Nothing that was sharded works after it."""
    objects_group.cache_clear()
    if dist.is_initialized():
        dist.destroy_process_group()


@functools.cache
def objects_group() -> Any:
    """All ranks on the CPU, for pickled values, so that they take no device memory; collective at its first use."""
    return dist.new_group(backend="gloo", timeout=_OBJECTS_TIMEOUT)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The full tensor of a shard (collective), or the tensor itself."""
    full = getattr(tensor, "full_tensor", None)
    return tensor.detach() if full is None else full().detach()


def whole_tensors(tensors: Iterable[torch.Tensor], dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """The full tensors of these shards (or tensors) in `dtype`: rounded before they travel, many at a time; collective."""
    bucket = list[torch.Tensor]()
    for tensor in tensors:
        if bucket and sum(item.numel() for item in (*bucket, tensor)) > BUCKET_NUMBERS:
            yield from _gathered(bucket, dtype)
            bucket = []
        bucket.append(tensor.detach())
    if bucket:
        yield from _gathered(bucket, dtype)


def _gathered(bucket: Sequence[torch.Tensor], dtype: torch.dtype) -> Iterator[torch.Tensor]:
    world = dist.get_world_size() if isinstance(bucket[0], DTensor) else 1
    if world == 1:
        yield from (whole(tensor).to(dtype) for tensor in bucket)
        return
    # FSDP2 cuts the first dimension into equal parts, of which the last ones may be smaller or empty.
    rows = [-(-len(tensor) // world) for tensor in bucket]
    sizes = [count * math.prod(tensor.shape[1:]) for count, tensor in zip(rows, bucket, strict=True)]
    flat = torch.zeros(sum(sizes), dtype=dtype, device=bucket[0].device)
    for part, tensor in zip(flat.split(sizes), bucket, strict=True):
        local = tensor.to_local().reshape(-1)  # type: ignore[attr-defined]  # a DTensor
        part[: len(local)] = local
    everywhere = flat.new_empty(world, len(flat))
    dist.all_gather([*everywhere], flat)
    for part, tensor, count in zip(everywhere.split(sizes, 1), bucket, rows, strict=True):
        yield part.reshape(world * count, *tensor.shape[1:])[: len(tensor)]


def balance_items(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Item numbers for each rank, with sums of costs as equal as the greedy rule makes them (longest first, to the lightest rank)."""
    sums, parts = [0] * ranks, [[] for _ in range(ranks)]  # type: ignore[var-annotated]
    for item in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        lightest = min(range(ranks), key=lambda r: (sums[r], r))
        sums[lightest] += costs[item]
        parts[lightest].append(item)
    return parts
