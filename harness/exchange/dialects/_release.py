"""Which release of a trainer a configuration was written for, and its values over that release's defaults.

The tables `<dialect>_releases.yaml` hold every release as its difference to the one before it: what is `set`, which keys are `gone`, and
what stands in the trainer's `code` rather than in its configuration. `tests/benchmarks/release_defaults.py` writes them.
`infrastructure.yaml` names the keys that are not about what is computed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

import yaml

from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest

_TELLING = 3  # keys that are named beside a guess


@dataclass(frozen=True)
class Release:
    """One release: the keys of its configuration with their defaults, and what its code fixes."""

    name: str
    keys: Mapping[str, Any]
    code: Mapping[str, Any]

    @property
    def defaults(self) -> dict[str, Any]:
        """Return the values that stand where nothing is given."""
        return {**self.code, **self.keys}


@functools.cache
def releases(dialect: str) -> dict[str, Release]:
    """Every release that the table of a dialect holds, the oldest first."""
    text = (files(__package__) / f"{dialect}_releases.yaml").read_text(encoding="utf-8")
    keys: dict[str, Any] = {}
    code: dict[str, Any] = {}
    found = {}
    for name, row in yaml.safe_load(text).items():
        keys = {key: value for key, value in keys.items() if key not in row.get("gone", [])} | row.get(
            "set", {}
        )
        code = code | row.get("code", {})
        found[name] = Release(name, keys, code)
    return found


@functools.cache
def infrastructure(dialect: str, key: str) -> bool:
    """Say if a key of a dialect is about where and how, not about what is computed."""
    table = _infrastructure()[dialect]
    return any(fnmatchcase(key, name) for name in table["patterns"]) and not any(
        fnmatchcase(key, name) for name in table["but"]
    )


@functools.cache
def _infrastructure() -> Any:
    return yaml.safe_load((files(__package__) / "infrastructure.yaml").read_text(encoding="utf-8"))


@dataclass
class Values:
    """A trainer's settings over its release's defaults; remembers which were asked for.

    Attributes:
        given: what the files and the command line say.
        release: whose defaults stand for the rest.
        found: how the release is known, for the user.
        span: names of all releases that the settings fit.
        asked: keys that were asked for.
        nulls: a given null is a value; else it stands for the default.
        strange: settings of a fork that no release has.
    """

    given: Mapping[str, Any]
    release: Release
    found: str
    span: list[str]
    asked: set[str] = field(default_factory=set)
    nulls: bool = False
    strange: list[str] = field(default_factory=list)

    def __contains__(self, key: str) -> bool:
        """Say if a key is given and says something; it counts as asked for then."""
        found = self.given.get(key) is not None
        if found:
            self.asked.add(key)
        return found

    def idle(self, *keys: str) -> None:
        """Take keys for read that have no effect here."""
        self.asked.update(key for key in keys if key in self.given)

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return the value of a key, its default in the release where it is not given (or null), else `otherwise`."""
        self.asked.add(key)
        value = self.given.get(key)
        if isinstance(value, str) and value.startswith("${"):
            value = self._referred(value)
        if value is not None or (self.nulls and key in self.given):
            return value
        default = self.release.defaults.get(key)
        return otherwise if default is None else default

    def _referred(self, text: str) -> Any:
        """Return what `${KEY}` and NeMo-RL's `${mul:${KEY}, ${KEY}}` stand for, another text as it is."""
        keys = re.findall(r"\$\{([\w.]+)\}", text)
        found = [self.get(key) for key in keys]
        if re.fullmatch(r"\$\{mul:\s*\$\{[\w.]+\},\s*\$\{[\w.]+\}\}", text) and all(
            isinstance(one, int | float) for one in found
        ):
            return found[0] * found[1]
        return found[0] if keys and text == f"${{{keys[0]}}}" else text

    def number(self, key: str, otherwise: Any = None) -> Any:
        """Return a number or a truth value (a text where the default is one). Raises `ConfigError` for another value."""
        value = self.get(key, otherwise)
        if isinstance(value, str) and "${" in value:
            raise ConfigError(f"{key}={value} refers to another key; give its value")
        if isinstance(value, str | list | dict) and not isinstance(self.release.defaults.get(key), str):
            raise ConfigError(f"{key}={value} is not a number")
        return value

    def count(self, key: str, otherwise: Any = None) -> Any:
        """Return an integer from 1 on, or None where nothing is said. Raises `ConfigError` for another value."""
        value = self.number(key, otherwise)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{key}={value} is no count; give an integer from 1 on")
        return value

    @property
    def assumed(self) -> dict[str, Any]:
        """The defaults that were asked for."""
        missing, defaults = (
            sorted(key for key in self.asked if self.given.get(key) is None),
            self.release.defaults,
        )
        return {key: defaults[key] for key in missing if defaults.get(key) is not None}

    def unread(self, dialect: str) -> tuple[dict[str, Any], list[str]]:
        """Return given keys that nobody asked for and that are not the default, and the names of those that are infrastructure."""
        rest = {key: value for key, value in self.given.items() if key not in self.asked and value != {}}
        method = {key: value for key, value in rest.items() if not infrastructure(dialect, key)}
        defaults = self.release.defaults
        said = {key: value for key, value in method.items() if key not in defaults or defaults[key] != value}
        return said, [key for key in rest if key not in method]


def settle(
    dialect: str, given: Mapping[str, Any], version: str | None = None, pinned: str | None = None,
    own: Mapping[str, Any] | None = None,
) -> Values:  # fmt: skip
    """Return the settings over the defaults of the release that they were written for.

    Args:
        dialect: whose releases.
        given: the settings.
        version: the release, `0.18` or `0.18.2`; None: the newest that has all of the given keys.
        pinned: the release that a file beside the settings names.
        own: a fork's configuration: its values are the defaults, and its keys tell the release (a fork's version file seldom does).

    Raises:
        ConfigError: there is no such release in the table.
    """
    table = releases(dialect)
    if version is not None:
        name = _named(dialect, version)
        return Values(given, table[name], f"{dialect} {name}, as given", [name])
    if own:
        return _forked(dialect, given, own)
    if pinned is not None:
        name = _named(dialect, pinned)
        return Values(given, table[name], f"{dialect} {name}, pinned beside the file", [name])
    known = [key for key in given if any(key in release.keys for release in table.values())]
    had = {name: sum(key in release.keys for key in known) for name, release in table.items()}
    span = [name for name, number in had.items() if number == max(had.values())]
    name = span[-1]
    telling = [key for key in known if any(key not in release.keys for release in table.values())]
    if len(span) == len(table):
        found = f"{dialect} {name}, the newest: no key tells the release; give version="
    else:
        shown = ", ".join(telling[:_TELLING])
        found = f"{dialect} {name}, guessed: releases {span[0]} to {name} have {shown}; give version= if it was another"
    return Values(given, table[name], found, span)


def _forked(dialect: str, given: Mapping[str, Any], own: Mapping[str, Any]) -> Values:
    """Return the settings over a fork's own defaults, with the code of the release whose keys are nearest to its."""
    table = releases(dialect)
    every = {key for release in table.values() for key in release.keys}
    same = {
        name: sum((key in own) == (key in release.keys) for key in every) for name, release in table.items()
    }
    name = max(reversed(table), key=same.__getitem__)
    sections = {key.partition(".")[0] for key in every}
    strange = [
        key
        for key in own
        if key not in every and key.partition(".")[0] in sections and not infrastructure(dialect, key)
    ]
    found = (
        f"{dialect} {name} by the keys of the configuration in its checkout, whose values are the defaults"
    )
    release = Release(name, {**table[name].keys, **own}, table[name].code)
    return Values(given, release, found, [name], strange=strange)


def _named(dialect: str, version: str) -> str:
    table = releases(dialect)
    name = ".".join(str(version).removeprefix("v").split(".")[:2])
    if name not in table:
        known = list(table)
        raise ConfigError(
            f"version={version}: the releases of {dialect} known here are {known[0]} to {known[-1]}{nearest(name, known)}"
        )
    return name


def varying(values: Values, dialect: str) -> dict[str, str]:
    """Return assumed defaults, and facts of the code, that differ among the releases that fit: key → `value in FIRST to LAST, ...`."""
    table, found = releases(dialect), {}
    settings = {key for release in table.values() for key in release.keys}
    facts = values.release.code.keys() - settings - values.given.keys()
    for key in sorted(values.assumed.keys() | facts):
        runs: list[tuple[Any, list[str]]] = []
        for name in values.span:
            value = table[name].defaults.get(key)
            if value is not None and (not runs or runs[-1][0] != value):
                runs.append((value, []))
            if value is not None:
                runs[-1][1].append(name)
        if len(runs) > 1:
            found[key] = ", ".join(f"{value} in {names[0]} to {names[-1]}" for value, names in runs)
    return found
