"""Text from files as a terminal, a spreadsheet, Markdown and a page may have it: what a stranger wrote is shown, and does nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

_PICTURES = 0x2400  # Unicode's pictures of the first 32 control characters stand here in the same order

# Control characters but tab and newline, those that turn the direction of text, and halves of characters.
_HIDDEN = {
    code: chr(_PICTURES + code) if code < 32 else "\u2421" if code == 0x7F else "\ufffd"
    for code in [
        *range(0xA0),
        *range(0x200E, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    ]
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and chr(code) not in "\t\n"
}
_ANY_HIDDEN = re.compile(f"[{re.escape(''.join(map(chr, _HIDDEN)))}]")
# A spreadsheet computes what begins so. A sign alone begins a number or a label such as `+ clip-higher`.
_FORMULA = re.compile(r"\s*(?:[=@]|[+-](?=.*[(|!=]))", re.DOTALL)
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])\(")  # a tag; the address of a link or an image


def visible(text: str) -> str:
    """Return a text whose control characters are pictures of themselves; tabs and newlines stay."""
    return text if text.isascii() and text.isprintable() else text.translate(_HIDDEN)


def escape_json(text: str) -> str:
    """Return JSON whose control characters are escapes: it means the same."""
    return re.sub(_ANY_HIDDEN, lambda match: f"\\u{ord(match[0]):04x}", text)


def markdown(text: str) -> str:
    """Return a text that brings no tag and no link into Markdown."""
    return _MARKUP.sub(r"\\\g<0>", visible(text))


def csv_text(frame: pd.DataFrame) -> str:
    """Return a frame as CSV with Unix line ends; a cell that a spreadsheet would compute begins with an apostrophe."""
    plain = frame.rename(columns=_escape_cell)
    for place, kind in enumerate(plain.dtypes):
        if kind.kind not in "biufM":
            column = plain.iloc[:, place]
            texts = [value for value in column.unique() if isinstance(value, str)]
            replacements = {text: cell for text in texts if (cell := _escape_cell(text)) != text}
            if replacements:
                plain.isetitem(place, [replacements.get(value, value) for value in column])
    return plain.to_csv(index=False, lineterminator="\n")


def _escape_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if _FORMULA.match(value) else visible(value)


class VisibleStream:
    """A stream of text to a terminal that shows control characters instead of sending them; `raw_stream` sends those of this program."""

    def __init__(self, stream: TextIO) -> None:
        self.raw_stream: TextIO = stream

    def write(self, text: str) -> int:
        """Write a text; a carriage return may begin it, as that of a progress bar does."""
        start = text[:1] if text[:1] == "\r" else ""
        return self.raw_stream.write(start + visible(text[len(start) :]))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw_stream, name)


def raw_stream(stream: TextIO) -> TextIO:
    """Return the stream below, for a writer that shows control characters of others itself."""
    return stream.raw_stream if isinstance(stream, VisibleStream) else stream
