"""Hostile texts: each is answered, none keeps this process busy, and none is right unless it is."""

from __future__ import annotations

import random
import time

import pytest

from harness.verify import MathVerifier

ANSWERS = {
    "nested text": r"\text{" * 300 + "1" + "}" * 300,
    "nested roots": r"\sqrt{\mathrm{" * 12 + "1" + "}}" * 12,
    "nested fractions": r"\frac{1+" * 20 + "x" + r"}{2}" * 20,
    "nested brackets": "[(" * 11 + "1,2" + ")]" * 11,
    "nested indices": "x" + "_{x" * 22 + "}" * 22,
    "nested over": r"{1\over " * 20 + "2" + "}" * 20,
    "nested matrices": r"\begin{pmatrix}" * 8 + "1" + r"\end{pmatrix}" * 8,
    "nested binomials": r"\binom{\binom{3000}{1500}}{\binom{3000}{1499}}",
    "tower of powers": "9^{9^{9^9}}",
    "factorial of a power": "(10^8)!",
    "five thousand digits": "1" * 5000,
    "power of a sum": "(x+1)^{9999}",
    "indices": "x_" * 1000,
    "power of a power": "(7^{9999})^{99}",
    "exponential of a power": "e^{9999^{3}}",
    "factorials of factorials": "((((5!)!)!)!)",
    "many factorials": "+".join(["3000!"] * 30),
    "giant sum": r"\sum_{k=-10^9}^{10^9} k^k",
    "sum of sums": r"\sum_{i=1}^{9999}\sum_{j=1}^{9999} \frac{i}{j}",
    "sum to a letter": r"\sum_{k=1}^{N} k!",
    "giant product": r"\prod_{k=1}^{10^{9}} \sin k",
    "hard integral": r"\int_0^\infty \frac{\sin(x^3+\ln x)}{x^x+1} dx",
    "hard limit": r"\lim_{x\to 0} \frac{\sin(\tan x)-\tan(\sin x)}{x^7}",
    "derivatives": r"\frac{d^{99}}{dx^{99}} \tan(e^x)",
    "polynomial": "(" + "+".join("abcdefghij") + ")^{99}",
    "sum of roots": "+".join(rf"\sqrt{{{number}}}" for number in range(2, 90)),
    "sum of cosines": "+".join(rf"\cos\frac{{{number}\pi}}{{97}}" for number in range(1, 49)),
    "zero width": "4\u200b" * 4000,
    "right to left": "\u202e" * 100_000 + "42",
    "combining marks": "x" + "\u0301" * 4000,
    "giant integer": "9" * 4000,
    "exponent of digits": "9" * 400 + "^" + "9" * 4,
    "1e999999": "1e999999",
    "NaN": "NaN",
    "infinity by infinity": r"\frac{\infty}{\infty}",
    "zero by zero": "0/0",
    "undefined": r"\text{undefined}",
    "100000 items": ",".join(map(str, range(100_000))),
    "a set of 100000": r"\{" + ",".join(map(str, range(100_000))) + r"\}",
    "formulas": ",".join(rf"\sqrt{{{number}}}+x" for number in range(300)),
    "a matrix of 900": r"\begin{pmatrix}" + "&".join(["x"] * 900) + r"\end{pmatrix}",
    "a determinant": r"\begin{vmatrix}" + r"\\".join("&".join(f"a_{{{i}{j}}}" for i in range(9)) for j in range(9)) + r"\end{vmatrix}",
    "power of a matrix": r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{9999}",
    "intervals": r"\cup".join(["(0,1)"] * 200),
    "differences": r"\mathbb{R}" + r"\setminus\{1\}" * 39,
    "bars": "|" * 60 + "x" + "|" * 60,
    "chain of signs": "<".join(["x"] * 200),
    "chain of equations": "=".join(["x"] * 390),
    "conditions": "x=1 where " + "y where " * 300,
    "membership": "x" * 40 + r"\in" + "y" * 4000,
    "units": "5 " + "cm " * 1000,
    "mixed units": "3 hours and " * 400 + "5",
    "congruences": r"x\equiv 3 \pmod 7 " * 30,
    "French intervals": "]1,2[" * 80,
    "unit vectors": "+".join(["2i+3j"] * 60),
    "times of day": "12:34 " + "p" * 3000,
    "minus signs": "-" * 399 + "5",
    "tags": "<sup>" * 900,
    "cases": r"\begin{cases}" + r"x&x>0\\" * 300 + r"\end{cases}",
    "repeating": "0." + "123456" * 60 + r"\ldots",
}  # fmt: skip
UNITS = (
    r"\boxed{", r"\boxed {\fbox {\beginboxed{", "oxed{", r"\boxed{1} and ", "Answer: ", "the answer the answer ", "solution is wrong\n",
    '{"answer": ', "</think><think>", "$1", r"\[1", "1,234,567 ", "1", "(A) ", "import os\n", "I hope ", ". A", "$5 € ", "$1 is $2 ",
    "20 and 18 are ", "It is 5.", "final answer is ", "not (A), ", "1/", "\x00",
)  # fmt: skip
TEXTS = {
    **{repr(unit): unit * (2_000_000 // len(unit)) for unit in UNITS},
    "braces in a box": r"\boxed{" + "{" * 2_000_000,
    "box and spaces": "\\boxed" + " " * 2_000_000 + "{1}",
    "backslashes and a box": "\\" * 2_000_000 + "boxed{42",
    "escaped braces": r"\boxed{" + r"\}" * 1_000_000,
    "dollars behind a number": "43 is the of of 99 " + "$5 " * 60 + "x.",
    "brackets behind a number": "43 is " + "1 (1 " * 700 + ")",
    "spaces": " " * 2_000_000 + "42",
    "stars": "**" * 1_000_000 + "42",
}
OWN_CPU_SECONDS = 30  # a text of megabytes takes under one; whoever reads it once per character takes hours


def _none_is_right(verifier: MathVerifier, *pairs: tuple[str, str]) -> bool:
    began = time.process_time()
    verdicts = verifier.verify_many(pairs)
    assert time.process_time() - began < OWN_CPU_SECONDS
    return not any(verdict.correct for verdict in verdicts)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_hostile_answer_is_right_nowhere(impatient: MathVerifier, name: str) -> None:
    text = ANSWERS[name]
    assert _none_is_right(impatient, (f"\\boxed{{{text}}}", "x^2+42"), (text, "x^2+42"))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_hostile_gold_stops_nothing_and_takes_no_near_answer(impatient: MathVerifier, name: str) -> None:
    text = ANSWERS[name]
    assert _none_is_right(impatient, (r"\boxed{x^2+42}", text))
    if r"\infty" not in text and "where" not in text:  # one more than infinity is infinity, and a remark says nothing
        assert _none_is_right(impatient, (f"\\boxed{{{text}}}", f"{text}+1"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_megabytes_is_read_in_time(impatient: MathVerifier, name: str) -> None:
    assert _none_is_right(impatient, (TEXTS[name], "x^2+43"), (TEXTS[name], "43"))


def test_no_sampled_answer_ends_a_run(verifier):
    """What a policy writes into a box is read or refused, whatever it is: `?3,7` once ended training."""
    draw, golds = random.Random(0), ["5", "1/2", "3, 2", "(1,2)", "0 and 1/2", "C(5,2)"]
    pieces = [*"?+-²½,.30/()={}^π", " and ", "C(", "27", "\\%", "5,7", "2;3"]
    for _ in range(4000):
        answer = "".join(draw.choices(pieces, k=draw.randint(1, 6)))
        assert verifier.verify(f"\\boxed{{{answer}}}", draw.choice(golds)).verdict
