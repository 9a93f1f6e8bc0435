"""Text of an answer made canonical: Unicode folded to LaTeX, wrappers off, spacing and synonyms unified.

Purely textual and linear; nothing is evaluated. What the text means is read by `numbers` and `nodes`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

_FROM_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_FROM_SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n")
_SUPER_RUN = re.compile(f"[{''.join(map(chr, _FROM_SUPER))}]+")
_SUB_RUN = re.compile(f"[{''.join(map(chr, _FROM_SUB))}]+")
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "θ": "theta", "λ": "lambda", "μ": "mu",
    "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "varphi", "ϕ": "phi", "ω": "omega", "ψ": "psi",
    "ϵ": "epsilon", "ϑ": "vartheta", "κ": "kappa", "ϰ": "varkappa", "ϱ": "varrho", "ς": "varsigma",
    "Δ": "Delta", "Ω": "Omega", "Γ": "Gamma", "Σ": "Sigma", "Π": "Pi",
}  # fmt: skip
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "÷": "/", "∕": "/", "⁄": "/", "·": r"\cdot ",
    "⋅": r"\cdot ", "∙": r"\cdot ", "•": r"\cdot ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "≈": r"\approx ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∉": r"\notin ", "±": r"\pm ", "∓": r"\mp ",
    "°": r"^\circ ", "º": r"^\circ ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}",
    "∨": r"\vee ", "∧": r"\wedge ",
    "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "…": r"\ldots ", "⋯": r"\ldots ", "∠": r"\angle ", "△": r"\triangle ",
    "∑": r"\sum ", "∫": r"\int ", "→": r"\to ", "，": ",", "。": ".", "；": ";", "：": ":", "、": ",", "％": "%",
    "٫": ".", "٬": ",", "∖": r"\setminus ", "∣": "|", "⟨": "(", "⟩": ")",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
}  # fmt: skip
_TABLE = str.maketrans(
    {k: rf"\{v} " for k, v in _GREEK.items()}
    | _SYMBOLS
    | {k: f" {v} " for k, v in _VULGAR.items()}
    | dict.fromkeys("\x00\x01\x02\x03\x04\x05\x06\x07", "")
)
_EATEN_ESCAPES = {"\x0crac": r"\frac", "\x0cbox": r"\fbox", "\x08inom": r"\binom", "\x08egin": r"\begin"}
_SOLIDUS = re.compile("(?<![⁰¹²³⁴-⁹])([⁰¹²³⁴-⁹]+)[⁄/∕]([₀-₉]+)")
_ROOT = re.compile(r"[√∛]\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+(?:\.\d+)?|[a-zA-Z]))")

_SPACES = re.compile(
    r"(?:(?<!\\)\\[,;:>! ]|\\q?quad|\\(?:hspace|hskip|vspace)\*?\s*\{[^{}]*\}|\\(?:thin|med|thick|enspace|neg)space\b|(?<!\\)~|\s)+"
)
_SIZES = re.compile(
    r"\\(?:left|right|bigg?[lrm]?|Bigg?[lrm]?|middle)(?![a-zA-Z])\s*(?:\.(?!\d))?"
    r"|\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|rm|bf|it|mathstrut|strut|hfill)(?![a-zA-Z])"
)
_INVISIBLE = re.compile(
    r"\\(?:[hv]?phantom|tag\*?|label|color|hspace\*?|vspace\*?)\s*\{[^{}]*\}|\\(?:textcolor|colorbox)\s*\{[^{}]*\}\s*(?=\{)"
    r"|\\(?:begin|end)\s*\{(?:align|aligned|equation|gather|gathered|split|displaymath|math|center)\*?\}"
)
_TAG = re.compile(r"</?(?:b|strong|i|em|br|p|span|u)\s*/?>|&nbsp;")
_SCRIPT_TAG = re.compile(r"<(su[pb])>([^<>]*)</\1>")
_OLD_FONT = re.compile(r"\{\s*\\(?:rm|bf|it|tt|sf)\s+([^{}]*)\}")
_FRACTION_NAME = re.compile(r"\\(?:[dtc]frac|nicefrac|sfrac)(?![a-zA-Z])")
_OVER = re.compile(r"(?:\{|^)\s*([^{}]*?)\s*\\over(?![a-z])\s*([^{}]*?)\s*(?:\}|$)")
_TEXT_NAME = re.compile(
    r"\\(?:mbox|hbox|textnormal|textrm|textbf|textit|textsf|texttt|mathrm|mathbf|mathit|mathsf|operatorname|bm|boldsymbol|emph|mathbfit)\*?\s*\{"
)
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_DOUBLE_COMMAND = re.compile(
    r"(?<!\\)\\\\(?=(?:d?frac|sqrt|left|right|text|boxed|pi|cdot|times|le|ge|pm|infty|cup|in|circ|%|ldots|dots|begin|end|theta|alpha|angle|mathrm|sin|cos|tan|log|ln|binom)(?![a-z]))"
)
_FRAC_ARGUMENT = re.compile(r"\\frac\s*(?:(\d|[a-zA-Z])\s*(\d|[a-zA-Z])|(\d|[a-zA-Z])\s*(?=\{))")
_FRAC_TAIL = re.compile(r"(\\frac\s*\{[^{}]*\})\s*(\d|[a-zA-Z])")
_ROOT_ARGUMENT = re.compile(r"\\sqrt\s*(\d|[a-zA-Z](?![a-zA-Z]))")
_BARE_FRACTION = re.compile(r"(?<![a-zA-Z\\])[dt]?frac\s*(?=\{)")
_FUNCTION_ROOT = re.compile(r"(?<![a-zA-Z\\])sqrt\s*(?=[({])")
_BRACE_OR_ESCAPE = re.compile(r"\\.|[{}]", re.DOTALL)
_BRACED_SIGN = re.compile(  # `4{:}30`, `{-}7`, `\mathbin{+}`; a sign that is raised or lowered is its own
    r"(?<![\^_])(?<!text)(?<!mathrm)(?<!mbox)(?<!operatorname)\s*(?:\\math(?:bin|rel|op|ord|punct|open|close)\s*)?"
    r"\{\s*([-,.:;=<>+*/!]|\\(?:times|cdot|div|pm|mp|colon|[lg]eq?|[lg]t|neq?|approx|in|cup|cap|to|%)(?![a-zA-Z])\s*)\s*\}"
)
_ALTERNATIVE = re.compile(
    r"(?<=[\w})\]])\s*(?:或者|或|または|又は|もしくは|또는|혹은|(?<=[\s\d)}])или(?=[\s\d({]))\s*(?=[\w(\[{\\+-])"
)
_CONJUNCTION = re.compile(
    r"(?<=[\w})\]])\s*(?:以及|和|与|與|及|并且|且|および|及び|그리고|(?<=\d)(?:と|와|과)|(?<=[\s\d)}])и(?=[\s\d({]))\s*(?=[\w(\[{\\+-])"
)
_SHAPES = {
    name: re.compile(rf"\\var{name}(?![a-zA-Z])") for name in ("epsilon", "theta", "kappa", "rho", "sigma", "phi")
}
_BRACKETS = {"lbrace": r"\{", "rbrace": r"\}", "lbrack": "[", "rbrack": "]", "langle": "(", "rangle": ")"}
_NUMBER_WORD = (
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|eighty|hundred|thousand"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|seventy|ninety)"
)


def _ordinal(match: re.Match[str]) -> str:
    """`21st` is 21; `6st` is a product, and `3st`."""
    number = match[1]
    suffix = "th" if number[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")
    return number if match[2] == suffix else match[0]


_SYNONYMS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\leqq?(?:slant)?(?![a-z])|<=|=<|\\leqslant|&le;"), r"\\le "),
    (re.compile(r"\\geqq?(?:slant)?(?![a-z])|>=|\\geqslant|&ge;"), r"\\ge "),
    (re.compile(r"\\neq(?![a-z])|!=|\\not\s*="), r"\\ne "),
    (re.compile(r"\\lt(?![a-z])|&lt;"), "<"),
    (re.compile(r"\\gt(?![a-z])|&gt;"), ">"),
    (re.compile(r"\\(?:varnothing|O(?![a-z]))|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"\\(?:dots[cbmio]?|cdots|ldots)(?![a-z])|\.\.\.+"), r"\\ldots "),
    (re.compile(r"\\mathbf\s*\{([RZNQC])\}|\\(?:Bbb|bb)\s*\{?([RZNQC])\}?|\\mathbb\s*([RZNQC])(?![a-zA-Z])"), r"\\mathbb{\1\2\3}"),
    (re.compile(r"\\(?:mathcal|mathscr|mathfrak)\s*(?:\{\s*([A-Za-z])\s*\}|([A-Za-z])(?![a-zA-Z]))"), r" \1\2 "),
    (re.compile(r"\\([lr]vert|vert|mid|[lr]brace|[lr]brack|[lr]angle)(?![a-z])"), lambda match: _BRACKETS.get(match[1], "|")),
    (re.compile(r"\^\s*\{\s*\\(?:circ|degree)\s*\}|\^\s*\\circ|\^?\s*\\degrees?(?![a-z])"), r"^\\circ "),
    (re.compile(r"\^\s*\{?\s*o\s*\}?(?![a-z0-9])"), r"^\\circ "),
    (re.compile(r"\\(?:cdot|times)\s*(?=10\s*\^)|(?<=\d)\s*[xX]\s*(?=10\s*\^)|(?<=\d)\s*\*\s*(?=10\s*(?:\^|\*\*))"), r"\\times "),
    (re.compile(r"\\text\s*\{\s*\\\$\s*\}"), r"\\$"),
    (re.compile(r"\\log\s*_\s*(?:\{\s*e\s*\}|e(?![a-z]))"), r"\\ln "),
    (re.compile(r"\{?\s*(\w{1,9})\s*\\choose\s*(\w{1,9})\s*\}?"), r"\\binom{\1}{\2}"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(rf"(?<=\d)\s*\({_NUMBER_WORD}(?:(?:[ -]|\s+and\s+){_NUMBER_WORD})*\)$"), ""),
    (re.compile(r"(?<![a-zA-Z\\])(?:infinity|infty|inf|oo)(?![a-zA-Z])"), r"\\infty "),
    (re.compile(r"\\div(?![a-zA-Z])"), "/"),
    (re.compile(r"\\ast(?![a-zA-Z])"), "*"),
    (re.compile(r"\\colon(?![a-zA-Z])|(?<=\d)\s*(?:\\text\s*\{\s*to\s*\}|\bto\b)\s*(?=\d)"), ":"),
    (re.compile(r"\+/-"), r"\\pm "),
    (re.compile(r"\\(?:vee|lor)(?![a-zA-Z])|\bO[Rr]\b|(?<=[\d)}])\s+(?:oder|ou)\s+(?=[\d(\\-])"), " or "),
    (
        re.compile(r"\\(?:wedge|land)(?![a-zA-Z])|\bA(?:ND|nd)\b|\bas well as\b|(?<=[\d)}])\s+(?:und|et)\s+(?=[\d(\\-])"),
        " and ",
    ),
    (re.compile(r"^([^\\&]*\d)\s*&\s*(-?\d[^\\&]*)$"), r"\1 and \2"),
    (re.compile(r"^(?:either|both)\s+(?=.*\d.*\b(?:or|and)\b)", re.IGNORECASE), ""),
    (
        re.compile(
            r"^(?:(?:approximately|approx\.?|about|roughly|around|nearly|almost|exactly|circa|ca\.)\s+|\\approx\s*)(?=[\d$\\+.-])",
            re.IGNORECASE,
        ),
        "",
    ),
    (re.compile(r"(?<=[\w})%])\s*\((?:approx(?:imately|\.)?|exact(?:ly)?|(?:rounded|to the nearest|correct to)[^()]*)\)$"), ""),
    (re.compile(r"\\lg(?![a-zA-Z])"), r"\\log_{10} "),
    (re.compile(r"\^\s*([+-])\s*(?=[}\s])"), r"^{\1}"),
    (
        re.compile(r"(?<![a-zA-Z\\])(alpha|beta|gamma|delta|epsilon|theta|lambda|mu|rho|sigma|tau|phi|varphi|omega|psi)(?![a-zA-Z])"),
        r"\\\1 ",
    ),
    (
        re.compile(
            r"^\s*((?:\d+/)?\d+)\s*(?:\^\s*)?\{?\s*(?:\\text\s*\{\s*)?(st|nd|rd|th)(?=[\s}]*(?:$|\\text|\s[A-Za-z]{3,}))[\s}]*"
        ),
        _ordinal,
    ),
    (re.compile(r"\^\s*(?:\{\s*\\prime\s*\}|\\prime(?![a-zA-Z]))"), "'"),
    (re.compile(r"\\(?:vec|hat|widehat|overrightarrow)\s*\{\s*\\?([ijk])(?:math)?\s*\}"), r" \1 "),
    (re.compile(r"\\text\s*\{\s*\(?\s*mod(?:ulo)?\s*(\w+)\s*\)?\s*\}"), r" \\mod {\1}"),
    (re.compile(r"\\bmod(?![a-zA-Z])"), r"\\mod "),
    (re.compile(r"\\pmod\s*(?:\{\s*(\w+)\s*\}|(\w+))"), r" \\mod {\1\2}"),
    (re.compile(r"\(\s*(?:\\text\s*\{\s*mod(?:ulo)?\s*\}|\\mod|\bmod(?:ulo)?\b)\s*(\w+)\s*\)"), r" \\mod {\1}"),
    (re.compile(r"\\(sinh?|cosh?|tanh?)\s*\^\s*\{?\s*-1\s*\}?|\\ar(sinh|cosh|tanh)(?![a-zA-Z])"), r"\\arc\1\2 "),
    (re.compile(r"(?<![\w)}])(?:\{\s*\})?\s*[_^]\s*\{?\s*(\w{1,4})\s*\}?\s*C\s*_\s*\{?\s*(\w{1,4})\s*\}?"), r"\\binom{\1}{\2}"),
    (re.compile(r"(?<![\w\\])(?:C|nCr)\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)"), r"\\binom{\1}{\2}"),
    (re.compile(r"(?<![a-zA-Z\\])pi(?![a-zA-Z])"), r"\\pi "),
    (re.compile(r"\\overline\s*\{\s*([A-Z]{1,3})\s*\}|\\overrightarrow\s*\{\s*([A-Z]{2})\s*\}"), r"\1\2"),
]  # fmt: skip
_OUTER = [
    ("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("__", "__"), ("==", "=="), ("`", "`"),
    ('"', '"'), ("'", "'"), ("“", "”"),
]  # fmt: skip
_WRAPPER = re.compile(
    r"\\(?:boxed|fbox|text(?:bf|sf|tt)?|math(?:rm|bf|it)|mbox|displaystyle|underline|bf|rm|ensuremath)\s*(?=\{)"
)
_FUNCTIONS = frozenset((
    "cis", "arcsin", "arccos", "arctan", "sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "gcd", "lcm", "max", "min", "floor",
    "ceil", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
))  # fmt: skip
_NUMBER_END = re.compile(r"[\d}]\s*$")
_UNIT_LETTERS = frozenset("NJVWKCFTA")
_ARCUS = re.compile(r"ar?(sinh?|cosh?|tanh?)")
_BLANKS = re.compile(r"[\s~]{2,}")
_DOLLAR = re.compile(r"(?<!\\)\$")
_SHORT = 256
_EDGE = " \t\r\n"


def canonical_text(raw: str) -> str:
    """The canonical text of an answer: the key of caches and the input of every parser."""
    text = raw.strip()
    if text.isascii() and (text.isdecimal() or len(text) == 1):
        return text
    return _short_canonical(text) if len(text) <= _SHORT else _canonical(text)


def _canonical(text: str) -> str:
    text = _fold_unicode(text)
    text = _strip_markup(text)
    text = _DOUBLE_COMMAND.sub(r"\\", text)
    text = _unwrap(text)
    if "$" in text and len(_DOLLAR.findall(text)) % 2 == 0:
        text = _DOLLAR.sub(" ", text)
    text = _BLANKS.sub(" ", text)
    text = _BRACED_SIGN.sub(r"\1", text)
    if not text.isascii():
        text = _ALTERNATIVE.sub(" or ", _CONJUNCTION.sub(" and ", text))
    text = re.sub(r"(?<=\d)(?:\\[,!;: ]|~)(?=\d{3}(?!\d))", "", text)
    text = re.sub(r",\s*\\!\s*(?=\d)", ",", text)
    text = _SIZES.sub(" ", _OLD_FONT.sub(r"\\text{\1}", text))
    text = _SPACES.sub(" ", text)
    text = _TEXT_NAME.sub(r"\\text{", _FRACTION_NAME.sub(r"\\frac", text))
    if "over" in text:
        text = _OVER.sub(r"\\frac{\1}{\2}", text)
    for pattern, replacement in _SYNONYMS:
        text = pattern.sub(replacement, text)
    if r"\var" in text:
        text = _one_shape(text)
    text = _TEXT.sub(_plain_text, text)
    text = _brace_arguments(text)
    text = re.sub(r"\s+", " ", text)
    return _unwrap(text)


_short_canonical = lru_cache(maxsize=50_000)(_canonical)


def _fold_unicode(text: str) -> str:
    if text.isascii():
        return text if text.isprintable() else text.translate(_TABLE)
    text = "".join(char for char in text if char.isascii() or not _means_nothing(char))
    text = _SOLIDUS.sub(lambda m: rf"\frac{{{m[1].translate(_FROM_SUPER)}}}{{{m[2].translate(_FROM_SUB)}}}", text)
    text = _SUPER_RUN.sub(lambda m: "^{" + m[0].translate(_FROM_SUPER) + "}", text)
    text = _SUB_RUN.sub(lambda m: "_{" + m[0].translate(_FROM_SUB) + "}", text)
    text = _ROOT.sub(lambda m: rf"\sqrt{'[3]' if m[0][0] == '∛' else ''}{{{m[1] or m[2] or m[3]}}}", text)
    text = unicodedata.normalize("NFKC", text.translate(_TABLE))
    text = "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)
    return text.translate(_TABLE)


def _one_shape(text: str) -> str:
    r"""`\varphi` as `\phi`, where a text has one shape of the letter: two shapes are two symbols."""
    for name, shape in _SHAPES.items():
        if re.search(rf"\\{name}(?![a-zA-Z])", text) is None:
            text = shape.sub(rf"\\{name}", text)
    return text


def _means_nothing(char: str) -> bool:
    """Marks of text direction, characters of no width, emoji."""
    kind = unicodedata.category(char)
    return kind == "Cf" or char == "\ufe0f" or (char >= "☀" and kind == "So")


def _strip_markup(text: str) -> str:
    """Without colours, tags, empty boxes and environments around it; commands whose backslash an escape ate are whole again."""
    if not text.isprintable():
        for fragment, command in _EATEN_ESCAPES.items():
            text = text.replace(fragment, command)
    if "<" in text or "&" in text:
        text = _SCRIPT_TAG.sub(lambda m: ("^" if m[1] == "sup" else "_") + "{" + m[2] + "}", _TAG.sub(" ", text))
    if "\\" in text:
        plain = _INVISIBLE.sub(" ", text)
        if plain != text:
            text = plain.replace("&", " ") if "\\begin{" not in plain else plain
    return text


def _unwrap(text: str) -> str:
    """Takes off delimiters that enclose the whole answer, and the punctuation of its sentence."""
    for _ in range(6):
        previous = text
        text = text.strip(_EDGE)
        for opening, closing in _OUTER:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                inside = text[len(opening) : -len(closing)]
                if opening not in inside and closing not in inside:
                    text = inside.strip(_EDGE)
                    # Between dollars plain braces only group: `${1,3}$` is the list 1, 3.
                    if "$" in opening and _is_braced(text):
                        text = text[1:-1].strip()
        text = _unwrap_command(text)
        text = text.rstrip(" \t\n,;:")
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        if text.endswith(".") and not text.endswith(".."):
            text = text[:-1]
        text = text.lstrip(" ,;:").removesuffix(r"\\").rstrip()
        if text.startswith("=") and not text.startswith("=="):
            text = text[1:]
        if text == previous:
            break
    return text


def _unwrap_command(text: str) -> str:
    if (wrapper := _WRAPPER.match(text)) and _is_braced(text[wrapper.end() :]):
        return text[wrapper.end() + 1 : -1]
    if _is_braced(text):
        inside = text[1:-1]
        return inside if "," not in inside and ";" not in inside else rf"\{{{inside}\}}"
    return text


def _is_braced(text: str) -> bool:
    """Return whether one pair of braces encloses a text."""
    depth = 0
    for token in _BRACE_OR_ESCAPE.finditer(text if text.startswith("{") else ""):
        if token[0] in "{}":
            depth += 1 if token[0] == "{" else -1
            if depth == 0:
                return token.end() == len(text)
    return False


def _plain_text(match: re.Match[str]) -> str:
    r"""`\text{and}` is a separator, `\text{e}` a symbol, other words stay words."""
    inside = match[1].strip()
    joint = inside.lower().strip(", ")
    if joint in ("and", "or", ""):
        return f" {joint or ','} " if inside else "  "
    last = match.end() == len(match.string)
    if inside in _UNIT_LETTERS and last and _NUMBER_END.search(match.string, 0, match.start()):
        return rf" \text{{{inside}}}"
    if len(inside) == 1:
        return f" {inside} "
    if inside in _FUNCTIONS:
        return rf"\{inside} "
    if arcus := _ARCUS.fullmatch(inside):
        return rf"\arc{arcus[1]} "
    return rf" \text{{{inside}}} "


def _brace_arguments(text: str) -> str:
    if "frac" in text:
        text = _BARE_FRACTION.sub(r"\\frac", text)
        text = _FRAC_ARGUMENT.sub(lambda m: rf"\frac{{{m[1]}}}{{{m[2]}}}" if m[1] else rf"\frac{{{m[3]}}}", text)
        text = _FRAC_TAIL.sub(r"\1{\2}", text)
        text = re.sub(r"\\frac\s+\{", r"\\frac{", text)
        text = re.sub(r"(\\frac\{[^{}]*\})\s+\{", r"\1{", text)
    if "sqrt" in text:
        text = _FUNCTION_ROOT.sub(r"\\sqrt", text)
        text = _ROOT_ARGUMENT.sub(r"\\sqrt{\1}", text)
        text = re.sub(r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text)
        text = re.sub(r"\\sqrt\s+(?=[\[{])", r"\\sqrt", text)
    return text


_LONG_WORD = re.compile(r"(?<![\\a-zA-Z])[A-Za-z]{4,}")
_LONGEST_READ = 400


def squeeze(text: str) -> str:
    """A text without the spaces and text wrappers that carry no meaning."""
    if "\\text" in text:
        text = _TEXT.sub(r" \1 ", text)
    text = re.sub(r"(?<=\d)\s+(?=\d)", "_", re.sub(r"\s+", " ", text.strip()))
    return re.sub(r"\s+(?![a-zA-Z])|(?<![a-zA-Z])\s+", "", text)


def reads_the_same(gold: str, answer: str) -> bool:
    """Return whether two texts with words in them differ in capitals and spaces alone."""
    return (
        len(gold) < _LONGEST_READ
        and _LONG_WORD.search(gold) is not None
        and squeeze(gold).casefold() == squeeze(answer).casefold()
    )
