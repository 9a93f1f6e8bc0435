"""Reads shards without trusting their pickles.

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
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import ReadItem

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
