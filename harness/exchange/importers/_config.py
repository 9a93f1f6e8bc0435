"""The configuration of a run that another trainer made, from the files beside its log."""

from __future__ import annotations

import json
import pickle
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.flat import flatten

_NAMES = (
    ".hydra/config.yaml",
    "config.yaml",
    "training_args.yaml",
    "training_args.json",
    "args.json",
    "config.json",
    "rl.json",  # of prime-rl; .toml to 0.5
    "rl.toml",
    "configs/rl.toml",
)
_ARGUMENTS = (
    "training_args.bin"  # of the Trainer of transformers, in the run's folder and in every checkpoint
)


def config_of(home: Path, log: Path, top: Path) -> dict[str, Any]:
    """Return a run's settings as dotted keys, nothing where no file beside it has them.

    Args:
        home: the run's folder.
        log: its log; a file `NAME.yaml` or `NAME.json` beside `NAME.jsonl` is its configuration.
        top: the folder of all runs; a configuration there is of no run in particular, unless the run's folder is it.
    """
    for path in _candidates(home, log, top):
        if path != log and path.is_file() and (found := _read(path)):
            return flatten(found)
    return {}


def _candidates(home: Path, log: Path, top: Path) -> Iterator[Path]:
    if log.is_file() and log.suffix not in (".wandb", ""):
        yield from (log.with_suffix(suffix) for suffix in (".yaml", ".yml", ".json"))
    places = [place for place in (home, *home.parents) if place != top and place.is_relative_to(top)]
    for place in places or [home]:
        yield from (place / name for name in _NAMES)
        yield from sorted(place.glob("wandb/*run-*/files/config.yaml"))[-1:]
        yield place / _ARGUMENTS
        yield from sorted(place.glob(f"checkpoint-*/{_ARGUMENTS}"))[-1:]


def _read(path: Path) -> dict[str, Any]:
    """Return the settings of a file, none where it holds no such thing."""
    try:
        if path.name == _ARGUMENTS:
            return arguments(path)
        text = path.read_text(encoding="utf-8-sig")
        parse = {".json": json.loads, ".toml": tomllib.loads}.get(path.suffix, yaml.safe_load)
        found = parse(text)
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError):
        return {}
    if (
        not isinstance(found, dict) or "architectures" in found or "log_history" in found
    ):  # a model's, a state
        return {}
    found = {str(key): value for key, value in found.items() if key not in ("_wandb", "wandb_version")}
    if found and all(
        isinstance(value, dict) and "value" in value for value in found.values()
    ):  # as wandb writes them
        return {key: value["value"] for key, value in found.items()}
    return found


class _Shell:
    """Any object of a pickle, without its class: what it was made from and what was set on it."""

    def __new__(cls, *made_from: Any, **_: Any) -> _Shell:
        shell = super().__new__(cls)
        shell.made_from = made_from
        return shell

    made_from: tuple[Any, ...]

    def __init__(self, *_: Any, **__: Any) -> None:
        self.__dict__.setdefault("made_from", ())

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__[str(key)] = value

    def append(self, _: Any) -> None:
        """Take what a pickled list's subclass is given."""


class _Values(pickle.Unpickler):
    """Builds plain values and shells: no class of the file is looked up, so nothing of it runs."""

    def find_class(self, module: str, name: str, /) -> Any:
        return type(name, (_Shell,), {"__module__": module})

    def persistent_load(self, pid: Any, /) -> None:
        return None


def arguments(path: Path) -> dict[str, Any]:
    """Return the plain values in a `training_args.bin`, a pickle, of which nothing is run; enumerations as their value."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            with archive.open(name) as file:
                found = _Values(file).load()
    except (OSError, zipfile.BadZipFile, StopIteration, pickle.UnpicklingError, EOFError, *_BROKEN):
        return {}
    values = vars(found) if isinstance(found, _Shell) else found if isinstance(found, Mapping) else {}
    plain = {
        key: _plain(value)
        for key, value in values.items()
        if not str(key).startswith("_") and key != "made_from"
    }
    return {str(key): value for key, value in plain.items() if not isinstance(value, _Shell)}


_BROKEN = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def _plain(value: Any) -> Any:
    if isinstance(value, _Shell) and value.made_from and isinstance(value.made_from[-1], str | int | float):
        return value.made_from[-1]
    return value
