"""A step's groups as they finish: graded at once, and every dead one replaced at once, instead of round by round.

The groups that are trained on are those of `collect`: the first `prompts` live ones in the order in which problems were drawn. A dead
group asks for one more draw, so no group is generated beyond the last that is kept, and nothing waits for a round's longest response.
(Olmo 3 reports such active refilling as its largest saving of rollout time.)

Where the two may differ: a curriculum that learns from outcomes is told of fewer groups, and of a step's groups at its end; surplus
groups, which `collect` can carry to the next step, do not arise. A curriculum counts as drawn also what was never asked for.
"""

from __future__ import annotations

from typing import Protocol

import torch

from harness.configuration.algorithm import DeadGroupsConfig
from harness.sampling.collector import Collected
from harness.sampling.groups import Groups


class GroupStream(Protocol):
    """Where groups come from, one by one."""

    def request(self, count: int) -> None:
        """Draw `count` more problems and start on them."""
        ...

    def finished(self) -> list[tuple[int, Groups]]:
        """Groups graded since the last call, with their place in the order of draws; waits for a moment at most."""
        ...


def collect_streaming(stream: GroupStream, config: DeadGroupsConfig, prompts: int) -> Collected:
    """Collect one step's groups; see the module for what is promised."""
    limit = prompts * (config.max_rounds if config.policy == "refill" else 1)
    requested, done = prompts, dict[int, Groups]()
    stream.request(prompts)
    while len(done) < requested:
        for draw, group in stream.finished():
            done[draw] = group
            if requested < limit and not bool(group.live_P(config.metric)[0]):
                stream.request(1)
                requested += 1
    everything = Groups.concatenate([done[draw] for draw in range(requested)])
    first = everything.select(torch.arange(prompts))
    live = everything.live_P(config.metric)
    kept = everything if config.policy == "keep" else everything.select(live.nonzero()[:, 0])
    dead = 0 if config.policy == "keep" else int((~live).sum())
    rounds = -(-requested // prompts)
    tokens = int(everything.completions.lengths_R.sum())
    return Collected(first, kept, None, rounds, dead, 0, tokens, requested)
