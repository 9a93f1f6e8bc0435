"""Weights and optimiser state of a sharded policy on disk: whole tensors in pieces, readable by any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from harness.model.ranks import cpu_group
from harness.store import UnreadableCheckpoint
from harness.training.shard_reader import PlainValues, ShardReader


def start_writing(policy: Any, optimizer: torch.optim.Optimizer, folder: Path) -> Any:
    """Copy the tensors now and write them in a thread; a future with `done()` and `result()`. Collective."""
    group = cpu_group("checkpoints")
    return async_save(_tensors(policy, optimizer), checkpoint_id=folder, process_group=group)


def read(policy: Any, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Load what `start_writing` wrote, on this or another number of ranks. Collective.

    Raises:
        UnreadableCheckpoint: the folder holds something else than tensors and plain values.
    """
    # torch fills an empty optimiser state with zeros to load into, but only where no gradient is there.
    optimizer.zero_grad(set_to_none=True)
    tensors = _tensors(policy, optimizer)
    try:
        load(tensors, storage_reader=ShardReader(folder), planner=PlainValues(folder))
    except CheckpointException as error:
        for cause, _ in error.failures.values():
            if isinstance(cause, UnreadableCheckpoint):
                raise cause from None
        raise
    policy.restore(tensors["policy"])
    set_optimizer_state_dict(policy.scoring, optimizer, tensors["optimizer"])
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter)


def _tensors(policy: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    options = StateDictOptions(ignore_frozen_params=True)
    return {
        "policy": policy.state(),
        "optimizer": get_optimizer_state_dict(policy.scoring, optimizer, options=options),
    }
