"""Uniform over the problems that the *initial* policy does not already solve: an offline difficulty filter.

Before the first step every problem is sampled `samples` times with the initial policy; those with a pass rate above τ never enter
training. Olmo 3 drops what the start checkpoint solves in more than 62.5 % of 8 samples (arXiv:2512.13961 §4.4). Optionally problems
below a lower bound are dropped, too. The filter's own tokens are counted in the run's generated tokens.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.configuration.error import Checked, ConfigError, ranged, require_range
from harness.sampling.curriculum import Curriculum
from harness.sampling.curriculum.uniform import Uniform


@dataclass
class Config(Checked, key="algorithm.curriculum"):
    """Bounds, and how rates are measured.

    Attributes:
        pass_rate: largest rate kept.
        min_pass_rate: smallest rate kept.
        samples: responses a problem that measure it. The verifier grades them, without a reward function or noise of `algorithm.reward`.
    """

    kind: str = "offline_filter"
    draws_in_turn: ClassVar[bool] = True
    pass_rate: float = ranged(0.625, low=0.0, high=1.0)
    min_pass_rate: float = 0.0
    samples: int = ranged(8, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("algorithm.curriculum.min_pass_rate", self.min_pass_rate, 0.0, self.pass_rate)


class OfflineFilter(Curriculum):
    """A uniform walk over the kept problems, which `calibrate` decides once."""

    STATE = ("walk", "kept")

    def __init__(self, config: Config, problems: int, seed: int) -> None:
        self.config, self.problems, self.seed = config, problems, seed
        self.calibration_samples = config.samples
        self.kept = np.arange(problems)
        self.walk = Uniform(problems, seed)

    @property
    def _bounds(self) -> str:
        config = self.config
        return f"algorithm.curriculum.min_pass_rate={config.min_pass_rate} and pass_rate={config.pass_rate}"

    def calibrate(self, pass_rates: np.ndarray) -> None:
        """Keep the problems whose pass rate [problems] lies within the bounds."""
        config = self.config
        inside = (pass_rates >= config.min_pass_rate) & (pass_rates <= config.pass_rate)
        if not inside.any():
            low, high = pass_rates.min(), pass_rates.max()
            raise ConfigError(f"{self._bounds} keep no problem: pass rates are {low:.3f} to {high:.3f}; widen them")
        self.kept = np.flatnonzero(inside)
        self.walk = Uniform(len(self.kept), self.seed)

    def draw(self, count: int) -> np.ndarray:
        if len(self.kept) < count <= self.problems:
            raise ConfigError(f"{self._bounds} keep {len(self.kept)} problems, fewer than a step's {count}; widen them")
        return self.kept[self.walk.draw(count)]

    def record(self) -> dict[str, float]:
        return {"curriculum_kept": float(len(self.kept)), "curriculum_filtered": float(self.problems - len(self.kept))}

    def restore(self, state: dict[str, Any]) -> None:
        self.walk = Uniform(len(state["kept"]), self.seed)
        super().restore(state)


build = OfflineFilter
