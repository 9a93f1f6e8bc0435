"""Every problem equally often: a fresh permutation of all problems an epoch, drawn from (seed, epoch) alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.rollout.noise import key
from harness.sampling.curriculum import Curriculum, require_problems


@dataclass
class Config:
    """No settings."""

    kind: str = "uniform"
    draws_in_turn: ClassVar[bool] = True


class Uniform(Curriculum):
    """Walks through one permutation after the other; the state is the epoch and what is left of it."""

    STATE = ("epochs", "left")

    def __init__(self, problems: int, seed: int) -> None:
        self.problems, self.seed = problems, seed
        self.epochs = 0  # permutations begun
        self.left = np.zeros(0, dtype=np.int64)

    def draw(self, count: int) -> np.ndarray:
        require_problems(count, self.problems)
        indices, self.left = self.left[:count], self.left[count:]
        if len(indices) < count:
            order = np.random.default_rng(int(key("curriculum", self.seed, self.epochs))).permutation(self.problems)
            self.epochs += 1
            # What this call already holds waits for the next one, so that the draw is distinct and the epoch still complete.
            repeats = np.isin(order, indices)
            fresh, missing = order[~repeats], count - len(indices)
            indices = np.concatenate([indices, fresh[:missing]])
            self.left = np.concatenate([order[repeats], fresh[missing:]])
        return indices


def build(config: Config, problems: int, seed: int) -> Uniform:
    return Uniform(problems, seed)
