"""Extraction of the final answer of a response, in time linear in the length of the text.

Shapes, in order: the last balanced box; the last answer line; the last formula or number. A later answer of
the same shape replaces an earlier one, so a self-correction counts as what it says last. Nothing inside an unclosed
`<think>` counts, and what follows a closed one goes first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from harness.verify.extract import sentences
from harness.verify.extract.claims import claimed, is_operation, is_retracted, last_place, mentions, overruled
from harness.verify.limits import looks_like_code

_BOX = re.compile(r"(?:\\(?:(?:begin)?b)?oxed|\\fbox|\x08oxed)\s*\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s${}\\]+)")
_EMPTY = re.compile(r"[\s$]{0,40}")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOXES_JOINT = re.compile(
    r"^[\s$,;.\\()\[\]*]*(?:\\q?quad|\\text\s*\{\s*(?:and|or)\s*\}|and|or|[\s$,;\\()\[\]*])*$"
)

_BOXES_JOINT_TAIL = re.compile(r"(?:\b(?:and|or)|,)\s*(?:\\q?quad|[\s$(\\}])*(?:[a-zA-Z]\w{0,3}\s*=\s*)?$")
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\s*\{([^{}]*)\}")
_SAYING = re.compile(
    r"[A-Za-z][a-z]+\b[^\d\\]*(?:\b(?:is|are|was|has|have|gets?|equals?)\b|[:=])[^\d\\]*\\?\$?[-\d\\]"
)
_DOUBTING = re.compile(r"\b(?:or|if|not|wrong|incorrect|maybe|perhaps)\b")
_SENTENCE = re.compile(r"[^\n]*?(?=\.\s|\n|$)|")
_BOXES_JOINT_CHARS = 60
_COMMAND_CHARS = 12  # of a box before its `oxed` or `fbox`
_MOST_NEIGHBOURS = 64
_CORRECTED = re.compile(
    r"\b(?:but|correct\w*|wait|no|actually|rather|instead|sorry|mistake\w*|then)\b", re.IGNORECASE
)

_MARKER = re.compile(
    r"(?:(?:\b|_)(?:answers?|ans(?=:)|solutions?|correct (?:option|choice))\b[*_]{0,2}[\"']?[^\S\n]*"
    r"(?:(?:(?:[^\n.:=$]|\.(?=\d)){0,60}?)[^\S\n])??(?:\b(?:(?:would|should|must|will) be|is|are)\b|[:：=])"
    r"|^[^\S\n]*[*_]{0,2}A[*_]{0,2}[^\S\n]*:|####|答案[^\n:：]{0,10}?[是为:：]|\br[ée]ponse\b[^\n]{0,20}?(?:\best\b|:)"
    r"|\b(?:respuesta|resposta|risposta|antwort|ответ)\b[^\n]{0,20}?(?:\b(?:es|é|è|ist)\b|:)"
    r"|^[*#_ \t]*final answer\b[*_: \t]*$|<(?:final_)?answer>)[*_]{0,2}:?[*_]{0,2}",
    re.IGNORECASE | re.MULTILINE,
)
_MARKING = (
    ":", "####", "answer", "solution", "correct", "reponse", "respuesta", "resposta", "risposta", "antwort",
)  # fmt: skip
_CUT_OFF = re.compile(  # an answer line that ends before it says anything: `The answer is the`
    r"(?:[\s:*_]|\b(?:is|are|be|the|an|about|approximately|roughly|exactly|actually|just|only|simply|equal|to|now|then|therefore|thus|indeed|also|still"
    r"|answer|result|value|number|total|sum|of|which|that|this|so|it|there)\b)+",
    re.IGNORECASE,
)
_FINAL = re.compile(r"final answer is", re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|</(?:final_)?answer>|<end_of_turn>")
_AFTER_ANSWER = re.compile(
    r"(?:[\s.,;:!?*_`'\"$\)\]}。]|<\|[^|<>\n]{1,40}\|>|</?[a-z_]{1,20}>|\\[\])}]|\\end\{[a-z*]{1,12}\}|\\?%)*"
)
_NEXT_QUESTION = re.compile(
    r"\n\W*(?:Q|Question|Problem|Exercise|Example|User|Human)\b[^\n]{0,10}:", re.IGNORECASE
)
_HOLDS_VALUE = re.compile(r"\d|\\(?!end|\]|\)|[,;!]|\s)")
_JSON_MEMBER = re.compile(r"\s*(?:\"((?:[^\"\\]|\\.)+)\"|([^\s,\"{}\[\]]+))\s*(?=[,}\n]|$)")
_FENCED = re.compile(r"```\w*\n([^\n`]+)\n```$")
_TAIL_CHARS = 4_000
_SAID_CHARS = 400
_LINE_CHARS = 200_000


class _Box(NamedTuple):
    """Where a box begins with its command, where its content begins, and where that ends."""

    start: int
    content: int
    end: int


class Extracted(NamedTuple):
    """A raw final answer.

    Attributes:
        text: the answer.
        end: where it ends in the response.
        shape: `box`, `line`, `bare`, `formula` or `number`.
        beside: the boxes beside the last one and it, in order, where there are several.
        said: the whole sentence that the answer was taken from; empty for a box.
    """

    text: str
    end: int
    shape: str
    beside: tuple[str, ...] = ()
    said: str = ""


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
    """Return whether nothing but punctuation, closing delimiters and special tokens follows position `end`."""
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
    """The last box, with its percent sign after it, and joined to the boxes that stand beside it as in a list."""
    places = [at for at in (body.find("oxed"), body.find("fbox")) if at >= 0]
    if not places:
        return None
    begin = max(0, min(places) - _COMMAND_CHARS)
    boxes = _boxes(body, begin)
    bare = _last(_BARE_BOX.finditer(body, begin))
    if bare is not None and (not boxes or bare.start() > boxes[-1].start):
        return Extracted(bare[1].rstrip("."), bare.end(), "box")
    if not boxes:
        return None
    last = boxes[-1]
    text, after = body[last.content : last.end], last.end + 1
    percent = sentences.PERCENT_AFTER.match(body, after, after + 40)
    if percent is not None:
        text, after = text + r"\%", percent.end()
    if is_retracted(_SENTENCE.match(body, last.start, after + _SAID_CHARS)[0]):  # type: ignore[index]
        return None
    parts, stop = [text], last.start
    for box in boxes[-2 : -_MOST_NEIGHBOURS - 1 : -1]:
        if not _joins(body[box.end + 1 : stop]):
            break
        parts.append(body[box.content : box.end])
        stop = box.start
    return Extracted(text, after, "box", tuple(reversed(parts)) if len(parts) > 1 else ())


def _boxes(body: str, begin: int) -> list[_Box]:
    """The balanced boxes that are not empty and stand in no other one, in order; one pass, since some may never close."""
    commands = {match.end() - 1: match.start() for match in _BOX.finditer(body, begin)}
    found: list[_Box] = []
    opened: list[int] = []
    for brace in _BRACE.finditer(body, min(commands, default=len(body))):
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened:
            at = opened.pop()
            if at not in commands or _EMPTY.fullmatch(body, at + 1, brace.start()):
                continue
            while found and found[-1].start > at:
                found.pop()  # it stands in this one
            found.append(_Box(commands[at], at + 1, brace.start()))
    return found


def spoken(box: Extracted) -> Extracted:
    r"""Return a box with what it says in words, as in `\boxed{\text{The answer is } 42}`; without its text where its words doubt that."""
    if box.beside or not (box.text[:1].isalpha() or r"\text" in box.text):
        return box
    said = _TEXT.sub(r"\1", box.text).strip()
    if _SAYING.match(said):
        return box._replace(text=sentences.value_of(said, after_marker=True), said=said)
    return box._replace(text="") if _DOUBTING.search(said) else box


def _joins(between: str) -> bool:
    """Return whether the text between two boxes makes them items of one list."""
    return (
        len(between) <= _BOXES_JOINT_CHARS
        and "oxed" not in between
        and not _CORRECTED.search(between)
        and (_BOXES_JOINT.match(between) is not None or _BOXES_JOINT_TAIL.search(between) is not None)
    )


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    newest = deque(matches, maxlen=1)
    return newest[0] if newest else None


def _answer_line(body: str) -> Extracted | None:
    """Return what follows the last answer marker; when that only judges a solution, what follows the last `final answer`."""
    low = max(0, len(body) - _LINE_CHARS)
    last = _last(_MARKER.finditer(body, low)) if mentions(body, _MARKING) else None
    if last is None:
        return None
    found = _on_the_line(body, last.end())
    about = last[0].lower().startswith("solution")
    if about and found is not None and not _HOLDS_VALUE.search(found.text):
        final = _last(_FINAL.finditer(body, low))
        stated = _on_the_line(body, final.end()) if final is not None else None
        if stated is not None and _HOLDS_VALUE.search(stated.text):
            return stated
    if found is None or (_CUT_OFF.fullmatch(found.text) and not body[found.end :].strip()):
        return None
    return _unless_overruled(found, body)


def _unless_overruled(found: Extracted, body: str) -> Extracted:
    """Return an answer, or what the sentences after its own say instead: `The answer is 30. The value of 1 + 28 is actually 29.`"""
    numbers = sentences.NUMBER.findall(found.text) if sentences.NUMBER.match(found.text) else []
    after = body[found.end : found.end + _TAIL_CHARS]
    if not numbers or not any(map(str.isalnum, after)):
        return found
    asked = _NEXT_QUESTION.search(after)
    lines = after[: asked.start() if asked else len(after)].split("\n")
    later = [part for line in lines for part in sentences.statements(line)][1:]
    said = overruled("" if is_operation(found.text) and "=" not in found.text else numbers[-1], later)
    if said is None:
        return found
    value = sentences.value_of(said)
    return Extracted(value, _end_of(value, after, found.end, len(after)), "line", said=said)


def _on_the_line(body: str, start: int) -> Extracted | None:
    """The answer on the line of a marker that ends at `start`, or on the first line with content after it."""
    line_end = body.find("\n", start)
    line = body[start : line_end if line_end >= 0 else len(body)]
    if body[:start].rstrip(" :")[-1:] in ('"', "'") and (member := _JSON_MEMBER.match(line)):
        return Extracted(member[1] or member[2], start + member.end(), "line")
    if line.lstrip().startswith("}"):  # the marker stood in a `\\text{}`
        start += line.index("}") + 1
        line = line.partition("}")[2].removesuffix(r"\]").removesuffix("$$")
    while not _SPECIAL_TOKEN.sub("", line).strip(" *_:\t\r$\\[(") and line_end >= 0:
        start = line_end + 1
        line_end = body.find("\n", start)
        line = body[start : line_end if line_end >= 0 else len(body)]
    if line.strip().startswith((r"\[", "$$")):
        display = sentences.formulas(body[start : start + _TAIL_CHARS])
        if display:
            return Extracted(display[0].inside, start + display[0].end, "line")
    return _from_sentence(line[:_TAIL_CHARS], start)


def _from_sentence(line: str, start: int) -> Extracted | None:
    """The answer in what follows an answer marker on its line."""
    token = _SPECIAL_TOKEN.search(line)
    text = line[: token.start()] if token else line
    if looks_like_code(text):
        return Extracted(text.strip(), start + len(text), "line")
    cut = sentences.cut_sentence(text.strip(" *_:\t\r"))
    said = sentence = sentences.said_once(cut)
    delimited = sentences.formulas(sentence)
    copula = max(sentence.rfind(" is "), sentence.rfind(" are "))
    if sentences.leading_choice(sentence) is None:
        if delimited and copula < delimited[-1].start:
            sentence = sentences.joined_formulas(sentence, delimited)
        elif (
            copula >= 0
            and claimed(sentence) is None
            and not sentences.NUMBER.fullmatch(sentence[:copula].strip(" *"))
        ):
            sentence = sentence[copula:].split(" ", 2)[-1]
    sentence = sentences.value_of(sentence.strip(" *_`\t"), after_marker=True)
    if not sentence:
        return None
    own = line[: line.find(cut) + len(cut)]
    return Extracted(sentence, _end_of(sentence, own, start, len(text.rstrip())), "line", said=said)


def _last_expression(body: str) -> Extracted | None:
    """A bare answer, else the last formula or number of the text."""
    whole = _SPECIAL_TOKEN.sub(" ", body[-2 * _TAIL_CHARS :]).strip()
    if not whole:
        return None
    if fenced := _FENCED.search(whole[-_SAID_CHARS:]):
        whole = fenced[1].strip()
    if looks_like_code(whole[-1000:]):
        return Extracted(whole[-1000:], len(body), "bare")
    whole = sentences.without_marks(whole)
    if sentences.is_bare(whole) and len(body) <= 2 * _TAIL_CHARS:
        return Extracted(whole, len(body.rstrip()), "bare", said=whole)
    if is_retracted(whole[-_SAID_CHARS:]):
        return None
    tail_start = max(0, len(body) - _TAIL_CHARS)
    tail = body[tail_start:]
    line = sentences.last_line(whole)
    if line != whole and _HOLDS_VALUE.search(line) and sentences.is_bare(line):
        return Extracted(line, len(body.rstrip()), "bare", said=line)
    delimited = sentences.formulas(tail)
    number = _last(sentences.NUMBER.finditer(tail)) if delimited else sentences.NUMBER.search(tail)
    if delimited and (number is None or delimited[-1].end >= number.end()):
        value = sentences.value_of(sentences.joined_formulas(tail, delimited))
        said = next(filter(None, reversed(sentences.statements(line[-_SAID_CHARS:]))), line)
        return Extracted(value, tail_start + delimited[-1].end, "formula", said=said)
    if number is not None or "\\" in line:
        line = sentences.said_once(sentences.last_statement(line[-_TAIL_CHARS:]))
        numbers = sentences.NUMBER.findall(line) or sentences.NUMBER.findall(tail) if number else [line]
        if sentences.is_glued(line):
            return None
        value = _in_statement(line) or numbers[-1]
        end = _end_of(value, tail, tail_start, len(tail.rstrip()))
        return Extracted(value, end, "number", said=line[-_SAID_CHARS:])
    return Extracted(whole[-200:], len(body), "bare", said=line[-_SAID_CHARS:])


def _in_statement(line: str) -> str:
    """Return the value that a statement gives, empty where none stands out."""
    inside = sentences.formulas(line)
    if inside and not sentences.NUMBER.search(line, inside[-1].end):
        line = sentences.joined_formulas(line, inside)
    value = sentences.value_of(line) if _HOLDS_VALUE.search(line) else ""
    return value if value != line or ("=" in line and sentences.is_bare(line)) else ""


def _end_of(value: str, text: str, start: int, otherwise: int) -> int:
    """Return where a value ends in the response, when it stands word for word in a text that begins at `start`."""
    at = last_place(value, text)
    return start + (at + len(value) if at >= 0 else otherwise)
