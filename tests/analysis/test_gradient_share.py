"""Gradient shares against the real objective (autograd) and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.evidence.gradient_share import NotCovered, Responses, shares
from analysis.figures.shares import by_length, by_success
from harness.configuration.compose import compose_run
from harness.configuration.schema import dump

CAP = 32
CORRECT = np.array([[True, False, False, True], [False, False, True, False], [True, True, True, True]])
LENGTHS = np.array([[4.0, 9.0, 30.0, 12.0], [32.0, 7.0, 28.0, 5.0], [3.0, 8.0, 31.0, 9.0]])


def algorithm(*overrides):
    return dump(compose_run([*overrides, f"sampling.max_response_tokens={CAP}"]).algorithm)


@pytest.mark.parametrize(
    "name",
    [
        "grpo",
        "dapo_group_token_mean",
        "dr_grpo",
        "lite_ppo",
        "rloo",
        "reinforce_pp_baseline",
        "scale_rl",
        "dapo",
    ],
)
def test_shares_of_one_group_are_those_of_the_objective(name):
    from harness.explain.shares import explain_one, make_group

    run = compose_run(
        [f"algorithm={name}", "algorithm.kl.coefficient=0", f"sampling.max_response_tokens={CAP}"]
    )
    settings = dump(run.algorithm)
    for right, lengths in zip(
        CORRECT, np.minimum(LENGTHS, 24), strict=True
    ):  # before the soft penalty's ramp
        ours = shares(right[None], lengths[None], np.zeros((1, 4), bool), settings, CAP)
        reward = settings["reward"]
        rewards = [reward["correct"] if r else reward["wrong"] for r in right]
        group = make_group(rewards, [int(n) for n in lengths], correct=right.tolist(), cap=CAP)
        theirs = [rollout.share for rollout in explain_one(group, run.algorithm)]
        if settings["dead_groups"]["policy"] == "keep" or 0 < right.mean() < 1:
            assert ours.share_PG[0] == pytest.approx(theirs, abs=1e-9)


def test_masked_responses_and_dead_groups_carry_none():
    settings = algorithm("algorithm=dapo", "algorithm.overlong.policy=mask_and_soft")
    found = shares(CORRECT, LENGTHS, LENGTHS >= 32, settings, CAP)
    assert found.share_PG[1, 0] == 0.0
    assert found.share_PG[2].sum() == 0.0
    assert found.share_PG.sum() == pytest.approx(1.0)
    soft_keeps = algorithm(
        "algorithm=dapo", "algorithm.overlong.policy=soft", "algorithm.dead_groups.policy=keep"
    )
    assert (
        shares(CORRECT, LENGTHS, LENGTHS >= 32, soft_keeps, CAP).share_PG[2].sum() > 0
    )  # lengths make a contrast


def test_response_mean_by_hand():
    """One right of two: advantages are plus and minus the same, and each response weighs the same whatever its length."""
    right, lengths = np.array([[True, False]]), np.array([[2.0, 20.0]])
    for name, expected in (("grpo", [0.5, 0.5]), ("dr_grpo", [2 / 22, 20 / 22])):
        found = shares(right, lengths, np.zeros((1, 2), bool), algorithm(f"algorithm={name}"), CAP)
        assert found.share_PG[0].tolist() == pytest.approx(expected)


def test_bins_add_up_to_the_whole():
    found = shares(CORRECT, LENGTHS, np.zeros_like(CORRECT), algorithm("algorithm=grpo"), CAP)
    assert by_length([found], CAP).mean.sum() == pytest.approx(100)
    success = by_success([found], 4)
    assert success.x.tolist() == [0, 25, 50, 75, 100]
    assert success.mean.sum() == pytest.approx(100)
    assert success.mean[[0, 4]].tolist() == [0, 0]


def test_twice_the_levels_are_a_curve_of_the_same_height():
    """One group of every success strictly between none and all, all responses equally long, each group with the same share."""

    def evenly(size):
        right = np.array([[i < k for i in range(size)] for k in range(1, size)])
        share = np.full(right.shape, 1 / right.size)
        return [Responses(np.ones(right.shape), right.mean(axis=1), share)]

    small, large = by_success(evenly(4), 4), by_success(evenly(8), 4)
    assert small.mean.tolist() == pytest.approx([0, 100 / 3, 100 / 3, 100 / 3, 0])
    assert large.x.tolist() == [0, 12.5, 25, 37.5, 50, 62.5, 75, 87.5, 100]
    assert large.mean[1:-1].tolist() == pytest.approx(
        [200 / 7] * 7
    )  # 100/7 of each level, which is half as wide


@pytest.mark.parametrize("name", ["vapo", "grpo_kl", "rft", "best_worst_dpo"])
def test_algorithms_of_another_form_are_refused_by_name(name):
    with pytest.raises(NotCovered, match="algorithm"):
        shares(CORRECT, LENGTHS, np.zeros_like(CORRECT), algorithm(f"algorithm={name}"), CAP)
