"""What a seed's difference between two rungs varies by: base policy, training seed, samples of the evaluation, and problems.

harness merge results/published/language_ladder/runs.tar.xz
python experiments/language_ladder/spread.py results          # prints the table of README.md

Base policy and seed: restricted maximum likelihood over sixteen seeds from eight cold starts (`variance_components`), without the known
noise of the samples. Problems: what as many others would change, the variance of their mean differences without that of their samples.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import load

sys.path.append(str(Path(__file__).resolve().parents[1] / "base_policies"))
from variance_components import sampling_variance, variance_components

PAIRS = (("dapo_4_token_level_loss", "dapo_3_soft_overlong"), ("dapo_5_dynamic_sampling", "dapo_4_token_level_loss"))


def spread(arm: pd.DataFrame, reference: pd.DataFrame, samples: int, bases: int) -> list[str]:
    """Mean and standard deviations of a difference, in points, as cells.

    `arm`, `reference`: shares of right samples, a row a seed and a column a problem. `samples` of each; seed s starts from s mod `bases`.
    """
    difference_SP = (arm - reference).to_numpy()
    pairs = zip(arm.to_numpy(), reference.to_numpy(), strict=True)
    noise_S = np.array([sampling_variance(a, samples) + sampling_variance(b, samples) for a, b in pairs])
    parts = variance_components(difference_SP.mean(axis=1), arm.index.to_numpy() % bases, noise_S)
    # The mean over seeds of a problem's difference has the noise of its samples, too.
    problems = difference_SP.mean(axis=0).var(ddof=1) / difference_SP.shape[1] - noise_S.mean() / len(noise_S)
    return [
        f"{100 * difference_SP.mean():+.1f}".replace("-", "−"),
        f"{_points(parts.base)} [{', '.join(map(_points, parts.base_interval))}]",
        f"{_points(parts.seed)} [{', '.join(map(_points, parts.seed_interval))}]",
        _points(parts.samples),
        _points(max(problems, 0.0)),
    ]


def _points(variance: float) -> str:
    """The standard deviation in points."""
    return f"{100 * math.sqrt(variance):.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row a comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    experiment = load(parser.parse_args(arguments).root, "language_ladder").experiment
    frame = experiment.samples[experiment.samples["step"] == experiment.samples["step"].max()]
    samples = int(frame["sample_index"].max()) + 1
    shares = frame.pivot_table(
        index=["arm", "seed"], columns="problem_id", values="correct", aggfunc="mean", observed=True
    )
    for arm, reference in PAIRS:
        label = f"{experiment.plan.arm(arm).plain_label} against {experiment.plan.arm(reference).plain_label}"
        cells = spread(shares.loc[arm], shares.loc[reference], samples, experiment.plan.base_policies)
        print(f"| {' | '.join([label, *cells])} |")


if __name__ == "__main__":
    main()
