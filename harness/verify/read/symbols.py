"""Tables of signs: what a Unicode character and a LaTeX command stand for; they are in `symbols.json`."""

import json
import re
import unicodedata
from pathlib import Path

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
GREEK = list(_DATA["greek"].values())
_TABLE = str.maketrans(_DATA["signs"] | {char: rf"\{name} " for char, name in _DATA["greek"].items()})
_SLANTED = re.compile("(?<![⁰¹²³⁴-⁹])[⁰¹²³⁴-⁹]+⁄[₀-₉]+")  # ⁷⁄₁₂


def fold(text: str) -> str:
    """Return a text with Unicode as ASCII and LaTeX; marks of direction, emoji and characters of no width are gone."""
    if text.isascii():
        return text
    text = _SLANTED.sub(lambda match: f" {unicodedata.normalize('NFKC', match[0])} ", text)
    text = text.translate(_TABLE).replace("}^{", "").replace("}_{", "")
    text = unicodedata.normalize("NFKC", text).translate(_TABLE)
    seen = (char for char in text if char.isascii() or unicodedata.category(char) not in ("Cf", "Mc", "Mn", "So"))
    return "".join(str(unicodedata.decimal(char, char)) for char in seen)


_NAMES = {"\\" + name: f"{name} var{name}" for name in {*GREEK, "infty"}}
_COMMANDS = {"\\" + name: name for name in _DATA["functions"].split()}
# What a command or a sign is: (kind of token, its text). A `space` says nothing.
SYMBOLS: dict[str, tuple[str, str]] = {
    name: (kind, text)
    for kind, rows in _DATA["kinds"].items()
    for text, names in (rows | {"name": _NAMES, "command": _COMMANDS}.get(kind, {})).items()
    for name in names.split()
}
SYMBOLS |= {"$": ("mark", r"\$"), "": ("space", ""), "varpi": ("name", r"\varpi")}
LETTERS = frozenset(  # what letters without a backslash are commands and names as well
    name for name, (kind, text) in SYMBOLS.items() if name.isalpha() and kind in ("command", "name") and name not in ("O", "bar", "dot")
) - {"max", "min", "sec", "floor", "abs"}  # fmt: skip
SPELLED: dict[str, tuple[str, str]] = {word: (kind, text) for word, (kind, text) in _DATA["spelled"].items()}
TEXT_FONTS = frozenset(_DATA["text_fonts"].split())
FONTS = TEXT_FONTS.union(_DATA["fonts"].split())

# What JSON and Python make of a backslash and a letter, and the commands that begin so. Nobody writes the first four on purpose; a tab, a
# line end or a return is one unless the rest of a command follows.
_EATEN = {"\x0c": "f", "\x08": "b", "\x0b": "v", "\x07": "a", "\t": "t", "\r": "r", "\n": "n"}
_LOST = re.compile(  # it begins with one sign of a set, which makes the search fast
    "[\x07-\r](?:(?<=[\x0c\x08\x0b\x07])(?=[A-Za-z])"
    "|(?<=\t)(?=(?:ext(?:bf|it|rm|tt)?|imes|heta|an|au|frac|herefore|riangle|ilde|op)(?![A-Za-z]))"
    "|(?<=\r)(?=(?:ight|ho|angle|floor|ceil|brace)(?![A-Za-z]))"
    "|(?<=\n)(?=(?:eq|abla|otin|eg|ewline)(?![A-Za-z])))"
)


def restore_escapes(text: str) -> str:
    r"""Put back the backslashes of commands that JSON or Python took for escapes: a form feed and `rac` is `\frac`."""
    return _LOST.sub(lambda match: f"\\{_EATEN[match[0]]}", text)
