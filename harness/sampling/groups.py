"""Groups of responses, as a rollout round yields them and a step trains on them. P groups of G responses, group-major."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.rollout.types import Completions


@dataclass
class Groups:
    """P groups. `rewards_PG` are shaped; `correct_PG` is the verifier's word, `answered_PG` whether there was an answer at all."""

    problems_P: torch.Tensor
    completions: Completions
    correct_PG: torch.Tensor
    answered_PG: torch.Tensor
    rewards_PG: torch.Tensor

    @staticmethod
    def of_state(state: dict[str, Any]) -> Groups:
        """Take back a checkpoint's groups: the fields as tensors in plain dicts."""
        return Groups(**{**state, "completions": Completions(**state["completions"])})

    def __len__(self) -> int:
        return len(self.problems_P)

    @property
    def lengths_PG(self) -> torch.Tensor:
        """Response tokens, stop token included."""
        return self.completions.lengths_R.view(self.correct_PG.shape)

    @property
    def truncated_PG(self) -> torch.Tensor:
        """Responses that the token cap ended."""
        return ~self.completions.finished_R.view(self.correct_PG.shape)

    @property
    def accuracy_P(self) -> torch.Tensor:
        """Share of right responses of each group."""
        return self.correct_PG.double().mean(1)

    def contrast_P(self, metric: str) -> torch.Tensor:
        """Return which groups have contrast: by `accuracy` neither all right nor all wrong, by `reward` not all rewards equal."""
        values = self.correct_PG.float() if metric == "accuracy" else self.rewards_PG
        return values.max(1).values > values.min(1).values

    def select(self, groups: torch.Tensor) -> Groups:
        """The groups at `groups` (long indices), in that order."""
        size = self.correct_PG.shape[1]
        rows = (groups[:, None] * size + torch.arange(size)).reshape(-1)
        return Groups(
            self.problems_P[groups],
            self.completions.select(rows),
            self.correct_PG[groups],
            self.answered_PG[groups],
            self.rewards_PG[groups],
        )

    @staticmethod
    def concatenate(parts: Sequence[Groups]) -> Groups:
        """Several lots of groups, one after the other."""
        return Groups(
            torch.cat([part.problems_P for part in parts]),
            Completions.concatenate([part.completions for part in parts]),
            torch.cat([part.correct_PG for part in parts]),
            torch.cat([part.answered_PG for part in parts]),
            torch.cat([part.rewards_PG for part in parts]),
        )
