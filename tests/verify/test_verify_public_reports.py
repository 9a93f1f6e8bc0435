"""Kinds of fault that users of graders reported: each of these had another verdict before, or is a neighbour that must stay wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.verify import MathVerifier, VerifierConfig

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
        ("2024-06-20", r"\boxed{2024年6月20日}", True), ("June 20th, 2024", r"\boxed{the 20th of June 2024}", True),
    ],
    "equations": [
        ("x+y=5", r"\boxed{5}", False), ("2x+3=7", r"\boxed{7}", False), ("y=2x+3", r"\boxed{2x+3}", True), ("5", r"\boxed{x=5}", True),
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
