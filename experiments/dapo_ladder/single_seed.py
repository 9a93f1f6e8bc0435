"""What ladders of single runs say of tricks that do nothing.

    python experiments/dapo_ladder/single_seed.py SD [SD ...]     # spread of a run's score over training seeds, in points

Null ladders: six runs of one configuration from one base policy, normal with that spread, which `base_policies/variance.py` measures.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

RUNGS = 5
POINTS = 2.0
DRAWS = 400_000


def null_ladders(sd: float, tries: int = 1, draws: int = DRAWS) -> tuple[float, tuple[float, float, float]]:
    """Chance that all five rungs rise, and that at least 1, 2, 3 of them rise by more than two points.

    Args:
        sd: of one run's score, in points.
        tries: runs of each rung, of which the best is reported; the base has one.
        draws: simulated ladders.
    """
    rng = np.random.default_rng(0)
    runs = rng.normal(0, sd, (draws, RUNGS, tries)).max(axis=2)
    steps = np.diff(np.column_stack([rng.normal(0, sd, draws), runs]), axis=1)
    large = (steps > POINTS).sum(axis=1)
    first, second, third = (float((large >= least).mean()) for least in (1, 2, 3))
    return float((steps > 0).all(axis=1).mean()), (first, second, third)


def kept_rungs(tricks: int, rungs: int = RUNGS) -> float:
    """Chance that at least ``rungs`` of ``tricks`` null tricks are kept, if one is kept whenever it beats the best so far.

    Run i + 1 is a record with probability 1 / (i + 1), independently of the others (Rényi 1962), whatever the spread.
    """
    chance = np.zeros(tricks + 1)
    chance[0] = 1.0
    for trick in range(1, tricks + 1):
        record = 1 / (trick + 1)
        chance[1:] = chance[1:] * (1 - record) + chance[:-1] * record
        chance[0] *= 1 - record
    return float(chance[rungs:].sum())


def main(spreads: list[float]) -> None:
    """Print null ladders of each spread, and what keeping whatever rises does."""
    print("| spread | rung reported | rises at all 5 | >= 1 step above 2 | >= 2 | >= 3 |\n|---|---|---|---|---|---|")
    for spread, tries in itertools.product(spreads, (1, 3, 10)):
        rises, large = null_ladders(spread, tries)
        text = " | ".join(f"{100 * x:.1f} %" for x in large)
        print(f"| {spread:.2f} | best of {tries} | {100 * rises:.2f} % | {text} |")
    print("\n| null tricks tried one by one, kept if above the best so far | at least 5 kept |\n|---|---|")
    for tricks in (5, 10, 20, 50, 100):
        print(f"| {tricks} | {100 * kept_rungs(tricks):.1f} % |")


if __name__ == "__main__":
    main([float(item) for item in sys.argv[1:]])
