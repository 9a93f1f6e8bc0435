"""A step's groups: roll out, grade, and keep, drop or refill groups without contrast (dynamic sampling).

Dynamic sampling (DAPO, arXiv:2503.14476 Eq. 11) rolls out further rounds until the batch is full of groups with 0 < #right < G, at most
`max_rounds` of them. Nothing that was generated goes uncounted: dead and surplus groups stand in the ledger, their tokens in the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.configuration.algorithm import DeadGroupsConfig
from harness.sampling.groups import Groups

_PARTS = ("first", "kept", "surplus")


@dataclass
class Collected:
    """What one step rolled out.

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

    def state(self) -> dict[str, Any]:
        """All of it as tensors and plain values, for a checkpoint."""
        surplus = None if self.surplus is None else self.surplus.state()
        return {**vars(self), "first": self.first.state(), "kept": self.kept.state(), "surplus": surplus}

    @staticmethod
    def of_state(state: dict[str, Any]) -> Collected:
        """What `state` described."""
        parts = {name: None if state[name] is None else Groups.of_state(state[name]) for name in _PARTS}
        return Collected(**{**state, **parts})


def collect(
    roll_out: Callable[[int, int], Groups],
    config: DeadGroupsConfig,
    prompts: int,
    carried: Groups | None,
) -> Collected:
    """Collect one step's groups. `roll_out(round, count)` generates and grades `count` fresh groups."""
    first = roll_out(0, prompts)
    if config.policy == "keep":
        return Collected(first, first, None, 1, 0, 0, _tokens(first), len(first))
    live = _live(first, config)
    dead, tokens, groups = len(first) - len(live), _tokens(first), len(first)
    if config.policy == "drop":
        return Collected(first, live, None, 1, dead, 0, tokens, groups)
    parts = [live] if carried is None else [carried, live]
    rounds = 1
    while sum(map(len, parts)) < prompts and rounds < config.max_rounds:
        more = roll_out(rounds, prompts)
        live = _live(more, config)
        parts.append(live)
        dead, tokens, groups, rounds = (
            dead + len(more) - len(live),
            tokens + _tokens(more),
            groups + len(more),
            rounds + 1,
        )
    pool = Groups.concatenate(parts)
    full = min(prompts, len(pool))
    kept, rest = pool.select(torch.arange(full)), torch.arange(full, len(pool))
    carries = config.surplus == "carry" and len(rest) > 0
    surplus = pool.select(rest) if carries else None
    return Collected(first, kept, surplus, rounds, dead, 0 if carries else len(rest), tokens, groups)


def _live(groups: Groups, config: DeadGroupsConfig) -> Groups:
    return groups.select(groups.live_P(config.metric).nonzero()[:, 0])


def _tokens(groups: Groups) -> int:
    return int(groups.completions.lengths_R.sum())
