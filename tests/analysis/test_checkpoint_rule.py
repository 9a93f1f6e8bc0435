"""Which checkpoint of a run is its result: the declared rule, and an arm that trains for no step."""

from __future__ import annotations

import pandas as pd
import pytest
from synthetic_store import build_store, loaded

from analysis.evidence.checkpoint_rule import chosen_steps, last_evaluations


def test_an_arm_of_no_steps_is_the_policy_before_training(tmp_path):
    build_store(tmp_path, steps=0, evaluate=(0,), seeds=(0, 1))
    results = loaded(tmp_path)
    per_seed = results.per_seed[results.per_seed["cap"] == 32]
    assert [list(steps) for steps in per_seed["steps"]] == [[0]] * 8
    assert (per_seed["last_score"] == per_seed["avg"]).all()
    assert results.before["avg"].notna().all()


def test_the_last_evaluation_is_the_result_or_the_mean_of_the_last_of_an_imported_curve():
    cells = pd.DataFrame({"step": [0, 10, 20, 30], "avg": [0.3, 0.5, 0.9, 0.6]})
    assert chosen_steps(cells, last_evaluations("last")) == [30]
    assert chosen_steps(cells, last_evaluations("mean_last_2")) == [20, 30]
    assert last_evaluations("mean_last_k") == 3
    with pytest.raises(ValueError, match="known: last"):
        last_evaluations("best_on_dev")
