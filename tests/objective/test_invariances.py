"""The gradient does not depend on micro-batches, padding or the order within a group, except where it is defined to."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_support import SYSTEMS, algorithm, gradient, loss, sample

from harness.objective.objective import Objective


def split(rows: list[int], cuts: list[int]) -> list[torch.Tensor]:
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    return [torch.tensor(rows[a:b]) for a, b in itertools.pairwise(edges)]


def groups_kept_whole(order: list[int], cuts: list[int]) -> list[torch.Tensor]:
    parts = split(order, cuts)
    return [(part[:, None] * 4 + torch.arange(4)).reshape(-1) for part in parts]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(SYSTEMS),
    seed=st.integers(0, 10_000),
    order=st.permutations(range(16)),
    cuts=st.lists(st.integers(0, 16), max_size=5),
)
def test_any_split_into_micro_batches_has_the_same_gradient(
    name: str, seed: int, order: list[int], cuts: list[int]
) -> None:
    objective, data = Objective(algorithm(name)), sample(seed=seed)
    parts = split(list(order), cuts)
    if objective.surrogate.pairs:
        parts = groups_kept_whole([row for row in order if row < 4], cuts)
    torch.testing.assert_close(
        gradient(objective, data, parts=parts), gradient(objective, data), rtol=1e-10, atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(4)), name=st.sampled_from(SYSTEMS))
def test_the_order_of_groups_does_not_matter(seed: int, order: list[int], name: str) -> None:
    objective, data = Objective(algorithm(name)), sample(seed=seed)
    if objective.config.aggregation.kind == "microbatch_token_mean" or name == "clip_cov":
        return  # declared by the order; drawn by a token's place
    shuffled = data.reordered([4 * group + i for group in order for i in range(4)])
    torch.testing.assert_close(gradient(objective, shuffled), gradient(objective, data), rtol=1e-9, atol=1e-12)


def test_declared_micro_batches_are_the_mean_of_their_token_means() -> None:
    # The one scope that depends on micro-batches does so exactly as stated: whole-update loss = mean over declared micro-batches of
    # (sum of token losses / tokens), micro-batches cut in order at `micro_batch_tokens`.
    objective, data = Objective(algorithm("dapo_microbatch")), sample(seed=1)
    objective.config.aggregation.micro_batch_tokens = 9
    lengths = data.lengths_PG.reshape(-1).tolist()
    parts: list[list[int]] = [[]]
    for row, length in enumerate(lengths):
        if parts[-1] and sum(lengths[r] for r in parts[-1]) + length > 9:
            parts.append([])
        parts[-1].append(row)
    assert len(parts) > 3
    advantages = objective.advantages(data.batch(objective), torch.float64)
    plain = Objective(algorithm("dapo"))
    expected = torch.zeros(())
    for part in parts:
        rows = torch.tensor(part)
        mask = torch.zeros(16).double()
        mask[rows] = 1
        response_N = torch.arange(16).repeat_interleave(data.lengths_PG.reshape(-1))
        whole = loss(plain, data, data.table, advantages_N=advantages * mask[response_N])
        tokens = sum(lengths)
        expected = expected + whole * tokens / sum(lengths[r] for r in part) / len(parts)
    torch.testing.assert_close(loss(objective, data, data.table, advantages_N=advantages), expected)
    algorithm.cache_clear()
