r"""The form of an answer: an answer that is equal to the gold one still counts only when nothing is left to work out.

An operation is *open* where it joins numbers alone and its value is rational: `3+27`, `2^{10}`, `5!`, `\sqrt{16}`,
`\frac{10}{2}`, and so are two terms that add up (`\sqrt3+\sqrt3`). A number as written has none: an integer, a decimal,
`\frac{6}{4}`, a mixed number, `3\times 10^5`, with a sign, a percent sign or a unit. Where the gold answer is a number, the
answer has to be one. Elsewhere it may use what the gold one uses, and is not the expression that the problem asks to rewrite.
"""

import re
from fractions import Fraction
from functools import lru_cache

from harness.verify.compare import value_forms
from harness.verify.read.expressions import TRIGONOMETRY, Tree, is_numeral, names_of
from harness.verify.read.grammar import Node
from harness.verify.read.tokens import render, tokenize
from harness.verify.read.values import calls, constant

_MORE_OPEN = 2  # open operations beyond the gold answer's, where that has such operations itself
_KINDS = {"binom": "factorial", "ln": "log", "lg": "log", "log_base": "log"}
_KINDS |= dict.fromkeys(("root", "abs", "degree", "percent", "exp"), "")
_SERIES = (r"\sum", r"\prod", r"\int", r"\lim")


def is_unevaluated(gold: Node, answer: Node, problem: str | None = None) -> bool:
    """Return whether an answer that equals the gold one leaves more to work out than that, or only repeats the problem."""
    golds, answers = _leaves(gold, strict=True), _leaves(answer, strict=False)
    scientific = sum("10^" in leaf.text for leaf in golds)
    if golds and all(map(_is_done, golds)) and not scientific:
        is_angle = golds[0].unit == "degree"
        is_open = any(not _is_done(leaf) and (not is_angle or _open(leaf.tree)) for leaf in answers)
    else:
        allowed = sum(_open(leaf.tree) for leaf in golds) + scientific
        allowed += _MORE_OPEN if allowed or gold.kind == "relation" else 0
        is_scalar = len(golds) == 1 and golds[0].tree is not None and not names_of(golds[0].tree)
        new = set().union(*map(_functions, answers)) - set().union(*map(_functions, golds))
        is_open = sum(_open(leaf.tree) for leaf in answers) > allowed or (is_scalar and bool(new))
    if is_open or problem is None or len(golds) != 1 or len(answers) != 1:
        return is_open
    return _is_restated(golds[0], answers[0], problem)


def is_open(gold: Node) -> bool:
    """Return whether a gold answer itself leaves something to work out."""
    return any(_open(leaf.tree) for leaf in _leaves(gold, strict=True))


def _is_done(leaf: Node) -> bool:
    return leaf.is_numeral or leaf.text.lstrip("+-").startswith((r"\infty", r"\mathbb", r"\emptyset"))


def _leaves(node: Node, strict: bool) -> list[Node]:
    """Return the formulas that an answer consists of, without names; of several forms of one value that which is a number."""
    forms = list(node.items) if node.kind == "forms" else value_forms(node, strict) if node.kind == "relation" else []
    if forms:
        found = [_leaves(form, strict) for form in forms]
        return min(found, key=lambda leaves: sum(2 * _open(leaf.tree) + (not _is_done(leaf)) for leaf in leaves))
    if node.kind in ("words", "base") or (node.kind == "choice" and not node.items):
        return []
    if node.kind == "formula":
        return [node]
    is_inequality = node.kind == "relation" and "=" not in node.mark.split()
    items = [item for item in node.items if not (is_inequality and item.tree is not None and names_of(item.tree))]
    return [leaf for item in items for leaf in _leaves(item, strict)]


def _open(tree: Tree | None) -> int:
    """Return how many operations of a syntax tree are open; numbers of one sum or product are, wherever they stand."""
    if tree is None or is_numeral(tree):
        return 0
    parts = [part for part in tree[1:] if isinstance(part, tuple)]
    count = 0
    if tree[0] in ("+", "-", "*"):
        parts = _chain(tree, "*" if tree[0] == "*" else "+-")
        surds = [part for part in parts if not isinstance(constant(part), Fraction)]
        like = [_without_numbers(part) for part in surds if tree[0] != "*" and not names_of(part)]
        count = max(len(parts) - len(surds) - 1, 0) + len(like) - len(set(like))
    elif tree[0] != "neg" and isinstance(constant(tree), Fraction):
        return 1
    return count + sum(map(_open, parts))


def _chain(tree: Tree, operators: str) -> list[Tree]:
    """Return the terms of a sum or the factors of a product; another tree alone."""
    return [tree] if tree[0] not in operators else [*_chain(tree[1], operators), *_chain(tree[2], operators)]


def _without_numbers(term: Tree) -> tuple[Tree, ...]:
    """Return the factors of a term that are no numbers; terms that have the same ones add up."""
    factors = _chain(term[1] if term[0] == "neg" else term, "*")
    return tuple(sorted((factor for factor in factors if not isinstance(constant(factor), Fraction)), key=repr))


def _functions(leaf: Node) -> set[str]:
    """Return the functions that a formula uses, by their kinds."""
    called = calls(leaf.tree) if leaf.tree is not None else ()
    kinds = {_KINDS.get(name, "sin" if name in TRIGONOMETRY else name) for name in called}
    return kinds.union(sign for sign in _SERIES if sign in leaf.text) - {""}


def _is_restated(gold: Node, answer: Node, problem: str) -> bool:
    """Return whether an answer only repeats what the problem's text says: an expression, or a number in another notation."""
    is_plain = answer.is_numeral and (gold.is_numeral or answer.unit == gold.unit) and answer.percent <= gold.percent
    is_spelling = is_plain or (gold.tree is not None and gold.tree == answer.tree)
    if gold.text == answer.text or (is_spelling and "10^" not in answer.text):
        return False
    text = re.escape("".join(answer.text.split()))
    return re.search(rf"(?<![\d.]){text}(?!\d|\.\d)", _shown(problem)) is not None


@lru_cache(maxsize=4_096)
def _shown(problem: str) -> str:
    """Return the text of a problem as an answer writes it; nothing where it is too long."""
    try:
        return "".join(render(tokenize(problem)).split())
    except RecursionError:
        return ""
