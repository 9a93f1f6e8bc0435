"""Cuts of an update's responses into micro-batches, and of these among ranks. Weights are per response, so no cut changes a gradient."""

from collections.abc import Iterator, Sequence

import torch

from harness.model.ranks import balance_items
from harness.training.step_data import StepData


def micro_batches(
    rows: torch.Tensor, data: StepData, limit: int, *, shares_prompts: bool, pairs: bool
) -> Iterator[torch.Tensor]:
    """Parts of `rows` that cost at most `limit` tokens each (one row may cost more).

    `shares_prompts`: a part costs its responses and each group's prompt once, so groups stay together; else its rows times its longest.
    `pairs`: the objective needs a group's responses together.
    """
    if not len(rows):
        return
    prompts_R = data.prompt_lengths_R
    totals_R = data.lengths_R + prompts_R
    if shares_prompts and not pairs:
        yield from _packed_parts(rows, prompts_R, totals_R, data.group_R, limit)
        return
    if pairs:
        units = [rows[data.group_R[rows] == group].tolist() for group in data.group_R[rows].unique()]
    else:
        units = [[row] for row in rows[totals_R[rows].argsort(stable=True)].tolist()]
    yield from _padded_parts(units, totals_R.tolist(), limit)


def _padded_parts(units: list[list[int]], totals: list[int], limit: int) -> Iterator[torch.Tensor]:
    """Parts of whole units (rows), each of which costs its rows times its longest."""
    part, longest = list[int](), 0
    for unit in units:
        longest_of_unit = max(totals[row] for row in unit)
        if part and max(longest, longest_of_unit) * (len(part) + len(unit)) > limit:
            yield torch.tensor(part)
            part, longest = [], 0
        part += unit
        longest = max(longest, longest_of_unit)
    yield torch.tensor(part)


def _packed_parts(
    rows: torch.Tensor, prompts_R: torch.Tensor, totals_R: torch.Tensor, group_R: torch.Tensor, limit: int
) -> Iterator[torch.Tensor]:
    """Parts in the order of groups, which cost a group's prompt once; a group that is cut costs it in both parts."""
    rows = rows[group_R[rows].argsort(stable=True)]
    groups, totals, prompts = group_R[rows].tolist(), totals_R[rows].tolist(), prompts_R[rows].tolist()
    start, part_tokens = 0, 0
    for end in range(len(rows)):
        shared_tokens = prompts[end] if end > start and groups[end] == groups[end - 1] else 0
        cost = totals[end] - shared_tokens
        if end > start and part_tokens + cost > limit:
            yield rows[start:end]
            start, part_tokens, cost = end, 0, totals[end]
        part_tokens += cost
    yield rows[start:]


def rank_batches(
    shares: Sequence[torch.Tensor], data: StepData, limit: int, rank: int, *, pairs: bool
) -> list[torch.Tensor | None]:
    """This rank's micro-batches under a policy that computes each prompt once; None where it has fewer than another rank.

    Sharded forwards are collective, so every rank makes as many passes as the busiest one.
    """
    parts = [list(micro_batches(share, data, limit, shares_prompts=True, pairs=pairs)) for share in shares]
    mine: list[torch.Tensor | None] = list(parts[rank])
    return mine + [None] * (max(map(len, parts)) - len(mine))


def rank_shares(rows: torch.Tensor, data: StepData, world: int, *, pairs: bool) -> list[torch.Tensor]:
    """The rows of each rank, token sums balanced: groups, or single rows where groups are too few and the objective pairs no responses."""
    totals_R, group_R = data.lengths_R + data.prompt_lengths_R, data.group_R
    if not pairs and len(group_R[rows].unique()) < 2 * world:
        return [rows[torch.tensor(part, dtype=torch.long)] for part in balance_items(totals_R[rows].tolist(), world)]
    members = [rows[group_R[rows] == group] for group in group_R[rows].unique()]
    costs = [int(totals_R[part].sum()) for part in members]
    empty = rows[:0]
    return [torch.cat([empty, *(members[i] for i in part)]) for part in balance_items(costs, world)]
