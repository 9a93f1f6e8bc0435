"""Faults that users of graders reported, or that reading found: each had another verdict before, or is a neighbour that must stay wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.verify import MathVerifier, VerifierConfig
from harness.verify.read.numbers import is_unit

# Kind to (gold, response, is right).
KINDS: dict[str, list[tuple[str, str, bool]]] = {
    "one rule for boxes and answer lines": [
        ("42", "First, \\boxed{x = 7}. Times six.\n\nAnswer: 42", True), ("7", "\\boxed{7} boxes of six.\n\n#### 42", False),
        ("D", "We know \\boxed{E = mc^2}.\n\n**Answer: D**", True), ("42", "So \\boxed{7} each.\n\n<answer>42</answer>", True),
        ("42", "\\boxed{7}\n\nThus, the final answer is 42.", True), ("7", "Answer: 8\n\nWait: \\boxed{7}", True),
        ("7", "\\boxed{7}\n\nThe answer is reasonable because 6+1=7.", True), ("7", "\\boxed{7}\nAnswer: see above.", True),
        ("7", "\\boxed{7}\n\nAnswer check: 3+4 = 7, 2*3=6", True), ("7", "## Answer\n\n\\boxed{7}", True),
        ("7", "The answer is not \\boxed{7}.", False), ("7", "Is it \\boxed{7}?", False), ("7", "It isn't \\boxed{7}", False),
        ("7", "It can't be \\boxed{7}", False), ("7", "\\boxed{7} is not correct.", False), ("7", "I can't believe it: \\boxed{7}", True),
        ("8", "\\boxed{8}. So it is not \\boxed{7}.", True), ("7", "\\boxed{8}, never \\boxed{7}", False),
        ("7", "It is not even. \\boxed{7}", True),
        ("42", "<think>\\boxed{42}</think>\n\nI could not find it.", False), ("42", "<think>\\boxed{42}</think>", True),
    ],
    "times and ratios": [
        ("30", "The train arrives at 4:30 p.m.", False), ("4:30 p.m.", "The train arrives at 4:30 p.m.", True),
        ("5", "The score was 3:5.", False), ("4:30", "It arrives at 4:30.", True), ("2:30", "It leaves at 12:30.", False),
        ("16:30", r"\boxed{4:30 p.m.}", True), ("4:30 a.m.", r"\boxed{16:30}", False), ("3:5", r"\boxed{5:3}", False),
    ],
    "dates": [
        ("2024-06-20", r"\boxed{1998}", False), ("2024-06-20", r"\boxed{2018-06-14}", False), ("1998", r"\boxed{2024-06-20}", False),
        ("2024-06-20", r"\boxed{June 20, 2024}", True), ("20 June 2024", r"\boxed{\text{June } 20, 2024}", True),
        ("3/4/2025", r"\boxed{6/8/2025}", False), ("3/4/2025", r"\boxed{03/04/2025}", True), ("3/4/2025", r"\boxed{March 4, 2025}", False),
        ("6/20/2024", r"\boxed{June 20, 2024}", True), ("June 20", r"\boxed{20 June}", True), ("June 20", r"\boxed{June 21}", False),
        ("20 June", r"\boxed{June 20}", True), ("June 20", r"\boxed{20^{th} June}", True), ("20 June", r"\boxed{20}", False),
        ("20 June", r"\boxed{20 July}", False), ("12 May", r"\boxed{12}", False),
        ("2024-06-20", r"\boxed{2024年6月20日}", True), ("June 20th, 2024", r"\boxed{the 20th of June 2024}", True),
    ],
    "equations": [
        ("x+y=5", r"\boxed{5}", False), ("2x+3=7", r"\boxed{7}", False), ("y=2x+3", r"\boxed{2x+3}", True), ("5", r"\boxed{x=5}", True),
        ("5", r"\boxed{m+n=5}", True), ("7", r"\boxed{x^2+\frac{1}{x^2}=7}", True), ("10", r"\boxed{x^2+1=3^2+1=10}", True),
        *(("5", rf"\boxed{{{side}=5}}", False) for side in (r"\frac{x}{2}", r"\frac1x", "2x+3", "3(x-1)", r"\sqrt{x}", "x^{2}")),
        *((r"\sqrt{2}", rf"\boxed{{{side}=\sqrt{{2}}}}", False) for side in ("2x", "-x", "x^2", r"\frac{x}{2}", "1")),
        (r"25\pi", r"\boxed{\pi r^2=25\pi}", True), (r"\pm 3", r"\boxed{x^2=9}", False), ("x+1", r"\boxed{2y=x+1}", False),
        ("(p,q)=(3,2)", r"\boxed{(q,p)=(3,2)}", False), ("(p,q)=(3,2)", r"\boxed{(p,q)=(3,2)}", True),
        ("x^2+y^2=4", r"\boxed{4}", False), ("x=5", r"\boxed{y=5}", False), ("3", r"\boxed{n \ge 3}", False),
    ],
    "braces around one sign": [
        ("4:30", r"\boxed{4{:}30}", True), ("-7", r"\boxed{{-}7}", True), ("-7", r"\boxed{{-}8}", False), ("x=5", r"\boxed{x{=}5}", True),
        ("x+1", r"\boxed{x\mathbin{+}1}", True), (r"5\times 10^3", r"\boxed{5{\times}10^3}", True), ("1,234", r"\boxed{1{,}234}", True),
    ],
    "shapes of Greek letters": [
        (r"\frac{q}{4\pi\epsilon_0}", r"\boxed{\frac{q}{4\pi\varepsilon_0}}", True), (r"\varphi", r"\boxed{\phi}", True),
        ("φ", r"\boxed{\phi}", True), (r"\theta", r"\boxed{ϑ}", True),
        (r"\phi+\varphi", r"\boxed{2\phi}", False), (r"\epsilon", r"\boxed{\eta}", False),
    ],
    "connectives": [
        ("1或-2", r"\boxed{-2, 1}", True), ("1和2", r"\boxed{1, 2}", True), ("x=1或x=2", r"\boxed{1, 2}", True),
        ("1或-2", r"\boxed{1, 2}", False),
        ("1または2", r"\boxed{2, 1}", True), ("1 или 2", r"\boxed{1, 2}", True), ("1 또는 2", r"\boxed{1, 2}", True),
        ("4 OR -4", r"\boxed{-4, 4}", True), ("1 AND 2", r"\boxed{1, 2}", True), ("either 1 or 2", r"\boxed{1, 2}", True),
        ("2 Or -2", r"\boxed{2, -2}", True), ("3 oder 4", r"\boxed{4, 3}", True), ("3 ou 4", r"\boxed{3}", False),
        ("1 & 2", r"\boxed{1, 2}", True), ("4 as well as 5", r"\boxed{4, 5}", True), ("Or", r"\boxed{Or}", True),
        ("either 1 or 2", r"\boxed{1}", False), ("both 1 and 2", r"\boxed{1,2}", True), (r"x=1 \vee x=2", r"\boxed{1, 2}", True),
    ],
    "units in other scripts": [
        ("12元", r"\boxed{12}", True), ("12厘米", r"\boxed{12}", True), ("12厘米", r"\boxed{0.12 m}", True),
        ("12厘米", r"\boxed{12米}", False), ("20岁", r"\boxed{20}", True),
        ("5 кг", r"\boxed{5000 g}", True), (r"36\pi 平方厘米", r"\boxed{36\pi}", True),
        ("3万", r"\boxed{3}", False), ("3个半", r"\boxed{3}", False),
    ],
    "option letters": [
        ("a) 180 degrees", r"\boxed{a)}", True), ("a) 180", r"\boxed{180}", True), ("a) 180", r"\boxed{a}", True),
        ("a) 180", r"\boxed{b}", False),
        ("7 apples", "Answer: B) 7 apples", True), ("blue", "Answer: (B) blue", True), ("B", "Answer: B) 7 apples", True),
        ("B", "Answer: B) because it is the sum", True), ("blue", "Answer: B) red", False),
        ("(b) 7", r"\boxed{(c) 7}", False), ("42", "Answer: C) 42", True),
    ],
    "marks of Markdown": [
        ("73", "**Final Answer:** __73__", True), ("73", "The answer is __73__.", True), ("73", "Final Answer: ==73==", True),
    ],
    "radicals of several letters": [
        (r"\sqrt{\frac{2h}{g}}", r"\boxed{\frac{\sqrt{2gh}}{g}}", True), (r"\frac{a}{\sqrt{ab}}", r"\boxed{\sqrt{\frac{a}{b}}}", True),
        (r"\sqrt{\frac{k_1}{m_1}}", r"\boxed{\frac{\sqrt{k_1m_1}}{m_1}}", True), (r"\sqrt{x^2}", r"\boxed{x}", False),
        (r"\sqrt{x^2y}", r"\boxed{x\sqrt{y}}", False), ("|xy|", r"\boxed{xy}", False),
        (r"\sqrt{\frac{2h}{g}}", r"\boxed{\frac{\sqrt{2h}}{g}}", False),
    ],
    "golds with a remark": [
        ("exactly 4", r"\boxed{4}", True), ("5.2 (to the nearest tenth)", r"\boxed{5.2}", True), ("5 cm (approx.)", r"\boxed{5}", True),
        ("5 (five)", r"\boxed{5}", True), ("approximately 5", r"\boxed{5}", True), ("approximately 5", r"\boxed{6}", False),
        (r"5\text{ (mod 7)}", r"\boxed{5}", True), ("5 (mod 7)", r"\boxed{5 \pmod{8}}", False),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_reported_has_its_right_verdict(verifier: MathVerifier, kind: str) -> None:
    verdicts = verifier.verify_many([(response, gold) for gold, response, _ in KINDS[kind]])
    assert [case for case, verdict in zip(KINDS[kind], verdicts, strict=True) if verdict.correct != case[2]] == []


def test_golds_that_their_own_text_alone_can_meet_are_found(verifier: MathVerifier) -> None:
    golds = [
        "1或-2",
        "12元",
        "a) 180",
        "5 (five)",
        "2024-06-20",
        r"\frac{1}{2}",
        "x=5",
        "(1, 2]",
        "3个半",
        "c. 12",
        "none",
        "5 million",
        "2 hours 30 minutes",
    ]
    assert verifier.probe_golds(golds) == {"3个半": ["own text only"], "c. 12": ["own text only"]}


REPORTS = Path(__file__).parents[2].parent / "shared" / "reference" / "failing"


@pytest.mark.skipif(not REPORTS.exists(), reason="no reports beside the checkout")
@pytest.mark.parametrize("extraction", ["boxed", "answer_line", "any"])
def test_no_reported_input_has_the_wrong_verdict(extraction: str) -> None:
    cases = []
    for folder in sorted(REPORTS.glob("g*")):
        shapes = (folder / "README").read_text().partition("verifier={")[2].partition("}")[0]
        if extraction in shapes.split(",") and (folder / "cases.jsonl").exists():
            cases += [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    with MathVerifier(VerifierConfig(extraction=extraction, answer_must_end=extraction == "boxed")) as verifier:
        verdicts = verifier.verify_many([(case["response"], case["gold"]) for case in cases])
    wrong = [
        case for case, verdict in zip(cases, verdicts, strict=True) if verdict.correct != case["id"].endswith("right")
    ]
    assert wrong == []


# ---- found by reading ----


LETTERS = st.text("abcdfghjklmnopqrstuvwxyz", min_size=2, max_size=5).filter(
    lambda text: not is_unit(text) and text not in ("st", "nd", "rd", "th")
)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 99), LETTERS)
def test_a_monomial_never_equals_its_coefficient(verifier: MathVerifier, number: int, letters: str) -> None:
    assert not verifier.verify(rf"\boxed{{{number}}}", f"{number}{letters}").correct
    assert not verifier.verify(rf"\boxed{{{number}{letters}}}", str(number)).correct


# Extraction and verdict to pairs of gold and response.
CASES = {
    ("boxed", "wrong"): [
        ("6xyz", r"\boxed{6}"), ("6xyz", r"\boxed{6pqr}"), ("2abc", r"\boxed{2}"), (r"\frac{1}{2}xyz", r"\boxed{\frac12}"),
        ("-3xyz", r"\boxed{-3abc}"), ("4", r"\boxed{4Actually}"),  # letters behind a number are no unit
        ("6 xyz", r"\boxed{6}"), ("6", r"\boxed{6\,xyz}"), (r"\frac12", r"\boxed{\frac12 xyz}"), (r"2\sqrt{3} abc", r"\boxed{2\sqrt{3}}"),
        ("6 abcd", r"\boxed{6}"),
        *(("3", rf"\boxed{{{product}}}") for product in ("3st", "3th")), ("6st", r"\boxed{6}"), ("x^2+3rd+t^2", r"\boxed{x^2+3+t^2}"),
        ("xyz", r"\boxed{-xyz}"), ("-abc", r"\boxed{abc}"), ("-ab", r"\boxed{ab}"), ("y=-kx", r"\boxed{y=kx}"),
        ("(-ab,c)", r"\boxed{(ab,c)}"), ("m-nk", r"\boxed{m nk}"), ("a-bc", r"\boxed{bc}"), ("a bc", r"\boxed{bc}"),
        ("ab-c", r"\boxed{ab(c)}"), ("mn!", r"\boxed{mn}"), ("wxyz", r"\boxed{wxyz-a}"),
        *(("3,5", rf"\boxed{{{number}}}") for number in ("3.5", "7/2")), ("0,5", r"\boxed{0.5}"), ("-1,2", r"\boxed{-1.2}"),
        ("30", r"\boxed{31 = 30}"), ("30", r"\boxed{30 \text{ is wrong}}"), ("30", r"\boxed{30 \text{ or something else}}"),
        ("|x|+y<5", r"\boxed{x+y<5}"),
        *(("5", rf"\boxed{{5 {w}}}") for w in ("factorial", "squared", "cubed", "halves", "tens", "plus", "minus", "hundred")),
        *(("5", rf"\boxed{{5\text{{{words}}}}}") for words in (" plus 3", ", but 6", " no wait 6", " squared", " no", "!", "=6", "/2")),
        ("3", r"\boxed{3 quarters}"), ("2", r"\boxed{2 thirds}"), ("50", r"\boxed{50 negative}"),
        *(("42", rf"\boxed{{{side}=42}}") for side in ("3+4", "6/4", r"\sqrt{2}", "41.5", "3+4=x")), ("1", r"\boxed{0.9=1}"),
        ("5/2", r"\boxed{2-1/2}"), ("1/3", r"\boxed{0.333334}"), ("-1/3", r"\boxed{-0.333332}"), ("2/3", r"\boxed{0.666668}"),
    ],
    ("boxed", "right"): [
        ("b^2c^2+a^2b^2", r"\boxed{a^2b^2+b^2c^2}"), ("x^3y^3+3x^2y^2+3xy+1", r"\boxed{3x^2y^2+x^3y^3+3xy+1}"),
        ("x^6y^4-x^8y^2+x^{10}", r"\boxed{x^{10}-x^8y^2+x^6y^4}"),
        (r"120^\circ", r"\boxed{\frac{2\pi}{3}\text{ radians}}"), ("12", r"\boxed{12 (twelve)}"), ("|x|+y<5", r"\boxed{2|x|+2y<10}"),
        ("500", r"\boxed{5 hundred}"), ("5/2", r"\boxed{2 1/2}"), ("2/3", r"\boxed{0.666666}"), ("2/3", r"\boxed{0.666667}"),
        *(("5", rf"\boxed{{5{unit}}}") for unit in (" people", r"\text{ years old}", r"\text{ N}", r"\ \mathrm{cm^2}")),
        ("xy-x-y", r"\boxed{xy-y-x}"), ("ab-cd", r"\boxed{-cd+ab}"), ("x-axis", r"\boxed{\text{the x-axis}}"),
        ("12", r"\boxed{12^{th}\text{ grade}}"), ("3", r"\boxed{3^{\text{rd}} \text{ quadrant}}"), ("1/8", r"\boxed{1/8th}"),
        ("12", r"\boxed{12th day}"), ("June 20", r"\boxed{20^{\text{th}} June}"), ("June 20", r"\boxed{June 20^{\text{th}}}"),
        ("Yes", r"\boxed{Yes!}"), ("sun", r"\boxed{the sun}"), ("13", r"\boxed{S(1/2)=13}"), ("5", r"\boxed{5 pts}"),
        (r"\begin{pmatrix}1&2\\0&1\end{pmatrix}", r"\boxed{A^2=\begin{pmatrix}1&2\\0&1\end{pmatrix}}"),
        ("(x,y)=(3,4)", r"\boxed{(a,b)=(3,4)}"), (r"a^{mn}\ln a", r"\boxed{\ln(a) a^{mn}}"),
        ("21st", r"\boxed{21}"), ("12^{th}", r"\boxed{12}"), ("3.5", r"\boxed{3,5}"), ("7,25", r"\boxed{7.25}"),
        ("5", r"\boxed{5 men}"), ("5", r"\boxed{5 rpm}"), ("5", r"\boxed{5 times}"), ("5", r"\boxed{5\text{ red marbles}}"),
        ("1", r"\boxed{1\text{ way}}"), ("7", r"\boxed{7 total}"),
        *(("50", rf"\boxed{{{side}=50}}") for side in ("x", "e", "26+24=x")), ("1.41", r"\boxed{\sqrt{2}=1.41}"),
    ],
    ("boxed", "no_answer"): [("42", r"\fbox{41} and \boxed{42}"), ("42", r"\boxed{41} and \boxed{42}")],
    ("answer_line", "right"): [
        ("42", "Answer: 42\n\nExplanation: there are 3 red and 4 green apples, so 3 + 4 = 7 apples in each box."),
        ("42", "The answer is 42. Note that 6 + 1 = 7."),
        ("1", "The answer is 1. First, 2 + 2 = 4."),
        ("42", "The answer is 42 since we need at least 40 + 1 = 41 and must be even."),
        ("42", "Answer: 42 of the 100 students"),
        ("42", "The answer is 42 out of 100."),
        ("42", "The answer is the total return (in dollars) of 42."),
        ("no", "Answer: No, because 7 is prime"),
        ("3x^2+2x", "The answer is $3x^2 + 2x$, where $x > 0$."),
        ("5", "Answer: $5$ apples and $6$ pears"),
        ("42", r"The answer is $42$, as $6\cdot 8=48$ is too large."),
        ("120", "Answer: For $n=5$ the value is $120$."),
        ("42", r"Answer: $6\cdot 7$ = $42$"),
        ("7", "Answer: $3+4$, which is $7$"),
        ("55", "Answer: $a_{10}$ equals $55$"),
        ("15", "Answer: $20$ apples - $5$ apples = $15$ apples"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("extraction", "verdict"), CASES)
def test_these_answers_get_this_verdict(extraction: str, verdict: str) -> None:
    cases = CASES[extraction, verdict]
    with MathVerifier(VerifierConfig(extraction=extraction, answer_must_end=False)) as verifier:
        found = verifier.verify_many([(response, gold) for gold, response in cases])
    assert [case for case, one in zip(cases, found, strict=True) if one.verdict != verdict] == []


def test_an_unreduced_fraction_of_the_problem_is_a_number(verifier: MathVerifier) -> None:
    problem = "3/6 of a class are girls. What fraction are boys?"
    assert verifier.verify(r"\boxed{3/6}", "1/2", problem).verdict == "right"


def test_the_method_is_math_verify_only_where_that_decided(verifier: MathVerifier) -> None:
    assert verifier.verify(r"\boxed{1-\cos^2 x}", r"\sin^2 x").method == "algebra"
    assert verifier.verify(r"\boxed{a^2+b^2=c}", "a^2+b^2=c^2").method == "math_verify"
