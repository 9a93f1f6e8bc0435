r"""One tokenizer for answers as people write them: Unicode, LaTeX, plain formulas, Markdown and words.

The tokens are nested: what stands between two brackets is the items of one token. Spacing, fonts and sizes are gone, `\dfrac`, `\tfrac`
and `frac` are one command, a number is one token (`1,234`, `2\frac12`, `3\times 10^5`, `0.\overline{3}`), and `render` writes LaTeX again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from harness.verify.read import words
from harness.verify.read.symbols import FONTS, LETTERS, SPELLED, SYMBOLS, TEXT_FONTS, fold, restore_escapes

MAX_CHARS = 4_096
MAX_DEPTH = 24
MAX_TOKENS = 2_000
MAX_DIGITS = 400

# What is gone before the text is read: colours and what is not seen, environments and tags of layout, fonts that are no text.
_DRESS = re.compile(
    r"\\(?:(?:text)?color|colorbox|[hv]?phantom|label|tag|[hv]space\*?)\s*\{[^{}]*\}|&nbsp;"
    r"|\\(?:begin|end)\s*\{(?:align|aligned|equation|gather|gathered|split|displaymath|math|center)\*?\}"
    r"|</?(?:b|i|em|strong|u|p|br|span|code|mark|div|h\d|(?:final_)?answer)\s*/?>|\\(?:"
    + "|".join(sorted(FONTS - TEXT_FONTS))
    + r")\s*(?=\{)"
)
_MATRIX = re.compile(
    r"\\begin\s*\{([pb]?(?:small)?matrix|array|cases)\}(?:\s*\{[lcr| ]*\})?(.*?)\\end\s*\{\1\}", re.DOTALL
)
_PRIMES = re.compile(r"\^\s*(?:\{\s*(?:\\prime\s*)+\}|\\prime)")
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z{}])")
_MONEY = re.compile(r"(?<!\\)\$(?=\d[^$\s]*(?:\s[^$]*)?$|\d[^$\s]*\s(?:[^$]*\s)?\$\d)")
_GROUPING = r"(?:,|\{,\}|,\\! ?|\\[,;!: ]|[' ~])"
NUMBER = (
    rf"(?P<grouped>(?<!\d)(?<!\d,)[1-9](?:\d{{0,2}}(?:{_GROUPING}\d{{3}})+|\d?(?:,\d\d)+,\d{{3}})(?:\.\d+)?(?!,?\d))"
    r"|(?P<european>(?<![\d.])[1-9]\d{0,2}(?:(?:\.\d{3}){2,}|(?:\.\d{3})+,\d{1,2})(?![\d,]))"
    r"|(?P<repeating>\d*\.\d*(?:\\(?:overline|bar|dot)\s*\{?\d+\}?|\(\d+\)))"
    r"|(?P<mixed>\d+(?:\s*\\[dtc]?frac\s*(?:\{\s*\d+\s*\}\s*\{\s*\d+\s*\}|\d\d(?!\d))| +\d+\s*/\s*\d+(?!\d)))"
    r"|(?P<scientific>(?<![\d.,])(?:\d+(?:\.\d*)?[eE][+-]?\d{1,3}(?!\.?\d|[A-Za-z])"
    r"|[1-9](?:\.\d+)?\s*\{?(?:\\times|\\cdot|[*x×])\s*\}?\s*10\s*(?:\^|\*\*)\s*(?:\{\s*[+-]?\d{1,3}\s*\}|[+-]?\d{1,3}(?!\d))))"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)"
)
_TOKEN = re.compile(
    r"(?P<power>(?<=[A-Za-z0-9)}])\*\*(?=[A-Za-z0-9({-]))|(?P<space>(?:\s|~|\\[\\,;:!> \n]|\*\*\*?|__|[`\"#]|^==|==$)+)"
    rf"|{NUMBER}|\\(?P<text>{'|'.join(sorted(TEXT_FONTS))})\*?\s*\{{"
    r"|(?P<environment>\\begin\s*\{(?P<kind>\w+)\}.*?\\end\s*\{(?P=kind)\})|(?P<degree>\^\s*(?:(?:\\circ|\\degrees?|o)(?![a-zA-Z])|\{\s*(?:\\circ|\\degrees?|o)(?![a-zA-Z])\s*\}))"
    r"|\\(?:mathbb|Bbb)\s*(?P<field>\{[^{}]*\}|\w)|(?P<ne>\\not\s*=)|\\(?P<command>[a-zA-Z]+|.|$)"
    # An article; two letters that are a word with spaces around them and no operator beside those; `4.5 x 10`; `5 m` at the end.
    r"|(?P<word>(?<!\S)(?<!option )(?<!choice )(?<!answer )(?<!is )[aAI](?= (?!(?:and|or|is)\b)[a-z]{3})"
    rf"|(?<!\S)(?<![+*/^_=<>] )(?i:{'|'.join(sorted(words.LITTLE_WORDS))})(?=[\s.,;:?!$]|$)(?!\s*(?:[+/^=<>]|\*(?!\*)))"
    r"|(?<=[\d)}] )[mgshl](?=[\s.,;)}$]|/[a-z]|$))|(?P<times>(?<=\d )[xX](?= ?\d))"
    r"|(?P<ordinal>(?:(?<=1)st|(?<=2)nd|(?<=3)rd|(?<=[04-9])th|(?<=1[1-3])th)(?![a-zA-Z]|\s*[-+*/^=])"
    r"|(?<=\d)\^\s*\{?\s*(?:\\(?:text|mathrm)\s*\{)?\s*(?:st|nd|rd|th)\s*\}{0,2})"
    r"|(?P<letters>[^\W\d_]+(?:'(?:t|s|re|ve|ll|d|m)(?![a-zA-Z]))?(?:(?<=\be)\.g|(?<=\bi)\.e|(?<=\b[ap])\.?\s?m(?![a-zA-Z]))?)"
    r"|(?P<dash>—|–(?=\s)|--+)|(?P<quote>(?<![\w)}'])'|'(?=\w{2}))"
    r"|(?P<mark>(?<=[\d)}\]])!(?==)|<=|>=|=<|!=|==|:=|&[lg][te];|\.\.\.|\+/-|\$\$|.)",
    re.DOTALL,
)
_FIRST_TERM = re.compile(r"[+-]?[\d.]+")
_PARTNERS = {")": ("(", "["), "]": ("(", "["), "}": ("{", "text"), r"\}": (r"\{",), "|": ("|",)}
_PARTNERS |= {r"\rfloor": (r"\lfloor",), r"\rceil": (r"\lceil",)}
_OPERANDS = frozenset(("number", "name", "letters", "group", "word"))


class OverLimit(RecursionError):
    """A text that no grammar reads: too long, with too long a number, or nested too deeply, as Python's own error says it."""


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: `number`, `name`, `letters` (that may be a product), `word`, `operator`, `relation`, `separator`, `command`, `group`, `mark`.
        text: canonical; of a group its opening bracket, of a matrix its name.
        spaced: white space stands before it.
        upright: it stands in a text, not in a formula.
        items: of a group.
        raw: as it was written: a number with commas, a word with its capitals; of a group its closing bracket.
    """

    kind: str
    text: str
    spaced: bool = False
    upright: bool = False
    items: tuple[Token, ...] = ()
    raw: str = ""


@lru_cache(maxsize=20_000)
def tokenize(text: str) -> tuple[Token, ...]:
    """Return the nested tokens of a text. Raises `OverLimit`."""
    if len(text) > MAX_CHARS:
        raise OverLimit
    text = fold(restore_escapes(text))
    if "\\" in text or "<" in text or "&" in text:
        text = _MATRIX.sub(_as_tuple, text)
        text = _DOUBLED.sub(r"\\", _DRESS.sub(" ", _PRIMES.sub(lambda match: "'" * match[0].count("e"), text)))
    return _Scanner(_MONEY.sub(r"\\$", text) if "$" in text else text).tokens()


def _as_tuple(matrix: re.Match[str]) -> str:
    r"""Write a column or a row as a tuple, other matrices as tuples of rows, and cases as a set of pairs, or a list."""
    rows = [row.strip().split("&") for row in re.split(r"\\\\(?:\[[\w.]+\])?", matrix[2]) if row.strip()]
    if matrix[1] == "cases":
        rows = [
            [cell.strip(" ,").removeprefix(r"\text{if").removeprefix(" }").lstrip("}") for cell in row] for row in rows
        ]
    tuples = [f"({','.join(row)})" if len(row) > 1 else row[0] for row in rows]
    if matrix[1] == "cases":
        return rf"\{{{','.join(tuples)}\}}" if "&" in matrix[2] else ",".join(tuples)
    return matrix[0] if not rows else tuples[0] if len(rows) == 1 else f"({','.join(tuples)})"


class _Frame(NamedTuple):
    """An open bracket with what stands behind it so far; a text leaves no bracket."""

    opening: str
    spaced: bool
    upright: list[bool]
    items: list[Token]


class _Scanner:
    """Reads a text from left to right, once; `frames` are the brackets that are open."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.count = text, 0, 0
        self.is_delimited = "$" in text.replace(r"\$", "") or r"\(" in text or r"\[" in text
        self.frames = [_Frame("", True, [self.is_delimited], [])]
        self.spaced = True

    def tokens(self) -> tuple[Token, ...]:
        for match in _TOKEN.finditer(self.text):
            self.position, kind = match.end(), match.lastgroup or ""
            if kind in _SIMPLE:
                self._put(*SYMBOLS[_SIMPLE[kind]])
            elif kind == "word":
                self._put("word", match[0] if match[0] in words.UNIT_LETTERS else match[0].lower(), match[0])
            elif kind == "environment":
                self._put("command", "".join(match[0].split()))  # a matrix: Math-Verify reads it
            elif kind == "text":
                self._open("text", True)
            elif kind == "field":
                self._put("name", rf"\mathbb{{{match['field'].strip('{ }')}}}")
            elif kind == "letters":
                self._letters(match[0])
            elif kind in ("command", "mark"):
                self._symbol(match[kind], kind == "command")
            else:
                is_grouped = kind == "grouped" and not {"{", "\\"} & set(match[0]) and "," in match[0]
                number = _number(kind, match[0])
                self._put("number" if number else "mark", number or match[0], match[0] if is_grouped else "")
        while len(self.frames) > 1:
            self._splice()
        return _settled(self.frames[0].items)

    def _put(self, kind: str, text: str, raw: str = "", items: tuple[Token, ...] = ()) -> None:
        if kind == "space":
            self.spaced = True
            return
        self.count += 1
        if self.count > MAX_TOKENS or (kind == "number" and len(text) > MAX_DIGITS):
            raise OverLimit
        frame = self.frames[-1]
        frame.items.append(Token(kind, text, self.spaced, frame.upright[0], items, raw))
        self.spaced = False

    def _last(self) -> Token | None:
        frame = next(frame for frame in reversed(self.frames) if frame.items or frame.opening != "text")
        return frame.items[-1] if frame.items else None

    def _is_behind_operand(self) -> bool:
        last = self._last()
        return last is not None and (last.kind in _OPERANDS or last.text in ("!", "%", "'", "degree"))

    def _symbol(self, name: str, is_command: bool) -> None:
        r"""Put a command, a bracket or another sign; dollars and `\(` begin or end a formula."""
        upright = self.frames[-1].upright
        if name in (("(", "[", ")", "]") if is_command else ("$", "$$")):
            upright[0], self.spaced = name in ")]" or (name[0] == "$" and not upright[0]), True
            return
        otherwise = ("command" if name.isalpha() else "mark", f"\\{name}" if is_command else name)
        kind, text = SYMBOLS.get(f"\\{name}" if is_command and name in ("{", "}") else name, otherwise)
        if name.startswith("var") and f"\\{name[3:]}" in self.text:
            kind, text = "name", otherwise[1]  # beside the other shape it is another letter
        if kind == "bar":
            kind = "close" if self.frames[-1].opening == "|" and self._is_behind_operand() else "open"
        if kind == "open":
            self._open(text)
        elif kind == "close":
            self._close(text)
        else:
            self._put(kind, text, "$" if text == "!" and self.is_delimited and not upright[0] else "")

    def _open(self, opening: str, upright: bool = False) -> None:
        if len(self.frames) > MAX_DEPTH:
            raise OverLimit
        self.frames.append(_Frame(opening, self.spaced, [self.frames[-1].upright[0] or upright], []))
        self.spaced = opening == "text"

    def _close(self, closing: str) -> None:
        """Close the innermost bracket that fits; those inside it that stay open are no brackets."""
        fits = _PARTNERS[closing]
        place = len(self.frames) - 1
        while place and self.frames[place].opening not in fits:
            # Braces hold everything but `\text{ (or } 5)`; no other bracket closes beyond one.
            place = 0 if self.frames[place].opening == "{" else place - 1
        if not place:
            self._put("mark", closing)
            return
        while len(self.frames) - 1 > place and self.frames[place].opening != "text":
            self._splice()
        frame = self.frames.pop(place)
        for inner in self.frames[place:]:
            inner.upright[0] = self.frames[place - 1].upright[0]
        items, last = _settled(frame.items), self._last()
        is_sign = frame.opening == "{" and len(items) == 1 and items[0].kind not in _OPERANDS
        is_argument = last is not None and (last.kind == "command" or last.text in ("^", "_"))
        if frame.opening == "text" or (is_sign and not is_argument):  # braces around one sign are none
            self.frames[place - 1].items.extend(items)
            self.spaced = self.spaced or frame.upright[0]
        else:
            self.spaced = frame.spaced
            self._put("group", frame.opening, closing, items)

    def _splice(self) -> None:
        frame = self.frames.pop()
        if frame.opening != "text":
            self.frames[-1].items.append(Token("mark", frame.opening, frame.spaced))
        self.frames[-1].items.extend(frame.items)

    def _letters(self, run: str) -> None:
        last = self._last()
        small, upright = run.lower(), self.frames[-1].upright[0]
        is_called = self.text[self.position : self.position + 2].strip("}")[:1] in ("(", "{")
        is_joined = self._is_behind_operand() or (last is not None and last.text in ("/", "*", "-"))
        is_measured = last is not None and last.kind != "name" and is_joined
        is_unit = is_measured and (words.unit_of(small) if len(run) > 1 else upright and run in words.UNIT_LETTERS)
        if run in LETTERS or (run in SYMBOLS and SYMBOLS[run][0] == "command" and is_called):
            self._put(*SYMBOLS[run])
        elif small in SPELLED:
            self._put(*SPELLED[small])
        elif is_unit or (len(run) > 1 and (upright or words.is_word(small))) or not (run.isascii() and run.isalpha()):
            self._put("word", run if len(run) == 1 else small, run)
        else:
            self._put("name" if len(run) == 1 or run.isupper() else "letters", run)


def _settled(items: list[Token]) -> tuple[Token, ...]:
    r"""Return tokens in which letters beside words are a word (`12 red apples`, `es 5`), and `{a \over b}` is `\frac{a}{b}`."""
    for place in range(len(items) - 2, -1, -1):
        token, follower = items[place], items[place + 1]
        is_told = place and items[place - 1].kind == "word" and follower.spaced and follower.kind == "number"
        if token.kind == "letters" and token.spaced and (is_told or follower.kind == "word"):
            items[place] = token._replace(kind="word", raw=token.text)
        elif token.text in _INFIX:
            sides = (Token("group", "{", items=tuple(side), raw="}") for side in (items[:place], items[place + 1 :]))
            return (Token("command", _INFIX[token.text]), *sides)
    return tuple(items)


_INFIX = {r"\over": r"\frac", r"\choose": r"\binom"}
# What is one sign, however it is written, by its name among `SYMBOLS`; the first three say nothing.
_SIMPLE = dict.fromkeys(("space", "quote", "ordinal"), "")
_SIMPLE |= {"power": "^", "degree": "degree", "times": "*", "dash": "—", "ne": "!="}


def _number(kind: str, text: str) -> str:
    """Return a number in the notation that `expressions.number` reads; `4 10/3` is none."""
    parts = _FIRST_TERM.findall(text)
    if kind == "european":
        return text.replace(".", "").replace(",", ".")
    if kind == "repeating":
        return rf"{parts[0]}\overline{{{parts[1]}}}"
    if kind == "mixed":
        top, bottom = parts[1:] if len(parts) == 3 else parts[1]
        return rf"{parts[0]}\frac{{{top}}}{{{bottom}}}" if int(top) < int(bottom) else ""
    if kind == "scientific":
        return rf"{parts[0]}\times 10^{{{int(parts[-1])}}}"
    return "".join(char for char in text if char.isdigit() or char == ".")


def split(tokens: Sequence[Token], kind: str, *texts: str) -> tuple[list[list[Token]], list[str]]:
    """Return the parts between tokens of a kind, or those of them with these texts, and what the tokens say."""
    parts: list[list[Token]] = [[]]
    separators = []
    for token in tokens:
        if token.kind == kind and (not texts or token.text in texts):
            separators.append(token.text)
            parts.append([])
        else:
            parts[-1].append(token)
    return parts, separators


_PRINTED = {"degree": r"^\circ", "and": " and ", "or": " or ", "%": r"\%", r"\surd": r"\sqrt"}


def render(tokens: Iterable[Token]) -> str:
    """Return tokens as LaTeX."""
    text = ""
    for token in tokens:
        piece = token.raw or token.text if token.kind in ("number", "word") else _PRINTED.get(token.text, token.text)
        if token.kind == "group":
            piece = f"{token.text}{render(token.items)}{token.raw}"
        elif token.kind == "word":
            piece = f" {piece} "
        ends_with_command = text[-1:].isalpha() and text.rpartition("\\")[2].isalpha() and "\\" in text
        touches = text[-1:].isalnum() and piece[:1].isalnum() and (token.spaced or ends_with_command)
        text += f" {piece}" if touches or (token.spaced and text[-1:] in (",", ";", ".", ":", ")")) else piece
    return " ".join(text.split())
