"""Checkpoints hold tensors and plain values. Reading one builds nothing else, so a folder from elsewhere runs no code."""

from __future__ import annotations

import dataclasses
import pickle
from collections import OrderedDict
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from harness.store import UnreadableCheckpoint

_VALUES = (str, int, float, bool, NoneType, torch.Tensor, torch.nn.Parameter)


def save_state(state: dict[str, Any], path: Path) -> None:
    """Write tensors and plain values (dict, list, tuple, str, int, float, bool, None).

    Raises:
        TypeError: something else is in it; the message names where.
    """
    _require_data(state, "state")
    torch.save(state, path)


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote onto the CPU.

    Raises:
        UnreadableCheckpoint: the file holds something else; nothing of it was run.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnreadableCheckpoint.at(path, _what_it_holds(path)) from error
    return state


def _what_it_holds(path: Path) -> str:
    try:
        foreign = get_unsafe_globals_in_checkpoint(path)
    except (pickle.UnpicklingError, ValueError, TypeError, AttributeError):
        foreign = []
    return f"holds {', '.join(sorted(foreign))}" if foreign else "is not a checkpoint"


def as_data(value: Any) -> Any:
    """Return the same value with dataclasses as dicts of their fields and without gradients."""
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
