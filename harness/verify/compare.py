"""Three-valued comparison of two answers: equal, different, or not decidable without Math-Verify.

Structure is compared here, part by part; a pair of formulas without values goes to `leaf`. In the parent process `leaf` answers None,
which sends the whole pair to a worker.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from harness.verify.read.answers import read_text
from harness.verify.read.expressions import names_of
from harness.verify.read.grammar import Node, agree
from harness.verify.read.symbols import GREEK
from harness.verify.read.values import DECIMAL_DIGITS, as_real, ratio_sign, trees_equal
from harness.verify.regions import same_set

Leaf = Callable[[str, str], bool | None]
_MAX_UNORDERED = 64
_MOST_SIDES = 12  # of numbers in a chain of equations
_TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
_SET_SIGNS = ("<", ">", r"\le", r"\ge", r"\ne", r"\mathbb", r"\cup", r"\in")
# What names a quantity: `x`, `x_1`, `f(x)`, `f'(1)`, `P(A)`, `AB`, `|AB|`, `[ABC]`, `\overline{AB}`, `(p,q)`.
_LETTER = rf"(?:\\(?:{'|'.join(GREEK)})|[A-Za-z]|[A-Z]{{2,4}})'*(?:_(?:\{{[^{{}}]*\}}|\w))?"
_NAME = re.compile(
    rf"{_LETTER}(?:\^\{{?(?:-1|\*)\}}?)?(?:\([^=<>]*\))?|\|[A-Z]{{2,3}}\||\[[A-Z]{{3,}}\]|\\overline\{{[A-Z]{{1,3}}\}}|\((?:{_LETTER},)+{_LETTER}\)"
    r"|\\(?:deg|arg|det|min|max|Re|Im)[^\d=]*"
)
_BARE_LOG = re.compile(r"\\log(?!\s*_)")


class Comparison:
    """Compares answers under a percent policy of `VerifierConfig`; `leaf` decides two formulas, None where it cannot."""

    def __init__(self, percent: str, leaf: Leaf) -> None:
        self.percent = percent
        self.leaf = leaf

    def equal(self, gold: Node, answer: Node) -> bool | None:
        """Return whether an answer equals the gold one; None when `leaf` could not tell."""
        kinds = {gold.kind, answer.kind}
        if _squeezed(gold) == _squeezed(answer):
            return True
        if _differ_in_measure(gold, answer):
            return False
        if "forms" in kinds:
            golds, answers = (node.items if node.kind == "forms" else (node,) for node in (gold, answer))
            return _any(self.equal(one, other) for one in golds for other in answers)
        if kinds == {"choice"} or any(node.kind == "choice" and node.items for node in (gold, answer)):
            return self._options(gold, answer)
        if "words" in kinds:
            return kinds == {"words"} and gold.mark == answer.mark
        is_set = any(sign in gold.text + answer.text for sign in _SET_SIGNS)
        if is_set and (same := same_set(gold, answer)) is not None:
            return same
        if "relation" in kinds:
            return self._relations(gold, answer)
        return self._structures(gold, answer)

    def _options(self, gold: Node, answer: Node) -> bool | None:
        """Options: by their letters where both have one, else by the text beside the letter."""
        if gold.kind == answer.kind:
            is_option = gold.items or answer.items or gold.mark.upper() in "ABCDE"
            return gold.mark.upper() == answer.mark.upper() if is_option else gold.mark == answer.mark
        return self.equal(*(node.items[0] if node.kind == "choice" and node.items else node for node in (gold, answer)))

    def _relations(self, gold: Node, answer: Node) -> bool | None:
        """By the values that relations give; two that give none, by whether one is a multiple of the other, or turned round."""
        relation, other = (answer, gold) if answer.kind == "relation" else (gold, answer)
        if other.kind == "list" and relation.mark == r"\in" and relation.items[1].kind == "bracket":
            return False
        strict = relation is gold or gold.kind in ("relation", "list", "set")
        forms = [value_forms(node, strict) if node.kind == "relation" else [node] for node in (gold, answer)]
        if all(forms):
            names = assigned_name(gold), assigned_name(answer)
            if all(names) and names[0] != names[1] and not _may_be_renamed(*names):
                return False
            return _any(self.equal(one, other) for one in forms[0] for other in forms[1])
        if other.kind != "relation":
            is_unread = other.kind == "formula" and other.tree is None
            is_open = relation is answer and "=" in relation.mark
            return self._by_leaf(gold, answer) if not is_open and (is_unread or other.kind == "bracket") else False
        is_pair = len(gold.items) == len(answer.items) == 2
        if not is_pair or any(item.tree is None for item in (*gold.items, *answer.items)):
            return self._by_leaf(gold, answer)
        sign = ratio_sign(*(("-", node.items[0].tree, node.items[1].tree) for node in (gold, answer)))
        if not sign:
            return self._by_leaf(gold, answer) if sign is None or gold.mark == answer.mark == "=" else False
        return answer.mark == (gold.mark if sign > 0 else _TURNED.get(gold.mark, gold.mark))

    def _structures(self, gold: Node, answer: Node) -> bool | None:
        kinds = {gold.kind, answer.kind}
        if kinds <= {"formula", "choice"}:
            return self._formulas(gold, answer)
        if kinds == {"bracket"}:
            # `[1,2,3]` is a tuple as well; of two numbers it is an interval.
            is_tuple = {gold.mark, answer.mark} == {"()", "[]"} and len(gold.items) > 2
            return self._sequences(gold.items, answer.items) if gold.mark == answer.mark or is_tuple else False
        if kinds == {"list", "bracket"}:
            bracket, several = (gold, answer) if gold.kind == "bracket" else (answer, gold)
            if bracket.mark == "()":
                return self._sequences(_bare(gold.items), _bare(answer.items))
            return self._lists(gold.items, answer.items) if bracket.mark == "[]" and several.mark != r"\pm" else False
        if kinds == {"union"} and r"\setminus" in gold.mark + answer.mark:
            return self._sequences(gold.items, answer.items) if gold.mark == answer.mark else False
        if kinds <= {"list", "set"} or kinds == {"union"}:
            return self._lists(gold.items, answer.items)
        for whole, single in ((gold, answer), (answer, gold)):
            if whole.kind == "set" and len(whole.items) == 1 and whole.items[0].text != r"\emptyset":
                return self.equal(*(node.items[0] if node is whole else node for node in (gold, answer)))
            if whole.kind != "set" and single.kind == "formula" and single.tree is None:
                return self._by_leaf(gold, answer)
        return self._notations(gold, answer)

    def _notations(self, gold: Node, answer: Node) -> bool | None:
        """Numbers of a base by their digits, ratios by their quotients; `3:4` is the number 3/4, but `3:1` is not 3."""
        kinds = {gold.kind, answer.kind}
        if "base" in kinds:
            marks = (
                node.mark.removesuffix("_10") if node.kind == "base" else node.text.replace(",", "")
                for node in (gold, answer)
            )
            return len(set(marks)) == 1
        if "ratio" not in kinds or not kinds <= {"ratio", "formula", "choice"}:
            return False
        sides = [[item.number for item in node.items] or [node.number, Fraction(1)] for node in (gold, answer)]
        if not all(isinstance(number, Fraction) and number for side in sides for number in side):
            return self._sequences(gold.items, answer.items) if gold.kind == answer.kind else False
        quotients = {a / b for a, b in zip(*sides, strict=False)}
        is_integer = any(not node.items and node.number.denominator == 1 for node in (gold, answer))
        return len(sides[0]) == len(sides[1]) and len(quotients) == 1 and not is_integer

    def _lists(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        """Lists and sets: by name where the items have names, else in any order and whatever is said twice."""
        names, others = ([assigned_name(node) for node in nodes] for nodes in (gold, answer))
        if all(names) and sorted(names) == sorted(others) and len(set(names)) == len(gold):
            return self._sequences(*(sorted(nodes, key=assigned_name) for nodes in (gold, answer)))
        known = {*names, *others} - {""}
        is_one = len({name.partition("_")[0] for name in known}) < 2  # x_1, x_2
        if not is_one:
            is_other = any(names) and any(others) and {*names} != {*others}
            return False if is_other else self._sequences(_bare(gold), _bare(answer))
        return self._multisets(_distinct(_bare(gold)), _distinct(_bare(answer)))

    def _sequences(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool | None:
        found = {False} if len(gold) != len(answer) else set(map(self.equal, gold, answer))
        return False if False in found else None if None in found else True

    def _multisets(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool | None:
        if len(gold) != len(answer) or len(gold) > _MAX_UNORDERED:
            return self._sequences(gold, answer)
        candidates, unknown = list(answer), False
        for item in gold:
            verdicts = [self.equal(item, candidate) for candidate in candidates]
            if True in verdicts:
                candidates.pop(verdicts.index(True))
            elif None in verdicts:
                unknown = True
            else:
                return False
        return None if unknown else True

    def _formulas(self, gold: Node, answer: Node) -> bool | None:
        if gold.tree is None or answer.tree is None:
            return self._by_leaf(gold, answer)
        if r"\ln" in gold.text and r"\log" not in gold.text and _BARE_LOG.search(answer.text):
            return self._formulas(gold, read_text(_BARE_LOG.sub(r"\\ln", answer.text)))  # beside `\ln` it is natural
        for degrees, other in ((gold, answer), (answer, gold)):
            if degrees.unit == "degree" and not other.unit and r"\pi" in other.text:
                radians = replace(degrees, tree=("call", "degree", degrees.tree), unit="")
                return self._formulas(*((radians, other) if other is answer else (other, radians)))
        if gold.percent != answer.percent:
            return self._percent_equal(*((gold, answer) if gold.percent else (answer, gold)))
        if any(node.is_out_of_reach for node in (gold, answer)):
            return False  # equal by its text alone
        a, b = gold.number, answer.number
        is_exact = isinstance(a, Fraction) and isinstance(b, Fraction)
        equal = a == b if is_exact else trees_equal(gold.tree, answer.tree)
        if equal is False and max(gold.decimals, answer.decimals) >= 0:
            return agree(gold, answer, DECIMAL_DIGITS)
        return self._by_leaf(gold, answer) if equal is None else equal

    def _percent_equal(self, percentage: Node, plain: Node) -> bool:
        """`50%` is the number 0.5, and 50 as well; a plain number below one is never a percentage: `0.5%` is not 0.5."""
        is_small = isinstance(plain.number, Fraction) and 0 < abs(plain.number) < 1
        same_number = not is_small and agree(replace(percentage, percent=False), plain, DECIMAL_DIGITS)
        same_value = agree(percentage, plain, DECIMAL_DIGITS)
        return {"either": same_number or same_value, "value": same_value, "number": same_number}[self.percent]

    def _by_leaf(self, gold: Node, answer: Node) -> bool | None:
        """Ask Math-Verify; what lacks an operand is no formula."""
        if gold.text.count("'") != answer.text.count("'"):
            return False  # Math-Verify takes `y''` for `y`
        unread = (node.text for node in (gold, answer) if node.kind == "formula" and node.tree is None)
        return self.leaf(gold.text, answer.text) if all(any(map(str.isalpha, text)) for text in unread) else False


def _any(verdicts: Iterable[bool | None]) -> bool | None:
    found = set(verdicts)
    return True if True in found else None if None in found else False


def _squeezed(node: Node) -> str:
    text = "".join(node.text.replace(", ", ";").split())  # `1, 200` is not `1,200`
    return text.casefold() if len(text) > 3 and node.is_text else text


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    seen: dict[object, Node] = {}
    for node in nodes:
        number = node.number if node.kind == "formula" else None
        seen.setdefault((number, node.percent) if isinstance(number, Fraction) else _squeezed(node), node)
    return list(seen.values())


def _differ_in_measure(gold: Node, answer: Node) -> bool:
    """Return whether two answers have two units or moduli; one on one side only is ignored, and so are things that are counted."""
    shorter, longer = sorted((gold.unit, answer.unit), key=len)
    is_kind_of = shorter in ("", "degree", "dollar", "euro") and longer.startswith(shorter)
    return (shorter != longer and not is_kind_of) or len({gold.modulus, answer.modulus} - {""}) > 1


def is_name(node: Node) -> bool:
    """Return whether a side of an equation names a quantity."""
    return node.kind == "words" or (node.text != r"\pi" and _NAME.fullmatch("".join(node.text.split())) is not None)


def value_forms(relation: Node, strict: bool) -> list[Node]:
    r"""Return the forms of the value that a relation gives: of `x = 5`, `5 = x`, `\sqrt2 \approx 1.41` and `x = 2+3 = 5`.

    None where its sides contradict each other (`3+4 = 42`), or where it asks for an unknown: `\frac{x}{2} = 5`, `\ln x = 5`.
    `strict`: the left side must be a name or a number.
    """
    signs, items = relation.mark.split(), relation.items
    first, rest, last = items[0], list(items[1:]), items[-1]
    if signs == [r"\in"]:
        return [last] if is_name(first) and last.kind in ("bracket", "set", "union", "list") else []
    if signs == [r"\equiv"]:
        return [last] if is_name(first) or first.number is not None else []
    if any(sign not in ("=", r"\approx") for sign in signs) or _contradicts(relation):
        return []
    if is_name(first):
        return [item for item in rest if item.text != first.text and (item is last or item.number is not None)]
    if last.kind == "bracket" and any(item.kind == "bracket" for item in last.items):
        return [last]  # A^2 = a matrix
    constants = [item for item in items if item.number is not None]
    if len(constants) == len(items) or (len(items) == 2 and is_name(last)):
        return constants
    # One unknown, once, is asked for, and so is `\{x\} = 5`; but `\pi r^2 = 25\pi` says the area.
    asked = (first.items[0] if first.kind == "set" != last.kind else first).tree
    asks = len(items) == 2 and asked is not None and len(names_of(asked)) == 1 and r"\pi" not in first.text
    if strict or asks or last.kind == "words":
        return []
    if last.kind == "formula" and last.tree is None:
        return [last]
    return [last, *(item for item in constants if item is not last)]


def _contradicts(relation: Node) -> bool:
    """Return whether sides are numbers that no rounding makes equal; beside a sign of approximation a formula may be off by a hundredth."""
    loose = r"\approx" in relation.mark
    constants = [item for item in relation.items if item.number is not None and not is_name(item)]
    return len(constants) > _MOST_SIDES or not all(
        agree(a, b, 1)
        or (a.percent != b.percent and agree(replace(a, percent=False), replace(b, percent=False), 1))
        or (loose and (agree(a, b, 0) if a.is_numeral and b.is_numeral else abs(x - y) <= abs(x) / 50))
        for (a, x), (b, y) in combinations(((item, as_real(item.number)) for item in constants), 2)
    )


def assigned_name(node: Node) -> str:
    """Return the name that an assignment gives a value to, empty for other nodes."""
    if node.kind != "relation" or node.mark.split()[0] not in ("=", r"\approx", r"\in", r"\equiv"):
        return ""
    sides = [side for side in (node.items[0], node.items[-1]) if is_name(side) and side.kind != "words"]
    return "".join(char for char in sides[0].text if char not in " {}") if sides else ""


def _bare(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return items without the names assigned to them."""
    return tuple((value_forms(node, strict=True) or [node])[-1] if node.kind == "relation" else node for node in nodes)


def _may_be_renamed(gold: str, answer: str) -> bool:
    """Return whether two names may name one thing: `f(x)` and `y`; `x_1` and `x_2`, `(p,q)` and `(q,p)`, `AB` and `CD` are two."""
    is_y = "(" not in (gold[0], answer[0]) and (gold in "yz" or answer in "yz")
    return "(" in gold + answer and sorted(gold) != sorted(answer) and (is_y or gold[0] == answer[0])
