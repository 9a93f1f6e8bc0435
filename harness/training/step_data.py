"""The data of one step's updates as flat token tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import torch

from harness.model.ranks import Ranks
from harness.objective.correction import high_entropy_tokens
from harness.objective.types import TokenBatch
from harness.rollout.types import HELD, Completions, row_tokens, select_rows
from harness.sampling.selection import Groups


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
        held_R: see `Completions`.
        head_NK: the tokens of the columns of `sampler_logprobs_NK`.
        loss_lengths_R: tokens that carry loss: all of a response, or 0 where it is masked.
        correct_R: 1 where the response is right.
        correction_N: the engine correction's weight of each token.
        values_N, value_targets_N: the critic's predictions before the step's updates, and what it is fitted to.
    """

    prompts: list[Sequence[int]]
    tokens_N: torch.Tensor
    held_R: torch.Tensor
    loss_lengths_R: torch.Tensor
    correct_R: torch.Tensor
    head_NK: torch.Tensor | None = None
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
    ) -> Self:
        """Data of responses in groups of `size`; advantages and weights are still 0, and the old log-probabilities the sampler's."""
        lengths_R, old_N = completions.lengths_R, completions.log_probs_N
        return cls(
            prompts=prompts,
            tokens_N=completions.tokens_N,
            held_R=completions.held_R,
            lengths_R=lengths_R,
            loss_lengths_R=lengths_R * ~masked_R,
            group_R=torch.arange(len(lengths_R)) // size,
            correct_R=correct_R.float(),
            old_logprobs_N=old_N,
            advantages_N=torch.zeros_like(old_N),
            weights_R=torch.zeros(len(lengths_R)),
            sampler_logprobs_NK=completions.head_log_probs_NK,
            head_NK=completions.head_NK,
        )

    @classmethod
    def of_groups(cls, groups: Groups, prompts: Sequence[Sequence[int]], masked_PG: torch.Tensor) -> Self:
        """Data of the responses of these groups; `prompts` are the token ids of each group's prompt."""
        size, correct_R = groups.correct_PG.shape[1], groups.correct_PG.reshape(-1)
        prompts_R = [prompt for prompt in prompts for _ in range(size)]
        return cls.of_responses(prompts_R, groups.completions, size, correct_R, masked_PG.reshape(-1))

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

    def select(self, rows: torch.Tensor) -> Self:
        return type(self)(**select_rows(self, rows) | {"prompts": [self.prompts[row] for row in rows.tolist()]})

    def fetch(self, rows_of_ranks: Sequence[torch.Tensor], ranks: Ranks) -> Self:
        """The same, whose tokens are those of this rank's rows: each rank sends what it has of the others'. Collective."""
        names = [name for name in HELD if getattr(self, name, None) is not None]
        sent = [rows[self.held_R[rows] > 0] for rows in rows_of_ranks]
        indices = [row_tokens(self.held_R, rows) for rows in sent]
        tokens = [{name: getattr(self, name)[index_N] for name in names} for index_N in indices]
        senders = ranks.exchange(list(zip(sent, tokens, strict=True)))
        rows = torch.cat([rows for rows, _ in senders])
        index_N = row_tokens(self.lengths_R[rows], rows.argsort())
        columns: dict[str, Any] = {name: torch.cat([each[name] for _, each in senders])[index_N] for name in names}
        held_R = torch.zeros_like(self.lengths_R).index_copy_(0, rows, self.lengths_R[rows])
        return replace(self, **columns, held_R=held_R)

    def rows_of(self, groups: torch.Tensor) -> torch.Tensor:
        size = len(self.group_R) // int(self.group_R[-1] + 1)
        return (groups[:, None] * size + torch.arange(size)).reshape(-1)

    def keep_high_entropy(self, entropy_N: torch.Tensor, fraction: float) -> None:
        """Leave the policy gradient to the loss tokens of highest entropy (nats); a fraction of 1 is all of them."""
        if fraction == 1:
            return
        if bool(entropy_N.isnan().any()):
            raise ValueError(f"algorithm.top_entropy_fraction={fraction}: the engine gave no entropies")
        chosen_N = high_entropy_tokens(entropy_N, self.completion_mask_N, fraction)
        mask_N = chosen_N.to(self.old_logprobs_N.dtype)
        self.policy_weights_N = mask_N if self.policy_weights_N is None else self.policy_weights_N * mask_N
