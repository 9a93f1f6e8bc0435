"""The data of one step's updates, as flat token tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from harness.objective.correction import Mismatch
from harness.objective.entropy_mask import high_entropy_tokens
from harness.rollout.types import ragged_index
from harness.training.batching import Sizes


@dataclass
class StepTokens:
    """A step's training data as flat token tensors over R responses, group-major."""

    prompts: list[Sequence[int]]
    group_R: torch.Tensor
    lengths_R: torch.Tensor
    loss_lengths_R: torch.Tensor
    offsets_R: torch.Tensor
    tokens_N: torch.Tensor
    old_log_probs_N: torch.Tensor
    advantages_N: torch.Tensor
    correct_R: torch.Tensor
    reference_log_probs_N: torch.Tensor | None = None
    correction_N: torch.Tensor | None = None
    mismatch: Mismatch | None = None
    values_N: torch.Tensor | None = None
    value_targets_N: torch.Tensor | None = None
    sampler_log_probs_N: torch.Tensor | None = None  # where they are not the old ones
    selected_N: torch.Tensor | None = (
        None  # tokens that the surrogate treats apart in the update that is being made
    )
    entropy_coefficient: float | None = None  # of this step, where a controller moves it
    uncertain_N: torch.Tensor | None = None  # 1 where the entropy mask keeps the policy gradient, else 0

    @cached_property
    def sizes(self) -> Sizes:
        """Return tokens and groups of the responses, by which micro-batches are cut."""
        prompts_R = torch.tensor([len(prompt) for prompt in self.prompts])
        return Sizes(prompts_R, self.lengths_R + prompts_R, self.group_R)

    def keep_high_entropy(self, entropy_N: torch.Tensor, fraction: float) -> None:
        """Leave the policy gradient to the loss tokens of highest entropy (nats) alone; a fraction of 1 is all of them."""
        if fraction == 1:
            return
        if bool(entropy_N.isnan().any()):
            raise ValueError(
                f"algorithm.top_entropy_fraction={fraction}: the engine gave no entropies to choose tokens by"
            )
        loss_N = (self.loss_lengths_R > 0).repeat_interleave(self.lengths_R)
        self.uncertain_N = high_entropy_tokens(entropy_N, loss_N, fraction).to(self.old_log_probs_N.dtype)

    @property
    def policy_weights_N(self) -> torch.Tensor | None:
        """Return the factor of each token's policy loss: the weight between sampler and trainer, and 0 outside the entropy mask."""
        if self.correction_N is None or self.uncertain_N is None:
            return self.uncertain_N if self.correction_N is None else self.correction_N
        return self.correction_N * self.uncertain_N

    def index(self, rows: torch.Tensor) -> torch.Tensor:
        """Return flat positions of the tokens of `rows`."""
        return ragged_index(self.offsets_R[rows], self.lengths_R[rows])

    def inputs(self, rows: torch.Tensor) -> tuple[list[Sequence[int]], torch.Tensor, torch.Tensor]:
        """Return what a policy or critic reads of the responses at `rows`: prompts, response tokens [M], lengths."""
        prompts = [self.prompts[row] for row in rows.tolist()]
        return prompts, self.tokens_N[self.index(rows)], self.lengths_R[rows]

    def rows_of(self, groups: torch.Tensor) -> torch.Tensor:
        """Return the responses of some groups."""
        size = len(self.group_R) // int(self.group_R[-1] + 1)
        return (groups[:, None] * size + torch.arange(size)).reshape(-1)
