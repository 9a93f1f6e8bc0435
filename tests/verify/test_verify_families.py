"""Families of answers, each with pairs that must be equal and near misses that must not."""

from __future__ import annotations

import pytest

from harness.verify import MathVerifier, VerifierConfig

EQUAL = {
    "integers": [
        ("7", "007"), ("-0", "0"), ("1000000", "1,000,000"),
        ("1234", r"1\,234"), ("15000", r"\$15,\!000"), ("14916", "14{,}916"),
    ],
    "decimals": [("1", "1.0"), ("1.5", "1.50"), ("0.5", ".5"), ("1.22", "1,22"), ("1000.99", "1000,99"), ("0,111", "0.111")],
    "fractions": [
        ("1/2", r"\frac12"), (r"\frac{1}{72}", r"\frac1{72}"),
        ("0.75", r"\dfrac{3}{4}"), (r"-\frac{1}{2}", r"\frac{1}{-2}"), ("1/2", "½"),
    ],
    "rounded": [
        ("1/3", "0.333333"), (r"\frac{2}{1001}", "0.001998"), (r"\frac{200}{1001}", "0.199800"),(r"\frac{1}{12}", "0.0833333333333333"),
        (r"\sqrt{17}", "4.123105625617661"), (r"2\pi", "6.283185307"),
    ],
    "mixed numbers": [(r"2\frac{1}{2}", "2.5"), ("2 1/2", "5/2"), (r"918\frac{1}{2}", "918.5")],
    "scientific": [("1500", r"1.5 \times 10^3"), ("1500", "1.5e3"), (r"3 \times 10^{-8}", r"\frac{3}{10^8}")],
    "repeating": [("1/3", r"0.\overline{3}"), (r"\frac{4}{11}", r"0.\overline{36}")],
    "percent": [(r"28\%", "28 percent"), ("0.335", r"33.5\%"), (r"50\%", "50"), ("0.005", r"\frac{1}{2}\%"), ("3/4", r"75\%")],
    "units": [
        (r"12\text{ cm}", "12"), ("10", "10 minutes"),
        ("1 hour", "60 minutes"), (r"15\mbox{ cm}^2", "15"), ("5", r"5 \text{ apples}"),
    ],
    "money and angles": [("5", r"\$5.00"), (r"90^\circ", "90"), (r"90^\circ", "90 degrees"), (r"74^\circ", r"\angle APC = 74°")],
    "bases": [("204_5", "204_{5}"), ("1001_2", r"1001_{\text{two}}")],
    "surds": [
        (r"\sqrt2", r"\sqrt{2}"), (r"\sqrt{8}", r"2\sqrt{2}"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"), ("√2", r"\sqrt{2}"),
    ],
    "expressions": [("x^2+2x+1", "(x+1)^2"), ("b", "a+b-a"), ("1/sqrt(n)", "sqrt(1/n)"), (r"\tan^2(y)+1", r"\sec^2(y)"), ("2x", "2*x")],
    "spaces": [("x + c", "x+c"), ("- c", "-c"), ("v = at + d", "v=at+d"), (r"2 x y", "2yx")],
    "assignments": [("5", "x=5"), ("x=5", "5"), ("2=x", "x=2"), ("x=11", "x = 5+5+1 = 11"), ("(3,2)", "(p,q)=(3,2)"), ("1", "f(x)=1")],
    "lists": [
        ("1,2", "2 and 1"), (r"6 \text{ and } 8", "8, 6"),
        (r"x=1 \text{ or } x=2", "2, 1"), ("x=1, y=2", "y=2, x=1"), ("1331 and 1728", "1331, 1728"),
    ],
    "signs": [
        (r"1 \pm \sqrt{2}", r"1+\sqrt{2}, 1-\sqrt{2}"),
        (r"\pm 3", "3, -3"), (r"\{1\pm\sqrt{5},-2\}", r"\{-2, 1-\sqrt5, 1+\sqrt5\}"),
    ],
    "sets and tuples": [
        (r"\{1,2,3\}", r"\{3,2,1\}"), ("(1,2)", r"\left( 1, 2\right)"),
        ("(2,3),(4,5)", "(4,5),(2,3)"), (r"\emptyset", r"\{\}"),
    ],
    "intervals": [
        ("(-\\infty, 3]", "x \\le 3"), ("[1,2]", "1 \\le x \\le 2"),
        ("x \\in [1,2]", "[1,2]"), ("(1,2)\\cup(3,4)", "(3,4) \\cup (1,2)"),
    ],
    "inequalities": [("x<2", "2>x"), ("x < 1", "-x > -1"), ("x > 3 or x < -3", r"(-\infty,-3)\cup(3,\infty)")],
    "equations": [
        ("3x+5y=7", "6x+10y=14"), ("x^2+y^2=1", "y^2 + x^2 - 1 = 0"), ("y=2x+3", "2x+3"), ("x+y^2=1", "x=1-y^2"),
        ("(x-1)^2+(y+2)^2=9", "x^2-2x+y^2+4y=4"),
    ],
    "matrices": [
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1 & 2 \\ 3 & 4\end{bmatrix}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)"),
    ],
    "words": [(r"\text{Monday}", "monday"), ("yes", "Yes."), ("odd", r"\text{odd}"), ("no solution", r"\emptyset")],
    "choices": [("C", r"\text{(C)}"), ("(C)", "C"), ("C", "C. x = 42"), ("(D) Alina", "D")],
    "ratios and times": [("3:4", "6:8"), ("10:30", "10:30")],
    "complex": [("3+2i", "2i+3"), (r"\frac{3+i\sqrt{3}}{2}", r"\frac32 + \frac{\sqrt3}{2}i")],
    "functions": [(r"\log_2 8", "3"), ("5!", "120"), (r"\binom{5}{2}", "10"), (r"\sin 30^\circ", "0.5"), (r"\cos 2x", r"1-2\sin^2 x")],
    "ellipses": [(r"1,2,\ldots,n", r"1, 2, \dots, n")],
}  # fmt: skip
DIFFERENT = {
    "integers": [("42", "43"), ("1", "-1"), ("100000000000", "99999999999"), ("12345678901", "12345678902")],
    "decimals": [("5", "5.001"), ("2.6667", "2.67"), ("1/3", "0.33"), (r"\pi", "3.14"), ("3/10^8", "0.00000001")],
    "tiny": [("1/2^{99}", "1/2^{98}"), ("e^{-40}", "e^{-41}"), ("1/2004!", "1/2006!"), ("10^{-20}", "10^{-21}"), ("0", "1/2^{200}")],
    "huge": [("2^{2024}", "2^{2025}"), (r"\frac{2^{2024}-1}{3}", r"\frac{2^{2024}+2}{3}"), ("10^{100}", "10^{101}")],
    "bases": [("1001_2", "1001_3"), ("10_2", "10"), ("1112112_3", "1112122_3")],
    "mixed numbers": [("2", "2 2/3"), ("10", "4 10/3")],
    "lists": [
        ("1331 and 1728", "1728"), ("1,2", "1"), ("1", "1,2"),
        ("x=1, y=2", "x=2, y=1"), (r"\pm 3", "3"), ("19, 46, and 82", "21, 36, and 82"),
    ],
    "brackets": [("(0,1)", r"\{0,1\}"), ("[0,1]", "(0,1)"), ("(1,2,3)", "(3,2,1)"), ("[-3,2]", "(-3,2)"), ("(3,1)", "${1,3}$")],
    "ellipses": [(r"1,2,\ldots,n", r"1,3,5,\ldots,2n-1")],
    "surds": [("4", r"4\sqrt(2)"), ("4", r"4\sqrt{2}"), (r"\sqrt{8}", r"2\sqrt{3}"), ("2", r"\frac{1+\sqrt{5}}{2}")],
    "percent": [("0.28", "28"), (r"50\%", "5"), (r"\frac{28}{100}", "28")],
    "units": [(r"12\text{ cm}", r"12\text{ km}"), ("12 cm", "12 kg")],
    "symbols": [("X^2", "x^2"), ("x=5", "y=5"), ("ABC", "ACB"), ("p - q", "q - p"), ("k!", "k!!"), ("|x|", "x")],
    "expressions": [("x^2+2x+1", "(x-1)^2"), (r"\frac{n(n+1)}{2}", r"\frac{n(n-1)}{2}"), ("x+2n+1", "x+1"), ("3+2i", "3-2i")],
    "far out": [
        ("|x-5|", "5-x"), ("|x+10|", "x+10"), (r"\max(x,5)", "5"), (r"\min(x,10)", "x"), (r"\max(x+10,0)", "x+10"),
        ("|x-1|+|x-9|", "|x-1|+9-x"), ("|x-2024|", "2024-x"), ("|x-5|<3", "5-x<3"),
    ],
    "relations": [("x > 5", "x < 5"), (r"x \ge 5", "x > 5"), ("3x+5y=7", "3x+5y=8"), ("7 = 11a+c", "11a+c"), ("a+3z=0", "0")],
    "equations": [
        ("(x-1)^2+(y+2)^2=9", "x^2-2x+y^2+4y=5"), ("x+y^2=1", "x=1+y^2"),
        (r"y^2=4x", r"y=2\sqrt{x}"), ("(x-1)^2+(y+2)^2=9", "(a,b,c)=(3,-2,1)"),
    ],
    "words": [("yes", "no"), ("odd", r"\text{oddd}"), (r"\text{Evelyn}", "Carla"), ("C", "D"), ("12", "twelve")],
    "ratios and times": [("3:4", "4:3"), ("10:30", "10:31"), ("12:00", "1:00")],
    "matrices": [(r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}")],
}  # fmt: skip


def _cases(families: dict[str, list[tuple[str, str]]]) -> list[object]:
    return [
        pytest.param(*pair, id=f"{name}: {pair[0]} | {pair[1]}") for name, pairs in families.items() for pair in pairs
    ]


@pytest.mark.parametrize(("gold", "answer"), _cases(EQUAL))
def test_equal_answers_are_right_in_a_box_and_bare(verifier: MathVerifier, gold: str, answer: str) -> None:
    boxed, bare = verifier.verify_many([(f"So we get $\\boxed{{{answer}}}$.", gold), (answer, f"${gold}$")])
    assert (boxed.verdict, bare.verdict) == ("right", "right")


@pytest.mark.parametrize(("gold", "answer"), _cases(DIFFERENT))
def test_near_misses_are_wrong(verifier: MathVerifier, gold: str, answer: str) -> None:
    assert verifier.verify(f"So we get \\boxed{{{answer}}}.", gold).verdict == "wrong"


@pytest.mark.parametrize(("gold", "answer"), _cases(EQUAL))
def test_equivalence_is_symmetric(verifier: MathVerifier, gold: str, answer: str) -> None:
    assert verifier.equivalent(gold, answer)
    assert verifier.equivalent(answer, gold)


@pytest.mark.parametrize(("policy", "right"), [("either", {"50", "0.5"}), ("value", {"0.5"}), ("number", {"50"})])
def test_percent_policy_says_what_fifty_percent_is(policy: str, right: set[str]) -> None:
    with MathVerifier(VerifierConfig(percent=policy)) as verifier:
        assert {a for a in ("50", "0.5", "5", "5000") if verifier.verify(f"\\boxed{{{a}}}", r"50\%").correct} == right
