"""Collapsed seeds: counted with exact bounds, told where they decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from synthetic_store import SHORT, build_store, make_samples

from analysis import load
from analysis.answer import answer_sentences

RUNGS = [("ladder_0_grpo", "GRPO", 0.50, 30.0), ("ladder_1_other", "other", 0.56, 36.0)]


def store_of(root: Path) -> None:
    """Write two arms by eight seeds; one run of the second, its last made, answers nothing at the end."""
    made = []

    def make(rng, accuracy, problems, n, cap):
        samples = make_samples(rng, accuracy, problems, n, cap)
        made.append(accuracy)
        last = accuracy > 0.5 and sum(one > 0.5 for one in made) == 8
        return samples.assign(correct=False, verdict="wrong") if last else samples

    build_store(root, rungs=RUNGS, seeds=range(8), samples=make, **SHORT)


def test_a_collapsed_seed_is_counted_left_out_beside_and_told(tmp_path: Path) -> None:
    store_of(tmp_path)
    results = load(tmp_path, "ladder")
    ((_, seed),) = results.experiment.collapses
    reference, arm = results.experiment.plan.arms
    own, base = results.values(arm), results.values(reference)
    without = 100 * np.mean([own[one] - base[one] for one in own if one != seed])
    count, decision = [line for line in answer_sentences(results) if "collapsed" in line]
    assert (
        f"1 of 8 seeds collapsed (exact 95 % interval 0 to 53 %). Seed {seed}: " in count
    )  # Clopper-Pearson: 0.00316 to 0.5265
    assert f"It is not resolved with them; without them {without:+.1f} points, higher." in decision
    assert f"It is {results.declared[arm.name].words(100, 'points')} with them" in decision  # the word of the table
