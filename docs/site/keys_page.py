"""The page of every key, made from the code: a list a section, and below it one for each choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from harness.commands.keys import sections
from harness.configuration.reference import Key


def page(keys: Sequence[Key]) -> Iterator[str]:
    """The reference page: a list a section, and below it a list for each choice; choices with the same keys share one."""
    yield "# Every key"
    yield ""
    yield "Key and default (`KEY=VALUE`, as in an override), type, meaning."
    shared: dict[tuple[Key, ...], tuple[list[str], list[Key]]] = {}
    for prefix, kind, part in _choices(keys):
        below = tuple(replace(key, name=key.name.removeprefix(prefix), member="") for key in part)
        shared.setdefault(below, ([], part))[0].append(f"`{prefix}kind={kind}`")
    for section in sections(keys):
        yield from ("", f"## {section}", "")
        yield from _lines([key for key in keys if key.name.partition(".")[0] == section and not key.member])
        for choices, part in shared.values():
            if part[0].name.partition(".")[0] == section:
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
