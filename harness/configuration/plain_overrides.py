"""Overrides that need no grammar: `key=value`, `group=member`, lists, and commas that stand for several values.

The part of Hydra's override grammar (hydra/grammar) whose meaning is plain: numbers, booleans, null, names, paths and lists of them.
Quotes, functions, mappings, interpolations and deletions are left to Hydra (`NotPlainError`). A test compares both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.yaml_files import NotPlainError

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Override:
    """One override; `adds` marks `++key=value`, which makes the key where it is missing."""

    key: str
    value: Scalar | list[Scalar]
    adds: bool = False


_KEY = r"(?P<adds>\+\+)?(?P<key>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*|[A-Za-z_][\w-]*(?:/[A-Za-z_][\w-]*)+)"
_OVERRIDE = re.compile(rf"{_KEY}=(?P<text>[^\s'\"\\(){{}}$=:?*|%@~]+)", re.ASCII)
_LIST = re.compile(r"\[([^\[\]]*)\]")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TEXT = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


def parse(item: str) -> Override:
    """One override with one value. Raises `NotPlainError`."""
    key, adds, values = _split(item)
    if len(values) > 1:
        raise NotPlainError(item)
    return Override(key, values[0], adds)


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Every combination of the values of overrides, as Hydra's basic sweeper writes them. Raises `NotPlainError`."""
    lists = {}
    for item in overrides:
        key, adds, values = _split(item)
        spelled = f"{'++' * adds}{key}"
        lists[spelled] = [f"{spelled}={_written(value)}" for value in values]
    return [list(job) for job in itertools.product(*lists.values())]


def _split(item: str) -> tuple[str, bool, list[Any]]:
    found = _OVERRIDE.fullmatch(item)
    if found is None:
        raise NotPlainError(item)
    listed = _LIST.fullmatch(found["text"])
    if listed is None:
        values: list[Any] = [_scalar(text) for text in found["text"].split(",")]
    else:
        values = [[_scalar(text) for text in listed[1].split(",")] if listed[1] else []]
    return found["key"], found["adds"] is not None, values


def _scalar(text: str) -> Scalar:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _TEXT.fullmatch(text) is None or text.lower() in ("inf", "nan"):
        raise NotPlainError(text)
    return text


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return "null" if value is None else str(value)
