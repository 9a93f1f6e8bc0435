"""Faults of an update: numbers that are not finite, which end the run, and lack of memory, which costs half the micro-batch first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class NumericalFault(RuntimeError):
    """Loss, gradient or advantages stopped being finite; `batch` is what the update was made of, for inspection."""

    def __init__(self, message: str, batch: dict[str, Any]) -> None:
        super().__init__(message)
        self.batch = batch


class MemoryFault(RuntimeError):
    """An update does not fit into memory."""


def halve_on_exhaustion(updater: Any, work: Callable[[], T]) -> T:
    """`work()` of an `Updater`; when memory runs out, once more with half of its `micro_batch_tokens`, which stays halved.

    `work` must start from nothing (it zeroes the gradients). With several ranks the others are inside a collective when one fails, so
    nothing is tried again.

    Raises:
        MemoryFault: it did not help, or was tried before.
    """
    try:
        return work()
    except RuntimeError as error:
        if not exhausted(error):
            raise
        configured = updater.config.runtime.micro_batch_tokens
        advice = (
            f"an update does not fit into memory with runtime.micro_batch_tokens={updater.micro_batch_tokens}; lower it, set "
            "runtime.gradient_checkpointing=true, train with model.lora.rank, or use more GPUs (runtime.gpus_per_run)"
        )
        if updater.ranks.world > 1 or updater.micro_batch_tokens < configured:
            raise MemoryFault(advice) from error
        updater.micro_batch_tokens = max(1, configured // 2)
        said = (
            f"out of memory: micro-batches of {updater.micro_batch_tokens} tokens from now on instead of "
            f"runtime.micro_batch_tokens={configured} (the results do not depend on it)"
        )
        print(said, file=sys.stderr, flush=True)
    # Outside the handler, so that the failed attempt's tensors are free.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    updater.policy.abandon_pass()
    return halve_on_exhaustion(updater, work)


def exhausted(error: BaseException) -> bool:
    """Return whether the error says that memory ran out, on a GPU or a CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
