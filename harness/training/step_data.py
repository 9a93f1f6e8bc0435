"""The data of one step's updates as flat token tensors, and its micro-batches. No cut changes a gradient: weights are per response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch

from harness.model.ranks import Ranks, balanced
from harness.objective.correction import high_entropy_tokens
from harness.objective.types import TokenBatch, response_index
from harness.rollout.types import Completions, ragged_index


class NumericalFault(RuntimeError):
    """Loss, gradient or advantages stopped being finite; `batch` is what the update was made of, for inspection."""

    def __init__(self, message: str, batch: dict[str, Any]) -> None:
        super().__init__(message)
        self.batch = batch


@dataclass(kw_only=True)
class StepData(TokenBatch):
    """Responses as flat tokens with all that trains on them: those of a step, group-major, or some of them (`select`).

    Attributes:
        prompts: token ids of each response's prompt.
        tokens_N: response tokens.
        loss_lengths_R: tokens that carry loss: all of a response, or 0 where it is masked.
        correct_R: 1 where the response is right.
        correction_N: the engine correction's weight of each token.
        values_N: the critic's predictions before the step's updates.
        value_targets_N: what the critic is fitted to.
    """

    prompts: list[Sequence[int]]
    tokens_N: torch.Tensor
    loss_lengths_R: torch.Tensor
    correct_R: torch.Tensor
    correction_N: torch.Tensor | None = None
    values_N: torch.Tensor | None = None
    value_targets_N: torch.Tensor | None = None

    @classmethod
    def of_responses(
        cls,
        prompts: list[Sequence[int]],
        completions: Completions,
        size: int,
        correct_R: torch.Tensor,
        masked_R: torch.Tensor,
    ) -> StepData:
        """Data of responses in groups of `size`; advantages and weights are still 0, and the old log-probabilities the sampler's."""
        lengths_R, old_N = completions.lengths_R, completions.log_probs_N
        return cls(
            prompts=prompts,
            tokens_N=completions.tokens_N,
            lengths_R=lengths_R,
            loss_lengths_R=lengths_R * ~masked_R,
            group_R=torch.arange(len(lengths_R)) // size,
            correct_R=correct_R.float(),
            old_logprobs_N=old_N,
            advantages_N=torch.zeros_like(old_N),
            weights_R=torch.zeros(len(lengths_R)),
        )

    @cached_property
    def prompt_lengths_R(self) -> torch.Tensor:
        return torch.tensor([len(prompt) for prompt in self.prompts], dtype=torch.long)

    @property
    def completion_mask_N(self) -> torch.Tensor:
        """The tokens that carry loss, bool."""
        return (self.loss_lengths_R > 0)[self.response_N]

    @property
    def inputs(self) -> tuple[list[Sequence[int]], torch.Tensor, torch.Tensor]:
        return self.prompts, self.tokens_N, self.lengths_R

    def select(self, rows: torch.Tensor) -> StepData:
        index_N, values = self.index(rows), dict[str, Any]()
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, torch.Tensor):
                value = value[index_N if field.name.endswith("_N") else rows]
            values[field.name] = value
        values["prompts"] = [self.prompts[row] for row in rows.tolist()]
        return StepData(**values)

    def index(self, rows: torch.Tensor) -> torch.Tensor:
        starts_R = self.lengths_R.cumsum(0) - self.lengths_R
        return ragged_index(starts_R[rows], self.lengths_R[rows])

    def rows_of(self, groups: torch.Tensor) -> torch.Tensor:
        size = len(self.group_R) // int(self.group_R[-1] + 1)
        return (groups[:, None] * size + torch.arange(size)).reshape(-1)

    def keep_high_entropy(self, entropy_N: torch.Tensor, fraction: float) -> None:
        """Leave the policy gradient to the loss tokens of highest entropy (nats); a fraction of 1 is all of them."""
        if fraction == 1:
            return
        if bool(entropy_N.isnan().any()):
            raise ValueError(
                f"algorithm.top_entropy_fraction={fraction}: the engine gave no entropies to choose tokens by"
            )
        chosen_N = high_entropy_tokens(entropy_N, self.completion_mask_N, fraction)
        mask_N = chosen_N.to(self.old_logprobs_N.dtype)
        self.policy_weights_N = mask_N if self.policy_weights_N is None else self.policy_weights_N * mask_N


def sums_of_responses(values_N: torch.Tensor, lengths_R: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(lengths_R)).index_add_(0, response_index(lengths_R), values_N)


def micro_batches(
    rows: torch.Tensor, data: StepData, limit: int, *, shares_prompts: bool, pairs: bool
) -> Iterator[torch.Tensor]:
    """Parts of `rows` that cost at most `limit` tokens each (one row may cost more).

    Args:
        rows: responses of the update.
        data: the responses of the step.
        limit: `runtime.micro_batch_tokens`.
        shares_prompts: a part costs its responses and each group's prompt once, so groups stay together; else its rows times its longest.
        pairs: the objective needs a group's responses together.
    """
    if not len(rows):
        return
    prompts_R = data.prompt_lengths_R
    totals_R = data.lengths_R + prompts_R
    if shares_prompts and not pairs:
        yield from _packed(rows, prompts_R, totals_R, data.group_R, limit)
        return
    if pairs:
        units = [rows[data.group_R[rows] == group].tolist() for group in data.group_R[rows].unique()]
    else:
        units = [[row] for row in rows[totals_R[rows].argsort(stable=True)].tolist()]
    yield from _padded(units, totals_R.tolist(), limit)


def _padded(units: list[list[int]], totals: list[int], limit: int) -> Iterator[torch.Tensor]:
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


def _packed(
    rows: torch.Tensor, prompts_R: torch.Tensor, totals_R: torch.Tensor, group_R: torch.Tensor, limit: int
) -> Iterator[torch.Tensor]:
    """Parts in the order of groups, which cost a group's prompt once; a group that is cut costs it in both parts."""
    rows = rows[group_R[rows].argsort(stable=True)]
    groups, totals, prompts = group_R[rows].tolist(), totals_R[rows].tolist(), prompts_R[rows].tolist()
    start, filled = 0, 0
    for end in range(len(rows)):
        shared = prompts[end] if end > start and groups[end] == groups[end - 1] else 0
        cost = totals[end] - shared
        if end > start and filled + cost > limit:
            yield rows[start:end]
            start, filled, cost = end, 0, totals[end]
        filled += cost
    yield rows[start:]


def rank_batches(
    rows: torch.Tensor, data: StepData, limit: int, ranks: Ranks, *, pairs: bool
) -> list[torch.Tensor | None]:
    """This rank's micro-batches under a policy that computes each prompt once; None where it has fewer than another rank.

    Groups go to ranks by balanced token sums (single rows, where groups are too few and the objective does not pair responses). Sharded
    forwards are collective, so every rank makes as many passes as the busiest one.
    """
    whole = pairs or len(data.group_R[rows].unique()) >= 2 * ranks.world
    parts = [
        list(micro_batches(share, data, limit, shares_prompts=True, pairs=pairs))
        for share in _shares(rows, data, ranks.world, whole)
    ]
    most = max(map(len, parts))
    mine: list[torch.Tensor | None] = list(parts[ranks.rank])
    return mine + [None] * (most - len(mine))


def _shares(rows: torch.Tensor, data: StepData, world: int, whole: bool) -> list[torch.Tensor]:
    totals_R, group_R = data.lengths_R + data.prompt_lengths_R, data.group_R
    if not whole:
        return [
            rows[torch.tensor(part, dtype=torch.long)] for part in balanced(totals_R[rows].tolist(), world)
        ]
    members = [rows[group_R[rows] == group] for group in group_R[rows].unique()]
    costs = [int(totals_R[part].sum()) for part in members]
    empty = rows[:0]
    return [torch.cat([empty, *(members[i] for i in part)]) for part in balanced(costs, world)]
