"""The definition of a run that collapsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BOUNDED = ("entropy", "length")


@dataclass
class Collapse:
    """What a collapsed run is, declared with the experiment; any one of these is enough.

    Attributes:
        accuracy: its last evaluated accuracy lies below this share of its own best one, before RL included.
        entropy: lowest and highest entropy of its last evaluation, nats a token; null: any.
        length: lowest and highest mean response length of its last evaluation, tokens; null: any.
    """

    accuracy: float = 0.5
    entropy: list[float] | None = None
    length: list[float] | None = None

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The declared bounds by metric."""
        found = {name: getattr(self, name) for name in BOUNDED}
        return {name: (ends[0], ends[1]) for name, ends in found.items() if ends is not None}

    def met(self, accuracies: Sequence[float], last: Mapping[str, float]) -> bool:
        """True of a run with these accuracies, in the order of its evaluations, and these bounded metrics at the last (NaN: unknown)."""
        if len(accuracies) > 1 and accuracies[-1] < self.accuracy * max(accuracies):
            return True
        return any(last[name] < low or last[name] > high for name, (low, high) in self.bounds.items())

    @property
    def text(self) -> str:
        """The definition in words: what a run's last evaluation does."""
        parts = [f"accuracy below {_share(self.accuracy)} of the run's own best one"]
        units = {"entropy": "nats a token", "length": "tokens"}
        parts += [
            f"{name} outside {low:g} to {high:g} {units[name]}" for name, (low, high) in self.bounds.items()
        ]
        return ", or ".join(parts)


def _share(value: float) -> str:
    return "half" if value == 0.5 else f"{100 * value:g} %"
