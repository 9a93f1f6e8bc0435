"""Never Give Up (NGU, arXiv:2609.13443): prompts of all-wrong groups are tried again in the steps that follow, until one response is right.

A curriculum around another one: a draw takes the waiting problems first and fills up from the other curriculum. A problem that waits gets
one group a step and `max_attempts` in all, so none eats a step's budget. Its advantages: `harness.objective.objective.retry_factors`.
"""

from typing import Any

import numpy as np

from harness.configuration.sections import DeadGroupsConfig
from harness.rollout.noise import key, uniforms
from harness.sampling.curriculum import Curriculum, Report, require_problems


class NeverGiveUp(Curriculum):
    """`inner` has to draw each of its problems again and again: one that goes on giving those that wait would fill no draw up.

    State: the other curriculum, all-wrong groups of each problem that waits or is being tried (else 0), and which wait, oldest first.
    """

    STATE = ("inner", "attempts", "waiting", "observed")

    def __init__(self, inner: Curriculum, config: DeadGroupsConfig, problems: int, seed: int) -> None:
        self.inner, self.config, self.seed = inner, config, seed
        self.calibration_samples = inner.calibration_samples
        self.attempts = np.zeros(problems, dtype=np.int64)
        self.waiting = np.zeros(0, dtype=np.int64)
        self.observed = 0  # calls of `observe`, which number the draws of luck
        self._report = Report("retried", "solved", "given_up")
        self._draw_count = 0

    def calibrate(self, pass_rates: np.ndarray) -> None:
        self.inner.calibrate(pass_rates)

    def draw(self, count: int) -> np.ndarray:
        require_problems(count, len(self.attempts))
        indices, self.waiting = self.waiting[:count], self.waiting[count:]
        self._report.add("retried", indices)
        self._draw_count += count
        while len(indices) < count:
            fresh = self.inner.draw(count - len(indices))
            indices = np.concatenate([indices, fresh[~np.isin(fresh, indices)]])
        return indices

    def earlier(self, problems_P: np.ndarray) -> np.ndarray:
        return self.attempts[problems_P]

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:
        """Let the problems of all-wrong groups wait with `retry_probability`; forget the attempts at all others."""
        self.inner.observe(problems_P, accuracy_P)
        tried, wrong = self.attempts[problems_P] > 0, accuracy_P == 0
        luck_P = uniforms(np.array([key("never_give_up", self.seed, self.observed)]), len(problems_P))[0]
        again = (
            wrong
            & (luck_P < self.config.retry_probability)
            & (self.attempts[problems_P] + 1 < self.config.max_attempts)
        )
        self.observed += 1
        self.attempts[problems_P] = np.where(again, self.attempts[problems_P] + 1, 0)
        self.waiting = np.concatenate([self.waiting, problems_P[again]])
        self._report.add("solved", problems_P[tried & ~wrong])
        self._report.add("given_up", problems_P[wrong & ~again])

    def record(self) -> dict[str, Any]:
        """Return the inner curriculum's entries, how many wait, the share drawn again, and the problems retried, solved so and given up."""
        row = {
            "curriculum_waiting": float(len(self.waiting)),
            "retried_fraction": self._report.count("retried") / self._draw_count if self._draw_count else float("nan"),
        }
        self._draw_count = 0
        return {**self.inner.record(), **row, **self._report.take()}
