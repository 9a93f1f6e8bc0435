"""Which checkpoint of a run is its result: the declared rule, and an arm that trains for no step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from synthetic_store import build_store, loaded, make_samples

from analysis.evidence.checkpoint_rule import chosen_steps, parse_rule
from analysis.evidence.results import results_of
from harness.evaluation.metrics.names import metric
from harness.store.samples import write_part


def test_an_arm_of_no_steps_is_the_policy_before_training(tmp_path):
    build_store(tmp_path, steps=0, evaluate=(0,), seeds=(0, 1))
    results = loaded(tmp_path)
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


def test_whatever_checkpoint_the_development_benchmark_chooses_has_every_pass_at_k(tmp_path):
    """Two seeds whose best step there is the first of two, two whose best is the second."""
    store = build_store(
        tmp_path, rungs=[("a", "a", 0.4, 1.0), ("b", "b", 0.4, 1.0)], seeds=(0, 1, 2, 3), caps=(32,)
    )
    plan = {**store.plan("ladder"), "dev_benchmark": "dev", "checkpoint_rule": "best_on_dev"}
    store.write_plan("ladder", plan)
    for arm in plan["arms"]:
        for seed, run_id in arm["runs"].items():
            for step in (10, 20):
                right = 0.9 if (step == 10) == (int(seed) % 2 == 0) else 0.1
                frame = make_samples(np.random.default_rng(step), right, 12, 8, 32)
                folder = store.run(run_id).path / f"samples/dev/step-{step:06d}"
                folder.mkdir(parents=True)
                write_part(
                    folder / "part-000000.parquet", pa.Table.from_pandas(frame, preserve_index=False), {}
                )
    for curves in (True, False):
        own = loaded(tmp_path, curves=curves, also=[metric("pass@4")]).per_seed
        assert sorted(step for steps in own["steps"] for step in steps) == [10] * 4 + [20] * 4
        assert own["pass@4"].notna().all()
