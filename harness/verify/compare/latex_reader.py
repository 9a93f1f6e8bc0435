"""A canonical text read by latex2sympy as a sympy object. Imported in worker processes only."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import sympy
from antlr4 import Token  # type: ignore[import-untyped]
from antlr4.atn.PredictionMode import PredictionMode  # type: ignore[import-untyped]
from antlr4.dfa.DFA import DFA  # type: ignore[import-untyped]
from latex2sympy2_extended.antlr_parser import PSParser
from latex2sympy2_extended.latex2sympy2 import (
    ConversionConfig,
    NormalizationConfig,
    _Latex2Sympy,
    normalize_latex,
)
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


_FAST_TABLES = [DFA(state, number) for number, state in enumerate(PSParser.atn.decisionToState)]
_NO_PLAIN_EXPRESSION = frozenset(
    getattr(PSParser, name)
    for name in (
        "COMMA", "SEMICOLON", "PLUS_MINUS", "IN", "NOTIN", "ASSIGNMENT", "EQUAL", "APPROX", "UNEQUAL", "LT", "LTE", "GT",
        "GTE", "SUBSET", "SUPSET", "SET_MINUS", "UNION", "INTERSECTION",
    )
)  # fmt: skip
_OPENS_SET = PSParser.atn.nextTokens(PSParser.atn.ruleToStartState[PSParser.RULE_set_atom])


class _Parser:
    """ANTLR's fast prediction first, its full one where that finds a syntax error.

    Prediction mode SLL either gives the tree of mode LL or an error (Parr, Harwell and Fisher 2014, section 5), at a
    quarter of the processor time on this grammar. Each mode keeps its own tables, so neither sees what the other has learned.
    """

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._stream = parser.getTokenStream()

    def math(self) -> Any:
        """The syntax tree of a whole text."""
        try:
            return self._anew(fast=True).math()
        except (RecursionError, MemoryError):
            raise
        except Exception:
            return self._anew(fast=False).math()

    def plain_expression(self) -> Any | None:
        """The syntax tree of an expression that is neither a relation nor a list nor a set; None for other texts.

        Without the tokens that those need the grammar has one way from a whole text to `expr`. Beginning there spares the
        predictions that tell the ways apart, each of which reads the whole text.
        """
        try:
            self._stream.fill()
        except Exception:
            return None
        tokens = self._stream.tokens
        if tokens[0].type in _OPENS_SET or any(token.type in _NO_PLAIN_EXPRESSION for token in tokens):
            return None
        for fast in (True, False):
            try:
                tree = self._anew(fast).expr()
            except (RecursionError, MemoryError):
                raise
            except Exception:
                continue
            if self._stream.LA(1) == Token.EOF:
                return tree
        return None

    def _anew(self, fast: bool) -> Any:
        """The parser at the beginning of its text."""
        self._parser.reset()
        interpreter = self._parser._interp
        interpreter.decisionToDFA = _FAST_TABLES if fast else PSParser.decisionsToDFA
        interpreter.predictionMode = PredictionMode.SLL if fast else PredictionMode.LL
        return self._parser


class _Converter(_Latex2Sympy):  # type: ignore[misc]
    """latex2sympy's converter, with the trees of the parser above."""

    def create_parser(self, latex: str) -> _Parser:
        """The parser of a text."""
        return self._reader

    def parse(self, latex: str) -> Any:
        """The sympy object of a text."""
        self._reader = _Parser(super().create_parser(latex))
        tree = self._reader.plain_expression()
        return super().parse(latex) if tree is None else self.convert_expr(tree)


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
        converter = _Converter(is_real=not should_treat_as_complex(prepared), config=_CONVERT)
        value = converter.parse(normalize_latex(prepared, _NORMALIZE))
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
