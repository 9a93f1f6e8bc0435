"""Success bands: a rolling success rate per problem, sampling weight p(1 - p), pause below a bound and retirement above one.

As one text tells Olmo 3's recipe (no such buckets are in the paper or its code): bands 0-10-30-70-90-100 %; problems in the lowest band
rest for some steps, those in the highest retire for good, the rest are drawn in proportion to p(1 - p). Fixed here, since the text
leaves them open: an unseen problem counts as p = 1/2; the weight's p is smoothed, so that it is never zero; a pause is counted in draws
of the sampler (rollout rounds) and the window starts afresh after it; retirement and pause need `min_groups` groups.
When fewer problems are active than a step needs, the longest paused come back first, then the earliest retired.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.configuration.error import Checked, ConfigError, ranged, require_range
from harness.rollout.noise import key
from harness.sampling.curriculum import Curriculum, Report, require_problems

_FOREVER = np.iinfo(np.int64).max
_ROUNDING = 1e-9  # a mean of rates may miss an exact bound by its last bits


@dataclass
class Config(Checked, key="algorithm.curriculum"):
    """Bands, window, pause and retirement.

    Attributes:
        bands: inner edges of the success bands, increasing.
        window_groups: newest groups of a problem that its success rate is taken over.
        min_groups: groups needed before a problem is paused or retired.
        pause_below: pause a problem whose rate is below it.
        pause_draws: how many draws of the sampler (rollout rounds) a pause lasts.
        retire_from: retire a problem whose rate is at least this.
        retire_up_to: also retire a problem whose rate is at most this (null: no problem is too hard).
    """

    kind: str = "success_bands"
    bands: list[float] = field(default_factory=lambda: [0.1, 0.3, 0.7, 0.9])
    window_groups: int = ranged(4, low=1)
    min_groups: int = 1
    pause_below: float = 0.1
    pause_draws: int = ranged(20, low=1)
    retire_from: float = ranged(0.9, low=0.0)
    retire_up_to: float | None = field(default=None, metadata={"neutral": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if sorted(set(self.bands)) != self.bands or not all(0 < edge < 1 for edge in self.bands):
            raise ConfigError(f"algorithm.curriculum.bands={self.bands} must be increasing edges between 0 and 1")
        require_range("algorithm.curriculum.min_groups", self.min_groups, 1, self.window_groups)
        require_range("algorithm.curriculum.pause_below", self.pause_below, 0.0, self.retire_from)
        if self.retire_up_to is not None:
            require_range("algorithm.curriculum.retire_up_to", self.retire_up_to, 0.0, self.retire_from)


class SuccessBands(Curriculum):
    """State: the newest accuracies of every problem (NaN: not seen) and until which draw it rests (`_FOREVER`: retired)."""

    STATE = ("window", "resting", "retired_at", "draws")

    def __init__(self, config: Config, problems: int, seed: int) -> None:
        self.config, self.seed = config, seed
        self.window = np.full((problems, config.window_groups), np.nan)
        self.resting = np.zeros(problems, dtype=np.int64)
        self.retired_at = np.zeros(problems, dtype=np.int64)
        self.draws = 0
        self._report = Report("sampled", "paused", "retired")
        self._sampled_bands: list[int] = []

    def rates(self) -> np.ndarray:
        """Success rate of every problem over its window, [problems]; 1/2 where nothing was seen."""
        group_counts = (~np.isnan(self.window)).sum(1)
        return np.where(group_counts > 0, np.nansum(self.window, 1) / np.maximum(group_counts, 1), 0.5)

    def weights(self) -> np.ndarray:
        """Sampling weight p(1 - p) of every problem, with p smoothed by half a right group in one."""
        group_counts = (~np.isnan(self.window)).sum(1)
        p = (np.nansum(self.window, 1) + 0.5) / (group_counts + 1)
        return p * (1 - p)

    def draw(self, count: int) -> np.ndarray:
        require_problems(count, len(self.resting))
        self.draws += 1
        expired = (self.resting > 0) & (self.resting < self.draws) & (self.resting != _FOREVER)
        self.window[expired], self.resting[expired] = np.nan, 0
        self._recall_problems(count)
        active = np.flatnonzero(self.resting == 0)
        weight = self.weights()[active]
        rng = np.random.default_rng(int(key("curriculum", self.seed, self.draws)))
        indices = rng.choice(active, size=count, replace=False, p=weight / weight.sum())
        self._report.add("sampled", indices)
        self._sampled_bands += np.digitize(self.rates()[indices], self.config.bands).tolist()
        return indices

    def _recall_problems(self, count: int) -> None:
        """Bring back as many problems as a draw lacks: paused ones by remaining rest, then retired ones by age."""
        shortage = count - int((self.resting == 0).sum())
        if shortage > 0:
            absent = np.flatnonzero(self.resting)
            order = np.lexsort((absent, self.retired_at[absent], self.resting[absent]))
            indices = absent[order[:shortage]]
            self.window[indices], self.resting[indices] = np.nan, 0

    def observe(self, problems_P: np.ndarray, accuracy_P: np.ndarray) -> None:
        config = self.config
        self.window[problems_P] = np.roll(self.window[problems_P], 1, axis=1)
        self.window[problems_P, 0] = accuracy_P
        for problem in problems_P:
            rates = self.window[problem][~np.isnan(self.window[problem])]
            if len(rates) < config.min_groups:
                continue
            rate = float(rates.mean())
            hopeless = config.retire_up_to is not None and rate <= config.retire_up_to + _ROUNDING
            if hopeless or rate >= config.retire_from - _ROUNDING:
                self.resting[problem], self.retired_at[problem] = _FOREVER, self.draws
                self._report.add("retired", [problem])
            elif rate < config.pause_below - _ROUNDING:
                self.resting[problem] = self.draws + config.pause_draws
                self._report.add("paused", [problem])

    def record(self) -> dict[str, Any]:
        """Return counts, and the problems sampled, paused and retired since the last call (indices, space-separated)."""
        retired = self.resting == _FOREVER
        band = np.digitize(self.rates(), self.config.bands)
        seen = ~np.isnan(self.window).all(1)
        row: dict[str, Any] = {
            "curriculum_retired": float(retired.sum()),
            "curriculum_paused": float(((self.resting > 0) & ~retired).sum()),
            "curriculum_unseen": float((~seen).sum()),
        }
        for index in range(len(self.config.bands) + 1):
            row[f"curriculum_band_{index}"] = float((seen & (band == index)).sum())
            row[f"curriculum_sampled_band_{index}"] = float(self._sampled_bands.count(index))
        self._sampled_bands = []
        return row | self._report.take()


build = SuccessBands
