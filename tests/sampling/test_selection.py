"""Dynamic sampling: refills until the batch is full, is bounded, and counts every group and token."""

from __future__ import annotations

import pytest
import torch

from harness.configuration.sections import DeadGroupsConfig
from harness.rollout.types import Completions
from harness.sampling.selection import Groups, Selection, choose_groups, enough

SIZE = 4


def groups_of(right: list[int], first_problem: int, rewards: torch.Tensor | None = None) -> Groups:
    """One group per entry with that many of four responses right; response i of a group has i + 1 tokens."""
    count = len(right)
    correct = torch.tensor([[i < n for i in range(SIZE)] for n in right])
    lengths = torch.arange(1, SIZE + 1).repeat(count)
    tokens = int(lengths.sum())
    completions = Completions(
        torch.zeros(tokens, dtype=torch.long),
        torch.zeros(tokens),
        torch.zeros(tokens),
        lengths,
        torch.ones(count * SIZE) > 0,
    )
    values = torch.where(correct, 1.0, -1.0) if rewards is None else rewards
    return Groups(
        torch.arange(first_problem, first_problem + count), completions, correct, torch.ones_like(correct), values
    )


def collect(outcomes: list[list[int]], config: DeadGroupsConfig) -> Selection:
    """A step of three groups, whose rounds go as `outcomes` say; problems are numbered on."""
    rounds: list[Groups] = []
    while not enough(rounds, config, 3):
        rounds.append(groups_of(outcomes[len(rounds)], 10 * len(rounds)))
    return choose_groups(rounds, config, 3)


@pytest.mark.parametrize(("policy", "kept", "dead"), [("keep", [0, 1, 2], 0), ("drop", [1], 2)])
def test_keep_and_drop_take_one_round(policy: str, kept: list[int], dead: int) -> None:
    made = collect([[0, 2, 4]], DeadGroupsConfig(policy=policy))
    assert made.kept.problems_P.tolist() == kept
    assert made.first.problems_P.tolist() == [0, 1, 2]
    assert (made.rounds, made.dead, made.unused, made.generated_groups) == (1, dead, 0, 3)
    assert made.generated_tokens == 30


def test_refill_rolls_out_until_the_batch_is_full_and_counts_the_rest() -> None:
    made = collect([[0, 2, 4], [1, 4, 0], [3, 3, 3]], DeadGroupsConfig(policy="refill"))
    assert made.kept.problems_P.tolist() == [1, 10, 20]
    assert made.rounds == 3
    assert made.dead == 4
    assert made.unused == 2
    assert made.dead + made.unused + len(made.kept) == made.generated_groups == 9
    assert made.generated_tokens == 90
    assert made.first.problems_P.tolist() == [0, 1, 2]


def test_refill_is_bounded_and_trains_on_what_it_has() -> None:
    made = collect([[0, 0, 2], [4, 4, 4]], DeadGroupsConfig(policy="refill", max_rounds=2))
    assert made.kept.problems_P.tolist() == [2]
    assert made.rounds == 2
    nothing = collect([[0, 0, 0]], DeadGroupsConfig(policy="refill", max_rounds=1))
    assert len(nothing.kept) == 0


@pytest.mark.parametrize(("metric", "live"), [("accuracy", [1]), ("reward", [0, 1])])
def test_a_group_may_be_dead_by_accuracy_and_alive_by_shaped_reward(metric: str, live: list[int]) -> None:
    shaped = torch.tensor([[1.0, 1.0, 0.5, 1.0], [1.0, 1.0, -1.0, -1.0], [-1.0, -1.0, -1.0, -1.0]])
    groups = groups_of([4, 2, 0], 0, shaped)
    made = choose_groups([groups], DeadGroupsConfig(policy="drop", metric=metric), 3)
    assert made.kept.problems_P.tolist() == live


def test_selecting_groups_keeps_their_tokens_together() -> None:
    groups = groups_of([1, 2, 3], 0)
    groups.completions.tokens_N = torch.arange(30)
    chosen = groups.select(torch.tensor([2, 0]))
    assert chosen.completions.token_lists()[0] == [20]
    assert chosen.completions.token_lists()[4] == [0]
    assert chosen.completions.token_lists()[7] == [6, 7, 8, 9]
