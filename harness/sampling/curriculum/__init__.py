"""Prompt curricula. A member defines `Config` and `build`, which returns a `Curriculum`.

`Config.draws_in_turn` is True where every problem comes in turn, whatever happened to the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from harness.configuration.error import ConfigError

FUNCTIONS = ("build",)  # of a member


class Curriculum(ABC):
    """Draws training problems, learns from their outcomes, and survives a resume through plain state.

    Attributes:
        STATE: the attributes that a resumed run needs: arrays, numbers and other curricula.
        calibration_samples: responses of the initial policy to every problem that it needs before the first step; 0: none.
    """

    STATE: ClassVar[tuple[str, ...]]
    calibration_samples: int = 0

    @abstractmethod
    def draw(self, count: int) -> np.ndarray:
        """Indices [count] of the problems to roll out next; distinct within one call."""

    def calibrate(self, pass_rates: np.ndarray) -> None:
        """Take note of the initial policy's pass rates, [problems]; called once, and only with `calibration_samples`."""
        raise NotImplementedError(f"{type(self).__name__} needs no pass rates")

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:  # noqa: B027 most have nothing to note
        """Take note of the share of right responses to each problem just rolled out; by default nothing."""

    def earlier(self, problems_P: np.ndarray) -> np.ndarray:
        """Count the groups that each of these problems had in the steps before, all of them wrong, [P]; 0 where none is tried again."""
        return np.zeros_like(problems_P)

    def record(self) -> dict[str, Any]:
        """Return entries for the step's metrics: what was sampled, paused and retired since the last call."""
        return {}

    def state(self) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in self.STATE}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.STATE:
            current, value = getattr(self, name), state[name]
            if isinstance(current, Curriculum):
                current.restore(value)
            else:
                setattr(self, name, np.array(value, current.dtype) if isinstance(current, np.ndarray) else value)


def _plain(value: Any) -> Any:
    if isinstance(value, Curriculum):
        return value.state()
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def require_problems(count: int, problems: int) -> None:
    """Raise `ConfigError` where a draw of `count` distinct problems is larger than the training set."""
    if count > problems:
        raise ConfigError(f"a step needs {count} distinct problems but there are {problems}; raise task.problems")


class Report:
    """The problems that something happened to since the last step, by what happened."""

    def __init__(self, *names: str) -> None:
        self._problems: dict[str, list[int]] = {name: [] for name in names}

    def add(self, name: str, problems: Iterable[int]) -> None:
        self._problems[name] += map(int, problems)

    def count(self, name: str) -> int:
        return len(self._problems[name])

    def take(self) -> dict[str, str]:
        """Return the problems as metrics (indices, space-separated), and start again."""
        row = {f"curriculum_{name}_problems": " ".join(map(str, indices)) for name, indices in self._problems.items()}
        self._problems = {name: [] for name in self._problems}
        return row
