"""Every key of a run, and other values of it: for tests that a backend drops no choice."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tables import tables

from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig, dump, load
from harness.experiment.checks import inert

CHOICES: dict[str, list[str]] = tables(__file__)["choices"]
FAMILIES = {
    field.name: field.metadata["family"]
    for owner in (RunConfig, type(RunConfig().algorithm))
    for field in dataclasses.fields(owner)
    if "family" in field.metadata
}


def leaves(value: Any, prefix: str) -> Iterator[str]:
    """Dotted keys of a configuration's leaves; `algorithm/kl` stands for the choice of a member."""
    for field in dataclasses.fields(value):
        key, item = f"{prefix}{field.name}", getattr(value, field.name)
        if field.name in FAMILIES and dataclasses.is_dataclass(item):
            yield key.replace(".", "/") if "." in key else f"/{key}"
        if dataclasses.is_dataclass(item):
            yield from (
                leaf for leaf in leaves(item, f"{key}.") if not (field.name in FAMILIES and leaf == f"{key}.kind")
            )
        elif isinstance(item, dict) and item and all(dataclasses.is_dataclass(part) for part in item.values()):
            for name, part in item.items():
                yield from (leaf for leaf in leaves(part, f"{key}.{name}.") if not leaf.endswith(".kind"))
        else:
            yield key


def at(config: Any, key: str) -> tuple[Any, str]:
    """The object that holds a key, and the key's last part."""
    *parents, last = key.strip("/").replace("/", ".").split(".")
    for name in parents:
        config = config[name] if isinstance(config, dict) else getattr(config, name)
    return config, last


def alternatives(config: RunConfig, key: str) -> list[list[Any]]:
    """Lists of other values; of each list the first legal one is tried."""
    owner, name = at(config, key)
    value = getattr(owner, name)
    if "/" in key:
        family = FAMILIES[name]
        return [[member(family, kind).Config()] for kind in kinds(family) if kind != value.kind]
    if isinstance(value, str):
        return [[choice] for choice in CHOICES.get(name, (value + "x",)) if choice != value]
    for kind, others in (
        (bool, lambda: [not value]),
        (int, lambda: [value + 1, value * 2, value - 1, value // 2]),
        (float, lambda: [value * 0.7, value + 0.25, value + 1.0]),
        # caps, overrides, stop strings
        (list, lambda: [[*value, 99], [*value, "trainer.balance_batch=false"], value[:1]]),
        (dict, lambda: [{"num_hidden_layers": 2}]),
        (type(None), lambda: [3.0, 3, "0" * 40]),
    ):
        if isinstance(value, kind):
            return [others()]
    raise AssertionError(f"{key}: no other value for a {type(value).__name__}")


def changed(config: RunConfig, key: str, values: list[Any]) -> RunConfig | None:
    """The configuration with the first value that it may have; None if none is legal."""
    for value in values:
        other = copy.deepcopy(config)
        owner, name = at(other, key)
        if getattr(owner, name) == value:
            continue
        setattr(owner, name, value)
        try:
            return load(dump(other))
        except ConfigError:
            continue
    return None


def lost_changes(
    config: RunConfig,
    told: Callable[[RunConfig], object],
    refusals: Callable[[RunConfig], Sequence[str]],
    passed_over: Callable[[str], bool],
) -> tuple[list[str], set[str]]:
    """Change every key but those that are passed over.

    Returns:
        Changes that are lost: what the trainer is told stays the same, nothing is refused, and no check says that the key does nothing.
        All keys that were changed.
    """
    lost, tried, before = [], set(), told(config)
    for key in leaves(config, ""):
        plain = key.strip("/").replace("/", ".")
        if passed_over(plain):
            continue
        checked = f"{plain}.kind" if "/" in key else plain
        for values in alternatives(config, key):
            other = changed(config, key, values)
            if other is None:
                continue
            tried.add(plain)
            if not (refusals(other) or told(other) != before or inert(checked, other) or inert(checked, config)):
                lost.append(f"{plain}: {values}")
    return lost, tried
