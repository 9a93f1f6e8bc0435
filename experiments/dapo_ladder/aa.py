"""A/A on the ladder's own runs, bases crossed: two halves of one arm that start from the same base policies, judged like two arms.

    python experiments/dapo_ladder/aa.py results [results_b ...]

In a ladder of 16 seeds on 8 base policies, seeds s and s + 8 of an arm are two runs of one configuration from one base policy. Their eight
differences are what a paired comparison of two identical arms would see. Every assignment of the pairs' halves to "A" and "B" is as good as
any other, so all 2⁸ of them are judged: the share whose interval excludes zero should be the declared error. Arms with fewer seeds are left
out. The family is the arms of a ladder, each a null comparison, with Šidák's simultaneous intervals as in the tables.
"""

from __future__ import annotations

import itertools

import numpy as np
from ladder_runs import bases_of, command, ladder

from harness.statistics.intervals import Paired, judge

BASES = 8
FAMILIES = 2000


def halves(scores: dict[int, float]) -> np.ndarray | None:
    """Score of seed s + 8 minus score of seed s, in points, [8]; None without 16 seeds."""
    if not all(seed in scores for seed in range(2 * BASES)):
        return None
    return 100 * np.array([scores[seed + BASES] - scores[seed] for seed in range(BASES)])


def single_error(differences: np.ndarray) -> float:
    """Share of all assignments of halves whose 95 % interval excludes zero."""
    signs = itertools.product((1.0, -1.0), repeat=len(differences))
    resolved = [judge({"aa": Paired(differences * np.array(sign))})["aa"].resolved for sign in signs]
    return float(np.mean(resolved))


def family_error(arms: list[np.ndarray], rng: np.random.Generator) -> tuple[float, float]:
    """Share of families (one assignment an arm, drawn at random) with any word but *equivalent* or *not resolved*; its standard error."""
    hits = []
    for _ in range(FAMILIES):
        column = {str(i): Paired(d * rng.choice((1.0, -1.0), len(d))) for i, d in enumerate(arms)}
        hits.append(any(one.resolved for one in judge(column).values()))
    rate = float(np.mean(hits))
    return rate, float(np.sqrt(rate * (1 - rate) / FAMILIES))


def main(roots: list[str]) -> None:
    """Print the table."""
    print("| ladder | arm | mean of B - A | sd over base policies | as it ran | error over all assignments |")
    print("|---|---|---|---|---|---|")
    rng, singles = np.random.default_rng(0), []
    families = []
    for root in roots:
        results = ladder(root)
        if bases_of(results) != BASES:
            raise ValueError(
                f"{root}: its ladder takes {bases_of(results)} base policies in turn, so seeds s and s + {BASES} start from "
                f"different ones; run it with model.bases.count={BASES}"
            )
        arm_differences = []
        for arm in results.experiment.plan.arms:
            differences = halves(results.scores(arm, "avg"))
            if differences is None:
                continue
            word = "excludes zero" if judge({"aa": Paired(differences)})["aa"].resolved else "contains zero"
            error = single_error(differences)
            spread = f"{differences.mean():+.2f} | {differences.std(ddof=1):.2f}"
            print(f"| {root} | {arm.label} | {spread} | {word} | {100 * error:.1f} % |")
            singles.append(error)
            arm_differences.append(differences)
        families.append((root, len(arm_differences), *family_error(arm_differences, rng)))
    print(f"\nmean error of a single comparison: {100 * np.mean(singles):.1f} % over {len(singles)} arms")
    for root, size, rate, error in families:
        print(
            f"{root}: any of {size} null comparisons resolved in {100 * rate:.1f} % ± {100 * error:.1f} of {FAMILIES} draws"
        )


if __name__ == "__main__":
    command(main, __doc__)
