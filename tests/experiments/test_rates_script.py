"""Learning rates of all systems: the choice by hand, the rewritten declaration, and that it fits."""

from __future__ import annotations

from pathlib import Path

import pytest
import rates
import yaml
from rates import Trial
from synthetic_store import build_store

from analysis import load
from harness.experiment.planning import plan_experiment
from harness.store import ResultStore

DECLARED = """# a comment
overrides: [training.steps=120]
arms:
  - name: grpo
    overrides: [algorithm=grpo] # naive
  - name: sft
    parent: grpo
    overrides: [algorithm=sft, optimizer.learning_rate=5e-4, sampling.lag_steps=1]
"""
# level of accuracy by system and rate: far apart against the noise of the synthetic store
LEVELS = {
    ("grpo", "0.0001"): 0.40,
    ("grpo", "0.0002"): 0.60,
    ("grpo", "0.0005"): 0.50,
    ("sft", "0.0001"): 0.70,
    ("sft", "0.0002"): 0.45,
    ("sft", "0.0005"): 0.95,
}


def grid_store(root: Path, missing=()) -> None:
    rungs = [(f"{system}_{rate}", system, level, 0.0) for (system, rate), level in LEVELS.items()]
    build_store(root, rungs=rungs, seeds=(100, 101), caps=(32,), design="arms", name=rates.EXPERIMENT, missing=missing)
    store = ResultStore(root)
    plan = dict(store.plan(rates.EXPERIMENT))
    for arm, (system, rate) in zip(plan["arms"], LEVELS, strict=True):
        arm["overrides"] = ["training.steps=60", f"algorithm={system}", f"optimizer.learning_rate={rate}"]
    store.write_plan(rates.EXPERIMENT, plan)


def test_the_highest_mean_wins_and_of_equal_ones_the_lower_rate() -> None:
    low, high = Trial(70.1, 2), Trial(70.1 + 1e-12, 2)
    assert rates.choice({1e-4: low, 2e-4: high, 5e-4: Trial(60.0, 2)}) == 1e-4
    assert rates.choice({1e-4: low, 2e-4: Trial(70.2, 2)}) == 2e-4
    assert rates.choice({1e-4: low, 2e-4: Trial(99.0, 1, diverged=True)}) == 1e-4
    assert rates.choice({1e-4: Trial(None, 0)}) is None


def test_finished_runs_are_averaged_and_rates_written(tmp_path, capsys) -> None:
    grid_store(tmp_path)
    results = load(tmp_path, rates.EXPERIMENT)
    found = rates.read_trials(results)
    arm = results.experiment.plan.arms[1]
    assert list(found) == ["grpo", "sft"]
    assert found["grpo"][2e-4].mean == pytest.approx(50 * sum(results.scores(arm, "avg").values()))
    path = tmp_path / "declared.yaml"
    path.write_text(DECLARED)
    assert rates.main([str(tmp_path), "--write", str(path)]) == 0
    assert "| 2e-4 |  |" in capsys.readouterr().out
    written = path.read_text()
    assert "    overrides: [algorithm=grpo, optimizer.learning_rate=2e-4] # naive\n" in written
    assert "    overrides: [algorithm=sft, sampling.lag_steps=1, optimizer.learning_rate=5e-4]\n" in written
    assert written.startswith(DECLARED[: DECLARED.index("    overrides: [algorithm=grpo")])
    assert rates.main([str(tmp_path), "--write", str(path)]) == 0
    assert path.read_text() == written


def test_the_declared_grid_fits_the_declared_comparison() -> None:
    """Each system of one is in the other, and what is written composes: every arm at its rate."""
    grid, compared = (plan_experiment([f"experiment={name}"]) for name in (rates.EXPERIMENT, "all_systems"))
    systems = {rates.setting_of(arm, rates.SYSTEM) for arm in grid.arms}
    assert not set(grid.seeds) & set(compared.seeds)
    text = rates.rewrite(rates.FILE.read_text(), dict.fromkeys(systems, 5e-4))
    arms = yaml.safe_load(text)["experiment"]["arms"]
    assert [arm["overrides"][-1] for arm in arms] == ["optimizer.learning_rate=5e-4"] * len(systems)
    assert {arm["overrides"][0].removeprefix("algorithm=") for arm in arms} == systems
    budgets = [one.config.training.generated_tokens for one in (*grid.arms, *compared.arms)]
    assert set(budgets) == {90_000, 180_000}
