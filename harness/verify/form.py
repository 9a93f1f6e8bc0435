r"""The form of an answer: where the gold answer is a number, the answer has to be one as written, with nothing left to work out.

A number is an integer, a decimal, `\frac{6}{4}`, a mixed number, `3\times 10^5`, with a sign, a percent sign or a unit; not `3+27`, `2^{10}`,
`5!`, `\sqrt{16}`, `\frac{10}{2}`. Where the gold answer is no number, or one of its parts is none, any form of its value counts.
"""  # noqa: E501

from __future__ import annotations

from harness.verify.compare import is_name, value_forms
from harness.verify.read.grammar import Node


def is_unevaluated(gold: Node, answer: Node) -> bool:
    """Return whether an answer that equals a gold number leaves something to work out."""
    golds = _leaves(gold, strict=True)
    return bool(golds) and all(map(_is_done, golds)) and not all(map(_is_done, _leaves(answer, strict=False)))


def _is_done(leaf: Node) -> bool:
    return leaf.is_numeral or r"\infty" in leaf.text or leaf.text.startswith((r"\mathbb", r"\emptyset"))


def _leaves(node: Node, strict: bool) -> list[Node]:
    """Return the formulas that an answer consists of, without names; of several forms of one value that which is a number."""
    forms = list(node.items) if node.kind == "forms" else value_forms(node, strict) if node.kind == "relation" else []
    if forms:
        return _leaves(next((form for form in forms if all(map(_is_done, _leaves(form, strict)))), forms[0]), strict)
    if node.kind in ("words", "base") or (node.kind == "choice" and not node.items):
        return []
    if node.kind == "formula":
        return [node]
    is_inequality = node.kind == "relation" and "=" not in node.mark.split()
    items = [item for item in node.items if not (is_inequality and (is_name(item) or "|" in item.text))]
    return [leaf for item in items for leaf in _leaves(item, strict)]
