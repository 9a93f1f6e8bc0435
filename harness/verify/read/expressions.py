r"""The grammar of expressions: tokens in, a syntax tree out, None where they are no expression.

    sum      := [sign] product (sign product)*
    product  := power ((times | over | nothing) power)*
    power    := atom (! | % | degree)* [^ argument]
    atom     := number | name [subscript] | (sum) | |sum| | \frac argument argument | \sqrt argument | function [^ argument] argument
    argument := {sum} | digit | atom

A tree is `("number", value, decimals)`, `("name", text)`, `("constant", name)`, `("neg", tree)`, `("call", function, tree...)`, or an
operator of `+ - * / ^ mod` with two trees.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from harness.verify.read.tokens import Token, render, split

Tree = tuple[Any, ...]
_POSTFIX = {"!": "factorial", "%": "percent", "degree": "degree"}
_CONSTANTS = {r"\pi": "pi", "e": "e", "i": "i", r"\infty": "infinity"}
_BRACKETS = {"|": "abs", r"\lfloor": "floor", r"\lceil": "ceil"}
_FUNCTION_LETTERS = frozenset("fghFGHPTWO")
_SEVERAL = frozenset(("gcd", "lcm", "max", "min", "binom"))
_INVERTED = frozenset(("sin", "cos", "tan", "sinh", "cosh", "tanh"))
TRIGONOMETRY = _INVERTED | {f"arc{name}" for name in _INVERTED} | frozenset(("cot", "sec", "csc", "cis"))
_FUNCTIONS = _SEVERAL | TRIGONOMETRY | {"log", "ln", "lg", "exp", "floor", "ceil", "abs", "factorial"}
_MINUS_ONE = ("neg", ("number", Fraction(1), -1))


def expression(tokens: Sequence[Token]) -> Tree | None:
    """Return the syntax tree of tokens, None where they are no expression or have more than one reading."""
    try:
        return _Reader(tokens).whole()
    except (IndexError, ValueError, RecursionError):
        return None


class _Reader:
    """Recursive descent over the tokens of one bracket."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self.position = list(tokens), 0

    def whole(self) -> Tree:
        tree = self.sum()
        if self.token() is not None:
            raise ValueError
        return tree

    def token(self, offset: int = 0) -> Token | None:
        place = self.position + offset
        return self.tokens[place] if place < len(self.tokens) else None

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def operator(self, *texts: str) -> str | None:
        """Take an operator that is one of these."""
        token = self.token()
        if token is None or token.kind != "operator" or token.text not in texts:
            return None
        self.position += 1
        return token.text

    def sum(self) -> Tree:
        tree = ("neg", self.product()) if self.operator("+", "-") == "-" else self.product()
        while (sign := self.operator("+", "-", r"\mod")) is not None:
            tree = (sign.removeprefix("\\"), tree, self.product())
        return tree

    def product(self) -> Tree:
        tree, in_quotient = self.power(), False
        while True:
            if (sign := self.operator("*", "/")) is not None:
                in_quotient = in_quotient or sign == "/"
                tree = (sign, tree, ("neg", self.power()) if sign == "*" and self.operator("-") else self.power())
            elif not self.begins_factor():
                return tree
            elif in_quotient:
                raise ValueError  # `1/2x` has two readings
            else:
                tree = ("*", tree, self.power())

    def begins_factor(self) -> bool:
        token, last = self.token(), self.tokens[self.position - 1]
        if token is None or token.kind not in ("number", "name", "letters", "group", "command"):
            return False
        is_call = token.text == "(" and last.kind == "name" and last.text in _FUNCTION_LETTERS
        if is_call or token.kind == last.kind == "number":
            raise ValueError  # `f(x)`, `2 3`
        return True

    def power(self) -> Tree:
        base = self.atom()
        while (sign := self.operator(*_POSTFIX)) is not None:
            if base[:2] == ("call", "factorial") and sign == "!":
                raise ValueError  # `5!!` is no factorial of a factorial
            base = ("call", _POSTFIX[sign], base)
        if self.operator("^") is None:
            return base
        tree = ("^", base, self.argument(whole=True))
        if self.operator("^") is not None:
            raise ValueError
        return ("call", "factorial", tree) if self.operator("!") else tree

    def argument(self, whole: bool = False) -> Tree:
        r"""Read an argument: `\frac12` takes a digit, `x^12` the `whole` number."""
        token = self.take()
        if token.kind == "group" and token.text in ("{", "("):
            return _Reader(token.items).whole()
        if whole and token.text == "-":
            return ("neg", self.argument(whole))
        if token.kind == "number":
            shown = token.text if whole or not token.text.isdigit() else token.text[0]
            rest = token.text[len(shown) :]
            self.tokens[self.position : self.position] = [token._replace(text=rest, spaced=False)] if rest else []
            return number(shown)
        self.position -= 1
        return self.atom()

    def atom(self) -> Tree:
        token = self.take()
        if token.kind == "number":
            return number(token.text)
        if token.kind == "letters":
            self.position -= 1
            self.tokens[self.position : self.position + 1] = [
                token._replace(kind="name", text=letter) for letter in token.text
            ]
            return self.atom()
        if token.kind == "name":
            return self.name(token.text)
        if token.kind == "command":
            return self.command(token.text[1:])
        if token.kind != "group" or token.text not in ("(", "{", "[", *_BRACKETS):
            raise ValueError
        tree = _Reader(token.items).whole()
        return ("call", _BRACKETS[token.text], tree) if token.text in _BRACKETS else tree

    def name(self, text: str) -> Tree:
        if self.operator("_") is not None:
            script = self.take()
            return ("name", f"{text}_{render(script.items) or script.text}")
        while self.operator("'") is not None:
            text += "'"
        group = self.token()
        if group is not None and group.text == "(" and [item.text for item in group.items] == ["0"]:
            text += f"({self.take().items[0].text})"
        return ("constant", _CONSTANTS[text]) if text in _CONSTANTS else ("name", text)

    def command(self, name: str) -> Tree:
        group = self.token()
        if name == "frac":
            return ("/", self.argument(), self.argument())
        if name in ("sqrt", "surd", "cbrt"):
            degree: Tree = ("number", Fraction(3 if name == "cbrt" else 2), -1)
            if group is not None and group.text == "[":
                self.position += 1
                degree = _Reader(group.items).whole()
            return ("call", "root", self.argument(whole=name == "surd"), degree)
        if name == "binom" and not (group is not None and any(token.text == "," for token in group.items)):
            return ("call", "binom", self.argument(), self.argument())
        if name not in _FUNCTIONS:
            raise ValueError
        return self.call(name)

    def call(self, name: str) -> Tree:
        exponent = base = None
        while (mark := self.operator("^", "_")) is not None:
            script = self.argument(whole=mark == "^")
            exponent, base = (script, base) if mark == "^" else (exponent, script)
        if exponent == _MINUS_ONE:
            name, exponent = f"arc{name}" if name in _INVERTED else "", None
        arguments = self.call_arguments(name)
        if not name or (len(arguments) > 1 and name not in _SEVERAL):
            raise ValueError
        tree = ("call", "log_base", base, *arguments) if base is not None else ("call", name, *arguments)
        return tree if exponent is None else ("^", tree, exponent)

    def call_arguments(self, name: str) -> list[Tree]:
        """Read the arguments of a function: in brackets, else the factors up to the next function, sign or slash."""
        group = self.token()
        if group is not None and group.kind == "group" and group.text in ("(", "{", "["):
            self.position += 1
            return [_Reader(side).whole() for side in split(group.items, "separator", ",")[0]]
        if name in _SEVERAL:
            raise ValueError
        tree = self.power()
        while self.begins_factor():
            token = self.token()
            if token is not None and token.kind == "command" and token.text not in (r"\frac", r"\sqrt", r"\binom"):
                break
            tree = ("*", tree, self.power())
        return [tree]


def number(text: str) -> Tree:
    r"""Return the tree of a number as its token writes it: `12.50`, `2\frac{1}{2}`, `0.\overline{3}`, `3\times 10^{5}`."""
    if text.isdigit():
        return ("number", Fraction(int(text)), -1)  # much faster than to read the text
    if "\\" not in text:
        return ("number", Fraction(text), len(text.partition(".")[2]) if "." in text else -1)
    first, *parts = re.findall(r"-?[\d.]+", text)
    if "times" in text:
        value = Fraction(first) * Fraction(10) ** int(parts[1])
        return ("number", value, max(len(first.partition(".")[2]) - int(parts[1]), -1))
    elif "frac" in text:
        value = int(first) + Fraction(int(parts[0]), int(parts[1]))
        if not int(parts[0]):
            return ("+", ("number", value, -1), ("number", Fraction(0), -1))  # `5 0/7` is a sum
    else:
        whole, _, decimals = first.partition(".")
        cycle = Fraction(int(parts[0]), 10 ** len(parts[0]) - 1)
        value = (int(f"{whole}{decimals}" or 0) + cycle) / 10 ** len(decimals)
    return ("number", value, -1)


def is_numeral(tree: Tree) -> bool:
    """Return whether a tree is a number as written, with its sign: nothing is left to work out.

    An integer, a decimal, a fraction of integers that does not come out even, a mixed number, scientific notation.
    """
    if tree[0] == "neg":
        return tree[1][0] != "neg" and is_numeral(tree[1])
    if tree[0] != "/":
        return tree[0] == "number"
    top, bottom = (side[1] if side[0] == "neg" else side for side in tree[1:])
    if top[0] != "number" or bottom[0] != "number" or top[1].denominator * bottom[1].denominator != 1 or not bottom[1]:
        return False
    return top[1] % bottom[1] != 0 or bottom[1] == 1


def names_of(tree: Tree) -> list[str]:
    """Return the unknowns of a tree, each as often as it stands there."""
    if tree[0] == "name":
        return [tree[1]]
    return [name for part in tree[1:] if isinstance(part, tuple) for name in names_of(part)]
