r"""Congruences: `x \equiv 10 \pmod 7` and `x \equiv 3 \pmod{7}` are one answer."""

from __future__ import annotations

import re

from harness.verify.read.nodes import Node, parse_node

_CONGRUENCE = re.compile(
    r"(?:([a-zA-Z](?:_\{?\w+\}?)?|[^=<>]{2,20}?)\s*(?:\\equiv|=)\s*)?([^=<>\\]{1,200}?)\s*,?\s*\\mod\s*\{?\s*(\d{1,40})\s*\}?"
)


def same_congruence(gold: Node, answer: Node) -> bool | None:
    """Return whether two congruences, or a congruence and its residue, say the same; None when neither is a congruence of integers."""
    left, right = _parts(gold), _parts(answer)
    if left is not None and right is not None:
        names = {name for name, _, _ in (left, right) if name}
        if len(names) > 1 or left[2] != right[2] or not left[2]:
            return False
        return {residue % left[2] for residue in left[1]} == {residue % left[2] for residue in right[1]}
    known, other = (left, answer) if left is not None else (right, gold)
    if known is None or not known[0] or other.kind not in ("exact", "list"):
        return None
    return sorted(known[1]) == sorted(_integers(other) or ())


def _parts(node: Node) -> tuple[str, list[int], int] | None:
    """(what is congruent, to which residues, modulus)."""
    match = _CONGRUENCE.fullmatch(node.text) if len(node.text) < 400 else None
    residues = _integers(parse_node(match[2])) if match is not None else None
    if match is None or residues is None:
        return None
    return re.sub(r"\s", "", match[1] or ""), residues, int(match[3])


def _integers(node: Node) -> list[int] | None:
    """The integers of an integer or a list of integers."""
    values = [item.exact.value if item.exact is not None else None for item in node.items or (node,)]
    if not all(value is not None and value.denominator == 1 for value in values):
        return None
    return [int(value) for value in values if value is not None]
