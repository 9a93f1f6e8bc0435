"""The numbers of training: intact code lies inside its intervals, and a fault in one response lies outside."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numbers_check as numbers
import pytest
import torch
from stored_runs import about, created

from harness.execution.progress import Progress
from harness.objective.objective import Objective
from harness.store import ResultStore
from harness.training.loop import train_run


def test_the_intervals_are_of_these_runs():
    assert json.loads(numbers.FILE.read_text())["belongs_to"] == numbers.belongs_to(numbers.configs())


def wrong_at_the_first_step(root: Path, arms: Sequence[str]) -> set[str]:
    """Numbers of the first step that are wrong, of runs of these arms trained for one step in this process."""
    configs = {arm: config for arm, config in numbers.configs().items() if arm in arms}
    runs: dict[str, list[dict[str, float]]] = {arm: [] for arm in arms}
    for (arm, _), spec in numbers.specs(configs, numbers.SEEDS).items():
        problems = dataclasses.replace(spec.config.evaluation.benchmarks["arithmetic_heldout"], problems=2)
        config = dataclasses.replace(
            spec.config,
            training=dataclasses.replace(spec.config.training, steps=1, evaluate_every=1),
            evaluation=dataclasses.replace(
                spec.config.evaluation, benchmarks={"arithmetic_heldout": problems}, samples_per_problem=1
            ),
        )
        run = ResultStore(root).run(spec.run_id)
        created(run, "", about(seed=config.seed))
        assert train_run(config, run, lambda: False, attempt=1)
        runs[arm].append(numbers.measured(run))
    return {name for name in numbers.outside(runs) if "first step" in name}


def test_intact_code_is_right_and_a_fault_in_one_response_is_not(tmp_path, monkeypatch):
    assert wrong_at_the_first_step(tmp_path / "intact", numbers.ARMS) == set()
    advantages = Objective.advantages

    def flipped(self, batch, *rest):
        advantages_N = advantages(self, batch, *rest)
        nonzero = advantages_N.nonzero()
        if not len(nonzero):
            return advantages_N
        response_N = batch.response_N
        return torch.where(response_N == response_N[nonzero[0, 0]], -advantages_N, advantages_N)

    monkeypatch.setattr(Objective, "advantages", flipped)
    wrong = wrong_at_the_first_step(tmp_path / "flipped", ["grpo"])
    assert "grpo, first step: loss" in wrong
    assert not any("tokens" in name or "accuracy" in name for name in wrong)  # the sampler is intact


@pytest.mark.thorough
def test_all_numbers_of_this_machine_are_right(tmp_path):
    """Overrides such as `runtime.device=cuda` or `engine=transformers` come from HARNESS_NUMBERS."""
    arms = numbers.configs(*os.environ.get("HARNESS_NUMBERS", "runtime.device=cpu").split())
    assert numbers.train(arms, numbers.SEEDS, tmp_path, Progress()).complete
    runs: dict[str, list[dict[str, float]]] = {arm: [] for arm in arms}
    for (arm, _), spec in numbers.specs(arms, numbers.SEEDS).items():
        runs[arm].append(numbers.measured(ResultStore(tmp_path).run(spec.run_id)))
    assert numbers.outside(runs) == {}
