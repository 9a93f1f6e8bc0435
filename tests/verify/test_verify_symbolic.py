"""Computer algebra: what cannot be read, and points that tell only different equations apart."""

from __future__ import annotations

import pytest

from harness.verify import MathVerifier
from harness.verify.compare.symbolic import Unparsable, parse_formula


@pytest.mark.parametrize("text", ["x+", r"\frac{1}", "3 4 +* 5", ")("])
def test_what_latex2sympy_does_not_read_is_unparsable(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_formula(text)


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("(x-1)^2+(y+2)^2=9", "x^2-2x+y^2+4y=4", True),
        ("(x-1)^2+(y+2)^2=9", "x^2-2x+y^2+4y=5", False),
        ("x+y^2=1", "x=1-y^2", True),
        ("x+y^2=1", "x=1+y^2", False),
        (r"y^2=4x", r"y=2\sqrt{x}", False),
        ("(x-1)^2+(y+2)^2=9", "(a,b,c)=(3,-2,1)", False),
    ],
)
def test_equations_keep_their_verdicts(verifier: MathVerifier, gold: str, answer: str, right: bool) -> None:
    assert verifier.verify(rf"\boxed{{{answer}}}", gold).verdict == ("right" if right else "wrong")
