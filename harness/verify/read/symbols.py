"""Tables of signs: what a Unicode character and a LaTeX command stand for."""

from __future__ import annotations

import re
import unicodedata

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", "^"
_LOWERED = "₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n", "_"
_VULGAR = "½1/2 ⅓1/3 ⅔2/3 ¼1/4 ¾3/4 ⅕1/5 ⅖2/5 ⅗3/5 ⅘4/5 ⅙1/6 ⅚5/6 ⅛1/8 ⅜3/8 ⅝5/8 ⅞7/8"
_GREEK_LETTERS = "αβγδεζηθκλμνξρστφϕχψωϵϑϰϱςπΓΔΘΛΞΠΣΦΨΩ"
GREEK = (  # noqa: SIM905
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi phi chi psi omega epsilon theta kappa rho sigma pi "  # noqa: E501
    "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
).split()
_SIGNS = {
    "−": "-", "﹣": "-", "‐": "-", "‑": "-", "×": r"\times ", "÷": "/", "∕": "/", "⁄": "/", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ",
    "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",  # noqa: E501
    "∉": r"\notin ", "±": r"\pm ", "∓": r"\mp ", "°": r"\degree ", "º": r"\degree ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "∨": r"\lor ", "∧": r"\land ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "…": r"\ldots ",  # noqa: E501
    "⋯": r"\ldots ", "∠": r"\angle ", "∑": r"\sum ", "∫": r"\int ", "→": r"\to ", "，": ",", "。": ". ", "；": ";", "：": ":", "、": ",",
    "％": "%", "？": "?", "∖": r"\setminus ", "∣": "|", "⟨": "(", "⟩": ")", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ",
    "⌉": r"\rceil ", "√": r"\surd ", "∛": r"\surd[3]", "¢": r"\text{cent}", "\u00a0": " ", "∎": "", "或": " or ", "和": " and ",
}  # fmt: skip
_TABLE = str.maketrans(
    _SIGNS
    | {char: rf"\{name} " for char, name in zip(_GREEK_LETTERS, GREEK, strict=True)}
    | {char: f" {value} " for char, *digits in _VULGAR.split() for value in ["".join(digits)]}
    | {char: f"{mark}{{{plain}}}" for chars, plains, mark in (_RAISED, _LOWERED) for char, plain in zip(chars, plains, strict=True)}
)  # fmt: skip


def fold(text: str) -> str:
    """Return a text with Unicode as ASCII and LaTeX; marks of direction, emoji and characters of no width are gone."""
    if text.isascii():
        return text
    text = text.translate(_TABLE).replace("}^{", "").replace("}_{", "")
    text = unicodedata.normalize("NFKC", text).translate(_TABLE)
    return "".join(char if char.isascii() else _plain(char) for char in text)


def _plain(char: str) -> str:
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    return "" if unicodedata.category(char) in ("Cf", "Mn", "So") else char


# What a command or a sign is: (kind of token, its text). A `space` says nothing.
SYMBOLS: dict[str, tuple[str, str]] = {
    name: (kind, text)
    for kind, rows in {
        "operator": {
            "*": "cdot times ast bullet *", "/": "div /", "+": "+", "-": "- –", "^": "^", "_": "_", "!": "!", "%": "%", r"\pm": "pm +/-",
            r"\mp": "mp", r"\cup": "cup bigcup", r"\cap": "cap", r"\setminus": "setminus backslash", "degree": "degree degrees circ",
            "'": "prime '", r"\mod": "mod bmod pmod",
        },
        "relation": {
            "<": "< lt &lt;", ">": "> gt &gt;", "=": "= == :=", r"\le": "<= =< le leq leqslant leqq &le;",
            r"\ge": ">= ge geq geqslant geqq &ge;", r"\ne": "!= ne neq", r"\approx": "approx simeq sim thickapprox approxeq doteq",
            r"\equiv": "equiv cong", r"\in": "in", r"\notin": "notin",
        },
        "separator": {"or": "lor vee", "and": "land wedge", ",": ",", ";": ";", "&": "&"},
        "open": {"(": "( langle", "[": "[ lbrack", r"\{": "lbrace", r"\lfloor": "lfloor", r"\lceil": "lceil"},
        "close": {")": ") rangle", "]": "] rbrack", "}": "}", r"\}": "rbrace", r"\rfloor": "rfloor", r"\rceil": "rceil"},
        "bar": {"|": "| lvert rvert lVert rVert vert mid"},
        "mark": {r"\ldots": "ldots dots cdots dotsc dotsb dotso vdots ...", ":": "colon :"},
        "word": {"angle": "angle measuredangle", "triangle": "triangle"},
        "name": {"\\" + name: f"{name} var{name}" for name in {*GREEK, "infty"}} | {r"\emptyset": "emptyset varnothing O"},
        "command": {
            r"\cot": "cot ctg", r"\csc": "csc cosec", r"\arcsin": "arcsin asin", r"\arccos": "arccos acos", r"\arctan": "arctan atan",
            r"\arcsinh": "arcsinh arsinh asinh", r"\arccosh": "arccosh arcosh acosh", r"\arctanh": "arctanh artanh atanh", r"\max": "max Max",  # noqa: E501
            r"\min": "min Min", r"\ceil": "ceil ceiling", r"\abs": "abs Abs", r"\binom": "binom dbinom tbinom binomial",
            r"\frac": "frac dfrac tfrac cfrac nicefrac sfrac", r"\overline": "overline bar dot",
        } | {"\\" + name: name for name in "sin cos tan sec sinh cosh tanh log ln lg exp cis gcd lcm floor factorial sqrt cbrt surd".split()},  # noqa: E501, SIM905
        "space": {"": "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle textstyle scriptstyle limits "  # noqa: E501
            "nolimits rm bf it sf tt mathstrut strut hfill noindent quad qquad thinspace medspace thickspace enspace tiny scriptsize small "
            "footnotesize normalsize large Large LARGE huge Huge bfseries itshape centering hline nonumber notag square blacksquare Box qed "  # noqa: E501
            "checkmark bigstar displaylimits"},
    }.items()
    for text, names in rows.items()
    for name in names.split()
}  # fmt: skip
SYMBOLS |= {"{": ("open", r"\{"), "}": ("close", r"\}"), "$": ("mark", r"\$"), "": ("space", "")}
LETTERS = frozenset(  # what letters without a backslash are commands and names as well
    name for name, (kind, text) in SYMBOLS.items() if name.isalpha() and kind in ("command", "name") and name not in ("O", "bar", "dot")
) - {"max", "min", "sec", "floor", "abs"}  # fmt: skip
SPELLED = {
    "and": ("separator", "and"), "or": ("separator", "or"), "percent": ("operator", "%"), "pct": ("operator", "%"), "mod": ("operator", r"\mod"),  # noqa: E501
    "modulo": ("operator", r"\mod"), "oo": ("name", r"\infty"), "inf": ("name", r"\infty"), "infinity": ("name", r"\infty"),
}  # fmt: skip
TEXT_FONTS = frozenset(
    "text textbf textit textrm textsf texttt textnormal textup textsc mbox hbox emph mathrm operatorname unit".split()  # noqa: SIM905
)
FONTS = TEXT_FONTS | frozenset(
    "mathbf mathit mathsf mathtt mathcal mathscr mathfrak boldsymbol bm pmb bold Bold underline uline ensuremath boxed fbox mathbin mathrel "  # noqa: E501, SIM905
    "mathop mathord mathpunct mathopen mathclose vec hat widehat overrightarrow tilde widetilde cancel smash".split()
)
KNOWN = (SYMBOLS.keys() | FONTS | {"begin", "end", "mathbb", "sum", "prod", "int", "lim"}) - {"$", ",", ";", ":", "&"}

# Control characters that a JSON or Python text makes of a backslash and a letter; tab, line and return also stand for themselves.
_ESCAPES = {"\x07": "a", "\x08": "b", "\t": "t", "\n": "n", "\x0b": "v", "\x0c": "f", "\r": "r"}
_CONTROL = re.compile("[\x07\x08\t\x0b\x0c\r]|\neq")
_EATEN = re.compile(
    "[\x07\x08\x0b\x0c](?=[A-Za-z]{2})|\t(?=(?:ext|imes|heta|frac|riangle|an)(?:[a-z]{2})?[^A-Za-z])|\n(?=eq[^A-Za-z])"
    "|\r(?=(?:ight|angle|floor|ceil)[^A-Za-z])"
)


def mend_escapes(text: str) -> str:
    r"""Return a text whose control characters are whole commands again: form feed and `rac` are `\frac`, tab and `ext` are `\text`."""
    if text.isprintable() or _CONTROL.search(text) is None:
        return text
    return _EATEN.sub(lambda match: "\\" + _ESCAPES[match[0]], text)
