"""What blind answers earn: of problems, in metrics, before a launch and in the answer."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import Samples, metric, reduce_samples
from harness.experiment.checks import check_plan
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_experiment
from harness.problems.hygiene import report
from harness.problems.problem import Benchmark, Problem, benchmark_config, chances_of, read_jsonl, write_jsonl


def test_a_blind_answer_is_right_as_often_as_the_metric_says():
    """Every outcome of four uniform answers among three values, the first of which is right."""
    draws = np.array([*product(range(3), repeat=4)])
    problems, n = draws.shape
    samples = Samples(
        tuple(map(str, range(problems))),
        ("right", "wrong"),
        np.repeat(np.arange(problems), n),
        draws.ravel() == 0,
        draws.ravel(),
        np.ones(draws.size, dtype=np.int64),
        *np.zeros((2, draws.size), dtype=bool),
        np.zeros(draws.size, dtype=np.int64),
    )
    means = reduce_samples(samples, (1, 2, 3, 4)).means
    for k in (1, 2, 3, 4):
        assert metric(f"pass@{k}").by_guessing([[1 / 3, 1.0]]) == pytest.approx(means[f"pass@{k}"])
        assert metric(f"maj@{k}").by_guessing([[1 / 3, 1.0]]) == pytest.approx(means[f"maj@{k}"])
    assert metric("avg").by_guessing([[1 / 3, 1.0]]) == pytest.approx(means["avg@4"])
    assert metric("length").by_guessing([[1 / 3, 1.0]]) is metric("avg").by_guessing(None) is None
    assert metric("pass@2").by_guessing([[1.0, 0.2], [0.5, 0.4]]) == pytest.approx(0.2 + 0.4 * 0.75)


def test_problems_tell_their_chance_or_a_common_gold_does(tmp_path):
    path = tmp_path / "choices.jsonl"
    rows = [{"id": i, "problem": f"Which? {i}", "answer": "ABCD"[i % 4], "chance": 0.25} for i in range(40)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = benchmark_config({"kind": "dataset", "path": str(path)}, "b")
    assert chances_of(config) == [[0.25, 1.0]]
    write_jsonl(path, read_jsonl(path))
    assert chances_of(config) == [[0.25, 1.0]]
    path.write_text(
        "".join(
            f"{json.dumps({**row, 'chance': None, 'answer': '7'[: i % 2] or str(i)})}\n" for i, row in enumerate(rows)
        )
    )
    assert chances_of(config) == [[1.0, 0.5]]
    (fault,) = report({"b": config})
    assert fault.text.startswith("50 % of the golds are '7', which guessing earns")
    path.write_text(json.dumps({**rows[0], "chance": 1.5}))
    with pytest.raises(ConfigError, match="line 1: chance must be a probability from 0 to below 1"):
        read_jsonl(path)
    assert Benchmark("b", 1, [Problem(str(i), "", str(i)) for i in range(100)]).chances is None
    assert chances_of(benchmark_config({"kind": "dataset", "source": "of/the-hub"}, "b")) is None


def test_a_metric_that_can_be_guessed_is_named_before_the_launch(tmp_path):
    def checks(*more):
        plan = plan_experiment(
            ["experiment=dapo_equal_tokens", "experiment.margin=null", f"runtime.results={tmp_path}", *more]
        )
        assert Plan.read(plan.record()).chances == ([0.01, 1.0],)
        return [str(item) for item in check_plan(plan) if item.check == "can be guessed"]

    (found,) = checks("experiment.metric=[avg,pass@32]")
    assert found.startswith("[can be guessed] Pass@32: blind answers earn 27.5 %, since one in 100 is right")
    assert checks("experiment.metric=[avg,pass@16,maj@8]") == []
