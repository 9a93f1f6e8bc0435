"""Questions in plain English: distinct, split, balanced, with answers that can be worked out from the text."""

from __future__ import annotations

import re

import pytest

from harness.configuration.error import ConfigError
from harness.problems.benchmarks.plain_words import KINDS, Config, load


def worked(kind: str, text: str) -> int:
    """The answer by the words of the question."""
    numbers = [int(item) for item in re.findall(r"\d+", text)]
    if kind == "letters":
        letter, word = re.search(r"letter (\w) occur in the word (\w+)", text).groups()  # type: ignore[union-attr]
        return int(word.count(letter))
    if kind == "largest":
        return max(numbers) if "largest" in text else min(numbers)
    first, second = numbers
    return {"sum": first + second, "difference": abs(first - second), "product": first * second}[kind]


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_answers_follow_from_the_questions(split: str) -> None:
    config = Config(split=split, problems=50, kinds=list(KINDS))
    kinds = []
    for problem in load(config).problems:
        kind = problem.id.split("/")[1]
        kinds.append(kind)
        assert str(worked(kind, problem.prompt)) == problem.gold
        assert not re.search(r"\d\s*[-+*/x]\s*\d", problem.prompt)  # nothing to be repeated
    assert all(kinds.count(kind) == 10 for kind in KINDS)


def test_expressions_say_the_same_questions_with_signs() -> None:
    for problem in load(Config(problems=40, most=40, wording="expressions", split="heldout")).problems:
        kind, text = problem.id.split("/")[1], problem.prompt
        assert str(worked(kind, text)) == problem.gold
        assert bool(re.search(r"What is \d+ [-+x] \d+\?", text)) == (kind != "largest")
    with pytest.raises(ConfigError, match="wording"):
        Config(wording="words and expressions")


def test_problems_are_distinct_and_splits_apart() -> None:
    train = {problem.prompt for problem in load(Config(problems=1500)).problems}
    held_out = {problem.prompt for problem in load(Config(problems=256, split="heldout")).problems}
    assert len(train) == 1500
    assert len(held_out) == 256
    assert not train & held_out
    assert load(Config(problems=10)).content == load(Config(problems=10)).content
    assert load(Config(problems=10, seed=9)).content != load(Config(problems=10)).content


def test_more_problems_than_there_are_is_an_error_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"no 200 distinct problems of kind 'letters'.*lower `problems`"):
        load(Config(problems=200, kinds=["letters"]))
