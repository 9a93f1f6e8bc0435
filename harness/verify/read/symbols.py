"""Tables of signs: what a Unicode character and a LaTeX command stand for."""

import re
import unicodedata

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", "^"
_LOWERED = "₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n", "_"
_VULGAR = "½1/2 ⅓1/3 ⅔2/3 ¼1/4 ¾3/4 ⅕1/5 ⅖2/5 ⅗3/5 ⅘4/5 ⅙1/6 ⅚5/6 ⅛1/8 ⅜3/8 ⅝5/8 ⅞7/8"
_GREEK_LETTERS = "αβγδεζηθκλμνξρστφϕχψωϵϑϰϱςπΓΔΘΛΞΠΣΦΨΩ"
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi phi chi psi omega epsilon "
    "theta kappa rho sigma pi Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
GREEK = _GREEK.split()
_SIGNS = {
    "−": "-", "﹣": "-", "‐": "-", "‑": "-", "×": r"\times ", "÷": "/", "∕": "/", "⁄": "/", "·": r"\cdot ", "⋅": r"\cdot ",
    "∙": r"\cdot ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∉": r"\notin ", "±": r"\pm ", "∓": r"\mp ", "°": r"\degree ",
    "º": r"\degree ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "∨": r"\lor ",
    "∧": r"\land ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "…": r"\ldots ", "⋯": r"\ldots ", "∠": r"\angle ",
    "∑": r"\sum ", "∫": r"\int ", "→": r"\to ", "，": ",", "。": ". ", "।": ". ", "；": ";", "：": ":", "、": ",", "％": "%",
    "？": "?", "∖": r"\setminus ", "∣": "|", "⟨": "(", "⟩": ")", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ",
    "⌉": r"\rceil ", "√": r"\surd ", "∛": r"\surd[3]", "¢": r"\text{cent}", "\u00a0": " ", "∎": "", "或": " or ",
    "和": " and ",
}  # fmt: skip
_TABLE = str.maketrans(
    _SIGNS
    | {char: rf"\{name} " for char, name in zip(_GREEK_LETTERS, GREEK, strict=True)}
    | {item[0]: f" {item[1:]} " for item in _VULGAR.split()}
    | {char: f"{mark}{{{plain}}}" for chars, plains, mark in (_RAISED, _LOWERED) for char, plain in zip(chars, plains, strict=True)}
)  # fmt: skip


_SLANTED = re.compile("[⁰¹²³⁴-⁹]+⁄[₀-₉]+")  # ⁷⁄₁₂


def fold(text: str) -> str:
    """Return a text with Unicode as ASCII and LaTeX; marks of direction, emoji and characters of no width are gone."""
    if text.isascii():
        return text
    text = _SLANTED.sub(lambda match: f" {unicodedata.normalize('NFKC', match[0])} ", text)
    text = text.translate(_TABLE).replace("}^{", "").replace("}_{", "")
    text = unicodedata.normalize("NFKC", text).translate(_TABLE)
    seen = (char for char in text if char.isascii() or unicodedata.category(char) not in ("Cf", "Mc", "Mn", "So"))
    return "".join(str(unicodedata.decimal(char, char)) for char in seen)


_FUNCTIONS = "sin cos tan sec sinh cosh tanh log ln lg exp cis gcd lcm floor factorial sqrt cbrt surd"
_UNSEEN = (
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle textstyle "
    "scriptstyle limits nolimits rm bf it sf tt mathstrut strut hfill noindent quad qquad thinspace medspace "
    "thickspace enspace tiny scriptsize small footnotesize normalsize large Large LARGE huge Huge bfseries "
    "itshape centering hline nonumber notag square blacksquare Box qed checkmark bigstar displaylimits"
)
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
            r"\arcsinh": "arcsinh arsinh asinh", r"\arccosh": "arccosh arcosh acosh", r"\arctanh": "arctanh artanh atanh",
            r"\max": "max Max", r"\min": "min Min", r"\ceil": "ceil ceiling", r"\abs": "abs Abs", r"\binom": "binom dbinom tbinom binomial",
            r"\frac": "frac dfrac tfrac cfrac nicefrac sfrac", r"\overline": "overline bar dot",
        } | {"\\" + name: name for name in _FUNCTIONS.split()},
        "space": {"": _UNSEEN},
    }.items()
    for text, names in rows.items()
    for name in names.split()
}  # fmt: skip
SYMBOLS |= {"{": ("open", r"\{"), "}": ("close", r"\}"), "$": ("mark", r"\$"), "": ("space", "")}
LETTERS = frozenset(  # what letters without a backslash are commands and names as well
    name for name, (kind, text) in SYMBOLS.items() if name.isalpha() and kind in ("command", "name") and name not in ("O", "bar", "dot")
) - {"max", "min", "sec", "floor", "abs"}  # fmt: skip
SPELLED = dict.fromkeys(("ou", "oder", "или", "または", "또는"), ("separator", "or")) | {
    "and": ("separator", "and"), "or": ("separator", "or"), "percent": ("operator", "%"), "pct": ("operator", "%"),
    "mod": ("operator", r"\mod"), "modulo": ("operator", r"\mod"), "oo": ("name", r"\infty"),
    "inf": ("name", r"\infty"), "infinity": ("name", r"\infty"),
}  # fmt: skip
_TEXT_FONTS = "text textbf textit textrm textsf texttt textnormal textup textsc mbox hbox emph mathrm operatorname unit"
_FONTS = (
    "mathbf mathit mathsf mathtt mathcal mathscr mathfrak boldsymbol bm pmb bold Bold underline uline ensuremath "
    "boxed fbox mathbin mathrel mathop mathord mathpunct mathopen mathclose vec hat widehat overrightarrow tilde "
    "widetilde cancel smash"
)
TEXT_FONTS = frozenset(_TEXT_FONTS.split())
FONTS = TEXT_FONTS.union(_FONTS.split())

# What JSON and Python make of a backslash and a letter, and the commands that begin so. Nobody writes the first four on purpose; a tab, a
# line end or a return is one unless the rest of a command follows.
_EATEN = {"\x0c": "f", "\x08": "b", "\x0b": "v", "\x07": "a", "\t": "t", "\r": "r", "\n": "n"}
_SIGNS_OF_LOSS = ("\x0c", "\x08", "\x0b", "\x07", "\t", "\r", "\neq", "\nabla", "\notin", "\neg", "\newline")
_LOST = re.compile(
    "[\x0c\x08\x0b\x07](?=[A-Za-z])"
    "|\t(?=(?:ext(?:bf|it|rm|tt)?|imes|heta|an|au|frac|herefore|riangle|ilde|op)(?![A-Za-z]))"
    "|\r(?=(?:ight|ho|angle|floor|ceil|brace)(?![A-Za-z]))"
    "|\n(?=(?:eq|abla|otin|eg|ewline)(?![A-Za-z]))"
)


def restore_escapes(text: str) -> str:
    r"""Put back the backslashes of commands that JSON or Python took for escapes: a form feed and `rac` is `\frac`."""
    if text.isprintable() or not any(sign in text for sign in _SIGNS_OF_LOSS):
        return text
    return _LOST.sub(lambda match: f"\\{_EATEN[match[0]]}", text)
