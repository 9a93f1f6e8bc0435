"""Each arm at its best: trials on seeds of their own, what they choose, and what may not be declared."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from harness.commands.plan import part_lines
from harness.configuration.error import ConfigError
from harness.experiment.checks import check_plan, one_rate_note
from harness.experiment.plan import Part, Plan
from harness.experiment.planning import plan_experiment
from harness.experiment.tuning import WRONG_WORDS, Tune, choice_note

PAIR = ["experiment=dapo_equal_tokens", "match=steps", "experiment.seeds=[0,1,2]"]
RATES = "experiment.tune={over: {optimizer.learning_rate: [1e-3, 2e-4]}, seeds: [900, 901]}"
KEY = "optimizer.learning_rate"


class FakeStore:
    """Every run has ended: finished, unless `statuses` has another word for its id."""

    def __init__(self, statuses=None):
        self.statuses = statuses or {}

    def run(self, run_id):
        return SimpleNamespace(status=self.statuses.get(run_id, "finished"))


def planned(tmp_path: Path, *more: str) -> Plan:
    return plan_experiment([*PAIR, RATES, f"runtime.results={tmp_path}", *more])


@pytest.fixture
def scores(monkeypatch):
    """Trial's run id → score; the trials of a plan get theirs by `set_scores`."""
    by_run: dict[str, float | None] = {}
    monkeypatch.setattr("harness.experiment.tuning.score", lambda store, run_id, benchmark, cap: by_run.get(run_id))

    def set_scores(plan: Plan, means: dict[str, float]) -> None:
        for arm in plan.first.plan.arms:
            for seed, run_id in arm.runs.items():
                by_run[run_id] = means[arm.name] + (0.01 if seed == 900 else -0.01)

    return set_scores


def means_of(plan: Plan, *values: float) -> dict[str, float]:
    return {arm.name: value for arm, value in zip(plan.first.plan.arms, values, strict=True)}


def test_every_arm_tries_the_whole_grid_on_the_other_seeds_and_the_comparison_waits(tmp_path, scores):
    plan = planned(tmp_path)
    trials, names = plan.first.plan, [arm.name for arm in plan.arms]
    assert [arm.name for arm in trials.arms] == [
        f"{name}_learning_rate={rate}" for name in names for rate in ("0.0002", "0.001")
    ]
    assert [arm.config.optimizer.learning_rate for arm in trials.arms] == [2e-4, 1e-3] * len(names)
    assert {tuple(arm.runs) for arm in trials.arms} == {(900, 901)}
    assert [arm.runs for arm in plan.arms] == [{}] * len(names)
    assert plan.first.settle(FakeStore(dict.fromkeys([trials.specs[0].run_id], "running"))) is None
    line, note = part_lines(plan, dict.fromkeys([spec.run_id for spec in trials.specs], "new"))
    assert note == choice_note(plan.first.part)
    assert f"first tune: {len(trials.specs)} runs, 0 finished" in line
    assert line.endswith(f"{3 * len(names)} runs follow")
    assert "each arm's best of 2 values of learning_rate, chosen on 2 other seeds" in line


def test_each_arm_takes_its_best_value_and_the_smaller_one_of_a_tie(tmp_path, scores):
    plan = planned(tmp_path)
    first, second, *others = plan.arms
    scores(plan, means_of(plan, 0.3, 0.5, 0.4, 0.4, *[0.1, 0.2] * len(others)))
    part = plan.first.settle(FakeStore())
    assert part.settings[first.name] == [f"{KEY}=0.001"]
    assert part.settings[second.name] == [f"{KEY}=0.0002"]
    assert part.scores[first.name] == {f"{KEY}=0.0002": pytest.approx(0.3), f"{KEY}=0.001": pytest.approx(0.5)}
    settled = plan.first.then(part)
    assert settled.first is None
    assert [arm.config.optimizer.learning_rate for arm in settled.arms[:2]] == [1e-3, 2e-4]
    assert {tuple(arm.runs) for arm in settled.arms} == {(0, 1, 2)}
    # Runs at the default rate are those of the comparison without trials.
    plain = {arm.name: arm.runs for arm in plan_experiment([*PAIR, f"{KEY}=2e-4"]).arms}
    assert settled.arm(second.name).runs == plain[second.name]
    assert Plan.read(settled.record()).tuning == dataclasses.replace(
        part, settings=dict(part.settings), scores=dict(part.scores)
    )
    assert settled.tuned_keys == (KEY,)
    assert not any("learning_rate" in key for arm in settled.arms for measure in arm.engagement for key in measure.keys)


def test_a_value_at_which_a_run_failed_is_not_taken_and_none_left_is_an_error(tmp_path, scores, monkeypatch):
    plan = planned(tmp_path)
    scores(plan, means_of(plan, *[0.3, 0.5] * len(plan.arms)))
    trials = plan.first.plan.arms
    part = plan.first.settle(FakeStore({trials[1].runs[901]: "failed"}))
    assert part.settings[plan.arms[0].name] == [f"{KEY}=0.0002"]
    assert part.scores[plan.arms[0].name][f"{KEY}=0.001"] is None
    failed = {run_id: "failed" for arm in trials[:2] for run_id in arm.runs.values()}
    with pytest.raises(
        ConfigError,
        match=f"'{plan.arms[0].name}' finished at none of its 2 values of learning_rate .*{plan.name}_tuning",
    ):
        plan.first.settle(FakeStore(failed))
    monkeypatch.setattr("harness.experiment.planning.ResultStore", lambda root: FakeStore(failed))
    assert planned(tmp_path).first is not None  # the next command tries them again


def test_an_equal_budget_is_set_after_the_trials(tmp_path, scores):
    plan = planned(tmp_path, "match=tokens")
    scores(plan, means_of(plan, *[0.3, 0.5] * len(plan.arms)))
    waiting = plan.first.then(plan.first.settle(FakeStore()))
    assert waiting.first.part.name == "match=tokens"
    assert waiting.first.plan.arms[0].config.optimizer.learning_rate == 1e-3
    declared = planned(tmp_path, "match=tokens", "experiment.match_budget=5000")
    assert {arm.config.training.generated_tokens for arm in declared.first.plan.arms} == {5000}


def test_tuned_values_are_no_second_change_of_an_arm_and_one_rate_for_all_is_told(tmp_path, scores):
    ladder = ["experiment=dapo_ladder", "experiment.seeds=[0]", f"runtime.results={tmp_path}"]
    plan = plan_experiment([*ladder, RATES])
    scores(plan, means_of(plan, *[0.3, 0.5, 0.5, 0.3] * (len(plan.arms) // 2)))
    settled = plan.first.then(plan.first.settle(FakeStore()))
    plain = plan_experiment(ladder)
    assert {item.check for item in check_plan(settled)} == {item.check for item in check_plan(plain)}
    assert one_rate_note(plain)[0].startswith("one rate for all: ")
    assert one_rate_note(settled) == one_rate_note(plan) == []


def called_higher(seeds: int, gap: float, studies: int = 20_000) -> float:
    """The share of studies that call one of two arms higher, alike: at one value the best, at three others `gap` spreads below."""
    generator, truth = np.random.default_rng(seeds), np.array([0.0, -gap, -gap, -gap])
    choices = (truth + generator.standard_normal((studies, 2, seeds, 4)).mean(axis=2)).argmax(axis=-1)
    scores = truth[choices][..., None] + generator.standard_normal((studies, 2, 8))
    differences = scores[:, 1] - scores[:, 0]
    half = stats.t.ppf(0.975, 7) * differences.std(1, ddof=1) / np.sqrt(8)
    return float((np.abs(differences.mean(1)) > half).mean())


@pytest.mark.parametrize("seeds", [1, 2, 4, 8, 16])
def test_arms_that_are_alike_are_called_higher_as_often_as_is_said(seeds):
    worst = max(called_higher(seeds, gap) for gap in (0.0, 0.5, 0.75, 1.0, 1.25, 1.5))
    assert worst == pytest.approx(WRONG_WORDS[seeds] / 100, abs=0.01)
    assert called_higher(seeds, 0.0) == pytest.approx(0.05, abs=0.005)
    assert f" {WRONG_WORDS[seeds]} % of studies" in choice_note(Part("tune", "", "", seeds=[*range(seeds)]))


def test_the_smaller_of_equal_numbers_comes_first_and_words_keep_their_order():
    tune = Tune({"a.x": [3, 1, 2], "algorithm": ["grpo", "dapo"]}, [1])
    assert tune.points[:3] == [("a.x=1", "algorithm=grpo"), ("a.x=1", "algorithm=dapo"), ("a.x=2", "algorithm=grpo")]
    assert tune.words == "6 values of x and algorithm"
