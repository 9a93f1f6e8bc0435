"""This machine's processor, GPUs and kept memory, and the fingerprint of a checkpoint's content. Imports no torch."""

import ctypes
import functools
import hashlib
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

AMD = "AuthenticAMD"
_CPUINFO = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # what Linux calls such products on x86 and ARM


@dataclass(frozen=True)
class Processor:
    """`vendor` is the x86 vendor string (`AuthenticAMD`, `GenuineIntel`), empty where there is none; `name` is for people.

    `bfloat16`: it multiplies bfloat16. Where it does not, torch takes four times as long for such a product as for one of float32.
    """

    vendor: str
    name: str
    bfloat16: bool = False


@functools.cache
def processor() -> Processor:
    return parse_cpuinfo(_CPUINFO.read_text() if _CPUINFO.exists() else "")


def parse_cpuinfo(text: str) -> Processor:
    """The first processor of Linux's `/proc/cpuinfo`; its name is the platform's word where the text has none."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    features = (fields.get("flags") or fields.get("Features", "")).split()
    name = fields.get("model name") or platform.processor() or "unknown"
    return Processor(fields.get("vendor_id", ""), name, not _BFLOAT16.isdisjoint(features))


def trim_heap() -> None:
    """Return free pages of glibc's heap to the system: what sampling takes would come on top of an update's activations."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


# Beside the weights: configuration, chat template, tokenizer.
SIDE_FILES = (".json", ".jinja", ".txt", ".model")
_EDGE = 1 << 12  # bytes
_LARGEST_HEADER = 100_000_000  # bytes, safetensors' own limit


def content_fingerprint(folder: Path) -> str:
    """Fingerprint a checkpoint: 16 hexadecimal digits that tell it from any other. Raises `OSError`.

    A hash of the files beside the weights and, for every file of weights, of its name, size, header and the first bytes of every tensor:
    a trained tensor changes nearly everywhere, and adapters leave whole tensors as they were.
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
        offsets = [item["data_offsets"][0] for name, item in header.items() if name != "__metadata__"]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        return [0]
    return [0, *(8 + length + offset for offset in sorted(offsets))]


@dataclass(frozen=True)
class InstalledGpu:
    """A GPU of this machine as the driver lists it."""

    index: str
    uuid: str
    name: str
    driver: str


@functools.cache
def installed_gpus() -> tuple[InstalledGpu, ...]:
    """List the GPUs of this machine without importing torch; none where the driver does not answer."""
    if shutil.which("nvidia-smi") is None:
        return ()
    command = ["nvidia-smi", "--query-gpu=index,uuid,name,driver_version", "--format=csv,noheader,nounits"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = process.stdout.splitlines() if process.returncode == 0 else []
    return tuple(InstalledGpu(*map(str.strip, line.split(","))) for line in lines if line.count(",") == 3)


def visible_gpus() -> list[str]:
    """List the GPUs that this process may use: CUDA_VISIBLE_DEVICES, else the index of all that are installed."""
    visible_devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible_devices is None:
        return [gpu.index for gpu in installed_gpus()]
    return [name.strip() for name in visible_devices.split(",") if name.strip() not in ("", "-1")]
