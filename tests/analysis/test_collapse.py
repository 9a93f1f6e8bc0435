"""Collapsed seeds: counted with exact bounds, told where they decide; sign flips against enumeration by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from synthetic_store import SHORT, build_store, declared, make_samples

from analysis import load
from analysis.answer import answer_sentences
from harness.experiment.plan import Collapse
from harness.statistics.aggregates import sign_flip_p

RUNGS = [("ladder_0_grpo", "GRPO", 0.50, 30.0), ("ladder_1_other", "other", 0.56, 36.0)]


def test_sign_flips_are_all_patterns_of_signs() -> None:
    differences = np.array([1.0, 2.0, 3.0, -0.5, 4.0, 1.5])
    patterns = np.array(list(itertools.product((1, -1), repeat=6)))
    means = np.abs((patterns * differences).mean(1))
    assert sign_flip_p(differences) == pytest.approx((means >= abs(differences.mean()) - 1e-12).mean())
    assert sign_flip_p(np.arange(1.0, 7.0)) == pytest.approx(2 / 64)


def store_of(root: Path, collapses: bool) -> None:
    """Write two arms by eight seeds; one run of the second, its last made, answers nothing at the end."""
    made = []

    def make(rng, accuracy, problems, n, cap):
        samples = make_samples(rng, accuracy, problems, n, cap)
        made.append(accuracy)
        last = collapses and accuracy > 0.5 and sum(one > 0.5 for one in made) == 8
        return samples.assign(correct=False, verdict="wrong") if last else samples

    build_store(root, rungs=RUNGS, seeds=range(8), samples=make, **SHORT)


def test_bounds_of_entropy_and_length_are_declared_and_count(tmp_path: Path) -> None:
    store_of(tmp_path, collapses=False)
    whole = load(tmp_path, "ladder")
    assert not any("collapsed" in line for line in answer_sentences(whole))
    last = whole.per_seed.set_index("arm")["tokens_all_mean"]
    bound = float(last.max()) - 1e-9  # the longest run alone lies beyond
    results = declared(tmp_path, collapse={"accuracy": 0.5, "length": [0, bound]})
    assert {arm for arm, _ in results.experiment.collapses} == {last.idxmax()}
    assert len(results.experiment.collapses) == 1
    (warning,) = [line for line in answer_sentences(results) if "1 of 8 seeds collapsed" in line]
    assert "half of the run's own best one, or length outside 0 to" in warning
    assert Collapse(entropy=[0.1, 2.0]).is_met([0.5, 0.5], {"entropy": 0.05})
    assert not Collapse(entropy=[0.1, 2.0]).is_met([0.5, 0.5], {"entropy": float("nan")})
    assert not Collapse(accuracy=0.2).is_met([0.8, 0.2], {})


def test_a_collapsed_seed_is_counted_left_out_beside_and_told(tmp_path: Path) -> None:
    store_of(tmp_path, collapses=True)
    results = load(tmp_path, "ladder")
    ((_, seed),) = results.experiment.collapses
    reference, arm = results.experiment.plan.arms
    own, base = results.values(arm), results.values(reference)
    without = 100 * np.mean([own[one] - base[one] for one in own if one != seed])
    count, decision = [line for line in answer_sentences(results) if "collapsed" in line]
    assert (
        f"1 of 8 seeds collapsed (exact 95 % interval 0 to 53 %). Seed {seed}: " in count
    )  # Clopper-Pearson: 0.00316 to 0.5265
    assert f"alone it is not resolved with them; without them {without:+.1f} points, higher." in decision
