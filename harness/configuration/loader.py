"""A strict loader of nested dataclasses: unknown keys, wrong types and unknown members are errors that name the nearest valid key."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from harness.configuration.error import ConfigError, UnknownKeyError
from harness.configuration.families import retired_keys
from harness.configuration.registry import kinds, member, nearest
from harness.configuration.user_code import gone

T = TypeVar("T")


def load_dataclass(cls: type[T], values: Any, path: str) -> T:
    """Build `cls` from a plain mapping; `path` is where it stands in the whole, for messages.

    Fields whose metadata name a `family` hold that family's member of the mapping's `kind`; `family_values` the same for each value of
    a mapping. A field that was added with a new meaning as its default (`families.neutral_when`) means the old one where the mapping lacks
    it. Raises `ConfigError`.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{path or 'the configuration'} must be a mapping, got {values!r}")
    hints = _hints(typing.cast(type, cls))
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    arguments: dict[str, Any] = {}
    values = _without_retired(cls, values, path)
    for name, value in values.items():
        where = f"{path}.{name}" if path else str(name)
        if name not in known:
            raise UnknownKeyError(where, nearest(str(name), list(known)))
        metadata = known[name].metadata
        if "family" in metadata:
            arguments[name] = _load_member(metadata["family"], value, where)
        elif "family_values" in metadata:
            arguments[name] = {
                str(key): _load_member(metadata["family_values"], item, f"{where}.{key}")
                for key, item in _mapping(value, where).items()
            }
        else:
            arguments[name] = _convert(hints[name], value, where)
    for name, item in known.items():
        if name not in values and "absent" in item.metadata:
            arguments[name] = item.metadata["absent"]()
        if name not in arguments and item.default is item.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{path or 'the configuration'} needs a {name}")
    return cls(**arguments)


def _without_retired(cls: type, values: dict[str, Any], path: str) -> dict[str, Any]:
    """Raises `ConfigError` for a retired key with another value than it always had."""
    retired = retired_keys(cls)
    for name in values.keys() & retired.keys():
        if values[name] != retired[name][0]:
            raise ConfigError(f"{path}.{name}={values[name]!r}: the key is gone; leave it out")
    return {name: value for name, value in values.items() if name not in retired}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a mapping, got {value!r}")
    return value


def _load_member(package: str, values: Any, path: str) -> Any:
    """One family member's Config, chosen by its `kind`."""
    kind = _mapping(values, path).get("kind")
    if kind is None:
        raise ConfigError(f"{path} has no `kind`; choose one of: {', '.join(sorted(kinds(package)))}")
    if "code" in values and (unreadable := gone(package, values)) is not None:
        return unreadable
    try:
        module = member(package, kind)
    except ValueError as error:
        raise ConfigError(f"{path}.kind: {error}") from error
    return load_dataclass(module.Config, values, path)


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Check one plain value against its annotation; integers widen to float, nothing else is coerced."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _convert_to_one([one for one in arguments if one is not type(None)], value, where)
    if dataclasses.is_dataclass(hint):
        return load_dataclass(typing.cast(type, hint), value, where)
    if origin in (list, Sequence):
        if not isinstance(value, list):
            raise ConfigError(f"{where} must be a list, got {value!r}")
        return [_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin in (dict, Mapping):
        return {
            key: _convert(arguments[1], item, f"{where}.{key}")
            for key, item in _mapping(value, where).items()
        }
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(value, hint) and not (hint is int and isinstance(value, bool))):
        return value
    raise ConfigError(f"{where} must be {hint.__name__}, got {value!r}")


def _convert_to_one(choices: list[Any], value: Any, where: str) -> Any:
    """Check a value against the choice that has its shape: a list, a mapping, or a plain value."""
    shape = type(value) if isinstance(value, list | dict) else None
    fitting = [one for one in choices if typing.get_origin(one) is shape]
    if len(choices) == 1 or (shape and fitting):
        return _convert((fitting or choices)[0], value, where)
    for one in fitting:
        with contextlib.suppress(ConfigError):
            return _convert(one, value, where)
    names = (str(one) if typing.get_args(one) else one.__name__ for one in choices)
    raise ConfigError(f"{where} must be {' or '.join(names)}, got {value!r}")
