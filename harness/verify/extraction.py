"""Where the final answer of a response stands, in time linear in the length of the text.

Shapes, in order: the last balanced box; the last answer line; the last formula or number. A later answer of
the same shape replaces an earlier one, so a self-correction counts as what it says last. Nothing inside an unclosed
`<think>` counts, and what follows a closed one goes first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from harness.verify.limits import looks_like_code
from harness.verify.units import canonical_unit

_BOX = re.compile(r"(?:\\+(?:begin)?boxed|\\+fbox|\x08oxed)\s*\{")
_BOX_LEAD = re.compile(r"(?:\\(?:begin)?b|\x08|\\)$")
_BOX_BRACE = re.compile(r"\s*\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s${}\\]+)")
_BRACE = re.compile(r"(?<!\\)[{}]")
_BOX_WINDOW = 16_384
_BOX_TRIES = 24
_PERCENT_AFTER = re.compile(r"\s*\$?\s*(\\?%|percent\b|pct\b|percentage\b)", re.IGNORECASE)
_JOINT = re.compile(
    r"^[\s$,;.\\()\[\]*]*(?:\\q?quad|\\text\s*\{\s*(?:and|or)\s*\}|and|or|[\s$,;\\()\[\]*])*$"
)

_JOINT_TAIL = re.compile(r"(?:\b(?:and|or)|,)\s*(?:\\q?quad|[\s$(\\}])*(?:[a-zA-Z]\w{0,3}\s*=\s*)?$")
_JOINT_CHARS = 60

_MARKER = re.compile(
    r"(?:\b(?:answers?|solutions?|correct (?:option|choice))\b[*_]{0,2}[^\S\n]*(?:(?:[^\n.:=$]{0,60}?)[^\S\n])?(?:\bis\b|\bare\b|[:：=])"
    r"|^[^\S\n]*[*_]{0,2}A[*_]{0,2}[^\S\n]*:|####|答案[^\n:：]{0,10}?[是为:：]|\br[ée]ponse\b[^\n]{0,20}?(?:\best\b|:)"
    r"|^[*#_ \t]*final answer\b[*_: \t]*$|<answer>)[*_]{0,2}:?[*_]{0,2}",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL = re.compile(r"final answer is", re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|</answer>|<end_of_turn>")
_SENTENCE_END = re.compile(r"\.(?=\s+(?:[A-Z(\[*\"]|I hope)|\s*$)|[。！]|(?:\.\s*)?(?=\s*\bI hope\b)")
_DELIMITER = re.compile(r"\$\$|(?<!\\)\$|\\[\[\]()]")
_CLOSER = {"$$": "$$", "$": "$", r"\[": r"\]", r"\(": r"\)"}
_LEADING_CHOICE = re.compile(
    r"(?:for sure |probably |option |choice )?\(?([A-J])\)?(?:[,.:;)]\s|\s+(?:because|since|it|as)\b)"
)
_MATH_JOINT = re.compile(r"[\s,;]*(?:\band\b|\bor\b|&)?[\s,;]*")
_NUMBER = re.compile(
    r"(?<![\w.,/\\^])[-−+]?(?:[$€£¥]\s?)?(?:\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[.,]\d+)?|\.\d+)"
    r"(?:\s*/\s*\d+|\s*(?:\\?%|percent\b|pct\b)|\s?(?:\^\\circ|°))?"
)
_WRAPPED_WORDS = re.compile(r"\\(?:text|mathrm|mbox|textbf)\s*\{[^{}]*\}")
_WORD = re.compile(r"(?<![\\a-zA-Z])[A-Za-z]{2,}")
_AFTER_ANSWER = re.compile(
    r"(?:[\s.,;:!?*_`'\"$\)\]}。]|<\|[^|<>\n]{1,40}\|>|</?[a-z_]{1,20}>|\\[\])}]|\\end\{[a-z*]{1,12}\}|\\?%)*"
)
_TAIL_CHARS = 4_000
_LINE_CHARS = 200_000


class _Formula(NamedTuple):
    start: int
    end: int
    inside: str


class Extracted(NamedTuple):
    """A raw final answer: its text, where it ends in the response, its shape, and the boxes joined to it."""

    text: str
    end: int
    shape: str
    joined: str | None = None


def extract(response: str, extraction: str) -> Extracted | None:
    """The raw final answer of a response, or None.

    Args:
        response: the model's text, of any length.
        extraction: `boxed`, `answer_line` or `any` (see VerifierConfig).
    """
    body, offset = response, 0
    if "<think>" in response or "</think>" in response:
        opened, closed = response.rfind("<think>"), response.rfind("</think>")
        if opened > closed:
            body = response[:opened]
            closed = body.rfind("</think>")
        if closed >= 0:
            offset = closed + len("</think>")
            found = _extract(body[offset:], extraction)
            if found is not None:
                return found._replace(end=found.end + offset)
    return _extract(body, extraction)


def ends_there(response: str, end: int) -> bool:
    """Whether nothing but punctuation, closing delimiters and special tokens follows position `end`."""
    return len(response) - end <= _TAIL_CHARS and _AFTER_ANSWER.fullmatch(response, end) is not None


def _extract(body: str, extraction: str) -> Extracted | None:
    found = _last_box(body)
    if extraction == "boxed":
        return found
    if found is not None:
        final = _FINAL.search(body, found.end)
        line = _answer_line(body[found.end :]) if final is not None else None
        if line is None or not any(char.isdigit() or char == "\\" for char in line.text):
            return found
        return line._replace(end=line.end + found.end)
    found = _answer_line(body)
    if found is not None or extraction == "answer_line":
        return found
    return _last_expression(body)


def _last_box(body: str) -> Extracted | None:
    stop = len(body)
    has_fbox = "\\fbox" in body
    for _ in range(_BOX_TRIES):
        at = max(body.rfind("oxed", 0, stop), body.rfind("fbox", 0, stop) if has_fbox else -1)
        if at < 0:
            return None
        opener = _opener(body, at)
        if opener is not None:
            end = _closing(body, opener[1])
            if end is not None:
                return _with_neighbours(body, opener[0], opener[1], end)
        elif bare := _BARE_BOX.match(body, max(at - 2, 0), at + 200):
            return Extracted(bare[1].rstrip("."), bare.end(), "box")
        stop = at
    return _last_box_by_stack(body)


def _opener(body: str, at: int) -> tuple[int, int] | None:
    """Start of the box command whose `oxed` or `fbox` stands at `at`, and where its content starts."""
    lead = _BOX_LEAD.search(body, max(0, at - 12), at)
    brace = _BOX_BRACE.match(body, at + 4, at + 40)
    return (lead.start(), brace.end()) if lead and brace else None


def _closing(body: str, start: int) -> int | None:
    depth = 1
    for brace in _BRACE.finditer(body, start, start + _BOX_WINDOW):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None


def _last_box_by_stack(body: str) -> Extracted | None:
    """One pass with a stack: for texts with many boxes that never close."""
    openers = {match.end() - 1: match for match in _BOX.finditer(body)}
    stack: list[int] = []
    found: tuple[int, int] | None = None
    for brace in _BRACE.finditer(body):
        position = brace.start()
        if brace[0] == "{":
            stack.append(position)
        elif stack:
            opened = stack.pop()
            if opened in openers and (found is None or opened > found[0]):
                found = opened, position
    if found is None:
        return None
    return Extracted(body[found[0] + 1 : found[1]], found[1] + 1, "box")


def _with_neighbours(body: str, start: int, content: int, end: int) -> Extracted:
    """The box, with its percent sign after it, and joined to the boxes that stand beside it as in a list."""
    text, after = body[content:end], end + 1
    percent = _PERCENT_AFTER.match(body, after, after + 40)
    if percent is not None:
        text, after = text + r"\%", percent.end()
    parts, stop = [text], start
    while len(parts) < 64:
        low = max(0, stop - 600)
        at = max(body.rfind("oxed", low, stop), body.rfind("fbox", low, stop))
        opener = _opener(body, at) if at >= 0 else None
        close = _closing(body, opener[1]) if opener is not None else None
        if opener is None or close is None or close >= stop or not _joins(body[close + 1 : stop]):
            break
        parts.append(body[opener[1] : close])
        stop = opener[0]
    joined = ", ".join(reversed(parts)) if len(parts) > 1 else None
    return Extracted(text, after, "box", joined)


def _joins(between: str) -> bool:
    """Whether the text between two boxes makes them items of one list."""
    return len(between) <= _JOINT_CHARS and (
        _JOINT.match(between) is not None or _JOINT_TAIL.search(between) is not None
    )


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    newest = deque(matches, maxlen=1)
    return newest[0] if newest else None


def _answer_line(body: str) -> Extracted | None:
    last = _last(_MARKER.finditer(body, max(0, len(body) - _LINE_CHARS)))
    if last is None:
        return None
    start = last.end()
    line_end = body.find("\n", start)
    line = body[start : line_end if line_end >= 0 else len(body)]
    while not _SPECIAL_TOKEN.sub("", line).strip(" *_:\t\r$\\[(") and line_end >= 0:
        start = line_end + 1
        line_end = body.find("\n", start)
        line = body[start : line_end if line_end >= 0 else len(body)]
    opener = line.strip()
    if opener.startswith((r"\[", "$$")):
        display = _formulas(body[start : start + _TAIL_CHARS])
        if display:
            return Extracted(display[0].inside, start + display[0].end, "line")
    return _from_sentence(line[:_TAIL_CHARS], start)


def _from_sentence(line: str, start: int) -> Extracted | None:
    """The answer in what follows an answer marker on its line."""
    token = _SPECIAL_TOKEN.search(line)
    text = line[: token.start()] if token else line
    if looks_like_code(text):
        return Extracted(text.strip(), start + len(text), "line")
    stripped = text.strip(" *_:\t\r")
    sentence = _cut_sentence(stripped)
    formulas = _formulas(sentence)
    copula = max(sentence.rfind(" is "), sentence.rfind(" are "))
    if formulas and copula < formulas[-1].start:
        sentence = _joined_formulas(sentence, formulas)
    elif copula >= 0:
        sentence = sentence[copula:].split(" ", 2)[-1]
    sentence = _without_prose(sentence.strip(" *_`\t"))
    if not sentence:
        return None
    at = line.rfind(sentence)
    end = start + (at + len(sentence) if at >= 0 else len(text.rstrip()))
    return Extracted(sentence, end, "line")


def _without_prose(sentence: str) -> str:
    """The choice letter or the number of a sentence that says more than its answer."""
    if choice := _LEADING_CHOICE.match(sentence):
        return choice[1]
    if _is_bare(sentence):
        return sentence
    numbers = list(_NUMBER.finditer(sentence))
    if not numbers or "\\" in sentence:
        return sentence
    return numbers[0 if numbers[0].start() == 0 else -1][0]


def _cut_sentence(text: str) -> str:
    for end in _SENTENCE_END.finditer(text):
        before = text[: end.start()]
        if before.count("$") % 2 == 0 and before.strip():
            return before
    return text


def _formulas(text: str) -> list[_Formula]:
    """The delimited formulas of a text, in one pass; inline ones do not span lines."""
    found: list[_Formula] = []
    opened: re.Match[str] | None = None
    for token in _DELIMITER.finditer(text):
        mark = token[0]
        if opened is not None and mark == _CLOSER[opened[0]]:
            inside = text[opened.end() : token.start()]
            if inside.strip() and ("\n" not in inside or opened[0] in ("$$", r"\[")):
                found.append(_Formula(opened.start(), token.end(), inside.strip()))
                opened = None
                continue
        if mark in _CLOSER:
            opened = token
    return found


def _joined_formulas(text: str, formulas: list[_Formula]) -> str:
    """The last formula, with those before it that are joined to it by a comma, `and` or `or`."""
    last = len(formulas) - 1
    while last > 0 and _MATH_JOINT.fullmatch(text, formulas[last - 1].end, formulas[last].start):
        last -= 1
    percent = _PERCENT_AFTER.match(text, formulas[-1].end)
    return ", ".join(formula.inside for formula in formulas[last:]) + (r"\%" if percent is not None else "")


def _last_expression(body: str) -> Extracted | None:
    """A bare answer, else the last formula or number of the text."""
    whole = _SPECIAL_TOKEN.sub(" ", body[-2 * _TAIL_CHARS :]).strip()
    if not whole:
        return None
    if looks_like_code(whole[-1000:]):
        return Extracted(whole[-1000:], len(body), "bare")
    tail_start = max(0, len(body) - _TAIL_CHARS)
    tail = body[tail_start:]
    formulas = _formulas(tail)
    if _is_bare(whole) and len(body) <= 2 * _TAIL_CHARS:
        return Extracted(whole, len(body.rstrip()), "bare")
    number = _last(_NUMBER.finditer(tail))
    if formulas and (number is None or formulas[-1].end >= number.end()):
        return Extracted(_joined_formulas(tail, formulas), tail_start + formulas[-1].end, "formula")
    if number is not None:
        return Extracted(number[0], tail_start + number.end(), "number")
    return Extracted(whole[-200:], len(body), "bare") if len(whole) <= 200 else None


def _is_bare(text: str) -> bool:
    """Whether a text is an answer by itself and not a sentence about one."""
    if "\n" in text and not text.startswith(("$$", r"\[", r"\begin")):
        return False
    formulas = _formulas(text)
    if formulas:
        ends = [0, *(formula.end for formula in formulas)]
        starts = [*(formula.start for formula in formulas), len(text)]
        rest = " ".join(text[end:start] for end, start in zip(ends, starts, strict=True)).strip(" .*")
        return not rest or _MATH_JOINT.fullmatch(rest) is not None
    if "\\text" in text:
        text = _WRAPPED_WORDS.sub("", text)
    words = [word for word in _WORD.findall(text) if canonical_unit(word, None) is None]
    return not words or (len(words) <= 3 and ":" not in text) or not any(char.isdigit() for char in text)
