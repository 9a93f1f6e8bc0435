"""Checkpoints from before states were data. They hold NumPy arrays and the two dataclasses of carried groups.

torch's restricted unpickler meets stand-ins under those names and under no others, and they become plain values at once: arrays nested
lists, dataclasses dicts of their fields. NumPy's own constructors are never called on what a file says.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from harness.store import UnreadableCheckpoint


class _Record:
    """Stands for a dataclass; the unpickler fills in its fields."""


class _Number:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: str, align: bool, copy: bool) -> None:
        if code not in ("b1", "i8", "f8"):
            raise pickle.UnpicklingError(f"arrays of {code!r} are in no checkpoint")
        self.code = code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = np.dtype(state[1] + self.code)  # the byte order


class _Array:
    """Stands for `numpy.ndarray`."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, number, fortran, content = state
        array = np.frombuffer(content, number.dtype).reshape(shape, order="F" if fortran else "C")
        self.values = array.tolist()


def _blank(kind: Any, shape: Any, code: Any) -> _Array:
    """Stands for NumPy's function that makes the array to be filled."""
    return _Array()


def _no_bytes() -> bytes:
    """Stands for `bytes`, which is called for the content of an empty array only."""
    return b""


# Names as old files hold them. They do not follow the code: a class that moves leaves its old name here.
_STAND_INS: dict[str, Any] = {
    "harness.sampling.groups.Groups": _Record,
    "harness.rollout.types.Completions": _Record,
    "numpy._core.multiarray._reconstruct": _blank,
    "numpy.ndarray": _Array,
    "numpy.dtype": _Number,
    "builtins.bytes": _no_bytes,
}


def read_old(path: Path) -> dict[str, Any]:
    """The state in an old checkpoint as tensors and plain values.

    Raises:
        UnreadableCheckpoint: it holds classes or functions besides those that old checkpoints had, or is no checkpoint at all.
    """
    with safe_globals([(stand_in, name) for name, stand_in in _STAND_INS.items()]):
        try:
            foreign = get_unsafe_globals_in_checkpoint(path)
            if foreign:
                raise UnreadableCheckpoint.at(path, f"holds {', '.join(sorted(foreign))}")
            state: dict[str, Any] = _as_data(torch.load(path, map_location="cpu", weights_only=True))
        except (pickle.UnpicklingError, ValueError, TypeError, AttributeError) as error:
            raise UnreadableCheckpoint.at(path, f"is not a checkpoint ({error})") from error
    return state


def _as_data(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.values
    if isinstance(value, _Record):
        return _as_data(vars(value))
    if isinstance(value, dict):
        return {key: _as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_as_data(item) for item in value)
    return value
