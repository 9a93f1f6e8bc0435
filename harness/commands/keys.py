"""Every key with its type, default and meaning: of a run's configuration, or of an experiment's declaration.

harness keys                          # the sections
harness keys algorithm                # everything under a key
harness keys experiment               # what an experiment declares
harness keys optimizer.learning_rate
"""

import argparse
import shutil
import textwrap
from collections import Counter
from collections.abc import Sequence

from harness.configuration.error import ConfigError
from harness.configuration.numbers import format_count
from harness.configuration.reference import Key, keys_of
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig
from harness.experiment.declaration import Experiment

ARGUMENTS = {"key": {"nargs": "?", "default": "", "help": "a key, or the beginning of keys up to a point"}}


def run(options: argparse.Namespace) -> int:
    keys, width = all_keys(), shutil.get_terminal_size((160, 24)).columns
    if not options.key:
        lines = [f"{section}: {format_count(count, 'key')}" for section, count in sections(keys).items()]
        print("\n".join([*lines, "harness keys SECTION shows them"]))
        return 0
    for key in find_keys(keys, options.key):
        name = f"{key.name}  ({key.member})" if key.member else key.name
        for text, indent in ((f"{name}: {key.type}, default {key.default}", ""), (key.meaning, "    ")):
            print(textwrap.fill(text, width, initial_indent=indent, subsequent_indent="    ", break_on_hyphens=False))
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


def sections(keys: Sequence[Key]) -> Counter[str]:
    """The first part of every key, with how many keys have it."""
    return Counter(key.name.partition(".")[0] for key in keys)
