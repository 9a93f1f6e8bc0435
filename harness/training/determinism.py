"""Runs that repeat their bits, on devices where that has a price.

On a CPU with one thread nothing has to be done. On a GPU the backward of flash attention and of indexing add in an order that changes from
call to call, unless torch is told otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.utils.deterministic


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Inside, torch takes algorithms that repeat their bits, and raises RuntimeError at one that has none (`wanted` False: nothing).

    Must be entered before the first matrix product on a GPU: cuBLAS reads its workspace's size once.
    """
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    filled: bool = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    # Not a warning instead: torch's memory-efficient attention repeats its bits only where errors are wanted.
    torch.use_deterministic_algorithms(True)
    _fill(False)  # nothing here reads what was not written
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        _fill(filled)


def _fill(wanted: bool) -> None:
    """Set whether new memory is filled with NaN."""
    torch.utils.deterministic.fill_uninitialized_memory = wanted  # type: ignore[attr-defined]
