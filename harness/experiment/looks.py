"""Seeds until it is decided: what a look at the stored scores decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OPEN = "open"


@dataclass(frozen=True)
class Decisions:
    """The state of a sequential experiment: `comparisons` (arm, reference, state, text), `seed_counts`: how many each arm takes."""

    comparisons: Sequence[Mapping[str, str]]
    seed_counts: Mapping[str, int]

    @property
    def open(self) -> int:
        return sum(comparison["state"] == OPEN for comparison in self.comparisons)

    def headline(self) -> str:
        """Say how many are closed: `2 of 5 comparisons are closed`."""
        total = len(self.comparisons)
        return f"{total - self.open} of {total} comparisons are closed"
