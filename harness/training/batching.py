"""Cutting an update's responses into micro-batches, and sharing them among ranks. Neither changes a gradient: weights are per response."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from harness.model.ranks import Ranks, balanced


def micro_batches(
    rows: torch.Tensor, totals_R: torch.Tensor, group_R: torch.Tensor, limit: int, *, packs: bool, pairs: bool
) -> Iterator[torch.Tensor]:
    """Parts of `rows` that cost at most `limit` tokens each (one row may cost more).

    Args:
        rows: responses of the update.
        totals_R: prompt and response tokens of every response of the step.
        group_R: the group of every response.
        limit: `runtime.micro_batch_tokens`.
        packs: the policy computes real tokens only; else a part costs its rows times its longest.
        pairs: the objective needs a group's responses together.
    """
    if not len(rows):
        return
    if pairs:
        yield from _whole_groups(rows, totals_R, group_R, limit)
        return
    rows = rows[totals_R[rows].argsort(stable=True)]
    costs, start, filled = totals_R[rows].tolist(), 0, 0
    for end in range(1, len(rows) + 1):
        filled += costs[end - 1]
        if end == len(rows):
            yield rows[start:end]
        elif (filled + costs[end] if packs else (end + 1 - start) * costs[end]) > limit:
            yield rows[start:end]
            start, filled = end, 0


def rank_batches(
    rows: torch.Tensor,
    totals_R: torch.Tensor,
    group_R: torch.Tensor,
    limit: int,
    ranks: Ranks,
    *,
    pairs: bool,
) -> list[torch.Tensor | None]:
    """This rank's micro-batches under a policy that packs; None where it has fewer than another rank.

    Rows (groups where the objective pairs responses) go to ranks by balanced token sums. Sharded forwards are collective, so every rank
    makes as many passes as the busiest one.
    """
    parts = []
    for mine in _shares(rows, totals_R, group_R, ranks.world, pairs):
        parts.append(list(micro_batches(mine, totals_R, group_R, limit, packs=True, pairs=pairs)))
    most = max(map(len, parts))
    own: list[torch.Tensor | None] = list(parts[ranks.rank])
    return own + [None] * (most - len(own))


def _shares(
    rows: torch.Tensor, totals_R: torch.Tensor, group_R: torch.Tensor, world: int, pairs: bool
) -> list[torch.Tensor]:
    if not pairs:
        return [
            rows[torch.tensor(part, dtype=torch.long)] for part in balanced(totals_R[rows].tolist(), world)
        ]
    members = [rows[group_R[rows] == group] for group in group_R[rows].unique()]
    costs = [int(totals_R[part].sum()) for part in members]
    empty = rows[:0]
    return [torch.cat([empty, *(members[i] for i in part)]) for part in balanced(costs, world)]


def _whole_groups(
    rows: torch.Tensor, totals_R: torch.Tensor, group_R: torch.Tensor, limit: int
) -> Iterator[torch.Tensor]:
    """Micro-batches that never part the rows of a group; a group larger than the limit has one of its own."""
    part: list[int] = []
    longest = 0
    for group in group_R[rows].unique().tolist():
        members = rows[group_R[rows] == group]
        wider = max(longest, int(totals_R[members].max()))
        if part and wider * (len(part) + len(members)) > limit:
            yield torch.tensor(part)
            part, wider = [], int(totals_R[members].max())
        part, longest = part + members.tolist(), wider
    yield torch.tensor(part)
