"""Which checkpoint of a run is its result: the declared rule, and an arm that trains for no step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from synthetic_store import build_store

from analysis.evidence.checkpoint_rule import chosen_steps, parse_rule
from analysis.evidence.load import load_experiment
from analysis.evidence.results import results_of


@pytest.fixture(scope="module")
def results(ladder_root):
    return results_of(load_experiment(ladder_root, "ladder"))


def test_an_arm_of_no_steps_is_the_policy_before_training(tmp_path):
    build_store(tmp_path, steps=0, evaluate=(0,), seeds=(0, 1))
    results = results_of(load_experiment(tmp_path, "ladder"))
    per_seed = results.per_seed[results.per_seed["cap"] == 32]
    assert [list(steps) for steps in per_seed["steps"]] == [[0]] * 8
    assert (per_seed["last_score"] == per_seed["avg"]).all()
    assert results.before["avg"].notna().all()


def test_checkpoint_rules():
    cells = pd.DataFrame({"step": [0, 10, 20, 30], "avg": [0.3, 0.5, 0.9, 0.6]})
    dev = pd.DataFrame({"step": [10, 20, 30], "avg": [0.7, 0.5, 0.6]})
    assert chosen_steps(cells, parse_rule("last"), None) == [30]
    assert chosen_steps(cells, parse_rule("mean_last_2"), None) == [20, 30]
    assert chosen_steps(cells, parse_rule("best_on_dev"), dev) == [10]
    with pytest.raises(ValueError, match="dev_benchmark"):
        chosen_steps(cells, parse_rule("best_on_dev"), None)
    with pytest.raises(ValueError, match="known: last"):
        parse_rule("best_on_test")


def test_the_development_benchmark_chooses_at_each_cap_by_itself(results):
    experiment, plan = results.experiment, results.experiment.plan
    run_id = experiment.states.loc[experiment.states["status"] == "finished", "run_id"].iloc[0]
    own = experiment.cells[(experiment.cells["run_id"] == run_id) & (experiment.cells["step"] > 0)]
    first, second = sorted(own["step"].unique())[:2]
    dev = own[own["step"].isin([first, second])].assign(benchmark="dev")
    low, high = dev["cap"] == plan.caps[0], dev["cap"] == plan.caps[1]
    dev["avg"] = np.select([low & (dev["step"] == first), high & (dev["step"] == second)], [0.4, 0.9], 0.1)
    chosen = results_of(
        dataclasses.replace(
            experiment,
            plan=dataclasses.replace(plan, dev_benchmark="dev", checkpoint_rule="best_on_dev"),
            cells=pd.concat([experiment.cells, dev]),
        )
    ).per_seed
    steps = chosen[chosen["run_id"] == run_id].set_index("cap")["steps"]
    assert (steps[plan.caps[0]], steps[plan.caps[1]]) == ([first], [second])
