"""What a checkpoint holds: tensors and plain values. Reading it builds nothing else, so a folder from elsewhere runs no code."""

from __future__ import annotations

import dataclasses
import pickle
from collections import OrderedDict
from pathlib import Path
from types import NoneType
from typing import Any

import torch

from harness.training.old_state import read_old

_VALUES = (str, int, float, bool, NoneType, torch.Tensor, torch.nn.Parameter)


def save_state(state: dict[str, Any], path: Path) -> None:
    """Write tensors and plain values (dict, list, tuple, str, int, float, bool, None).

    Raises:
        TypeError: something else is in it; the message names where.
    """
    _require_data(state, "state")
    torch.save(state, path)


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote, or a checkpoint from before it, onto the CPU.

    Raises:
        UnreadableCheckpoint: the file holds something else; nothing of it was run.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return read_old(path)
    return state


def as_data(value: Any) -> Any:
    """The same with dataclasses as dicts of their fields and without gradients."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def _require_data(value: Any, where: str) -> None:
    # Exact types: a subclass, such as numpy.float64 of float, is pickled as itself.
    if type(value) in (dict, OrderedDict):
        for key, item in value.items():
            _require_data(key, f"a key of {where}")
            _require_data(item, f"{where}[{key!r}]")
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            _require_data(item, f"{where}[{index}]")
    elif type(value) not in _VALUES:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"{where} is a {kind}, and a checkpoint holds tensors and plain values only; return those from `state()`"
        )
