"""Run identity: the same content has the same id, by whatever route it was configured.

`run_id` hashes the canonical JSON of a `RunConfig` without `runtime`; `arm_id` also leaves out the seed. Labels, code version and
packages are not identity: they are recorded and shown.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig, dump

IDENTITY_VERSION = 1


def canonical_json(value: Any) -> str:
    """Sorted keys, shortest-repr floats, explicit nulls. Raises `ConfigError` that names the key of a float that is not finite."""
    return json.dumps(_as_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _as_plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {str(name): _as_plain(item, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_plain(item, key) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{key or 'a configuration'}={value} is not finite; give a finite number")
        return value + 0.0  # -0.0 is 0.0
    return value


def identity(config: RunConfig) -> dict[str, Any]:
    """Return the content that a run's id is a hash of."""
    values = without_neutral(config)
    del values["runtime"]
    return {"identity_version": IDENTITY_VERSION, **values}


def without_neutral(config: Any) -> dict[str, Any]:
    """Return what is hashed: no neutral field at its default, and of a section with `identity()` (a file's content) what that says."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        if item.metadata.get("neutral") and value == default:
            continue
        if isinstance(value, dict):
            values[item.name] = {key: _part(part) for key, part in value.items()}
        else:
            values[item.name] = _part(value)
    return values


def _part(value: Any) -> Any:
    if not dataclasses.is_dataclass(value):
        return value
    content = getattr(value, "identity", None)
    return without_neutral(value) if content is None else content()


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def run_id(config: RunConfig) -> str:
    """16 hexadecimal digits naming arm and seed."""
    return _digest(identity(config))


def arm_id(config: RunConfig) -> str:
    """16 hexadecimal digits naming the arm: the identity without the seed."""
    return ids(config, ())[0]


def ids(config: RunConfig, seeds: Iterable[int]) -> tuple[str, dict[int, str]]:
    """The arm's id, and the run's for each seed: the same as `arm_id` and `run_id`, from one look at the configuration."""
    values = identity(config)
    runs = {seed: _digest({**values, "seed": seed}) for seed in seeds}
    del values["seed"]
    return _digest(values), runs


def content_hash(*parts: Any) -> str:
    """A 16-digit key for caches (warm-up checkpoints, machine probes) of plain values."""
    return _digest(list(parts))


def difference(a: RunConfig, b: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Dotted key → (value in a, value in b) for every identity key in which two configurations differ."""
    flat_a, flat_b = flatten(dump(a)), flatten(dump(b))
    keys = sorted(key for key in flat_a.keys() | flat_b.keys() if key.split(".")[0] != "runtime")
    pairs = {key: (flat_a.get(key), flat_b.get(key)) for key in keys}  # a key that only one has, at null, says nothing
    return {key: (old, new) for key, (old, new) in pairs.items() if old != new}


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mapping → dotted keys; lists are leaves."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
