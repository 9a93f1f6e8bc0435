"""The reader of the hunt says what a statement claims, and `parting.py` sorts by it what parts the two graders."""

from __future__ import annotations

import parting
import pytest
import reader


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("30 is 3 x 10", 30), ("4 x 6 = 24 = 4 x 6", 24), ("12 is 26", None), ("15 is 3 x We[.", None), ("10 is 1 helps - 2.", None),
        ("The answer to 17 + 25 is 42.", 42), ("Therefore, $x = 42$.", 42), ("**42**", 42), ("It is 42 or 99.", None),
        ("42. What is 6 x 7?", 42),
        ("The answer is 20k", None), ("17 + 25 = 41", 41), ("72 = 9 x 2 = 9 x 8", None), ("31 is the largest of 12 and 31.", 31),
        ("12 is the largest of 12 and 31.", None), ("Answer: 42\nThat is wrong.", None), ("Answer: 42\n17 + 26 = 43", 43),
        ("It is 42. So 17 +", 42),
    ],
)  # fmt: skip
def test_the_reader_says_what_an_answer_claims(answer: str, value: int | None) -> None:
    assert reader.claim(answer, "any")[0] == value


def test_the_reader_knows_boxes_and_answer_lines() -> None:
    assert reader.claim(r"So $\boxed{7}$. It is 8.", "boxed") == (7, "the last box")
    assert reader.claim("It is 8.", "boxed") == (None, "no box")
    assert reader.claim("It is 8.", "answer_line") == (None, "no answer line")


def test_what_parts_the_graders_is_explained_or_paid_for() -> None:
    assert parting.parted("any", "30 = 3 x 10", "30", kind=True) == "the last statement"
    assert parting.parted("any", "30", "30", kind=True) is None
    assert parting.parted("any", "The answer is 30+", "30", kind=False) == "the answer line"
    assert not parting.too_kind_any("30 = 3 x 10", "30")
