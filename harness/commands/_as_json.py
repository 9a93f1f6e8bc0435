"""Answers of verbs as values, and their JSON, made from the types of the value that the verb shows."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from harness.commands._exit_codes import Exit
from harness.configuration.registry import kinds, member

FAMILY = "harness.commands"


@dataclass(frozen=True)
class VerbAnswer:
    """Base of a verb's `Answer`, a dataclass of plain values and dataclasses. NaN and infinities become null (`float | None`)."""

    @property
    def exit_code(self) -> int:
        """The code that the verb ends with."""
        return Exit.DONE


class AnsweringVerb(Protocol):
    """A verb whose answer is a value: `answer` computes it, `show` prints it for a person, the command line prints it as JSON."""

    Answer: type[VerbAnswer]

    def answer(self, options: argparse.Namespace) -> VerbAnswer: ...
    def show(self, found: VerbAnswer, options: argparse.Namespace) -> None: ...


def answering(module: object) -> AnsweringVerb | None:
    """The module as a verb with an answer; None of one that only acts."""
    return cast(AnsweringVerb, module) if hasattr(module, "Answer") else None


def answering_verbs() -> Iterator[tuple[str, AnsweringVerb]]:
    """Every verb with an answer, by name."""
    for name in sorted(kinds(FAMILY)):
        if (verb := answering(member(FAMILY, name))) is not None:
            yield name, verb


def to_json(answer: VerbAnswer) -> str:
    """One JSON object, its keys in the order of the fields."""
    from pydantic import TypeAdapter

    plain = TypeAdapter(type(answer)).dump_python(answer, mode="json")
    return json.dumps(_finite(plain), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """A plain value with None for numbers that are not finite, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
