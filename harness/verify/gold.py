"""Gold answers: the answer in a gold text, prepared once for all responses that are compared with it."""

from __future__ import annotations

import re

from harness.verify.extract import extract
from harness.verify.limits import over_limit
from harness.verify.read.canonical import canonical_text
from harness.verify.read.nodes import Node, parse_node

_SHORT_GOLD = 120
_SAYS_ANSWER = re.compile(r"\s*(?:the\s+)?(?:final\s+)?answer\s*(?:is\b|:|=)(?=.*\d)", re.IGNORECASE)
_HAS_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


class Gold:
    """A gold answer prepared once: its canonical text and node, and its value when it is a plain integer."""

    __slots__ = ("integer", "node", "raw", "refused", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw.strip()
        self.text = canonical_text(_gold_answer(raw))
        self.refused = not self.text or over_limit(self.text)
        self.node: Node | None = None
        try:
            self.node = None if self.refused else parse_node(self.text)
        except RecursionError:
            self.refused = True
        exact = self.node.exact if self.node is not None else None
        plain = (
            exact is not None and not exact.percent and exact.unit is None and exact.value.denominator == 1
        )
        self.integer = str(exact.value) if exact is not None and plain else None


def _gold_answer(raw: str) -> str:
    """The answer in a gold text: its box when it has one, the last line of a worked solution, else the text itself."""
    if opener := _HAS_BOX.search(raw):
        found = extract(raw, "boxed")
        rest = raw[opener.end() :].strip()
        if found is None:
            return "" if rest.startswith("}") else rest
        return ", ".join(found.neighbours) or found.text
    if "####" in raw:
        return raw.rpartition("####")[2]
    if said := _SAYS_ANSWER.match(raw):
        return raw[said.end() :]
    if "\n" in raw.strip() and (found := extract(raw, "answer_line")) is not None:
        return found.text
    if len(raw) > _SHORT_GOLD and raw.count(" ") > _SHORT_GOLD // 8:
        found = extract(raw, "any")
        return raw if found is None else found.text
    return raw
