"""The ladder's comparisons in two regimes of one language model: before RL mostly cut off, and after a cold start.

python experiments/language_ladder/regimes.py          # prints the table of README.md, from results/published

A difference between regimes is Welch's t over the seeds' paired differences, at 95 % for six comparisons together (Šidák).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

PUBLISHED = Path(__file__).resolve().parents[2] / "results" / "published"
ARMS = (
    "0_naive_grpo",
    "1_overlong_filtering",
    "2_clip_higher",
    "3_soft_overlong",
    "4_token_level_loss",
    "5_dynamic_sampling",
)
PAIRS = {f"rung {rung}": (rung, rung - 1) for rung in range(1, 6)} | {"all five": (5, 0)}
TOGETHER = 0.95 ** (1 / len(PAIRS))


def final_scores(folder: str) -> pd.DataFrame:
    """Final scores of a published experiment in points, a row a seed and a column an arm."""
    scores = pd.read_parquet(PUBLISHED / folder / "frames" / "scores.parquet")
    final = scores[(scores["metric"] == "avg") & (scores["step"] == scores["step"].max())]
    return 100 * final.pivot(index="seed", columns="arm", values="value")


def difference(scores: pd.DataFrame, arm: int, reference: int) -> NDArray[np.float64]:
    """Of each seed, in points."""
    return (scores[f"dapo_{ARMS[arm]}"] - scores[f"dapo_{ARMS[reference]}"]).dropna().to_numpy()


def text(value: float, half: float) -> str:
    return f"{value:+.1f} [{value - half:+.1f}, {value + half:+.1f}]".replace("-", "−")


def interval(values: NDArray[np.float64]) -> str:
    return text(values.mean(), stats.sem(values) * stats.t.ppf((1 + TOGETHER) / 2, len(values) - 1))


def main() -> None:
    cold = final_scores("language_ladder_gpu")
    regimes = [final_scores("language_cut_off"), final_scores("language_cut_off_again")]
    for name, pair in PAIRS.items():
        reference = difference(cold, *pair)
        cells = [name, *(interval(difference(scores, *pair)) for scores in regimes), interval(reference)]
        for scores in regimes:
            test = stats.ttest_ind(difference(scores, *pair), reference, equal_var=False)
            low, high = test.confidence_interval(TOGETHER)
            cells.append(text((low + high) / 2, (high - low) / 2))
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
