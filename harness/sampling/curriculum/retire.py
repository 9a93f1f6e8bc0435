"""Uniform, but a problem whose latest pass rate reaches τ is not drawn again.

open-instruct's `no_resampling_pass_rate` (0.875 in the Olmo 3.1 RL-Zero script); ScaleRL drops at 0.9 (arXiv:2510.13786).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.configuration.error import Checked, ranged
from harness.sampling.curriculum import Curriculum, Report, require_problems
from harness.sampling.curriculum.uniform import Uniform


@dataclass
class Config(Checked, key="algorithm.curriculum"):
    """`pass_rate`: τ, the share of right responses from which a problem retires."""

    kind: str = "retire"
    pass_rate: float = ranged(0.875, low=0.0, high=1.0)


class Retire(Curriculum):
    """Draws from a uniform walk and skips retired problems; when too few are left, the oldest retirements come back."""

    STATE = ("walk", "retired", "clock")

    def __init__(self, config: Config, problems: int, seed: int) -> None:
        self.pass_rate = config.pass_rate
        self.walk = Uniform(problems, seed)
        self.retired = np.zeros(problems, dtype=np.int64)  # 0: active, else the order in which it retired
        self.clock = 0
        self._report = Report("sampled", "retired")

    def draw(self, count: int) -> np.ndarray:
        require_problems(count, len(self.retired))
        shortage = count - int((self.retired == 0).sum())
        if shortage > 0:
            oldest = np.argsort(np.where(self.retired == 0, np.iinfo(np.int64).max, self.retired), kind="stable")
            self.retired[oldest[:shortage]] = 0
        indices: list[int] = []
        while len(indices) < count:
            problem = int(self.walk.draw(1)[0])
            if not self.retired[problem] and problem not in indices:
                indices.append(problem)
        self._report.add("sampled", indices)
        return np.array(indices)

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:
        for problem in problems_P[accuracy_P >= self.pass_rate]:
            self.clock += 1
            self.retired[problem] = self.clock
            self._report.add("retired", [problem])

    def record(self) -> dict[str, Any]:
        """Return how many are retired, and the problems sampled and retired since the last call (indices, space-separated)."""
        return {"curriculum_retired": float((self.retired > 0).sum()), **self._report.take()}


build = Retire
