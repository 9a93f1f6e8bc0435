"""The words of answers by what they do: copulas, denials, doubts, remarks, operations, units and things that are counted.

The words themselves are data, in `words.json`.
"""

import json
import string
from pathlib import Path
from typing import Any


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
# What a word does in a sentence, by one letter; the first line that has it counts.
_CLASSES: dict[str, str] = _DATA["classes"]
_CLASS_OF = {word: letter for letter, row in reversed(_CLASSES.items()) for word in row.split()}
AFFIRMED = _set(_DATA["affirmed"])
MONTHS = {
    name[:length]: place for place, name in enumerate(_DATA["months"].split(), 1) for length in (3, len(name))
} | {"sept": 9}
# Words that make another number of the one before them; any other word behind a number is a thing that is counted.
NO_THINGS = _set(" ".join((_DATA["operations"], *MONTHS, *map(_CLASSES.__getitem__, "dhlk"), "no")))
SCALES: dict[str, int] = _DATA["scales"]
ARTICLES = frozenset(("the", "a", "an"))
PHRASES = dict.fromkeys(_DATA["nowhere"], r"\emptyset") | dict.fromkeys(_DATA["everywhere"], r"\mathbb{R}")
NUMBERS = {word: n for n, word in enumerate(_DATA["ones"].split())}
NUMBERS |= {word: 10 * n for n, word in enumerate(_DATA["tens"].split(), 2)} | {"hundred": 100}
_POINTS, _INTERVALS = _set(_DATA["points"]), _set(_DATA["intervals"])
# Units of measure; the first name of a unit stands for all of them.
UNITS = {name: names.split()[0] for names in _DATA["units"] for name in names.split()}
UNIT_LETTERS = frozenset("NJVWKCFATmgshlL")
# Three letters are a product, but for these words, units and things.
_SHORT_WORDS = _set(_DATA["short_words"])
LITTLE_WORDS = _set(_DATA["little_words"])


def class_of(word: str) -> str:
    """Return the letter of `_CLASSES` for what a word does in a sentence, `n` for a number, `w` for other words."""
    if word.endswith("n't"):
        return "d"
    return _CLASS_OF.get(word) or ("n" if word in NUMBERS else "w")


def is_word(letters: str) -> bool:
    """Return whether letters that could be a product are a word: four at least, with a vowel, and no stretch of the alphabet."""
    is_long = len(letters) > 3 and not set("aeiouy").isdisjoint(letters) and letters not in string.ascii_lowercase
    return is_long or letters in _SHORT_WORDS


def unit_of(word: str) -> str | None:
    """Return the unit that a word in the singular or plural names, by its first name; None for other words."""
    word = word.rstrip(".")
    return UNITS.get(word) or UNITS.get(word.removesuffix("s")) or UNITS.get(word.removesuffix("es"))


def asks_for_point(problem: str) -> bool:
    """Return whether a problem asks for a point or a pair, so that `(1,2)` is no interval."""
    found = {word.strip("$.,;:?()").lower() for word in problem.split()}
    return not found.isdisjoint(_POINTS) and found.isdisjoint(_INTERVALS)
