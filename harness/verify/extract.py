r"""Extraction of the final answer of a response, in time linear in the length of the text.

The last explicit answer counts, a balanced box or a line that begins as an answer line; one behind `not` or before a question mark is
none. Without any the last answer marker counts, then the number or the formula in dollars that ends the text. Sentences are not read: an
answer line gives the first value on it, or the last formula where words stand before the first. Nothing inside `<think>` counts where it
is not closed, or where text follows it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from harness.verify.read.numbers import is_unit

# ---- boxes ----
_BOX = re.compile(r"(?:\\(?:(?:begin)?b)?oxed|\\fbox|\x08oxed)\s*\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s${}\\]+)")
_COMMAND_CHARS = 12  # of a box before its `oxed` or `fbox`
_EMPTY = re.compile(r"[\s$]{0,40}")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_JOINT = re.compile(r"(?:\\q?quad|\\text\s*\{\s*(?:and|or)\s*\}|and|or|[\s$,;.\\()\[\]*])*+")
_JOINT_TAIL = re.compile(r"(?:\b(?:and|or)|,)\s*(?:\\q?quad|[\s$(\\}])*(?:[a-zA-Z]\w{0,3}\s*=\s*)?$")
_JOINT_CHARS = 60
_MOST_NEIGHBOURS = 64
_CORRECTION = re.compile(r"\b(?:but|correct\w*|wait|no|actually|rather|instead|sorry|mistake\w*|then)\b", re.IGNORECASE)
_PERCENT = re.compile(r"\s*\$?\s*(?:\\?%|percent\b|pct\b|percentage\b)", re.IGNORECASE)

# ---- answer lines ----
_MARKER = re.compile(
    r"(?:(?:\b|_)(?:answers?|ans(?=:)|correct (?:option|choice))\b[*_]{0,2}[\"']?[^\S\n]*"
    r"(?:(?:(?:[^\n.:=$]|\.(?=\d)){0,60}?)[^\S\n])??(?:\b(?:(?:would|should|must|will) be|is|are)\b|[:：=])"
    r"|^[^\S\n]*[*_]{0,2}A[*_]{0,2}[^\S\n]*:|####|答案[^\n:：]{0,10}?[是为:：]|\br[ée]ponse\b[^\n]{0,20}?(?:\best\b|:)"
    r"|\b(?:respuesta|resposta|risposta|antwort|ответ)\b[^\n]{0,20}?(?:\b(?:es|é|è|ist)\b|:)"
    r"|^[*#_ \t]*final answer\b[*_: \t]*$|<(?:final_)?answer>)[*_]{0,2}:?[*_]{0,2}",
    re.IGNORECASE | re.MULTILINE,
)
_WORD_LINE = re.compile(  # a line that begins as an answer line and says so, where `####` may begin a heading, and `A:` an option
    r"final answer is|^[\s>*_$#\[\\-]{0,8}(?:(?:so|thus|hence|therefore)\b,?[^\S\n]+)?(?:(?:the|my|our|final|correct)\b[^\S\n]+){0,3}"
    r"answer\b[*_\"']{0,3}[^\S\n]*(?:is\b|[:：=]|[*_]{0,3}$)|^[^\S\n]{0,8}(?:<(?:final_)?answer>|答案)",
    re.IGNORECASE | re.MULTILINE,
)
_LINE = re.compile(
    _WORD_LINE.pattern + r"|^[^\S\n]{0,8}(?:####|[*_]{0,2}A[*_]{0,2}[^\S\n]*:)", re.IGNORECASE | re.MULTILINE
)
_JSON_MEMBER = re.compile(r"\s*(?:\"((?:[^\"\\]|\\.)+)\"|([^\s,\"{}\[\]]+))\s*(?=[,}\n]|$)")
_LINE_CHARS = 4_000
_MOST_LINES = 64
_TAIL_CHARS = 200_000
_SPECIAL_TOKEN = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|</(?:final_)?answer>|<end_of_turn>")
_SENTENCE_END = re.compile(
    r"(?<!\.)\.(?=\s+(?:[A-Z(\[*\"$]|I hope)|\s*$)|(?<=[\d%])\.(?=\s+[-−]?[\da-z])|[。！]|(?:\.\s*)?(?=\s*\bI hope\b)"
)
_OPENING = re.compile(  # a verdict or a choice, with its reason behind it
    r"\(?(?:(yes|no|true|false)|([A-J]))\)?(?:\s*[,.:;)]+|\s+(?:because|since|as|it|is)\b)(?=\s)", re.IGNORECASE
)
_DENIAL = re.compile(
    r"(?:not|neither|never|anything but|other than|(?:less|more|greater|fewer|larger|smaller) than|at (?:least|most))\b",
    re.IGNORECASE,
)
_DENIAL_BEFORE = re.compile(
    r"(?:\b(?:not|cannot|neither|never|nor|anything but|other than)|n['’]t)(?:\s+(?:be|equal|possibly|really))*[\s$:*_(\\\[]{0,8}$",
    re.IGNORECASE,
)
_DENIAL_CHARS = 24
_QUESTION_MARK = re.compile(r"[\s$)*_\\\]]{0,8}[?？]")
_REFUTATION = re.compile(
    r"[\s$)*_\\\]]{0,8}(?:is|was|would be|seems) "
    r"(?:wrong|incorrect|false|impossible|not (?:correct|right|possible|(?:the|my) (?:final |correct )?answer))\b"
)
_OPTION_TEXT = re.compile(r"(?!(?:because|since|as|it|is|this|that|so|by|from|we|see)\b)(?:\S+\s*){1,6}", re.IGNORECASE)
_WORD = re.compile(r"\bI(?=\s[a-z])|(?<![\\A-Za-z])[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ'’]+|[^\W\d_A-Za-zÀ-ɏͰ-Ͽ𝐀-𝟿²³¹¼-¾⁰-₟⅐-↏①-⓿]+")
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|mbox|textbf|operatorname|begin|end|textcolor|color)\s*\{[^{}]*\}")
_WORD_OF_ANSWERS = re.compile(
    r"and|or|per|percent|pct|million|billion|trillion|thousand|dozen|base|mod|choose|infinity|infty|inf|oo|pi|(?:arc)?(?:sin|cos|tan)h?"
    r"|cot|sec|csc|log|ln|exp|sqrt|floor|ceil|gcd|lcm|max|min|abs|det|sum|frac|theta|alpha|beta|lambda|am|pm|st|nd|rd|th|square|sq|cubic|cu"
    r"|cdot|times"
)
_SHORT_WORD = re.compile(r"I|is|of|to|so|it|we|the|are|was|has|not|but|for|out|if|all|old")  # of sentences
_MARKS = re.compile(r"\*\*|__|`")

# ---- the last number, or the formula at the end ----
_NUMBER = re.compile(  # a time or a ratio is one, not its last number
    r"(?<![\w.,/\\^√{(])(?<!\d:)(?:\d{1,4}(?::\d{1,4}){1,3}(?![\d:])(?:\s?[ap]\.?\s?m\b)?|[-−+]?(?:\\?[$€£¥₹]\s?)?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:\s*/\s*\d+)?"
    r"|[-−+]?\\[dt]?frac\{-?\d+\}\{\d+\})(?:\s*(?:\\?%|percent\b)|\s?(?:\^\\circ|°))?(?![\w^({\\]|\s*/|[.,]\d)"
)
_LAST_DIGIT = re.compile(r"\d(?=\D*\Z)")
_DELIMITER = re.compile(r"\$\$|(?<!\\)\$|\\[\[\]()]")
_CLOSER = {"$$": "$$", "$": "$", r"\[": r"\]", r"\(": r"\)"}
_LIST_JOINT = re.compile(r"[\s,;]*(?:\band\b|\bor\b|&)?[\s,;]*")
_AFTER_ANSWER = re.compile(
    r"(?:[\s.,;:!?*_`'\"$\)\]}。]|<\|[^|<>\n]{1,40}\|>|</?[a-z_]{1,20}>|\\[\])}]|\\end\{[a-z*]{1,12}\}|\\?%)*"
)


_Formula = tuple[int, int, str]  # start, end, inside


class _Box(NamedTuple):
    """Where a box begins with its command, where its content begins, and where that ends."""

    start: int
    content: int
    end: int


class RawAnswer(NamedTuple):
    """A raw final answer and where it ends in the response."""

    text: str
    end: int
    neighbours: tuple[str, ...] = ()  # the boxes beside the last one and it, in order, where there are several


def extract(response: str, extraction: str) -> RawAnswer | None:
    """Return the raw final answer of a response by an extraction of `VerifierConfig`, or None."""
    body, offset = response, 0
    if "<think>" in response or "</think>" in response:
        think_start, think_end = response.rfind("<think>"), response.rfind("</think>")
        if think_start > think_end:
            body = response[:think_start]
            think_end = body.rfind("</think>")
        if think_end >= 0:
            offset = think_end + len("</think>")
            answer = _extract(body[offset:], extraction)
            if answer is not None:
                return answer._replace(end=answer.end + offset)
            if any(map(str.isalnum, body[offset:])):
                return None  # it ends without an answer
    return _extract(body, extraction)


def ends_response(response: str, end: int) -> bool:
    """Return whether nothing but punctuation, closing delimiters and special tokens follows position `end`."""
    return len(response) - end <= _LINE_CHARS and _AFTER_ANSWER.fullmatch(response, end) is not None


def is_retracted(body: str, start: int, end: int) -> bool:
    """Return whether an answer stands behind a denial, or before a question mark or one."""
    denial = _DENIAL_BEFORE.search(body, max(0, start - _DENIAL_CHARS), start)
    return bool(denial or _QUESTION_MARK.match(body, end) or _REFUTATION.match(body, end))


def _extract(body: str, extraction: str) -> RawAnswer | None:
    box = _last_box(body)
    if extraction == "boxed":
        return box
    if box is not None:
        return _last_line(body, box.end, _LINE) or box
    answer = _last_line(body, max(0, len(body) - _TAIL_CHARS), _WORD_LINE) or _answer_line(body)
    return answer or (_last_value(body) if extraction == "any" else None)


def _last_match(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    newest = deque(matches, maxlen=1)
    return newest[0] if newest else None


# ---------------------------------------------------------------- boxes


def _last_box(body: str) -> RawAnswer | None:
    """Return the last box with the percent sign after it, and the boxes that stand beside it as in a list."""
    places = [place for place in (body.find("oxed"), body.find("fbox")) if place >= 0]
    if not places:
        return None
    begin = max(0, min(places) - _COMMAND_CHARS)
    boxes = [box for box in _boxes(body, begin) if not is_retracted(body, box.start, box.end + 1)]
    bare = _last_match(box for box in _BARE_BOX.finditer(body, begin) if not is_retracted(body, *box.span()))
    if bare is not None and (not boxes or bare.start() > boxes[-1].start):
        return RawAnswer(bare[1].rstrip("."), bare.end())
    if not boxes:
        return None
    last = boxes[-1]
    text, end = body[last.content : last.end], last.end + 1
    percent = _PERCENT.match(body, end, end + 40)
    if percent is not None:
        text, end = text + r"\%", percent.end()
    parts, stop = [text], last.start
    for box in boxes[-2 : -_MOST_NEIGHBOURS - 1 : -1]:
        if not _is_joint(body[box.end + 1 : stop]):
            break
        parts.append(body[box.content : box.end])
        stop = box.start
    return RawAnswer(text, end, tuple(reversed(parts)) if len(parts) > 1 else ())


def _boxes(body: str, begin: int) -> list[_Box]:
    """Return the balanced boxes that are not empty and stand in no other one, in order; one pass, since some may never close."""
    commands = {match.end() - 1: match.start() for match in _BOX.finditer(body, begin)}
    boxes: list[_Box] = []
    open_braces: list[int] = []
    for brace in _BRACE.finditer(body, min(commands, default=len(body))):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif brace[0] == "}" and open_braces:
            start = open_braces.pop()
            if start not in commands or _EMPTY.fullmatch(body, start + 1, brace.start()):
                continue
            while boxes and boxes[-1].start > start:
                boxes.pop()  # it stands in this one
            boxes.append(_Box(commands[start], start + 1, brace.start()))
    return boxes


def _is_joint(gap: str) -> bool:
    """Return whether the text between two boxes makes them items of one list."""
    return (
        len(gap) <= _JOINT_CHARS
        and "oxed" not in gap
        and not _CORRECTION.search(gap)
        and (_JOINT.fullmatch(gap) is not None or _JOINT_TAIL.search(gap) is not None)
    )


# ---------------------------------------------------------------- answer lines


def _last_line(body: str, begin: int, lines: re.Pattern[str]) -> RawAnswer | None:
    """Return the value of the last answer line behind `begin` that is not denied; None where it is empty or gives no value at once."""
    stop = len(body)
    for line in reversed(deque(lines.finditer(body, begin), maxlen=_MOST_LINES)):
        marker = _last_match(_MARKER.finditer(body, line.start(), min(stop, line.end() + len(_line(body, line.end())))))
        stop = line.start()
        answer = None if marker is None else _answer_behind(body, marker)
        if marker is None or (answer is None and any(map(str.isalnum, body[marker.end() :]))):
            continue
        if answer is None:
            return None
        position = body.find(answer.text, marker.end(), answer.end)
        explains = position < 0 or any(map(str.isalnum, body[marker.end() : position])) or _prose(answer.text)
        return None if explains else answer
    return None


def _answer_line(body: str) -> RawAnswer | None:
    """Return the value behind the last answer marker."""
    marker = _last_match(_MARKER.finditer(body, max(0, len(body) - _TAIL_CHARS)))
    return None if marker is None else _answer_behind(body, marker)


def _answer_behind(body: str, marker: re.Match[str]) -> RawAnswer | None:
    """Return the value on the line of an answer marker, or on the first line with content after it."""
    start, line = marker.end(), _line(body, marker.end())
    if body[max(0, start - 9) : start].rstrip(" :")[-1:] in ('"', "'") and (member := _JSON_MEMBER.match(line)):
        return RawAnswer(member[1] or member[2], start + member.end())
    if line.lstrip().startswith("}"):  # the marker stood in a `\text{}`
        start += line.index("}") + 1
        line = line.partition("}")[2].removesuffix(r"\]").removesuffix("$$")
    while not _SPECIAL_TOKEN.sub("", line).strip(" *_:\t\r$\\[(") and start + len(line) < len(body):
        start += len(line) + 1
        line = _line(body, start)
    if line.strip().startswith((r"\[", "$$")):
        display = _formulas(body[start : start + _LINE_CHARS])
        if display:
            return RawAnswer(display[0][2], start + display[0][1])
    return _value_on_line(line[:_LINE_CHARS], start)


def _line(body: str, start: int) -> str:
    end = body.find("\n", start)
    return body[start : end if end >= 0 else len(body)]


def _value_on_line(line: str, start: int) -> RawAnswer | None:
    """Return the value that an answer line gives: its formulas, else its first part that has a digit, else its words."""
    token = _SPECIAL_TOKEN.search(line)
    text = (line[: token.start()] if token else line).rstrip()
    sentence = _MARKS.sub("", _first_sentence(text.strip(" *_:\t\r"))).strip(" *_`\t")
    value = sentence
    if looks_like_code(text):
        value = text.strip()
    elif _DENIAL.match(sentence):
        return None
    elif opening := _OPENING.match(sentence):
        reason = sentence[opening.end() :].strip()
        whole = not _prose(reason) or ("," not in opening[0] and _OPTION_TEXT.fullmatch(reason))
        value = opening[1] or (sentence if whole else opening[2])
    elif formulas := _formulas(sentence):
        value = _formula_on_line(sentence, formulas)
    else:
        value = next((part for part in _parts(sentence) if any(map(_is_value, part))), sentence)
    if not value:
        return None
    place = line.find(value)
    if place >= 0 and _QUESTION_MARK.match(line, place + len(value)):
        return None
    return RawAnswer(value, start + (place + len(value) if place >= 0 else len(text)))


_GOES_ON = re.compile(r"[-+*/×÷=]|(?:,\s*(?:which|that)\s+)?(?:is|equals|has)\b")


def _formula_on_line(sentence: str, formulas: list[_Formula]) -> str:
    """Return the formulas that begin a sentence, where they have a value and nothing says what they make, else the last.

    `$5$, as $x=1$` begins with its answer; `for $x=1$ it is $5$`, `$3+4$, which is $7$` and `$3$ boxes + $4$ = $7$ boxes` end with it.
    """
    groups = _groups(sentence, formulas)
    first = groups[0]
    before, behind = sentence[: first[0][0]], sentence[first[-1][1] :].lstrip()
    has_value = any(_is_value(char) for _, _, inside in first for char in inside)
    between = "".join(sentence[end:start] for (_, end, _), (start, _, _) in pairwise(formulas[len(first) - 1 :]))
    goes_on = "=" in between or _GOES_ON.match(behind) is not None
    leads = has_value and not any(map(str.isalnum, before)) and not goes_on
    return _join(sentence, first if leads else groups[-1])


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text; a full stop inside a formula ends none."""
    marks = [place for place, char in enumerate(text) if char == "$"]
    count = 0
    for end in _SENTENCE_END.finditer(text):
        while count < len(marks) and marks[count] < end.start():
            count += 1
        if count % 2 == 0 and text[: end.start()].strip():
            return text[: end.start()]
    return text


def _is_value(char: str) -> bool:
    return char.isdigit() or char in "\\½⅓⅔¼¾√π"


def _prose(text: str) -> list[re.Match[str]]:
    """Return the words of a text that belong to no answer; none where all could be products of letters."""
    masked_text = _TEXT_COMMAND.sub(lambda match: "~" * len(match[0]), text) if "\\" in text else text
    words = [word for word in _WORD.finditer(masked_text) if not _is_answer_word(word[0].lower())]
    return (
        words
        if any(len(word[0]) > 3 or not word[0].isascii() or _SHORT_WORD.fullmatch(word[0]) for word in words)
        else []
    )


def _is_answer_word(word: str) -> bool:
    return _WORD_OF_ANSWERS.fullmatch(word) is not None or (_SHORT_WORD.fullmatch(word) is None and is_unit(word))


def _parts(text: str) -> list[str]:
    """Return what stands between the words of a text, without punctuation and brackets that close elsewhere."""
    words = _prose(text)
    starts, ends = [0, *(word.end() for word in words)], [*(word.start() for word in words), len(text)]
    parts = []
    for start, end in zip(starts, ends, strict=True):
        part = text[start:end].strip(" \t,;:!?*_`。，").removesuffix(".")
        for opening, closing in ("()", "[]"):
            if part.count(opening) != part.count(closing):
                part = part.strip(opening + closing + " ")
        parts.append(part)
    return parts


# ---------------------------------------------------------------- the end of the text


def _last_value(body: str) -> RawAnswer | None:
    """Return a response that is nothing but an answer, else the formula or the number that its text ends with."""
    tail_start = max(0, len(body) - _LINE_CHARS)
    tail = _SPECIAL_TOKEN.sub(lambda token: " " * len(token[0]), body[tail_start:]).rstrip()
    whole = _MARKS.sub("", tail).strip()
    if not whole or looks_like_code(tail):
        return RawAnswer(tail.strip(), len(body)) if whole else None
    formulas = _formulas(tail)
    digit = _LAST_DIGIT.search(tail)
    if formulas and (digit is None or formulas[-1][1] >= digit.end()):
        return RawAnswer(_join(tail, _groups(tail, formulas)[-1]), tail_start + formulas[-1][1])
    last_line = whole.rpartition("\n")[2].strip(" #")
    if (" " not in whole or not _prose(last_line)) and len(body) <= _LINE_CHARS:
        return RawAnswer(last_line, len(body.rstrip()))
    number = _last_match(_NUMBER.finditer(tail)) if digit is not None else None
    if number is None or digit is None or not number.start() <= digit.start() < number.end():
        return None  # there is none, or the last digit is part of something else
    return RawAnswer(number[0], tail_start + number.end())


def _formulas(text: str) -> list[_Formula]:
    """Return start, end and inside of the delimited formulas of a text, in one pass; inline ones do not span lines."""
    formulas: list[_Formula] = []
    opener: re.Match[str] | None = None
    for token in _DELIMITER.finditer(text):
        mark = token[0]
        if opener is not None and mark == _CLOSER[opener[0]]:
            inside = text[opener.end() : token.start()].strip()
            if inside and ("\n" not in inside or opener[0] in ("$$", r"\[")):
                formulas.append((opener.start(), token.end(), inside))
                opener = None
                continue
        if mark in _CLOSER:
            opener = token
    return formulas


def _groups(text: str, formulas: list[_Formula]) -> list[list[_Formula]]:
    """Return the formulas of a text as lists of those that a comma, `and` or `or` joins."""
    groups: list[list[_Formula]] = []
    for formula in formulas:
        if groups and _LIST_JOINT.fullmatch(text, groups[-1][-1][1], formula[0]):
            groups[-1].append(formula)
        else:
            groups.append([formula])
    return groups


def _join(text: str, group: list[_Formula]) -> str:
    """Return joined formulas as one text, with the percent sign behind them."""
    percent = _PERCENT.match(text, group[-1][1])
    return ", ".join(inside for _, _, inside in group) + (r"\%" if percent is not None else "")


MAX_CHARS = 4_096
MAX_DEPTH = 24
MAX_OPERATORS = 400
MAX_ITEMS = 1_000
MAX_DIGITS_RUN = 400
_CODE = re.compile(
    r"__[a-zA-Z]\w*__|(?<!\\)\blambda\b[^:\n]{0,60}:|\bimport\s+[a-z_.]+\s*(?:;|$|as\b|\n)|\bopen\s*\(\s*f?['\"]"
    r"|\b(?:exec|eval|getattr|setattr|globals|locals|compile|subprocess|sympify|os\.system|print)\s*\(|\breturn\("
)
_MEMBER = re.compile(r"\.\s*(?:__|mro\b|subs\b|doit\b|system\b|popen\b|read\b|write\b)")
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS_RUN + 1},}}")
_EXPONENT = r"(?:\{[^{}]*\}|\d+|\\[a-zA-Z]+|\w)"  # one brace group, number, command or letter
_TOWER = re.compile(rf"\^\s*{_EXPONENT}\s*\^|\^\s*[{{(]\s*{_EXPONENT}\s*\^")
_NESTED_FACTORIAL = re.compile(r"(?:!\s*\)?\s*){3}")
_NUMERIC_TOWER = re.compile(r"\d\s*\}?\s*\^\s*\{?\s*\(?\s*-?\d+\s*\}?\s*\^")
_EAGER = re.compile(r"\\operatorname\s*\{\s*(?:SVD|eig|rref)|\\xRightarrow|\\(?:det|SVD|rref)\b")
_LARGEST = (
    ("^", re.compile(r"\^\s*\{?\s*\(?\s*[+-]?\s*(\d+)"), 9_999),
    ("!", re.compile(r"(\d+)\s*\)?\s*!"), 3_000),
    ("Gamma", re.compile(r"\\Gamma\s*\(?\s*\{?\s*(\d+)"), 3_000),
    ("binom", re.compile(r"\\[dt]?binom\s*\{?\s*(\d+)"), 3_000),
    ("\\", re.compile(r"\\(?:sum|prod)(?:_\s*\{[^{}]*\})?\s*\^\s*\{?\s*(\d+)"), 9_999),
)


def over_limit(text: str) -> bool:
    """Return whether a text must not reach a parser: too long, nested too deeply, beyond a size, or program code."""
    return (
        len(text) > MAX_CHARS
        or _DIGITS.search(text) is not None
        or _depth(text) > MAX_DEPTH
        or sum(map(text.count, ",;&")) > MAX_ITEMS
        or sum(map(text.count, "+-*/^=<>!")) > MAX_OPERATORS
        or looks_like_code(text)
        or _too_large(text)
    )


def looks_like_code(text: str) -> bool:
    """Return whether a text is program code, of which no part may be taken for an answer."""
    may_be = "(" in text or "__" in text or "import" in text or "lambda" in text
    return (may_be and _CODE.search(text) is not None) or _MEMBER.search(text) is not None


def _too_large(text: str) -> bool:
    towers = _NUMERIC_TOWER.search(text) or (text.count("^") > 3 and _TOWER.search(text))
    if towers or _NESTED_FACTORIAL.search(text) or _EAGER.search(text):
        return True
    return any(
        int(match[1].lstrip("0")[:9] or 0) > most
        for mark, pattern, most in _LARGEST
        if mark in text
        for match in pattern.finditer(text)
    )


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")}]":
            depth = max(0, depth - 1)
    return deepest
