"""Every key with its type, default and meaning: of a run's configuration, or of an experiment's declaration.

harness keys                          # the sections
harness keys algorithm                # everything under a key
harness keys experiment               # what an experiment declares
harness keys optimizer.learning_rate
harness keys --markdown               # the page of the site
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.table import Column, Table

from harness.commands._arguments import flag
from harness.configuration.error import ConfigError
from harness.configuration.reference import Key, keys_of
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig
from harness.execution.progress import Terminal
from harness.experiment.declaration import Experiment

ARGUMENTS = {
    "key": {"nargs": "?", "default": "", "help": "a key, or the beginning of keys up to a point"},
    "--markdown": flag("print all of them as Markdown, the site's page"),
}


def run(options: argparse.Namespace) -> int:
    keys = all_keys()
    if options.markdown:
        print("\n".join(page(keys)))
        return 0
    console = Terminal(markup=False) if sys.stdout.isatty() else Terminal(width=160, markup=False)
    if not options.key:
        for section in _sections(keys):
            count = sum(_section(key) == section for key in keys)
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
        names = sorted({key.name for key in keys} | set(_sections(keys)))
        hint = nearest(name, names)
        hint = hint if "did you mean" in hint else "; `harness keys` names the sections"
        raise ConfigError(f"there is no key {name!r}{hint}")
    return matches


def page(keys: Sequence[Key]) -> Iterator[str]:
    """The reference page: a list a section, and below it a list for each choice; choices with the same keys share one."""
    yield "# Every key"
    yield ""
    yield "Key and default (`KEY=VALUE`, as in an override), type, meaning. `harness keys --markdown` prints this page."
    shared: dict[tuple[Key, ...], tuple[list[str], list[Key]]] = {}
    for prefix, kind, part in _choices(keys):
        below = tuple(replace(key, name=key.name.removeprefix(prefix), member="") for key in part)
        shared.setdefault(below, ([], part))[0].append(f"`{prefix}kind={kind}`")
    for section in _sections(keys):
        yield from ("", f"## {section}", "")
        yield from _lines([key for key in keys if _section(key) == section and not key.member])
        for choices, part in shared.values():
            if _section(part[0]) == section:
                yield from ("", f"With {', '.join(choices)}:", "")
                yield from _lines(part)


def _choices(keys: Sequence[Key]) -> Iterator[tuple[str, str, list[Key]]]:
    """The keys of each choice, with what their names begin with: (prefix, kind, keys)."""
    prefix = ""
    for kind, group in groupby(keys, key=lambda key: key.member):
        part = list(group)
        if kind:
            yield prefix, kind, part
        else:
            family = part[-1].name
            prefix = family.removesuffix("kind") if family.endswith(".kind") else f"{family}.<name>."


def _lines(keys: Sequence[Key]) -> Iterator[str]:
    for (kind, meaning), group in groupby(keys, key=lambda key: (key.type, key.meaning)):
        keys_and_defaults = (key.name if key.default == "required" else f"{key.name}={key.default}" for key in group)
        names = ", ".join(f"`{name}`" for name in keys_and_defaults)
        yield f"* {names} ({kind}): {_plain(meaning)}"


def _plain(text: str) -> str:
    """`<` is plain in code and would begin a tag elsewhere."""
    parts = text.split("`")
    return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


def _section(key: Key) -> str:
    return key.name.split(".")[0]


def _sections(keys: Sequence[Key]) -> list[str]:
    return list(dict.fromkeys(map(_section, keys)))
