"""What is refused, by whom, and in which words: every row of refused.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from verbs import Said

from harness.backends import builtin
from harness.backends.trl import settings as trl
from harness.backends.verl import overrides as verl
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.experiment.checks import Objection, check_plan
from harness.experiment.declaration import Experiment
from harness.experiment.plan import Arm
from harness.experiment.planning import plan_experiment, plan_of, planned_arm

TABLES: dict[str, list[Any]] = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
TRAINERS = {
    "builtin": (builtin.check, ()),
    "trl": (trl.refusals, ("backend=trl",)),
    "verl": (verl.refusals, ("backend=verl", "model=qwen25_0_5b", "algorithm=grpo")),
}
Given = list[str]


def named(value: str | list[str]) -> str:
    """The beginning of what is given, for the name of its test."""
    return (value if isinstance(value, str) else " ".join(value))[:60]


def rows(table: str, columns: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(columns, TABLES[table], ids=named)


def says(words: str | list[str], text: str) -> bool:
    """Whether the text has the words as they stand, or as a regular expression."""
    return all(word in text or re.search(word, text) for word in ([words] if isinstance(words, str) else words))


def refusal(call: Callable[[Given], object], given: Given) -> str:
    with pytest.raises(ConfigError) as refused:
        call(given)
    return str(refused.value)


@rows("composed", "given, words")
def test_a_configuration_that_cannot_be_is_refused_where_it_is_composed(given: Given, words: str) -> None:
    assert says(words, text := refusal(compose_run, given)), text


@rows("planned", "given, words")
def test_a_declaration_that_cannot_be_or_would_be_ignored_is_refused(given: Given, words: str) -> None:
    assert says(words, text := refusal(plan_experiment, given)), text


@rows("commands", "given, words")
def test_a_command_that_cannot_be_or_would_be_ignored_is_refused_in_one_line(
    given: Given, words: str, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = said(*given, code=2)
    assert says(words, text), text
    assert len(text.strip().splitlines()) == 1
    assert not list(tmp_path.glob("results/runs/*"))


@pytest.mark.parametrize(
    ("trainer", "given", "words"),
    [(trainer, *row) for trainer in TRAINERS for row in TABLES[trainer]],
    ids=named,
)
def test_what_a_trainer_cannot_do_is_refused_before_it_runs(trainer: str, given: Given, words: str) -> None:
    check, common = TRAINERS[trainer]
    reasons = check(compose_run([*common, *given]))
    assert any(says(words, reason) for reason in reasons), reasons


def objections(given: Given) -> list[Objection]:
    """What is objected to an experiment of this arm alone."""
    arm = planned_arm(Arm("arm", tuple(given)), compose_run(given), Experiment("test", seeds=[0, 1]))
    return check_plan(plan_of(Experiment("test", design="arms", seeds=[0, 1]), [arm], "harness run"))


@rows("objections", "given, check, reason, fix")
def test_an_arm_that_shows_nothing_is_objected_to(given: Given, check: str, reason: str, fix: str) -> None:
    (found,) = objections(given)
    assert str(found).startswith(f"[{check}] arm: ")
    assert says(reason, found.reason), found.reason
    assert says(fix, found.fix), found.fix


@pytest.mark.parametrize("given", TABLES["unobjected"], ids=named)
def test_an_arm_that_looks_like_one_of_these_and_is_none(given: Given) -> None:
    assert objections(given) == []
