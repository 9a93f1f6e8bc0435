"""The groups of a step: keep, drop or refill groups without contrast (dynamic sampling); `never_give_up` has a file of its own.

Dynamic sampling (DAPO, arXiv:2503.14476 Eq. 11) rolls out further rounds until the batch is full of groups with 0 < #right < G, at most
`max_rounds` of them. Nothing that was generated goes uncounted: dead and surplus groups stand in the ledger, their tokens in the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from harness.configuration.sections import DeadGroupsConfig
from harness.rollout.types import Completions


@dataclass
class Selection:
    """The groups that one step rolled out.

    `first` is the first, unfiltered round (what metrics describe); `kept` is trained on. Group counts: `dead`
    all rounds' groups without contrast that were removed, `unused` live groups beyond the batch, which are discarded (DAPO's recipe).
    """

    first: Groups
    kept: Groups
    rounds: int
    dead: int
    unused: int
    generated_tokens: int
    generated_groups: int

    @staticmethod
    def of_state(state: dict[str, Any]) -> Selection:
        """Take back a checkpoint's record: the fields as tensors and plain values in dicts."""
        return Selection(**state | {name: Groups.of_state(state[name]) for name in ("first", "kept")})


def enough(rounds: Sequence[Groups], config: DeadGroupsConfig, prompts: int) -> bool:
    if not rounds:
        return False
    if config.policy != "refill" or len(rounds) == config.max_rounds:
        return True
    return sum(int(groups.contrast_P(config.metric).sum()) for groups in rounds) >= prompts


def choose_groups(rounds: Sequence[Groups], config: DeadGroupsConfig, prompts: int) -> Selection:
    """Choose the groups to train on from a step's rounds."""
    keeps = config.policy == "keep"
    eligible = [
        groups if keeps else groups.select(groups.contrast_P(config.metric).nonzero()[:, 0]) for groups in rounds
    ]
    generated_groups = sum(map(len, rounds))
    pool = Groups.concatenate(eligible)
    full = min(prompts, len(pool))
    return Selection(
        first=rounds[0],
        kept=pool.select(torch.arange(full)),
        rounds=len(rounds),
        dead=generated_groups - sum(map(len, eligible)),
        unused=len(pool) - full,
        generated_tokens=sum(int(groups.completions.lengths_R.sum()) for groups in rounds),
        generated_groups=generated_groups,
    )


@dataclass
class Groups:
    """P groups. `rewards_PG` are shaped; `correct_PG` is the verifier's word, `answered_PG` whether there was an answer at all.

    `earlier_P`: groups of the same prompt in the steps before, all wrong (never_give_up).
    """

    problems_P: torch.Tensor
    completions: Completions
    correct_PG: torch.Tensor
    answered_PG: torch.Tensor
    rewards_PG: torch.Tensor
    earlier_P: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))

    def __post_init__(self) -> None:
        if not len(self.earlier_P):
            self.earlier_P = torch.zeros_like(self.problems_P)

    def ledger(self) -> Groups:
        """See `Completions`."""
        return replace(self, completions=self.completions.ledger())

    @staticmethod
    def of_state(state: dict[str, Any]) -> Groups:
        return Groups(**{**state, "completions": Completions(**state["completions"])})

    def __len__(self) -> int:
        return len(self.problems_P)

    @property
    def lengths_PG(self) -> torch.Tensor:
        """Response tokens, stop token included."""
        return self.completions.lengths_R.view(self.correct_PG.shape)

    @property
    def truncated_PG(self) -> torch.Tensor:
        return ~self.completions.finished_R.view(self.correct_PG.shape)

    @property
    def accuracy_P(self) -> torch.Tensor:
        return self.correct_PG.double().mean(1)

    def contrast_P(self, metric: str) -> torch.Tensor:
        """Return which groups have contrast: by `accuracy` neither all right nor all wrong, by `reward` not all rewards equal."""
        values = self.correct_PG.float() if metric == "accuracy" else self.rewards_PG
        return values.max(1).values > values.min(1).values

    def select(self, groups: torch.Tensor) -> Groups:
        size = self.correct_PG.shape[1]
        rows = (groups[:, None] * size + torch.arange(size)).reshape(-1)
        return Groups(
            self.problems_P[groups],
            self.completions.select(rows),
            self.correct_PG[groups],
            self.answered_PG[groups],
            self.rewards_PG[groups],
            self.earlier_P[groups],
        )

    @staticmethod
    def concatenate(parts: Sequence[Groups]) -> Groups:
        columns = [list(column) for column in zip(*(vars(part).values() for part in parts), strict=True)]
        problems, completions, *grids = columns
        return Groups(torch.cat(problems), Completions.concatenate(completions), *map(torch.cat, grids))
