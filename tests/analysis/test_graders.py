"""What a report warns of: a verifier that is cheated, nothing to learn, collapsed seeds, counted with exact bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_store import SHORT, build_store, make_samples

from analysis import load
from analysis.answer import answer_sentences
from analysis.graders import grader_gaps
from analysis.report import write_tables

RUNGS = [("ladder_0_honest", "honest", 0.5, 30.0), ("ladder_1_cheating", "cheating", 0.7, 40.0)]
PROBLEMS, SAMPLES = 24, 8


def store_of(root: Path, second, rungs=RUNGS) -> Path:
    """Write a store whose samples have the second verdicts `second(samples, accuracy)`; None: the column is not there."""

    def make(rng, accuracy, problems, n, cap):
        samples = make_samples(rng, accuracy, problems, n, cap)
        verdicts = second(samples, accuracy)
        return samples if verdicts is None else samples.assign(second_correct=verdicts)

    build_store(root, rungs=rungs, problems=PROBLEMS, n=SAMPLES, caps=(32,), samples=make)
    return root


def cheated(samples: pd.DataFrame, accuracy: float) -> pd.Series:
    """Confirm every right answer before RL (accuracy 0.3), and of a run beyond 0.6 half of them only."""
    return samples["correct"] & (np.arange(len(samples)) % 2 == 0 if accuracy > 0.6 else True)


def test_a_cheated_verifier_is_warned_of_with_what_is_not_confirmed(tmp_path: Path) -> None:
    results = load(store_of(tmp_path, cheated), "ladder")
    gaps = grader_gaps(results)
    honest, gap = gaps["ladder_0_honest"], gaps["ladder_1_cheating"]
    assert (honest.unconfirmed_rise.value, honest.has_grown) == (0, False)
    assert gap.has_grown
    seeds = results.per_seed.query("arm == 'ladder_1_cheating'")[
        "graders_only_first"
    ]  # nothing was unconfirmed before RL
    assert gap.unconfirmed_rise.value == pytest.approx(seeds.mean())
    assert gap.unconfirmed_rise.low < gap.unconfirmed_rise.value < gap.unconfirmed_rise.high
    (warning,) = [line for line in answer_sentences(results) if "second grader" in line]
    assert f" of its +{100 * gap.rise:.1f} points" in warning
    assert f"{100 * gap.unconfirmed_rise.value:.1f} of its" in warning
    assert "(95 % interval" in warning
    assert "cheating" in warning
    assert (gap.refused_share_before, round(gap.refused_share, 1)) == (0, 0.5)
    assert (
        f"The second grader refuses {100 * gap.refused_share:.0f} % of what the verifier holds right, 0 % before RL."
        in warning
    )


def test_a_gap_that_was_there_before_is_no_warning(tmp_path: Path) -> None:
    def strict(samples, accuracy):
        return samples["correct"] & (np.arange(len(samples)) % 10 > 0)

    store_of(tmp_path, strict, [("ladder_0_same", "same", 0.3, 30.0)])
    gap = grader_gaps(load(tmp_path, "ladder"))["ladder_0_same"]
    assert gap.refused_share > 0.01
    assert not gap.has_grown
    assert gap.refused_share == pytest.approx(gap.refused_share_before, abs=0.03)


def test_runs_without_second_verdicts_read_as_before_and_a_grader_that_agrees_is_no_warning(tmp_path: Path) -> None:
    without = load(store_of(tmp_path / "without", lambda *_: None), "ladder")
    agreed = load(store_of(tmp_path / "with", lambda samples, _: samples["correct"]), "ladder")
    assert grader_gaps(without) == {}
    assert not any("second grader" in line for line in answer_sentences(agreed))
    texts = []
    for results in (without, agreed):
        paths = write_tables(results, tmp_path / "tables" / str(len(texts)), everything=True)
        texts.append({path.name: path.read_text() for path in paths})
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("right", "remedy"), [(False, "easier"), (True, "harder"), (None, None)])
def test_a_base_policy_that_has_nothing_to_learn_is_warned_of(
    tmp_path: Path, right: bool | None, remedy: str | None
) -> None:
    def make(rng, accuracy, problems, n, cap):
        samples = make_samples(rng, accuracy, problems, n, cap)
        return samples if right is None or accuracy != 0.3 else samples.assign(correct=right)

    build_store(tmp_path, rungs=RUNGS, problems=PROBLEMS, n=SAMPLES, caps=(32,), samples=make)
    warnings = [line for line in answer_sentences(load(tmp_path, "ladder")) if "nothing to learn" in line]
    assert [f"use {remedy} problems" in line for line in warnings] == [True] * (right is not None)


ARMS = [("ladder_0_grpo", "GRPO", 0.50, 30.0), ("ladder_1_other", "other", 0.56, 36.0)]


def collapsing_store(root: Path) -> None:
    """Write two arms by eight seeds; one run of the second, its last made, answers nothing at the end."""
    made = []

    def make(rng, accuracy, problems, n, cap):
        samples = make_samples(rng, accuracy, problems, n, cap)
        made.append(accuracy)
        last = accuracy > 0.5 and sum(one > 0.5 for one in made) == 8
        return samples.assign(correct=False, verdict="wrong") if last else samples

    build_store(root, rungs=ARMS, seeds=range(8), samples=make, **SHORT)


def test_a_collapsed_seed_is_counted_left_out_beside_and_told(tmp_path: Path) -> None:
    collapsing_store(tmp_path)
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
