"""Every problem equally often: a fresh permutation of all problems an epoch, drawn from (seed, epoch) alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.config_error import ConfigError
from harness.rollout.noise import key


@dataclass
class Config:
    """No settings."""

    kind: str = "uniform"


class Uniform:
    """Walks through one permutation after the other; the state is a cursor."""

    def __init__(self, problems: int, seed: int) -> None:
        self.problems, self.seed, self.cursor = problems, seed, 0

    def draw(self, count: int) -> np.ndarray:
        if count > self.problems:
            raise ConfigError(
                f"a step needs {count} distinct problems but the training set holds {self.problems}"
            )
        epoch, start = divmod(self.cursor, self.problems)
        order = self._order(epoch)[start : start + count]
        self.cursor += count
        if len(order) < count:
            # The rest comes from the next epoch, leaving out what this call already holds.
            following = self._order(epoch + 1)
            fresh = following[~np.isin(following, order)][: count - len(order)]
            order = np.concatenate([order, fresh])
        return order

    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng(int(key("curriculum", self.seed, epoch))).permutation(self.problems)

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:
        """Outcomes do not matter here."""

    def record(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"cursor": self.cursor}

    def restore(self, state: dict[str, Any]) -> None:
        self.cursor = state["cursor"]


def build(config: Config, problems: int, seed: int) -> Uniform:
    """See the family's contract."""
    return Uniform(problems, seed)
