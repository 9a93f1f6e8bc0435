"""Repeated prompts: found by normalised text, kept once; prompts whose copies disagree on the answer are told apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from harness.problems.records import Record

_SHOWN = 5


def normalised(text: str) -> str:
    """Return a text with compatibility forms unified, white space collapsed, lower case: what makes two prompts the same prompt."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


@dataclass
class DuplicateReport:
    """The repeats found among `rows` records.

    Attributes:
        rows: records read.
        distinct: distinct prompts among them.
        repeated: prompts that occur more than once, with the number of their copies.
        conflicting: prompts whose copies have answers that are not equal, with those answers.
    """

    rows: int = 0
    distinct: int = 0
    repeated: dict[str, int] = field(default_factory=dict)
    conflicting: dict[str, list[str]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the report in words, nothing where nothing was found."""
        found = []
        if self.repeated:
            extra = self.rows - self.distinct
            most = max(self.repeated.values())
            found.append(
                f"{len(self.repeated)} prompts are repeated ({extra} surplus rows of {self.rows}, up to {most} copies; "
                f"first: {_excerpt(next(iter(self.repeated)))})"
            )
        if self.conflicting:
            shown = "; ".join(
                f"{_excerpt(prompt)} → {' / '.join(answers)}"
                for prompt, answers in list(self.conflicting.items())[:_SHOWN]
            )
            found.append(f"{len(self.conflicting)} prompts have conflicting answers ({shown})")
        return found


def deduplicate(
    records: Iterable[Record], same: Callable[[str, str], bool] | None = None
) -> tuple[list[Record], DuplicateReport]:
    """Return the first record of every prompt, in order, without prompts whose copies conflict (which is right cannot be known).

    Args:
        records: in any order; read once, so a stream of millions is fine.
        same: whether two answers are equal; by default as numbers, or as texts after normalisation.
    """
    equal = same or same_answer
    first: dict[str, Record] = {}
    copies: dict[str, int] = {}
    answers: dict[str, list[str]] = {}
    key_of: dict[str, str] = {}  # raw text → key: exact copies, the usual case, are normalised once
    rows = 0
    for record in records:
        rows += 1
        key = key_of.get(record.problem)
        if key is None:
            key = key_of[record.problem] = normalised(record.problem)
        copies[key] = copies.get(key, 0) + 1
        known = first.setdefault(key, record)
        if known is record:
            answers[key] = [record.answer]
        elif record.answer not in answers[key] and not any(equal(a, record.answer) for a in answers[key]):
            answers[key].append(record.answer)
    report = DuplicateReport(
        rows=rows,
        distinct=len(first),
        repeated={key: count for key, count in copies.items() if count > 1},
        conflicting={key: found for key, found in answers.items() if len(found) > 1},
    )
    return [record for key, record in first.items() if key not in report.conflicting], report


def same_answer(a: str, b: str) -> bool:
    """Return whether two answers are equal: as exact numbers where both are, else as normalised texts; the same on every machine."""
    try:
        return Fraction(a.strip()) == Fraction(b.strip())
    except (ValueError, ZeroDivisionError):
        return normalised(a) == normalised(b)


def _excerpt(text: str, characters: int = 60) -> str:
    return f"{text[:characters]!r}" + ("…" if len(text) > characters else "")
