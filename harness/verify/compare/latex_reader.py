"""A canonical text read by latex2sympy as a sympy object. Imported in worker processes only."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify.grader import should_treat_as_complex
from sympy import Basic, MatrixBase
from sympy.core.relational import Relational

_NORMALIZE = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_CONVERT = ConversionConfig(lowercase_symbols=False)
_GAMMA = re.compile(r"\\Gamma\s*\(\s*(\d{1,4})\s*\)|\\Gamma\s*\{\s*(\d{1,4})\s*\}")
_TRIG_DEGREES = re.compile(
    r"(\\(?:sin|cos|tan|cot|sec|csc)\s*(?:\^\s*\{?\s*-?\d\s*\}?)?\s*)"
    r"(?:\(\s*(\d+(?:\.\d+)?)\s*\^\\circ\s*\)|\{\s*(\d+(?:\.\d+)?)\s*\^\\circ\s*\}|(\d+(?:\.\d+)?)\s*\^\\circ)"
)
_DOUBLE_FACTORIAL = re.compile(r"(\d{1,3})\s*!!")
_PERCENT = re.compile(r"\s*\\?%")
_CIS = re.compile(
    r"\\cis\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\\frac\{[^{}]*\}\{[^{}]*\}|\d+(?:\.\d+)?\s*(?:\^\\circ)?|\\?[a-zA-Z]+))"
)
_ARCUS_CALL = re.compile(r"(?<![a-zA-Z\\])ar?(sinh?|cosh?|tanh?)(?=\s*[({])")
_PLAIN_CALLS = (
    (re.compile(r"(?<![a-zA-Z\\])factorial\s*\(([^()]*)\)"), r"(\1)!"),
    (re.compile(r"(?<![a-zA-Z\\])[Aa]bs\s*\(([^()]*)\)"), r"|\1|"),
    (re.compile(r"(?<![a-zA-Z\\])binomial\s*\(([^(),]*),([^(),]*)\)"), r"\\binom{\1}{\2}"),
    (re.compile(r"(?<![a-zA-Z\\])log\s*\(([^(),]*),([^(),]*)\)"), r"\\log_{\2}(\1)"),
    (re.compile(r"(?<![a-zA-Z\\])cbrt\s*\(([^()]*)\)"), r"\\sqrt[3]{\1}"),
    (re.compile(r"(?<![a-zA-Z\\])ceiling(?=\s*\()"), r"\\ceil"),
    (re.compile(r"(?<![a-zA-Z\\])(?:Max|Min|Mod)(?=\s*\()"), lambda match: "\\" + match[0].lower()),
)
_IMPLICIT_CALL = re.compile(
    r"(?<![a-zA-Z\\])(sin|cos|tan|cot|sec|csc|log|ln|exp|arcsin|arccos|arctan|sinh|cosh|tanh|gcd|lcm|min|max|floor|ceil)(?![a-zA-Z])"
)


def _without_floats(value: Any) -> Any:
    """Decimals as the fractions that they write."""
    floats = value.atoms(sympy.Float) if isinstance(value, Basic) else ()
    return value.xreplace({number: sympy.Rational(str(number)) for number in floats}) if floats else value


def _with_imaginary_unit(value: Any) -> Any:
    """The parser reads `i` as a letter."""
    if not is_expression(value):
        return value
    letters = {symbol: sympy.I for symbol in value.free_symbols if str(symbol) == "i"}
    return value.subs(letters) if letters else value


class Unparsable(Exception):
    """A formula that the parser does not read."""


@lru_cache(maxsize=512)
def parse_formula(text: str) -> Any:
    """The sympy object of a canonical text.

    Raises:
        Unparsable: the parser rejects it.
    """
    prepared = _GAMMA.sub(lambda m: f"({int(m[1] or m[2]) - 1})!", text)
    prepared = _DOUBLE_FACTORIAL.sub(lambda m: str(math.prod(range(int(m[1]), 0, -2))), prepared)
    if "!!" in prepared:
        raise Unparsable(f"{text!r}: a double factorial of a formula")
    prepared = _CIS.sub(_cosine_and_sine, prepared)
    prepared = _PERCENT.sub(r" \\cdot \\frac{1}{100}", prepared)
    if "(" in prepared:
        prepared = _ARCUS_CALL.sub(r"\\arc\1", prepared)
        for pattern, replacement in _PLAIN_CALLS:
            prepared = pattern.sub(replacement, prepared)
    prepared = _IMPLICIT_CALL.sub(r"\\\1", prepared)
    if "\\circ" in prepared:
        prepared = _TRIG_DEGREES.sub(r"\1(\\frac{\2\3\4 \\pi}{180})", prepared).replace(r"^\circ", "")
    try:
        value = latex2sympy(
            prepared,
            is_real=not should_treat_as_complex(prepared),
            normalization_config=_NORMALIZE,
            conversion_config=_CONVERT,
        )
        return _with_imaginary_unit(_without_floats(value))
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        raise Unparsable(f"{text!r}: {error}") from error


def _cosine_and_sine(match: re.Match[str]) -> str:
    angle = (match[1] or match[2] or match[3]).strip()
    return rf"(\cos({angle})+i\sin({angle}))"


def is_expression(value: Any) -> bool:
    """Return whether a value is a scalar expression: no relation, set or matrix."""
    return isinstance(value, sympy.Expr) and not isinstance(value, (MatrixBase, sympy.MatrixExpr, Relational))
