r"""Which line or box of a response is its answer, in time linear in the length of the text.

The last explicit answer counts: a balanced box, or a line that begins as an answer line and gives a value; one behind `not` or before a
question mark is none. Without any the last answer marker counts, then the value that the text ends with. Nothing inside `<think>` counts
where it is not closed, or where text follows it. A response that was cut off has no answer but a closed box or a line that ends.
"""

import re
from collections import deque
from typing import NamedTuple

from harness.verify.read import words
from harness.verify.read.answers import code_of, read_answer
from harness.verify.read.grammar import Node
from harness.verify.read.tokens import tokenize

_LINE_CHARS = 4_000
_MOST_LINES = 64
_TAIL_CHARS = 200_000
_MOST_NEIGHBOURS = 64
_BESIDE_CHARS = 60  # of what stands before or behind an answer on its line

_BOX = re.compile(r"\\(?:[bB]?oxed|beginboxed|fbox)\s*\{")  # it begins with one sign, which makes the search fast
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_UNIT = r"(?:\\?%|\^?\{?\\(?:circ|degree)\}?|[°º]|\\(?:text|mathrm|mbox)\s*\{[^{}\n]{0,30}\}(?:\^\{?\d\}?)?|[A-Za-z]+(?:/[A-Za-z]+)?)"
_BEHIND = re.compile(rf"(?:[ $~)*]|\\[,;!) \]])*(?P<unit>{_UNIT}(?: +{_UNIT})*)")
# It begins with one character of a set, for speed as well.
_MARKER = re.compile(
    r"[#<AaCc](?:(?<=#)###|(?<=A)(?P<label>(?:\*\*)?[^\S\n]*:)|(?<=<)(?i:(?:final_)?answer>)"
    r"|(?P<word>(?<!\w[AaCc])(?:(?<=[Aa])(?i:nswers?|ns)|(?<=[Cc])(?i:orrect (?:option|choice)))\b)[*_\"'} \t]*)"
)
_LEAD = re.compile(
    r"(?:[\s>*_#$\\\[{\"'–—•-]|\\text|\b(?:so|thus|hence|therefore|the|my|our|final|correct|and)\b,?)*|.*\bthe final ",
    re.DOTALL | re.IGNORECASE,
)
_COPULA = re.compile(rf"(?P<between>(?:[^\n.:=]|\.(?! )){{0,{_BESIDE_CHARS}}}?)(?:[:=：]|\b(?:is|are|be|equals|was)\b)")
_SPECIAL_TOKEN = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|</(?:final_)?answer>|<end_of_turn>")
_AFTER_ANSWER = re.compile(
    r"(?:[\s.,;:!?*_`'\"$\)\]}。-]|<\|[^|<>\n]{1,40}\|>|</?[a-z_]{1,20}>|\\[\])}]|\\end\{[a-z*]{1,12}\})*"
)
_DENIED = re.compile(
    r"(?:\b(?:not|cannot|neither|never|nor|anything but|rather than|instead of)|n['’]t"
    r"|^(?!.*\b(?:no|nothing|none|not|only)\b).*\bother than)"
    r"(?:\s+(?:be|equal|to|possibly|really|the))*[\s$:*_(\\\[]*$",
    re.IGNORECASE,
)
_REFUTED = re.compile(r"[\s$)*_\\\]}]*(?:[?？]|(?:is|was|seems|would be) (?:wrong|incorrect|false|impossible|not)\b)")
_ADDS_NOTHING = re.compile(r"[MO]*[wfpxayNOP]{0,8}[MO]*")


class Answer(NamedTuple):
    """A raw final answer, and where it ends in the response.

    Attributes:
        text: what stands in the box with the unit behind it, or behind the marker on the line.
        end: place in the response.
        node: the value of a line; None for a box, which is read where it is graded.
        neighbours: the boxes beside the last one and it, in order, where there are several.
    """

    text: str
    end: int
    node: Node | None = None
    neighbours: tuple[str, ...] = ()


def extract(response: str, extraction: str, is_cut_off: bool = False) -> Answer | None:
    """Return the raw final answer of a response by an extraction of `VerifierConfig`, or None."""
    body, offset = response, 0
    if "think>" in response:
        said, opened, thought = response.rpartition("<think>")
        body = said if opened and "</think>" not in thought else response
        said = body.rpartition("</think>")[2]
        body, offset = (said, len(body) - len(said)) if any(map(str.isalnum, said)) else (body, 0)
    answer = _extract(body, extraction, is_cut_off)
    return answer._replace(end=answer.end + offset) if answer and offset else answer


def ends_response(response: str, end: int) -> bool:
    """Return whether nothing follows position `end` but punctuation, what is counted, signs of an end and special tokens."""
    rest = response[end : end + _LINE_CHARS + 1]
    if len(rest) > _LINE_CHARS:
        return False
    words = _SPECIAL_TOKEN.sub(" ", rest).replace(" such ", " ")
    return _AFTER_ANSWER.fullmatch(rest) is not None or _adds_nothing(words)


def _adds_nothing(text: str) -> bool:
    """Return whether a text is but a unit, what is counted, or a sign of an end."""
    return len(text) < 2 * _BESIDE_CHARS and _ADDS_NOTHING.fullmatch(_code(text)) is not None


def _code(text: str) -> str:
    """Return what each token of a text does; a question mark where it is over a limit."""
    try:
        return code_of(tokenize(text))
    except RecursionError:
        return "?"


def _extract(body: str, extraction: str, is_cut_off: bool) -> Answer | None:
    box = _last_box(body)
    if extraction == "boxed":
        return box
    lines = body[: body.rfind("\n") + 1] if is_cut_off else body
    answer = _last_line(lines, max(0, len(body) - _TAIL_CHARS) if box is None else box.end, box is not None) or box
    return answer or (_last_value(body) if extraction == "any" and not is_cut_off else None)


class _Box(NamedTuple):
    """Where a box begins with its command, where its content begins and ends, and where it ends with its brace."""

    start: int
    content: int
    end: int
    stop: int


def _last_box(body: str) -> Answer | None:
    """Return the last box that is not denied with the unit behind it, and the boxes that stand beside it as in a list."""
    boxes = _boxes(body) if "oxed" in body or "fbox" in body else []
    while boxes and _is_retracted(body, boxes[-1]):
        boxes.pop()
    if not boxes:
        return None
    last, stop = boxes[-1], boxes[-1].start
    parts = [body[last.content : last.end]]
    for box in boxes[-2 : -_MOST_NEIGHBOURS - 1 : -1]:
        if not _is_joint(body[box.stop : stop]):
            break
        parts.append(body[box.content : box.end])
        stop = box.start
    neighbours = tuple(reversed(parts)) if len(parts) > 1 else ()
    behind = _BEHIND.match(body, last.stop, last.stop + _BESIDE_CHARS)
    units = [] if behind is None else behind["unit"].split(" ")
    for count in (len(units), 1) if units else ():
        unit = " ".join(units[:count])
        if _adds_nothing(unit) and (count > 1 or not unit[0].isalpha() or words.unit_of(unit)):
            return Answer(f"{parts[0]} {unit}", behind.start("unit") + len(unit) if behind else 0, None, neighbours)
    return Answer(parts[0], last.stop, None, neighbours)


def _boxes(body: str) -> list[_Box]:
    """Return the balanced boxes that are not empty and stand in no other one, in order; one pass, since some may never close."""
    commands = {match.end() - 1: match.start() for match in _BOX.finditer(body)}
    boxes, open_braces = list[_Box](), list[int]()
    for brace in _BRACE.finditer(body, min(commands, default=len(body))):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif brace[0] == "}" and open_braces:
            start = open_braces.pop()
            if start not in commands or not body[start + 1 : start + 42].strip(" $\n\t}"):
                continue
            while boxes and boxes[-1].start > start:
                boxes.pop()  # it stands in this one
            boxes.append(_Box(commands[start], start + 1, brace.start(), brace.end()))
    return boxes


def _is_joint(gap: str) -> bool:
    """Return whether the text between two boxes makes them items of one list: `and`, `, y =`."""
    is_near = len(gap) <= _BESIDE_CHARS and "oxed" not in gap
    return is_near and re.fullmatch(r"(?:[^dklor]*[,&|])?M*(?:NE)?M*", _code(gap)) is not None


def _is_retracted(body: str, box: _Box) -> bool:
    """Return whether a box stands behind a denial, or before a question mark or a refutation."""
    before = body[max(0, box.start - _BESIDE_CHARS) : box.start].rpartition("\n")[2]
    denied = _DENIED.search(before)
    return denied is not None or _REFUTED.match(body, box.stop) is not None


def _last_line(body: str, begin: int, behind_box: bool) -> Answer | None:
    """Return the value of the last answer line behind `begin`: of one that begins as such, else of any marker.

    Behind a box only a line counts that begins as an answer line and gives its value at once.
    """
    markers = list(deque(_MARKER.finditer(body, begin), maxlen=_MOST_LINES))
    for leads in (True,) if behind_box else (True, False):
        for marker in reversed(markers):
            start = body.rfind("\n", 0, marker.start()) + 1
            before = body[max(start, marker.start() - 4 * _BESIDE_CHARS) : marker.start()]
            if marker["label"] and before.strip(" \t*"):
                continue
            is_first = _LEAD.fullmatch(before) is not None if marker["word"] else behind_box or marker[0][0] == "<"
            if is_first != leads or (marker["word"] and re.search("(?<!o)[dh]", _words_of(before.rpartition(". ")[2]))):
                continue
            answer = _answer_behind(body, marker, behind_box)
            if answer is not None:
                return answer
    return None


def _words_of(text: str) -> str:
    return "".join(words.class_of(word.strip('*_,;()"').replace("’", "'").lower()) for word in text.split())


def _answer_behind(body: str, marker: re.Match[str], at_once: bool) -> Answer | None:
    """Return the value on the line of an answer marker, or on the first line with content below it."""
    start = marker.end()
    if marker["word"] and _content(_line(body, start)):
        copula = _COPULA.match(body, start)
        if copula is None or (at_once and copula["between"]) or re.search("[dho]", _words_of(copula["between"])):
            return None
        start = copula.end()
    line = _line(body, start)
    while not _content(line) and start + len(line) < len(body):
        start += len(line) + 1
        line = _line(body, start)
    content = _content(line)
    if "\n" in body[marker.end() : start] and content[1:2] in (" ", "\t"):
        content = content.lstrip("-–—•*+").lstrip()  # a bullet
    return _read_line(content, start + len(line), at_once) if content else None


def _read_line(content: str, end: int, at_once: bool, last: bool = False) -> Answer | None:
    try:
        node = read_answer(content[:_LINE_CHARS], prose=True, last=last)
    except RecursionError:
        return Answer(content, end)
    return None if node is None or (at_once and not _is_value(node)) else Answer(content, end, node)


def _is_value(node: Node) -> bool:
    """Return whether a value is more than words, in all of its parts."""
    if node.items and node.kind != "choice":
        return all(map(_is_value, node.items[-1:] if node.kind == "relation" else node.items))
    return not node.is_text or node.kind == "choice"


def _line(body: str, start: int) -> str:
    end = body.find("\n", start)
    return body[start : end if end >= 0 else len(body)]


def _content(line: str) -> str:
    """Return a line without special tokens; empty where it has nothing but marks."""
    token = _SPECIAL_TOKEN.search(line)
    text = (line[: token.start()] if token else line).strip()
    return text if text.strip(" *_:\t\r$\\[(\"'}#=") else ""


def _last_value(body: str) -> Answer | None:
    """Return the value that a text ends with: of a displayed formula, or of its last sentence that gives one."""
    tail = _SPECIAL_TOKEN.sub(" ", body[-_LINE_CHARS:]).rstrip()
    opening = {"$$": "$$", r"\]": r"\["}.get(tail[-2:])
    if opening is not None and (start := tail.rfind(opening, 0, -2)) >= 0:
        return _read_line(tail[start:], len(body), at_once=False, last=True)
    for line in reversed(tail.split("\n")[-20:]):
        if _BOX.search(line):
            return None  # it never closes
        content = _content(line)
        answer = _read_line(content, len(body), at_once=" " in content, last=True) if content else None
        if answer is not None:
            return answer
    return None
