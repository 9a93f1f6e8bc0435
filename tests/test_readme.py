"""The README stays readable: its length, its sentences, its numbers, and the counts that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_WORDS, MOST_WORDS_A_SENTENCE, MOST_NUMBERS = 600, 20, 12


def prose() -> str:
    """What is neither code, table, heading, picture nor the line of links, with links as their text."""
    text = re.sub(r"```.*?```|^[|#<].*?$", "", TEXT.partition("## Read on")[0], flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\[([^]]*)\]\([^)]*\)|`[^`]*`", r"\1", text)


def test_it_is_read_in_a_minute() -> None:
    assert len(TEXT.split()) <= MOST_WORDS
    sentences = [sentence.split() for sentence in re.split(r"(?<=[.:?!])\**\s|\n\s*\n|\n\* ", prose())]
    assert [" ".join(words) for words in sentences if len(words) > MOST_WORDS_A_SENTENCE] == []
    numbers = re.findall(r"(?<![\w.])\d[\d.,]*(?!\w)", prose())
    assert len(numbers) <= MOST_NUMBERS, numbers


def test_its_counts_are_those_of_the_claims() -> None:
    claims = pd.concat(pd.read_csv(ROOT / "experiments" / name / "claims.csv") for name in ("claims", "claims_autumn"))
    verdicts = claims["verdict"].value_counts()
    for count in (len(claims), verdicts["holds, replicated"], verdicts["reversed, replicated"]):
        assert re.search(rf"\b{count} (?:claims|hold|are reversed)", TEXT), count


def test_its_commands_are_those_of_the_makefile() -> None:
    targets = re.findall(r"\bmake (\w+)", TEXT)
    assert {"ladder", "test"} <= set(targets)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
