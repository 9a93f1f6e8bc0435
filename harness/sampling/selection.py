"""The groups of a step: keep, drop or refill groups without contrast (dynamic sampling).

Dynamic sampling (DAPO, arXiv:2503.14476 Eq. 11) rolls out further rounds until the batch is full of groups with 0 < #right < G, at most
`max_rounds` of them. Nothing that was generated goes uncounted: dead and surplus groups stand in the ledger, their tokens in the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.configuration.sections import DeadGroupsConfig
from harness.sampling.groups import Groups

_PARTS = ("first", "kept", "surplus")


@dataclass
class Collected:
    """The groups that one step rolled out.

    `first` is the first, unfiltered round (what metrics describe); `kept` is trained on; `surplus` are live groups beyond the
    batch, carried over or None. Group counts: `dead` all rounds' groups without contrast that were removed, `unused` surplus discarded.
    """

    first: Groups
    kept: Groups
    surplus: Groups | None
    rounds: int
    dead: int
    unused: int
    generated_tokens: int
    generated_groups: int

    @staticmethod
    def of_state(state: dict[str, Any]) -> Collected:
        """Take back a checkpoint's record: the fields as tensors and plain values in dicts."""
        parts = {name: None if state[name] is None else Groups.of_state(state[name]) for name in _PARTS}
        return Collected(**{**state, **parts})


def enough(rounds: Sequence[Groups], config: DeadGroupsConfig, prompts: int, carried: Groups | None) -> bool:
    """Return whether a step of `prompts` groups needs no further round."""
    if not rounds:
        return False
    if config.policy != "refill" or len(rounds) == config.max_rounds:
        return True
    number = sum(int(groups.contrast_P(config.metric).sum()) for groups in rounds)
    return number + len(carried or ()) >= prompts


def choose_groups(
    rounds: Sequence[Groups], config: DeadGroupsConfig, prompts: int, carried: Groups | None
) -> Collected:
    """Choose the groups to train on from a step's rounds; with refill those `carried` from the step before come first."""
    keeps, refills = config.policy == "keep", config.policy == "refill"
    eligible = [
        groups if keeps else groups.select(groups.contrast_P(config.metric).nonzero()[:, 0])
        for groups in rounds
    ]
    generated = sum(map(len, rounds))
    pool = Groups.concatenate([carried, *eligible] if refills and carried is not None else eligible)
    full = min(prompts, len(pool))
    rest = torch.arange(full, len(pool))
    carries = config.surplus == "carry" and len(rest) > 0
    return Collected(
        first=rounds[0],
        kept=pool.select(torch.arange(full)),
        surplus=pool.select(rest) if carries else None,
        rounds=len(rounds),
        dead=generated - sum(map(len, eligible)),
        unused=0 if carries else len(rest),
        generated_tokens=sum(int(groups.completions.lengths_R.sum()) for groups in rounds),
        generated_groups=generated,
    )
