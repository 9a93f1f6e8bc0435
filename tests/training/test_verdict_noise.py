"""A verifier that errs at given rates: the draw belongs to the response, the rates are met, and evaluation stays exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_runs import Bench, small_config

from harness.configuration.sections import RewardConfig
from harness.rollout.noise import sample_seeds
from harness.training.grading import noisy_verdicts

SEEDS = sample_seeds(np.uint64(7), np.arange(200), 50)


def test_rates_are_met_and_a_draw_belongs_to_its_response() -> None:
    correct = torch.arange(200)[:, None].expand(200, 50) < 100
    erring = RewardConfig(true_positive=0.9, false_positive=0.2)
    seen = noisy_verdicts(correct, SEEDS, erring)
    # 5,000 draws each: standard errors of 0.4 and 0.6 points
    assert float(seen[:100].double().mean()) == pytest.approx(0.9, abs=0.02)
    assert float(seen[100:].double().mean()) == pytest.approx(0.2, abs=0.02)
    part = noisy_verdicts(correct[90:110], SEEDS[90:110], erring)
    assert torch.equal(part, seen[90:110])
    # one draw a response: who is believed when wrong would be believed when right, too
    when_right, when_wrong = (noisy_verdicts(all_, SEEDS, erring) for all_ in (correct | True, correct & False))
    assert bool((when_right | ~when_wrong).all())
    assert not bool(noisy_verdicts(correct, SEEDS, RewardConfig(true_positive=0.0)).any())


def test_a_random_reward_knows_nothing_of_the_answer() -> None:
    correct = torch.arange(200)[:, None].expand(200, 50) < 100
    random = RewardConfig(true_positive=0.5, false_positive=0.5)
    assert torch.equal(noisy_verdicts(correct, SEEDS, random), noisy_verdicts(~correct, SEEDS, random))


def test_a_run_trains_on_them_records_how_many_and_evaluates_exactly(bench: Bench) -> None:
    reward = RewardConfig(true_positive=0.0, false_positive=1.0)  # every verdict turned round
    runs = [
        bench.trained(small_config(training__steps=2, training__evaluate_every=2, **changes), name)
        for name, changes in (("a", {}), ("b", {"algorithm__reward": reward}))
    ]
    exact, turned = (one.run.steps() for one in runs)
    assert exact["flipped_verdicts_fraction"].isna().all()
    assert turned["flipped_verdicts_fraction"].tolist() == [1.0, 1.0]
    # the same responses at the first step: what was right is taken for wrong
    assert turned["accuracy_mean"][0] == pytest.approx(1 - exact["accuracy_mean"][0])
    before = [one.run.samples("arithmetic_heldout", 0)["correct"].tolist() for one in runs]
    assert before[0] == before[1]
