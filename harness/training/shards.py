"""Weights and optimiser state of a sharded policy on disk: whole tensors in pieces, readable by any number of ranks.

`torch.distributed.checkpoint` pickles its index and every value that is no tensor, and reads them without restriction. Here the index may
name that package's own record types only, and values are read as plain ones.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from harness.model.ranks import cpu_group
from harness.store import UnreadableCheckpoint

_METADATA = "torch.distributed.checkpoint.metadata"
_INDEX_TYPES = {
    *((_METADATA, name) for name in ("Metadata", "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING")),
    *((_METADATA, name) for name in ("TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata")),
    (_METADATA, "BytesStorageMetadata"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),  # its name in Python 3.13
}


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


class _IndexUnpickler(pickle.Unpickler):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(io.BytesIO(path.read_bytes()))

    def find_class(self, module: str, name: str) -> Any:
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_dtype or (module, name) in _INDEX_TYPES:
            return super().find_class(module, name)
        raise UnreadableCheckpoint.at(self.path, f"holds {module}.{name}")


class ShardReader(FileSystemReader):
    """Reads shards from a folder. Raises `UnreadableCheckpoint` where the index names anything but its own types."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """See torch's reader."""
        path = Path(self._get_metadata_path(kwargs.get("rank")))
        try:
            metadata = _IndexUnpickler(path).load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise UnreadableCheckpoint.at(path, f"is no index of shards ({error})") from error
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class PlainValues(DefaultLoadPlanner):
    """Loads into whole state dicts, with plain values besides tensors."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """See torch's planner."""
        try:
            plain = torch.load(value, weights_only=True)
        except pickle.UnpicklingError as error:
            name = read_item.dest_index.fqn
            raise UnreadableCheckpoint.at(
                self.folder, f"holds something else than a plain value as {name} ({error})"
            ) from error
        set_element(self.original_state_dict, self.mappings[read_item.dest_index.fqn], plain)
