"""The fingerprint of a checkpoint's content, wherever its folder lies."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import BinaryIO

# Beside the weights: configuration, chat template, tokenizer.
SIDE_FILES = (".json", ".jinja", ".txt", ".model")
_EDGE = 1 << 12  # bytes
_LARGEST_HEADER = 100_000_000  # bytes, safetensors' own limit


def content_fingerprint(folder: Path) -> str:
    """Fingerprint a checkpoint: 16 hexadecimal digits that tell it from any other.

    A hash of the files beside the weights and, for every file of weights, of its name, size, header and the first bytes of every tensor. A
    trained tensor changes nearly everywhere, so its beginning tells two checkpoints apart without reading gigabytes; adapters leave whole
    tensors as they were, so every one is looked at.

    Raises:
        OSError: the folder or one of its files cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(item for item in folder.iterdir() if item.suffix in SIDE_FILES and item.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name}:{path.stat().st_size}".encode())
        with path.open("rb") as file:
            for start in _tensor_starts(file):
                file.seek(start)
                digest.update(file.read(_EDGE))
    return digest.hexdigest()[:16]


def _tensor_starts(file: BinaryIO) -> list[int]:
    """Find the first byte of the header and of every tensor of a safetensors file; that of the file alone if it is none."""
    try:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length)) if length < _LARGEST_HEADER else {}
        begins = [item["data_offsets"][0] for name, item in header.items() if name != "__metadata__"]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        return [0]
    return [0, *(8 + length + begin for begin in sorted(begins))]
