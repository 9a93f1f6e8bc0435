"""What `harness plan --sample` says of a regime: shares by hand, advice by the mark that is missed, the width of an interval by scipy."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import scipy.stats
from small_runs import SMALL
from tables import table, tables
from verbs import jsonl

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.evaluation import regime
from harness.evaluation.regime import Regime, regime_key, regime_of
from harness.experiment.planning import make_plan
from harness.experiment.power import SEED_SPREADS, half_width_lines
from harness.statistics.intervals import comparison_level, half_width
from harness.statistics.sequential import design_levels
from harness.store import ResultStore

GOOD = tables(__file__)["good"]


@table(__file__, "advice", "change, advice")
def test_the_advice_is_about_the_mark_that_is_missed(change: dict[str, float], advice: str | None) -> None:
    first, *rest = Regime(**GOOD | change).lines()
    assert first.startswith(f"{100 * change.get('right', 0.3):.0f} % of 256 answers are right")
    assert len(rest) == (advice is not None)
    assert advice is None or rest[0].startswith(advice)


def test_the_shares_are_those_of_the_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Two samples a problem, (1 1), (1 0), (0 0), (0 1): half right, half mixed, a quarter all right; p(1-p)·2/1 is 0.5, 0 or 0.5, 0."""
    monkeypatch.setattr(regime, "PROBLEMS", 4)
    monkeypatch.setattr(regime, "base_model", lambda *_: None)
    monkeypatch.setattr(
        regime,
        "evaluate_models",
        lambda *_: {"cells": [{"samples": "x", "cap": 9, "avg": 0.5, "truncated_fraction": 0.25}]},
    )
    import pyarrow as pa

    rows = pa.table(
        {
            "problem_id": [*"aabbccdd"],
            "sample_index": [0, 1] * 4,
            "correct": [True, True, True, False, False, False, False, True],
        }
    )
    monkeypatch.setattr(regime, "read_parts", lambda *_: rows)
    config = compose_run([*SMALL, "algorithm.responses_per_prompt=2"])
    found = regime_of(config, ResultStore(tmp_path), "torch", lambda _: lambda *_: None)
    assert found == Regime(4, 2, 9, 0.5, 0.25, 0.5, 0.25, pytest.approx(0.5))
    assert found.all_wrong == 0.25


def test_arms_that_ask_alike_are_asked_once() -> None:
    grpo, dapo, long = (
        compose_run([*SMALL, *more])
        for more in (["algorithm=grpo"], ["algorithm=dapo"], ["algorithm=grpo", "sampling.max_response_tokens=13"])
    )
    assert regime_key(grpo) == regime_key(dapo) != regime_key(long)
    with pytest.raises(ConfigError, match=r"sampling\.top_k=0, not 5"):
        regime_key(compose_run([*SMALL, "sampling.top_k=5", "algorithm.engine_correction.old_log_probs=recomputed"]))


def test_the_expected_interval_adds_evaluation_and_seeds() -> None:
    """128 problems x 32 samples of 0.4 each: a difference's samples add 0.4 √(2 / 4096) = 0.9 points."""
    plan = make_plan(["experiment=dapo_ladder"], False)
    (line,) = half_width_lines(plan, 0.4)
    problems = plan.arms[0].config.evaluation.benchmarks[plan.benchmark].problems
    samples = 0.4 * math.sqrt(2 / (problems * plan.arms[0].config.evaluation.samples_per_problem))
    quantile = scipy.stats.t.ppf(1 - (1 - 0.95 ** (1 / 5)) / 2, 7)
    low, high = (100 * quantile * math.hypot(sd, samples) / math.sqrt(8) for sd in SEED_SPREADS)
    assert f"±{low:.1f} to ±{high:.1f} at 8 seeds" in line
    assert "5 comparisons together" in line
    assert f"the samples of evaluation add {100 * samples:.1f}" in line


def expected(*overrides: str) -> str:
    (line,) = half_width_lines(make_plan(["experiment=dapo_ladder", *overrides], False), 0.0)
    return line


def test_the_expected_interval_is_that_of_the_designs_looks() -> None:
    line = expected("experiment.seeds={start: 4, step: 4, most: 16}")
    alpha = design_levels((4, 8, 12, 16), 5)[-1]
    widths = [100 * half_width(sd, 16, 1 - alpha) for sd in SEED_SPREADS]
    assert f"±{widths[0]:.1f} to ±{widths[1]:.1f} at 16 seeds, where" in line
    assert "5 comparisons together, all looks together" in line
    assert alpha < 1 - comparison_level(5)


def test_the_expected_interval_counts_base_policies_that_seeds_share() -> None:
    widths = [100 * half_width(sd, 8, comparison_level(5)) for sd in SEED_SPREADS]
    line = expected("model.bases.count=8", f"experiment.seeds={[*range(16)]}")
    assert f"±{widths[0]:.1f} to ±{widths[1]:.1f} at 8 base policies, where" in line


def test_the_expected_interval_counts_the_problems_of_a_local_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    mine = f"+evaluation.benchmarks.mine={{kind: dataset, name: mine, path: {path}}}", "experiment.benchmark=mine"
    assert "counted in a local file alone (evaluation.benchmarks.mine.path)" in expected(*mine)
    jsonl(path, ({"id": str(n), "problem": f"{n}+1", "answer": str(n + 1)} for n in range(50)))
    (line,) = half_width_lines(make_plan(["experiment=dapo_ladder", *mine], False), 0.4)
    assert f"the samples of evaluation add {40 * math.sqrt(2 / (50 * 32)):.1f}" in line
