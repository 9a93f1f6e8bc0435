"""Files that are what they were: a seal names each with its size and its SHA-256.

The manifest of a finished run holds the run's. A checkpoint, a cached base policy or other weights, and a cached evaluation hold their own.
What was written before there were seals has none and is believed.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.store import layout
from harness.store.atomic import publish_directory, remove_leftovers, write_file
from harness.store.error import TornFile
from harness.store.lease import acquire

SEAL = "files.seal"  # no .json: what lies beside weights as .json is part of a checkpoint's fingerprint


def seal_of(files: Mapping[str, Path]) -> dict[str, list[Any]]:
    """Return size and SHA-256 by name, as JSON holds them."""
    return {name: [path.stat().st_size, _hash(path)] for name, path in sorted(files.items())}


def file_fault(files: Mapping[str, Path], seal: Mapping[str, Any]) -> str:
    """Say which file is not what it was, and how; nothing where all are. Every file of the right size is read."""
    for name, entry in seal.items():
        # Nobody vouches for what a pack holds.
        size, digest = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
        if name not in files:
            return f"{name} is missing"
        if (actual_size := files[name].stat().st_size) != size:
            return f"{name} has {actual_size} bytes, not {size}"
        if _hash(files[name]) != digest:
            return f"{name} has other content"
    surplus_files = sorted(files.keys() - seal.keys())
    return f"{surplus_files[0]} is one too many" if surplus_files else ""


def add_seal(write: Callable[[Path], None]) -> Callable[[Path], None]:
    """Let a writer of a folder leave a seal in it."""

    def write_and_seal(folder: Path) -> None:
        write(folder)
        (folder / SEAL).write_text(json.dumps(seal_of(_files(folder)), indent=1) + "\n")

    return write_and_seal


def folder_fault(folder: Path) -> str:
    """Say what is wrong with a sealed folder, by its hashes; nothing where it is what it was, or has no seal."""
    try:
        seal = layout.read_object(folder / SEAL, "delete the folder")
        if seal is None:
            return "" if folder.is_dir() else f"{folder} is missing"
        files = {name: path for name, path in _files(folder).items() if name in seal}
        fault = file_fault(files, seal)
    except (TornFile, OSError) as error:
        return str(error)
    return f"{folder} is not what was written: {fault}" if fault else ""


def drop_broken(folder: Path, required_file: str) -> dict[str, Any]:
    """Delete the files of a folder that are not what its seal says, so that they are made again, and say so; returns the seal of the rest.

    Raises `TornFile`: the seal cannot be read, or the file `required_file` is not what it was: the folder is to be deleted.
    """
    seal = layout.read_object(folder / SEAL, "delete the folder") or {}
    for name, entry in list(seal.items()):
        path = folder / name
        if fault := file_fault({name: path} if path.is_file() else {}, {name: entry}):
            if name == required_file:
                raise TornFile(f"{folder} is not what was written: {fault}; delete the folder")
            print(f"{layout.WARNING}{folder} is not what was written: {fault}; it is made again", file=sys.stderr)
            path.unlink(missing_ok=True)
            del seal[name]
    return seal


def write_seal(folder: Path, seal: Mapping[str, Any]) -> None:
    """Publish the seal of a folder that grows file by file."""
    write_file(folder / SEAL, json.dumps(seal, indent=1).encode() + b"\n")


def ensure_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a sealed folder of a cache, made where it is absent, and made again, which is said, where it is not what it was.

    Several processes may ask at once: one makes it, the others wait. It appears complete or not at all. Raises what `write` raises.
    """
    if folder_fault(folder):
        with acquire(Path(f"{folder}.lock"), wait_seconds=math.inf):
            if fault := folder_fault(folder):
                remove_leftovers(folder.parent, folder.name)
                if folder.exists():
                    print(f"{layout.WARNING}{fault}; the folder is made again", file=sys.stderr, flush=True)
                publish_directory(folder, add_seal(write))
    return folder


def _files(folder: Path) -> dict[str, Path]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    return {path.relative_to(folder).as_posix(): path for path in paths}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
