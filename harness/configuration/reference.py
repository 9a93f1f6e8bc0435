"""Every key of a configuration with its type, default and meaning, read from the dataclasses and their docstrings."""

import dataclasses
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.configuration.registry import kinds, member

_ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*): (.*)$")
# `name`, `name`: meaning; `name`: meaning.
_SHORT = re.compile(r"((?:`\w+`(?:, )?)+): (.*?)(?:; (?=`\w+`[:,])|$)")


@dataclass(frozen=True)
class Key:
    """One key: dotted name, type, default as YAML shows it, meaning; `member` names the family member that it belongs to."""

    name: str
    type: str
    default: str
    meaning: str
    member: str = ""


def keys_of(cls: type[Any], prefix: str = "", owner: str = "", *, a_member: bool = False) -> Iterator[Key]:
    """The keys of a configuration class, sections and members of families included, in the order in which they are written.

    A family's key is `<key>.kind`; the keys of its members follow with the member's name in `member`.
    """
    hints, meanings = typing.get_type_hints(cls), _meanings(cls)
    for item in dataclasses.fields(cls):
        name, hint = f"{prefix}{item.name}", hints[item.name]
        family = item.metadata.get("family") or item.metadata.get("family_values")
        if family:
            yield from _family(name, item, family, meanings.get(item.name, ""), owner)
        elif dataclasses.is_dataclass(hint):
            yield from keys_of(typing.cast(type, hint), f"{name}.", owner)
        elif not (a_member and item.name == "kind"):  # the family's own row says it
            yield Key(name, _type(hint), _default(item), meanings.get(item.name, ""), owner)


def _family(name: str, item: dataclasses.Field[Any], package: str, meaning: str, owner: str) -> Iterator[Key]:
    members = sorted(kinds(package))
    is_mapping = "family_values" in item.metadata
    assert item.default_factory is not dataclasses.MISSING
    default = "{}" if is_mapping else item.default_factory().kind
    yield Key(name if is_mapping else f"{name}.kind", f"one of {', '.join(members)}", default, meaning, owner)
    for kind in members:
        config = member(package, kind).Config
        yield from keys_of(config, f"{name}.<name>." if is_mapping else f"{name}.", kind, a_member=True)


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default is not dataclasses.MISSING:
        return _as_yaml(item.default)
    if item.default_factory is not dataclasses.MISSING:
        return _as_yaml(item.default_factory())
    return "required"


def _as_yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "[" + ", ".join(_as_yaml(item) for item in value) + "]"
    return str(value) if value != "" else "''"


def _type(hint: Any) -> str:
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        return f"{' or '.join(_type(part) for part in arguments if part is not type(None))} or null"
    plain = {bool: "true/false", int: "integer", float: "number", str: "text", Any: "any"}
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_type, arguments))
    if origin is list:
        return f"list of {_type(arguments[0])}"
    return "mapping" if origin is dict or hint is dict else plain.get(hint, getattr(hint, "__name__", str(hint)))


def _meanings(cls: type[Any]) -> dict[str, str]:
    """Field → what its class's docstring says of it: under `Attributes:`, else in its first paragraph.

    A paragraph "`low`, `high`: bounds; `share`: of tokens." has a meaning for each name; any other one is the meaning of all.

    A class without fields of its own has the meanings of the one that it inherits from.
    """
    while set(inspect.get_annotations(cls)) <= {"kind"} and dataclasses.is_dataclass(cls.__base__):
        cls = cls.__base__
    text = inspect.cleandoc(cls.__doc__ or "")
    intro, heading, attributes = text.partition("Attributes:\n")
    if not heading:
        paragraph = " ".join(intro.partition("\n\n")[0].split())
        meaning_by_name = {name: part[2] for part in _SHORT.finditer(paragraph) for name in re.findall(r"\w+", part[1])}
        return {item.name: meaning_by_name.get(item.name, paragraph) for item in dataclasses.fields(cls)}
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in textwrap.dedent(attributes).splitlines() if heading else []:
        match = _ATTRIBUTE.match(line)
        if match:
            names = match[1].split(", ")
            meanings |= {name: match[2] for name in names}
        elif line.startswith(" ") and names:
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
        elif line.strip():
            names = []
    return meanings
