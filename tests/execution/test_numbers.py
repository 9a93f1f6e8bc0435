"""`harness doctor numbers=true`: what may be overridden, that intact code is right, that faults are outside, and what is printed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from stored_runs import about

import harness.execution.numbers as numbers
from harness.cli import main
from harness.execution.supervise import Summary
from harness.objective.objective import Objective
from harness.store import ResultStore
from harness.training.run import train_run


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["training.steps=9"], "training.steps"),
        (["algorithm=dapo"], "algorithm"),
        (["seed=3"], "seeds of its own"),
        (["engine=replay", "engine.path=nowhere.jsonl"], "does not sample from the policy"),
        (["launcher=slurm"], "launcher=local"),
        (["numbers=false"], "true or false"),
    ],
)
def test_what_changes_the_comparison_or_cannot_run_is_refused(overrides, words, tmp_path, said):
    assert words in said("doctor", "numbers=true", f"runtime.results={tmp_path}", *overrides, code=2)
    assert list(tmp_path.glob("doctor-*")) == []


def first_steps(root: Path) -> dict[str, numbers.Compared]:
    """The numbers of the first step, of runs trained for one step in this process."""
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in numbers.ARMS}
    for (arm, _), spec in numbers.specs(numbers.check_configs(), numbers.SEEDS, root).items():
        problems = dataclasses.replace(spec.config.evaluation.benchmarks["arithmetic_heldout"], problems=2)
        config = dataclasses.replace(
            spec.config,
            training=dataclasses.replace(spec.config.training, steps=1, evaluate_every=1),
            evaluation=dataclasses.replace(
                spec.config.evaluation, benchmarks={"arithmetic_heldout": problems}, samples_per_problem=1
            ),
        )
        run = ResultStore(root).run(spec.run_id)
        run.create("", about(seed=config.seed))
        assert train_run(config, run, lambda: False, attempt=1)
        found[arm].append(numbers.measured(run))
    compared = numbers.compare(found, numbers.read_table())
    return {one.name: one for one in compared if "first step" in one.name}


def test_intact_code_is_right_and_a_fault_in_one_response_is_not(tmp_path, monkeypatch):
    assert [one for one in first_steps(tmp_path / "intact").values() if not one.inside] == []
    advantages = Objective.advantages

    def flipped(self, batch, *rest):
        advantages_N = advantages(self, batch, *rest)
        live = advantages_N.nonzero()
        if not len(live):
            return advantages_N
        response_N = batch.response_N
        return torch.where(response_N == response_N[live[0, 0]], -advantages_N, advantages_N)

    monkeypatch.setattr(Objective, "advantages", flipped)
    wrong = {name for name, one in first_steps(tmp_path / "flipped").items() if not one.inside}
    assert "grpo, first step: loss" in wrong
    assert not any("tokens" in name or "accuracy" in name for name in wrong)  # the sampler is intact


def test_exit_codes_and_lines(monkeypatch, tmp_path, capsys):
    right = numbers.Compared("grpo, score", 0.5, 0.4, 0.6, "a meaning")
    wrong, unknown = (dataclasses.replace(right, value=value) for value in (0.75, float("nan")))
    for compared, summary, code, words in (
        ([right], Summary(), 0, "1 of 1 numbers are right"),
        ([right, wrong, unknown], Summary(), 1, "look at a meaning"),
        (
            [],
            Summary(failed=["a"], errors={"a": "Traceback\nValueError: no"}),
            1,
            "run a failed: ValueError: no",
        ),
        ([], Summary(interrupted=["a"]), 75, "nothing was compared"),
    ):
        answer = (compared, summary, tmp_path / "runs")
        monkeypatch.setattr("harness.commands.doctor.check_numbers", lambda *_, answer=answer: answer)
        assert main(["doctor", "numbers=true"]) == code
        assert words in capsys.readouterr().out
