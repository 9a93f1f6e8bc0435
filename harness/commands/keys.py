"""Every key with its type, default and meaning: of a run's configuration, or of an experiment's declaration.

harness keys                          # the sections
harness keys algorithm                # everything under a key
harness keys experiment               # what an experiment declares
harness keys optimizer.learning_rate
"""

import argparse
import sys
from collections.abc import Sequence

from rich.table import Column, Table

from harness.configuration.error import ConfigError
from harness.configuration.reference import Key, keys_of
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig
from harness.execution.progress import Terminal
from harness.experiment.declaration import Experiment

ARGUMENTS = {"key": {"nargs": "?", "default": "", "help": "a key, or the beginning of keys up to a point"}}


def run(options: argparse.Namespace) -> int:
    keys = all_keys()
    console = Terminal(markup=False) if sys.stdout.isatty() else Terminal(width=160, markup=False)
    if not options.key:
        for section in sections(keys):
            count = sum(section_of(key) == section for key in keys)
            console.print(f"{section}: {count} key{'s' if count > 1 else ''}", highlight=False)
        console.print("harness keys SECTION shows them", highlight=False)
        return 0
    table = Table(*(Column(name, overflow="fold") for name in ("key", "type", "default", "meaning")))
    for key in find_keys(keys, options.key):
        name = f"{key.name}  ({key.member})" if key.member else key.name
        table.add_row(name, key.type, key.default, key.meaning)
    console.print(table, markup=False)
    return 0


def all_keys() -> list[Key]:
    return [*keys_of(RunConfig), *keys_of(Experiment, "experiment.")]


def find_keys(keys: Sequence[Key], name: str) -> list[Key]:
    """The key of that name, or all below it. Raises `ConfigError` that names the nearest where there is none."""
    matches = [key for key in keys if key.name == name or key.name.startswith(f"{name}.")]
    if not matches:
        names = sorted({key.name for key in keys} | set(sections(keys)))
        hint = nearest(name, names)
        hint = hint if "did you mean" in hint else "; `harness keys` names the sections"
        raise ConfigError(f"there is no key {name!r}{hint}")
    return matches


def section_of(key: Key) -> str:
    return key.name.split(".")[0]


def sections(keys: Sequence[Key]) -> list[str]:
    return list(dict.fromkeys(map(section_of, keys)))
