"""Unsolved: only problems of which no rollout has been right so far.

A problem leaves as soon as one right response of it was observed. Source of the question: updating only on problems without an observed
success lifts Pass@256 above the base policy (arXiv:2606.15455, abstract read; its rule is not told there, and this one is ours).
With `samples` above 0 the initial policy's responses count as observed, too: what it solves in any of them does not enter before the
rest is solved.

When fewer unsolved problems are left than a draw needs, the draw takes all of them and is filled up with the problems in whose groups
a success was seen fewest times. Among equals those drawn least often come first, and then a permutation of (seed, times drawn) decides,
so that unsolved problems are walked through epoch by epoch. `record` tells how many were filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.configuration.error import Checked, ranged
from harness.rollout.wrappers import key
from harness.sampling.curriculum import Curriculum, Report, require_problems


@dataclass
class Config(Checked, key="algorithm.curriculum"):
    """Settings of what is observed before the first step.

    Attributes:
        samples: responses of the initial policy to every problem that count as rollouts; 0: none. The verifier grades them, without a
            reward function or noise of `algorithm.reward`.
    """

    kind: str = "unsolved"
    samples: int = ranged(0, low=0)


class Unsolved(Curriculum):
    """State: in how many observed groups of each problem something was right, and how often each was drawn."""

    STATE = ("successes", "drawn")

    def __init__(self, config: Config, problems: int, seed: int) -> None:
        self.seed = seed
        self.calibration_samples = config.samples
        self.successes = np.zeros(problems, dtype=np.int64)
        self.drawn = np.zeros(problems, dtype=np.int64)
        self._report = Report("sampled", "filled", "solved")

    def calibrate(self, pass_rates: np.ndarray) -> None:
        self.successes += pass_rates > 0

    def draw(self, count: int) -> np.ndarray:
        require_problems(count, len(self.successes))
        indices = np.lexsort((self._places(), self.drawn, self.successes))[:count]
        self.drawn[indices] += 1
        self._report.add("sampled", indices)
        self._report.add("filled", indices[self.successes[indices] > 0])
        return indices

    def _places(self) -> np.ndarray:
        """Return each problem's place in the permutation of its next epoch, [problems]."""
        places = np.zeros(len(self.drawn), dtype=np.int64)
        for epoch in np.unique(self.drawn):
            rng = np.random.default_rng(int(key("curriculum", self.seed, int(epoch))))
            permutation = rng.permutation(len(self.drawn))
            places[self.drawn == epoch] = permutation[self.drawn == epoch]
        return places

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:
        for problem in problems_P[accuracy_P > 0]:
            if not self.successes[problem]:
                self._report.add("solved", [problem])
            self.successes[problem] += 1

    def record(self) -> dict[str, Any]:
        """Return unsolved problems left; how many were drawn since the last call although solved; and the problems, space-separated."""
        return {
            "curriculum_unsolved": float((self.successes == 0).sum()),
            "curriculum_filled": float(self._report.count("filled")),
            **self._report.take(),
        }


build = Unsolved
