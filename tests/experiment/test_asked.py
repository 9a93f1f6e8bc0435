"""What an experiment may ask: metrics, margins, seeds as a sequential design, and folders of the user's own."""

from __future__ import annotations

import dataclasses

import pytest

from harness.commands.plan import metric_lines
from harness.configuration.compose import compose_run, config_dir
from harness.configuration.error import ConfigError
from harness.experiment.declaration import Experiment, as_file
from harness.experiment.history import longest_first
from harness.experiment.planning import declared_experiment, make_plan, plan_experiment
from harness.experiment.power import Power, planned_comparisons, power_line
from harness.statistics.intervals import comparison_level
from harness.statistics.sequential import design_levels
from harness.store import METRICS, ResultStore

DECLARED = ["experiment=dapo_one_factor", "experiment.margin=null"]
MULTIRUN = ["algorithm=grpo,dr_grpo", "seed=0,1"]


def test_the_default_is_accuracy_and_its_record_is_as_before():
    experiment = declared_experiment(DECLARED)
    assert (experiment.metric, experiment.metrics) == ("avg", ["avg"])
    record = plan_experiment(DECLARED).record()
    assert (record["metric"], record["margin"]) == ("avg", None)
    assert metric_lines(plan_experiment(DECLARED)) == []


def test_metrics_and_margins_are_recorded_as_they_are_declared():
    asked = [
        "experiment.metric=[length_wrong,pass@8,seconds]",
        "experiment.margin={length_wrong: 0.5, pass@8: 2}",
    ]
    plan = plan_experiment([*DECLARED, *asked])
    record = plan.record()
    assert record["metric"] == ["length_wrong", "pass@8", "seconds"]
    assert record["margin"] == {"length_wrong": 0.5, "pass@8": 2.0}
    assert planned_comparisons(plan) == 3 * 5
    assert metric_lines(plan) == [
        "asks about: length of wrong answers (tokens, margin 0.5); Pass@8 (points, higher is better, margin 2); "
        "wall time of the run (s, lower is better)"
    ]
    assert declared_experiment([*DECLARED, "experiment.metric=entropy", "experiment.margin=1"]).margin == 1.0
    assert [one.config for one in plan.arms] == [one.config for one in plan_experiment(DECLARED).arms]


def test_a_margin_of_the_file_is_not_taken_for_one_of_another_metric():
    without = ["experiment=dapo_ladder", "experiment.metric=length", "experiment.margin=null"]
    assert declared_experiment(without).margin is None
    for same in ("experiment.metric=avg", "experiment.metric=[avg]"):
        assert declared_experiment(["experiment=dapo_ladder", same]).margin == 3


def test_a_multirun_asks_about_any_metric_and_keeps_its_name_where_it_asks_nothing():
    plain = make_plan(MULTIRUN, multirun=True)
    asked = make_plan([*MULTIRUN, "experiment.metric=length_wrong", "experiment.name=lengths"], multirun=True)
    assert (asked.name, asked.metrics[0].name) == ("lengths", "length_wrong")
    assert asked.title == "lengths"
    assert {spec.labels["experiment"] for spec in asked.specs} == {"lengths"}  # what trackers show
    assert [spec.run_id for spec in asked.specs] == [spec.run_id for spec in plain.specs]
    stored = make_plan([*MULTIRUN, "model.bases.count=8"], multirun=True)
    assert stored.name == "multirun_2b61c4ae"  # stored answers are found again
    assert "experiment.metric=length_wrong" in asked.command


@pytest.mark.parametrize(("written", "seeds"), [("0,1", [0, 1]), ("[3]", [3]), ("[2,5]", [2, 5])])
def test_seeds_of_an_experiment_are_understood_with_and_without_brackets(written: str, seeds: list[int]):
    assert make_plan(["experiment=dapo_ladder", f"experiment.seeds={written}"]).seeds == tuple(seeds)


def test_power_is_told_of_accuracy_alone(tmp_path):
    plan = plan_experiment([*DECLARED, "experiment.metric=[length_wrong,entropy]"])
    assert power_line(plan, ResultStore(tmp_path)) == ""


@pytest.fixture
def folder(tmp_path):
    files = {
        "experiment/mine.yaml": as_file(
            "name: mine\narms:\n  - {name: a, overrides: [algorithm=grpo]}\n"
            "  - {name: b, parent: a, patch: low_rate, overrides: [algorithm=gentle, 'patch=[low_rate]']}\n"
        ),
        "algorithm/gentle.yaml": "defaults:\n  - grpo\n  - _self_\nentropy_coefficient: 0.001\n",
        "patch/low_rate.yaml": "# @package _global_\noptimizer:\n  learning_rate: 1.0e-05\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_folder_of_ones_own_adds_experiments_algorithms_and_patches(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    with config_dir(folder.name):
        plan = make_plan(["experiment=mine", "experiment.seeds=[0,1]"])
        jobs = make_plan(["algorithm=grpo,gentle", "seed=0"], multirun=True)
    a, b = plan.arms
    assert (b.config.algorithm.entropy_coefficient, b.config.optimizer.learning_rate) == (0.001, 1e-5)
    assert a.config == compose_run(["algorithm=grpo"])
    assert plan.command.startswith(f"harness run --config-dir {folder.name} experiment=mine ")
    assert list(plan.seeds) == [0, 1]
    assert jobs.specs[0].run_id == a.runs[0]


def test_a_grid_varies_an_algorithm_of_ones_own(folder):
    text = "name: grid\ngrid: ['algorithm=grpo,gentle', 'optimizer.learning_rate=1e-4,2e-4']\n"
    (folder / "experiment" / "own_grid.yaml").write_text(as_file(text))
    with config_dir(str(folder)):
        plan = make_plan(["experiment=own_grid", "experiment.seeds=[0]"])
    found = [(arm.config.algorithm.entropy_coefficient, arm.config.optimizer.learning_rate) for arm in plan.arms]
    assert found == [(0.0, 1e-4), (0.0, 2e-4), (0.001, 1e-4), (0.001, 2e-4)]


def test_folders_that_cannot_be_are_named(folder):
    with pytest.raises(ConfigError, match="there is no folder"), config_dir(f"{folder}/nowhere"):
        pass
    (folder / "empty").mkdir()
    says = r"no YAML file in a group below it.*experiment/NAME.yaml"
    with pytest.raises(ConfigError, match=says), config_dir(f"{folder}/empty"):
        pass
    (folder / "experiment" / "dapo_ladder.yaml").write_text("name: other\n")
    says = r"dapo_ladder.yaml has the name of a shipped file"
    with pytest.raises(ConfigError, match=says), config_dir(str(folder)):
        pass


def test_every_logged_column_is_a_metric():
    for column in METRICS:
        if column not in ("step", "attempt"):
            name = f"training/{column}"
            assert declared_experiment([*DECLARED, f"experiment.metric={name}"]).metrics == [name]


def test_a_key_that_only_one_arm_has_at_null_is_no_change() -> None:
    plan = make_plan(["algorithm=grpo,vapo", "seed=0"], multirun=True)
    assert [pair for arm in plan.arms for pair in arm.changes.values() if pair == (None, None)] == []
    assert "algorithm.advantage.kind" in plan.arms[1].changes


NAME = "experiment=dapo_equal_tokens"
STEPS = "match=steps"
LOOKS = "experiment.seeds={start: 2, step: 3, most: 6}"


def declared(*overrides: str) -> Experiment:
    return declared_experiment([NAME, STEPS, *overrides])


def test_a_mapping_becomes_seeds_and_looks_with_the_budget_as_the_last():
    experiment = declared(LOOKS)
    assert (experiment.seeds, experiment.looks) == ([0, 1, 2, 3, 4, 5], [2, 5, 6])
    assert declared("experiment.seeds={looks: [4, 6]}").looks == [4, 6]
    assert declared("experiment.seeds={most: 9}").looks == [4, 6, 8, 9]
    assert declared("experiment.seeds=[3,1]").looks == []
    assert declared("experiment.seeds=[7,5,3]", "experiment.looks=[2,3]").seeds == [7, 5, 3]


def test_a_plan_records_the_seeds_asked_for_so_far(tmp_path):
    plan = plan_experiment([NAME, STEPS, LOOKS, f"runtime.results={tmp_path}"])
    first, second, third = (planned.name for planned in plan.arms)
    part = plan.first_seeds({first: 5, second: 5, third: 2})
    record = part.record()
    assert record["looks"] == [2, 5, 6]
    assert record["seeds"] == [0, 1, 2, 3, 4]
    assert [list(arm["runs"]) for arm in record["arms"]] == [list("01234"), list("01234"), list("01")]
    assert len(part.specs) == 12
    assert {spec.run_id for spec in part.specs} < {spec.run_id for spec in plan.specs}


def test_a_matched_budget_is_that_of_the_first_look(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "harness.experiment.planning.mean_spending", lambda store, ids: asked.append(list(ids)) or 1000.0
    )
    plan = plan_experiment([NAME, "match=tokens", LOOKS, f"runtime.results={tmp_path}"])
    reference = plan.arms[0].runs
    assert asked == [[reference[0], reference[1]]]
    assert plan.first is None


def test_the_power_of_a_sequential_plan_is_that_of_its_last_look(tmp_path):
    plan = plan_experiment([NAME, STEPS, LOOKS, f"runtime.results={tmp_path}"])
    assert Power(plan).alpha == design_levels(plan.looks, 2)[-1] < 1 - comparison_level(2)


@pytest.fixture
def plan(tmp_path):
    return plan_experiment([NAME, STEPS, "experiment.seeds=[0,1]", f"runtime.results={tmp_path}"])


def arms_of(specs):
    return [(spec.labels["arm"], spec.seed) for spec in specs]


def test_without_past_runs_dynamic_sampling_starts_first_and_the_rest_goes_seed_by_seed(plan, tmp_path):
    names = [planned.name for planned in plan.arms]
    refill = [p.name for p in plan.arms if p.config.algorithm.dead_groups.policy == "refill"]
    rest = [name for name in names if name not in refill]
    assert len(refill) == 2
    expected = [(name, seed) for group in (refill, rest) for seed in (0, 1) for name in group]
    assert arms_of(longest_first(plan, ResultStore(tmp_path))) == expected


def test_past_runs_tell_which_are_longer_and_alike_ones_keep_their_order(plan, tmp_path, monkeypatch):
    first, second, third = (planned.name for planned in plan.arms)
    seconds = {first: 400.0, second: 1000.0, third: 490.0}
    by_arm = {p.arm_id: seconds[p.name] for p in plan.arms}

    @dataclasses.dataclass
    class Cost:
        seconds: float

    monkeypatch.setattr("harness.experiment.history.History.expect", lambda self, config, arm: Cost(by_arm[arm]))
    found = arms_of(longest_first(plan, ResultStore(tmp_path)))
    assert found == [(second, 0), (second, 1), (first, 0), (third, 0), (first, 1), (third, 1)]
