"""Text of an answer made canonical: Unicode folded to LaTeX, wrappers off, spacing and synonyms unified.

Purely textual and linear; nothing is evaluated. What the text means is read by `numbers` and `nodes`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ"
_SUPERSCRIPTS_TO = "0123456789+-()ni"
_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉₊₋ₙ"
_SUBSCRIPTS_TO = "0123456789+-n"
_FROM_SUPER = str.maketrans(_SUPERSCRIPTS, _SUPERSCRIPTS_TO)
_FROM_SUB = str.maketrans(_SUBSCRIPTS, _SUBSCRIPTS_TO)
_SUPER_RUN = re.compile(f"[{re.escape(_SUPERSCRIPTS)}]+")
_SUB_RUN = re.compile(f"[{re.escape(_SUBSCRIPTS)}]+")
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "θ": "theta", "λ": "lambda", "μ": "mu",
    "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "varphi", "ϕ": "phi", "ω": "omega", "ψ": "psi",
    "Δ": "Delta", "Ω": "Omega", "Γ": "Gamma", "Σ": "Sigma", "Π": "Pi",
}  # fmt: skip
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "÷": "/", "∕": "/", "⁄": "/", "·": r"\cdot ",
    "⋅": r"\cdot ", "∙": r"\cdot ", "•": r"\cdot ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "≈": r"\approx ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∉": r"\notin ", "±": r"\pm ", "∓": r"\mp ",
    "°": r"^\circ ", "º": r"^\circ ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}",
    "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "…": r"\ldots ", "⋯": r"\ldots ", "∠": r"\angle ", "△": r"\triangle ",
    "∑": r"\sum ", "∫": r"\int ", "→": r"\to ", "，": ",", "。": ".", "；": ";", "：": ":", "、": ",", "％": "%",
}  # fmt: skip
_TABLE = str.maketrans(
    {k: rf"\{v} " for k, v in _GREEK.items()}
    | _SYMBOLS
    | {k: f" {v} " for k, v in _VULGAR.items()}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\x00\x01\x02\x03\x04\x05\x06\x07", "")
)
_ROOT = re.compile(r"[√∛]\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+(?:\.\d+)?|[a-zA-Z]))")

_SPACES = re.compile(
    r"(?<!\\)\\[,;:>! ]|\\q?quad|\\(?:hspace|hskip|vspace)\*?\s*\{[^{}]*\}|\\(?:thin|med|thick|enspace|neg)space\b|(?<!\\)~|\s+"
)
_SIZES = re.compile(
    r"\\(?:left|right|bigg?[lrm]?|Bigg?[lrm]?|middle)(?![a-zA-Z])\s*(?:\.(?!\d))?"
    r"|\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|rm|bf|it|strut|phantom)(?![a-zA-Z])"
)
_OLD_FONT = re.compile(r"\{\s*\\(?:rm|bf|it|tt|sf)\s+([^{}]*)\}")
_FRACTION_NAME = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
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
_FUNCTION_ROOT = re.compile(r"(?<![a-zA-Z\\])sqrt\s*(?=[({])")
_BRACED_COMMA = re.compile(r"\s*\{\s*([,.])\s*\}")
_SYNONYMS = [
    (re.compile(r"\\leqq?(?:slant)?(?![a-z])|<=|=<|\\leqslant|&le;"), r"\\le "),
    (re.compile(r"\\geqq?(?:slant)?(?![a-z])|>=|\\geqslant|&ge;"), r"\\ge "),
    (re.compile(r"\\neq(?![a-z])|!=|\\not\s*="), r"\\ne "),
    (re.compile(r"\\lt(?![a-z])|&lt;"), "<"),
    (re.compile(r"\\gt(?![a-z])|&gt;"), ">"),
    (re.compile(r"\\(?:varnothing|O(?![a-z]))|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"\\(?:dots[cbmio]?|cdots|ldots)(?![a-z])|\.\.\.+"), r"\\ldots "),
    (re.compile(r"\\mathbf\s*\{([RZNQC])\}|\\(?:Bbb|bb)\s*\{?([RZNQC])\}?"), r"\\mathbb{\1\2}"),
    (re.compile(r"\\(?:lbrace)(?![a-z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![a-z])"), r"\\}"),
    (re.compile(r"\\(?:lbrack)(?![a-z])"), "["),
    (re.compile(r"\\(?:rbrack)(?![a-z])"), "]"),
    (re.compile(r"\\(?:lvert|rvert|vert|mid)(?![a-z])"), "|"),
    (re.compile(r"\^\s*\{\s*\\(?:circ|degree)\s*\}|\^\s*\\circ|\^?\s*\\degrees?(?![a-z])"), r"^\\circ "),
    (re.compile(r"\^\s*\{?\s*o\s*\}?(?![a-z0-9])"), r"^\\circ "),
    (re.compile(r"\\(?:cdot|times)\s*(?=10\s*\^)|(?<=\d)\s*[xX]\s*(?=10\s*\^)|(?<=\d)\s*\*\s*(?=10\s*(?:\^|\*\*))"), r"\\times "),
    (re.compile(r"\\text\s*\{\s*\\\$\s*\}"), r"\\$"),
    (re.compile(r"\\langle(?![a-z])"), "("),
    (re.compile(r"\\rangle(?![a-z])"), ")"),
    (re.compile(r"\\log\s*_\s*(?:\{\s*e\s*\}|e(?![a-z]))"), r"\\ln "),
    (re.compile(r"\{?\s*(\w{1,9})\s*\\choose\s*(\w{1,9})\s*\}?"), r"\\binom{\1}{\2}"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<![a-zA-Z\\])(?:infinity|infty|inf)(?![a-zA-Z])"), r"\\infty "),
    (re.compile(r"(?<![a-zA-Z\\])pi(?![a-zA-Z])"), r"\\pi "),
    (re.compile(r"\\tan\s*\^\s*\{?\s*-1\s*\}?"), r"\\arctan "),
    (re.compile(r"\\sin\s*\^\s*\{?\s*-1\s*\}?"), r"\\arcsin "),
    (re.compile(r"\\cos\s*\^\s*\{?\s*-1\s*\}?"), r"\\arccos "),
    (re.compile(r"\\overline\s*\{\s*([A-Z]{1,3})\s*\}|\\overrightarrow\s*\{\s*([A-Z]{2})\s*\}"), r"\1\2"),
]  # fmt: skip
_OUTER = [
    ("$$", "$$"),
    ("$", "$"),
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    ("**", "**"),
    ("`", "`"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
]
_BLANKS = re.compile(r"[\s~]{2,}")
_DOLLAR = re.compile(r"(?<!\\)\$")
_SHORT = 256
_EDGE = " \t\r\n"


def canonical_text(raw: str) -> str:
    """The canonical text of an answer: the key of caches and the input of every parser."""
    text = raw.strip()
    if text.isascii() and text.isalnum():
        return text
    return _short_canonical(text) if len(text) <= _SHORT else _canonical(text)


def _canonical(text: str) -> str:
    text = _fold_unicode(text)
    text = _DOUBLE_COMMAND.sub(r"\\", text)
    text = _unwrap(text)
    if "$" in text and len(_DOLLAR.findall(text)) % 2 == 0:
        text = _DOLLAR.sub(" ", text)
    text = _BLANKS.sub(" ", text)
    text = _BRACED_COMMA.sub(r"\1", text)
    text = re.sub(r"(?<=\d)(?:\\[,!;: ]|~)(?=\d{3}(?!\d))", "", text)
    text = re.sub(r",\s*\\!\s*(?=\d)", ",", text)
    text = _SIZES.sub(" ", _OLD_FONT.sub(r"\\text{\1}", text))
    text = _SPACES.sub(" ", text)
    text = _TEXT_NAME.sub(r"\\text{", _FRACTION_NAME.sub(r"\\frac", text))
    for pattern, replacement in _SYNONYMS:
        text = pattern.sub(replacement, text)
    text = _TEXT.sub(_plain_text, text)
    text = _brace_arguments(text)
    text = re.sub(r"\s+", " ", text)
    return _unwrap(text)


_short_canonical = lru_cache(maxsize=50_000)(_canonical)


def _fold_unicode(text: str) -> str:
    if text.isascii():
        return text.translate(_TABLE) if "\x00" in text else text
    text = _SUPER_RUN.sub(lambda m: "^{" + m[0].translate(_FROM_SUPER) + "}", text)
    text = _SUB_RUN.sub(lambda m: "_{" + m[0].translate(_FROM_SUB) + "}", text)
    text = _ROOT.sub(lambda m: rf"\sqrt{'[3]' if m[0][0] == '∛' else ''}{{{m[1] or m[2] or m[3]}}}", text)
    text = unicodedata.normalize("NFKC", text.translate(_TABLE))
    return text.translate(_TABLE)


def _unwrap(text: str) -> str:
    """Takes off delimiters that enclose the whole answer, and the punctuation of its sentence."""
    for _ in range(6):
        before = text
        text = text.strip(_EDGE)
        for left, right in _OUTER:
            if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
                inside = text[len(left) : -len(right)]
                if left not in inside and right not in inside:
                    text = _invisible_braces(inside.strip(_EDGE)) if "$" in left else inside.strip(_EDGE)
        text = _unwrap_command(text)
        text = text.rstrip(" \t\n,;:")
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        if text.endswith(".") and not text.endswith(".."):
            text = text[:-1]
        text = text.lstrip(" ,;:").removesuffix(r"\\").rstrip()
        if text.startswith("=") and not text.startswith("=="):
            text = text[1:]
        if text == before:
            break
    return text


def _unwrap_command(text: str) -> str:
    for command in (
        r"\boxed",
        r"\fbox",
        r"\text",
        r"\mathrm",
        r"\textbf",
        r"\mathbf",
        r"\mbox",
        r"\displaystyle",
        r"\bf",
        r"\rm",
        r"\ensuremath",
    ):
        if text.startswith(command):
            rest = text[len(command) :].lstrip()
            if rest.startswith("{") and rest.endswith("}") and matching_brace(rest, 0) == len(rest) - 1:
                return rest[1:-1]
    if text.startswith("{") and text.endswith("}") and matching_brace(text, 0) == len(text) - 1:
        inside = text[1:-1]
        return inside if "," not in inside and ";" not in inside else rf"\{{{inside}\}}"
    return text


def _invisible_braces(text: str) -> str:
    """Inside a formula plain braces only group: `${1,3}$` is the list 1, 3."""
    if text.startswith("{") and text.endswith("}") and matching_brace(text, 0) == len(text) - 1:
        return text[1:-1].strip()
    return text


def matching_brace(text: str, start: int) -> int:
    """Position of the brace that closes the one at `start`, or -1."""
    depth = 0
    for position in range(start, len(text)):
        char = text[position]
        if char in "{}" and (position == 0 or text[position - 1] != "\\"):
            depth += 1 if char == "{" else -1
            if depth == 0:
                return position
    return -1


def _plain_text(match: re.Match[str]) -> str:
    r"""`\text{and}` is a separator, `\text{e}` a symbol, other words stay words."""
    inside = match[1].strip()
    if inside.lower() in ("and", "or", ",", "and,", ", and", ", or"):
        return " , "
    if len(inside) == 1 or not inside:
        return f" {inside} "
    if inside in (
        "cis",
        "arcsin",
        "arccos",
        "arctan",
        "sin",
        "cos",
        "tan",
        "log",
        "ln",
        "exp",
        "gcd",
        "lcm",
        "max",
        "min",
    ):
        return rf"\{inside} "
    return rf" \text{{{inside}}} "


def _brace_arguments(text: str) -> str:
    if "frac" in text:
        text = _FRAC_ARGUMENT.sub(
            lambda m: rf"\frac{{{m[1]}}}{{{m[2]}}}" if m[1] else rf"\frac{{{m[3]}}}", text
        )
        text = _FRAC_TAIL.sub(r"\1{\2}", text)
        text = re.sub(r"\\frac\s+\{", r"\\frac{", text)
        text = re.sub(r"(\\frac\{[^{}]*\})\s+\{", r"\1{", text)
    if "sqrt" in text:
        text = _FUNCTION_ROOT.sub(r"\\sqrt", text)
        text = _ROOT_ARGUMENT.sub(r"\\sqrt{\1}", text)
        text = re.sub(r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text)
        text = re.sub(r"\\sqrt\s+(?=[\[{])", r"\\sqrt", text)
    return text
