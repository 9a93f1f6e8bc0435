"""Texts compared as they read: without the spacing that means nothing, as words, whatever its capitals."""

from __future__ import annotations

import re

_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_LONG_WORD = re.compile(r"(?<![\\a-zA-Z])[A-Za-z]{4,}")
_LONGEST_READ = 400
_SUBJECT = re.compile(
    r"^(?:it|this|(?:series|sequence|integral|limit|function|graph|shape|figure|curve|statement|answer|triangle|matrix)"
    r"(?= (?:is|does|has)\b| \w+s$))\s+(?:is\s+)?"
)
_MONTH = re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)
VERDICTS = frozenset(("yes", "no", "true", "false"))
_OPENING_VERDICT = re.compile(
    r"(?:\\text\s*\{\s*)?(yes|no|true|false)\b\s*(?:[,.;:]|because|since)(.*)", re.IGNORECASE | re.DOTALL
)
_VERDICT = re.compile(r"\b(?:yes|no|true|false)\b", re.IGNORECASE)


def squeeze(text: str) -> str:
    """A text without the spaces and text wrappers that carry no meaning."""
    if "\\text" in text:
        text = _TEXT.sub(r" \1 ", text)
    text = re.sub(r"(?<=\d)\s+(?=\d)", "_", re.sub(r"\s+", " ", text.strip()))
    return re.sub(r"\s+(?![a-zA-Z])|(?<![a-zA-Z])\s+", "", text)


def words_of(text: str) -> str:
    """The words of a formula that is made of letters only, as the symbolic parser would not read them."""
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\\text|[{}]", " ", text).casefold()))


def opening_verdict(text: str) -> str | None:
    """`yes` of `Yes, because ...`; None for a text without such an opening, or with a second such word."""
    match = _OPENING_VERDICT.fullmatch(text)
    return None if match is None or _VERDICT.search(match[2]) else match[1].lower()


def without_subject(words: str) -> str:
    """Words without what they are said of: `series diverges` is `diverges`."""
    return _SUBJECT.sub("", words.casefold())


def reads_the_same(gold: str, answer: str) -> bool:
    """Return whether two texts with words in them differ in capitals and spaces alone, and dates in their commas as well."""
    if len(gold) < _LONGEST_READ and _MONTH.search(gold) is not None:
        return words_of(gold) == words_of(answer)
    return (
        len(gold) < _LONGEST_READ
        and _LONG_WORD.search(gold) is not None
        and squeeze(gold).casefold() == squeeze(answer).casefold()
    )
