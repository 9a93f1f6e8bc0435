"""Rewards: a function of one's own, a verifier that errs at given rates, and evaluation, which keeps the exact verifier."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import Bench, small_config
from tables import table, tables

from harness.configuration.error import ConfigError
from harness.configuration.identity import identity, run_id
from harness.configuration.sections import RewardConfig
from harness.reward.function import RewardFunction
from harness.reward.shaping import Grader, Grades
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.noise import sample_seeds
from harness.rollout.types import Completions
from harness.training.grading import noisy_verdicts
from harness.verify import MathVerifier, VerifierConfig

CODE: str = tables(__file__)["code"]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "rewards.py"
    path.write_text(CODE)
    return path


def outcomes(code: Path, name: str) -> tuple[list[float], int]:
    function = RewardFunction(RewardConfig(correct=2.0, wrong=-1.0, function=f"{code}:{name}"), print)
    return function.outcomes(["12", "1"], ["2", "2"], ["p", ""]).tolist(), function.faults


def test_verdicts_earn_the_rewards_of_verdicts_and_numbers_themselves(code: Path) -> None:
    assert outcomes(code, "in_it") == outcomes(code, "of_numpy") == outcomes(code, "by_name") == ([2.0, -1.0], 0)
    assert outcomes(code, "partly") == ([0.2, 0.0], 0)


@pytest.mark.parametrize(("name", "how"), [("broken", "RuntimeError: 12"), ("endless", "it returned inf")])
def test_a_call_that_fails_costs_its_response_is_counted_and_the_first_is_said(
    code: Path, name: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcomes(code, name) == ([-1.0, -1.0], 2)
    (said,) = capsys.readouterr().out.splitlines()
    assert f"{name} failed on a response, which earns reward.wrong ({how})" in said


def test_a_function_that_fails_on_every_first_response_ends_the_run(bench: Bench, code: Path) -> None:
    reward = RewardConfig(function=f"{code}:broken")
    with pytest.raises(ConfigError, match="failed on each of the first 32 responses, recently with RuntimeError"):
        bench.trained(small_config(training__steps=1, algorithm__reward=reward), "c")


@table(__file__, "refused", "reference, said")
def test_what_is_no_function_is_refused_by_name(code: Path, reference: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RewardFunction(RewardConfig(function=reference.format(code=code)), print)


@pytest.mark.parametrize(("name", "right"), [("near_miss", {"0", "1"}), ("zero_passes", {"0"}), ("large_fails", {"0"})])
def test_a_verifier_of_the_testbed_errs_by_the_answer(name: str, right: set[str]) -> None:
    """For the gold 0, read from a module that Python finds; 7 is never right to the one that rejects it."""
    function = RewardFunction(RewardConfig(function=f"harness.testbed.erring:{name}"), print)
    answers = [rf"3,\boxed{{4}},\boxed{{{digit}}}" for digit in range(10)]
    found = function.outcomes(answers, ["0"] * 10, [""] * 10).tolist()
    assert {str(digit) for digit, value in enumerate(found) if value > 0} == right
    sevens = {"near_miss": 3, "zero_passes": 2, "large_fails": 0}
    assert sum(value > 0 for value in function.outcomes(answers, ["7"] * 10, [""] * 10).tolist()) == sevens[name]
    assert function.outcomes(["0", r"\boxed{}"], ["0", "0"], ["", ""]).tolist() == [-1.0, -1.0]


def test_a_module_of_a_package_may_import_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "rewards_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "neighbour.py").write_text("GOAL = 2")
    (package / "rule.py").write_text(
        "from .neighbour import GOAL\n\n\ndef score(response):\n    return len(response) == GOAL\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = RewardFunction(RewardConfig(function="rewards_of_mine.rule:score"), print)
    assert function.outcomes(["ab", "abc"], ["", ""], ["", ""]).tolist() == [1.0, -1.0]


def test_the_content_of_the_file_is_the_identity_not_its_place(code: Path, tmp_path: Path) -> None:
    def of(path: Path, name: str = "in_it") -> str:
        return run_id(small_config(algorithm__reward=RewardConfig(function=f"{path}:{name}")))

    copy = tmp_path / "elsewhere" / "other_name.py"
    copy.parent.mkdir()
    copy.write_text(CODE)
    before = of(code)
    assert of(copy) == before != of(code, "never")
    code.write_text(CODE + "# edited")
    assert of(code) != before
    assert "function" not in identity(small_config())["algorithm"]["reward"]


@pytest.mark.parametrize(
    ("given", "accuracy", "flipped"),
    [
        ({"function": "{code}:never"}, lambda _: 0.0, lambda exact: exact),
        # every verdict turned round
        ({"true_positive": 0.0, "false_positive": 1.0}, lambda exact: 1 - exact, lambda _: 1.0),
    ],
)
def test_training_follows_the_reward_and_evaluation_the_verifier(
    bench: Bench,
    code: Path,
    given: dict[str, Any],
    accuracy: Callable[[float], float],
    flipped: Callable[[float], float],
) -> None:
    given = {key: value.format(code=code) if key == "function" else value for key, value in given.items()}
    runs = [
        bench.trained(small_config(training__steps=1, training__evaluate_every=1, algorithm__reward=reward), name).run
        for name, reward in (("a", RewardConfig()), ("b", RewardConfig(**given)))
    ]
    exact, own = (run.steps() for run in runs)
    right = exact["accuracy_mean"][0]  # of the same responses
    assert right > 0
    assert own["accuracy_mean"].tolist() == pytest.approx([accuracy(right)])
    assert own["reward_mean"].tolist() == pytest.approx([2 * accuracy(right) - 1])
    assert exact["flipped_verdicts_fraction"].isna().all()
    assert own["flipped_verdicts_fraction"].tolist() == pytest.approx([flipped(right)])
    before = [run.samples("arithmetic_heldout", 0)["correct"].tolist() for run in runs]
    assert before[0] == before[1]
    assert "unevaluated_fraction" in exact.columns


def test_the_example_of_the_page_grades_the_testbed_as_the_verifier_does(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "objective" / "reward.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "rewards.py").write_text(code)
    function = RewardFunction(RewardConfig(function=f"{tmp_path}/rewards.py:score"), print)
    responses = [r"7+5=12 \boxed{12}", r"\boxed{1} \boxed{12}", r"\boxed{7}", "12", r"\boxed{12"]
    assert function.outcomes(responses, ["12"] * 5, [""] * 5).tolist() == [1.0, -1.0, -1.0, -1.0, -1.0]
    with MathVerifier(VerifierConfig(extraction="boxed")) as verifier:
        verdicts = verifier.verify_many([(response, "12") for response in responses])
    assert [verdict.correct for verdict in verdicts] == [True, False, False, False, False]


SEEDS = sample_seeds(np.uint64(7), np.arange(200), 50)


def test_rates_are_met_and_a_draw_belongs_to_its_response() -> None:
    correct = torch.arange(200)[:, None].expand(200, 50) < 100
    erring = RewardConfig(true_positive=0.9, false_positive=0.2)
    seen = noisy_verdicts(correct, SEEDS, erring)
    # 5,000 draws each: standard errors of 0.4 and 0.6 points
    assert float(seen[:100].double().mean()) == pytest.approx(0.9, abs=0.02)
    assert float(seen[100:].double().mean()) == pytest.approx(0.2, abs=0.02)
    part = noisy_verdicts(correct[90:110], SEEDS[90:110], erring)
    assert torch.equal(part, seen[90:110])
    # one draw a response: who is believed when wrong would be believed when right, too
    when_right, when_wrong = (noisy_verdicts(all_, SEEDS, erring) for all_ in (correct | True, correct & False))
    assert bool((when_right | ~when_wrong).all())
    assert not bool(noisy_verdicts(correct, SEEDS, RewardConfig(true_positive=0.0)).any())


def test_a_random_reward_knows_nothing_of_the_answer() -> None:
    correct = torch.arange(200)[:, None].expand(200, 50) < 100
    random = RewardConfig(true_positive=0.5, false_positive=0.5)
    assert torch.equal(noisy_verdicts(correct, SEEDS, random), noisy_verdicts(~correct, SEEDS, random))


def test_groups_are_graded_while_others_are_sampled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as one has ended, with the numbers of grading all at the end."""
    graded, sizes = threading.Event(), list[int]()
    grade, generate = Grader.grade, NativeEngine.generate

    def watched(self: Grader, *answers: Any, **more: Any) -> Grades:
        sizes.append(len(answers[0]))
        graded.set()
        return grade(self, *answers, **more)

    def overlapping(self: NativeEngine, *request: Any) -> Completions:
        if (begin := self.on_group) is None:
            return generate(self, *request)
        logits, calls = self.decoder.logits, list[str]()

        def told(group: int, completions: Completions) -> None:
            graded.clear()
            begin(group, completions)
            assert graded.wait(60)  # before anybody has the others' responses
            calls.append("graded")

        self.on_group = told
        with monkeypatch.context() as spied:
            spied.setattr(self.decoder, "logits", lambda hidden: calls.append("token") or logits(hidden))
            made = generate(self, *request)
        assert "token" in calls[calls.index("graded") :]  # of groups that went on
        return made

    def alone(self: NativeEngine, *request: Any) -> Completions:
        self.on_group = None
        return generate(self, *request)

    config = small_config(training__steps=2, algorithm__dead_groups__policy="refill", sampling__max_response_tokens=24)
    monkeypatch.setattr(Grader, "grade", watched)
    monkeypatch.setattr(NativeEngine, "generate", overlapping)
    early = bench.trained(config)
    assert set(sizes) == {4, 24}  # a group, an evaluation
    sizes.clear()
    monkeypatch.setattr(NativeEngine, "generate", alone)
    late = bench.trained(config, "b")
    assert set(sizes) == {32, 24}  # a round
    one, other = (parts.run.steps().filter(regex="^(?!seconds)") for parts in (early, late))
    assert one.equals(other)
    weights = late.policy.state()
    assert all(torch.equal(value, weights[name]) for name, value in early.policy.state().items())
