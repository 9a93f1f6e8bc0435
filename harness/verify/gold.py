"""A gold answer: which part of its text it is, whether it can be one at all, and answers that tell whether it is read."""

import contextlib
import re
import unicodedata
from fractions import Fraction

from harness.verify.compare import value_forms
from harness.verify.extract import extract
from harness.verify.read.answers import read_text
from harness.verify.read.grammar import Node
from harness.verify.read.symbols import restore_escapes

OWN_TEXT = "own text only"
UNRELATED = "982451653"  # of no gold; only one that is not read has no verdict on it
_SHORT_GOLD = 120
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)", re.DOTALL)
_LAST_NUMBER = re.compile(r"\d{1,12}(?=\D*\Z)")
# What stands where an answer is missing, in words without marks.
_NO_ANSWER = re.compile(
    r"|n a|na|none|null|nan|nil|unknown|tbd|tba|todo|pending|missing|omitted|unavailable|various|proof|blank|no answer|"
    r"not (available|given|applicable|provided|found)|no (answer|solution) (given|provided|found)|answers? (may|will) vary|"
    r"(see|refer to|as (in|shown)|shown in)\b.*|(the )?(fig|figure|diagram|graph)( \w+)?"
)
_SILENT = re.compile(r"\\(?:text|mathrm|textbf|mbox|boxed)\s*(?=\{)|\\(?:ldots|dots|cdots|quad|[,;! ])|[$~]")


def read_gold(raw: str) -> Node:
    """Return what a gold answer says; a node without text where it cannot be read, or is no answer."""
    if not is_no_answer(raw):
        with contextlib.suppress(RecursionError):
            node = read_text(_answer_in(restore_escapes(raw)).replace("np.", ""))
            return Node("words", "") if node.is_out_of_reach else node
    return Node("words", "")


def is_no_answer(gold: str) -> bool:
    """Return whether a gold stands where an answer is missing: `see figure`, `N/A`, `?`, Python's `None`; `none` is an answer."""
    if gold.lstrip("-+$( ")[:1].isdigit():
        return False
    letters = (
        " " if unicodedata.category(letter)[0] in "PZC" and letter != "\\" else letter
        for letter in _SILENT.sub(" ", gold)
    )
    text = " ".join("".join(letters).lower().split())
    return gold == "None" or (text != "none" and _NO_ANSWER.fullmatch(text) is not None)


def _answer_in(raw: str) -> str:
    """Return the answer in a gold text: its box when it has one, the last line of a worked solution, else the text itself."""
    answer = extract(raw, "boxed") if (box := _BOX.search(raw)) else None
    if answer is None and ("####" in raw or (not box and ("\n" in raw.strip() or "answer" in raw[:40].casefold()))):
        answer = extract(raw, "answer_line")
    if answer is None and box:  # it never closes; one that is denied, or empty, is no answer
        return box[1] if box[1].count("{") >= box[1].count("}") else ""
    if answer is None and len(raw) > _SHORT_GOLD and raw.count(" ") > _SHORT_GOLD // 8:
        answer = extract(raw, "any")
    return raw if answer is None else ", ".join(answer.neighbours) or answer.text


def equal_spellings(gold: Node) -> list[str]:
    """Return answers that equal a gold one and are written otherwise; none where nothing is known of it but its text."""
    number = gold.number if gold.kind == "formula" and not gold.percent else None
    if isinstance(number, Fraction):
        is_short = max(abs(number.numerator), number.denominator) < 10**16
        return [rf"\frac{{{number.numerator}}}{{{number.denominator}}}"] if is_short else []
    if gold.kind == "relation":
        return [form.text for form in value_forms(gold, strict=True)[-1:]]
    is_list = gold.kind in ("list", "set") and gold.items
    return [", ".join(item.text for item in reversed(gold.items))] if is_list else []


def wrong_neighbours(gold: Node) -> list[str]:
    """Return answers that differ from a gold one by one in its last number; none where it has none, or a letter decides."""
    text, count = _LAST_NUMBER.subn(lambda match: f"{int(match[0]) + 1:0{len(match[0])}}", gold.text, 1)
    return [text] * count if gold.kind != "choice" else []
