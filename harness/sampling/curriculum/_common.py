"""Parts that several curricula have: the refusal of a draw that is too large, and the lists of problems in a step's metrics."""

from __future__ import annotations

from collections.abc import Iterable

from harness.configuration.error import ConfigError


def require_problems(count: int, problems: int) -> None:
    """Raise `ConfigError` where a draw of `count` distinct problems is larger than the training set."""
    if count > problems:
        raise ConfigError(
            f"a step needs {count} distinct problems but the training set holds {problems}; "
            "raise task.problems or lower algorithm.prompts_per_step"
        )


class Report:
    """The problems that something happened to since the last step, by what happened."""

    def __init__(self, *names: str) -> None:
        self._problems: dict[str, list[int]] = {name: [] for name in names}

    def add(self, name: str, problems: Iterable[int]) -> None:
        """Note that it happened to these problems."""
        self._problems[name] += map(int, problems)

    def count(self, name: str) -> int:
        """Return how often it happened."""
        return len(self._problems[name])

    def take(self) -> dict[str, str]:
        """Return the problems as metrics (indices, space-separated), and begin anew."""
        row = {
            f"curriculum_{name}_problems": " ".join(map(str, found)) for name, found in self._problems.items()
        }
        self._problems = {name: [] for name in self._problems}
        return row
