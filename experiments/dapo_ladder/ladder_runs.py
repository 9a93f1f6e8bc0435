"""The ladder's stored runs, as the scripts beside this file read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analysis import Results
from analysis.laws import read

BASES = 8  # seeds s and s + 8 start from one base policy


def ladder(root: str) -> Results:
    """The ladder of a results root, intervals over base policies also where its plan was stored before plans said it."""
    return read(Path(root), "dapo_ladder", BASES)


def points(results: Results) -> dict[str, dict[int, float]]:
    """Label of each arm to its score by seed, in points, in the order of the ladder."""
    arms = results.experiment.plan.arms
    return {arm.label: {seed: 100 * x for seed, x in results.scores(arm, "avg").items()} for arm in arms}


def seed_spread(scores: dict[str, dict[int, float]]) -> tuple[float, int]:
    """Standard deviation of training seeds that start from one base policy, pooled over arms, and its degrees of freedom."""
    squares, degrees = 0.0, 0
    for values in scores.values():
        for base in range(BASES):
            group = np.array([x for seed, x in values.items() if seed % BASES == base])
            if len(group) > 1:
                squares += float(((group - group.mean()) ** 2).sum())
                degrees += len(group) - 1
    return (squares / degrees) ** 0.5, degrees
