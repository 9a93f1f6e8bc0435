"""A policy's tensors for other processes of this machine (Linux), in memory without a name: nothing is left, however this one ends."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import torch


@contextmanager
def weight_file(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[str]:
    """Give the path under which `read_weights` finds these tensors inside."""
    with open(os.memfd_create("weights"), "wb") as file:
        torch.save({name: tensor.detach().cpu() for name, tensor in weights}, file)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def read_weights(path: str) -> dict[str, torch.Tensor]:
    """The tensors of a `weight_file`, mapped and not copied; valid while it is there."""
    return cast(dict[str, torch.Tensor], torch.load(path, map_location="cpu", mmap=True, weights_only=True))
