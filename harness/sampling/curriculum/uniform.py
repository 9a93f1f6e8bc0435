"""Every problem equally often: a fresh permutation of all problems an epoch, drawn from (seed, epoch) alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.sampling.curriculum._permutations import Uniform


@dataclass
class Config:
    """No settings."""

    kind: str = "uniform"


def build(config: Config, problems: int, seed: int) -> Uniform:
    """See the family's contract."""
    # The default: every command reads its settings and few draw from it, so arrays are loaded with the drawing.
    from harness.sampling.curriculum._permutations import Uniform

    return Uniform(problems, seed)
