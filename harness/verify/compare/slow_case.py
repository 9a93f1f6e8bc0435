"""One slow case graded inside a worker process: structure first, computer algebra for the formulas."""

from __future__ import annotations

from harness.verify.compare.answers import Comparison
from harness.verify.compare.latex_reader import Unparsable
from harness.verify.compare.symbolic import formulas_equal
from harness.verify.read.nodes import parse_node


def grade(gold: str, answer: str, percent: str, decimal_digits: int) -> tuple[str, str, bool]:
    """(verdict, method, whether the process should be replaced) of two canonical texts."""
    try:
        comparison = Comparison(
            percent, decimal_digits, lambda left, right: formulas_equal(left, right, decimal_digits)
        )
        equal = comparison.equal(parse_node(gold), parse_node(answer))
    except Unparsable:
        return "gold_unparsable", "math_verify", False
    except MemoryError:
        return "killed", "memory", True
    except RecursionError:
        return "over_limit", "math_verify", True
    except Exception as error:
        return "error", f"math_verify:{type(error).__name__}", False
    return "right" if equal else "wrong", "math_verify", False
