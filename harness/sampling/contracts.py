"""The contract tests of curricula: what the tests hold against shipped members, and `harness doctor` against one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from harness.configuration.error import ConfigError

PROBLEMS = 40


def curriculum_faults(member: Any) -> Iterator[str]:
    """Draws are distinct, valid and repeatable; a resume changes nothing; more than there is, is refused."""
    whole, again, parted = (member.build(member.Config(), PROBLEMS, 3) for _ in range(3))
    for step in range(20):
        drawn = whole.draw(7)
        if len(set(drawn.tolist())) != 7 or not set(drawn.tolist()) <= set(range(PROBLEMS)):
            yield f"draw(7) of {PROBLEMS} problems gave {drawn.tolist()}: seven different indices below {PROBLEMS} are asked"
            return
        if drawn.tolist() != again.draw(7).tolist():
            yield f"two curricula of one seed draw differently in step {step}"
            return
        if drawn.tolist() != parted.draw(7).tolist():
            yield f"restored from its state it draws differently in step {step}: name in STATE what a resume needs"
            return
        rates = np.round(drawn / PROBLEMS * 8) / 8  # problem i is solved with probability i / 40, in eighths
        for curriculum in (whole, again, parted):
            curriculum.observe(drawn, rates)
        same = whole.record() == parted.record()  # each call tells what came since the last
        if step and not same:
            yield f"restored from its state it records otherwise in step {step}"
            return
        resumed = member.build(member.Config(), PROBLEMS, 3)
        resumed.restore(parted.state())
        parted = resumed
    try:
        member.build(member.Config(), PROBLEMS, 3).draw(PROBLEMS + 1)
    except ConfigError:
        return
    yield f"draw({PROBLEMS + 1}) of {PROBLEMS} problems is not refused (`require_problems`)"


CONTRACTS: Mapping[str, Callable[[Any], Iterator[str]]] = {"curriculum": curriculum_faults}
