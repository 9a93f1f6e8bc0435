"""Where the second grader parts from the verifier."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.results import Results
from harness.evaluation.metrics.names import PARTS
from harness.statistics.intervals import Estimate, mean_interval

BOTH, ONLY_FIRST, _ = COLUMNS = [f"graders_{part}" for part in PARTS]
ERROR = "graders_error"  # standard error over problems of the share that only the verifier holds right
NOTABLE, NOISES = 0.01, 3.0  # a growth below one point, or below three standard errors of sampling, is not told


@dataclass(frozen=True)
class GraderGap:
    """The two graders on the samples of an arm, means over seeds, fractions of 1.

    Attributes:
        rise: growth of the verifier's share since before RL. unconfirmed_rise: that of what only it holds right, with its interval.
        refused_share_before, refused_share: of what the verifier holds right, what the second grader refuses, before RL and now.
        noise: standard error of the growth by sampling alone, of one seed (seeds share their problems, so it is not divided by them).
    """

    rise: float
    unconfirmed_rise: Estimate
    refused_share_before: float
    refused_share: float
    noise: float

    @property
    def has_grown(self) -> bool:
        """Say if the verifier takes more by now that the second grader does not confirm than sampling noise explains."""
        return self.unconfirmed_rise.value > max(NOTABLE, NOISES * self.noise)


def grader_gaps(results: Results) -> dict[str, GraderGap]:
    """Compute the gap of every arm with second verdicts at its checkpoint, by the arm's name."""
    replicates, gaps = results.experiment.plan.replicates, {}
    keys, cap = ["arm", "seed", "run_id", "cap", *COLUMNS, ERROR], results.experiment.plan.primary_cap
    frames = (frame.reindex(columns=keys) for frame in (results.before, results.per_seed))
    before, after = (frame[(frame["cap"] == cap) & frame[BOTH].notna()] for frame in frames)
    by_run = before.drop_duplicates("run_id").set_index("run_id")
    for arm in results.experiment.plan.arms:
        own = after[after["arm"] == arm.name].set_index("run_id")
        if not len(own):
            continue
        first = by_run.reindex(own.index)
        growth = (own[COLUMNS] - first[COLUMNS]).dropna()
        seeds = own["seed"][growth.index].tolist()
        gaps[arm.name] = GraderGap(
            rise=mean_interval(replicates(dict(zip(seeds, growth[BOTH] + growth[ONLY_FIRST], strict=True)))).value,
            unconfirmed_rise=mean_interval(replicates(dict(zip(seeds, growth[ONLY_FIRST], strict=True)))),
            refused_share_before=_refused_share(before),
            refused_share=_refused_share(own),
            noise=float(np.hypot(own[ERROR], first[ERROR]).mean()),
        )
    return gaps


def _refused_share(shares: pd.DataFrame) -> float:
    both, only_first = shares[BOTH].mean(), shares[ONLY_FIRST].mean()
    return float(only_first / (both + only_first)) if both + only_first else math.nan
