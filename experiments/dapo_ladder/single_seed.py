"""What ladders of single runs say: of tricks that do nothing, and of this ladder's own runs.

    python experiments/dapo_ladder/single_seed.py results [results_b ...]

Null ladders: six runs of one configuration from one base policy, normal with the measured spread of seeds. Real ladders: every way
to take one stored run an arm.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from ladder_runs import bases_of, command, ladder, points, seed_spread

RUNGS = 5
FIRST = 8  # seeds that every arm has: the ladder's first look
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


def patterns(choices: list[list[float]]) -> Counter[str]:
    """How often each pattern of rising (+) and falling (-) rungs comes out, over every way to take one score an arm."""
    counts: Counter[str] = Counter()
    for scores in itertools.product(*choices):
        counts["".join("+" if b > a else "-" for a, b in itertools.pairwise(scores))] += 1
    return counts


def real_ladders(scores: dict[str, dict[int, float]], bases: int) -> dict[str, Counter[str]]:
    """Patterns of single-run ladders: one seed for all arms; any seeds of one base policy; any runs of the first eight seeds."""
    arms = list(scores.values())
    shared_seeds = sorted(set.intersection(*(set(values) for values in arms)))
    same_seed = sum((patterns([[values[seed]] for values in arms]) for seed in shared_seeds), Counter())
    same_base = Counter[str]()
    for one in range(bases):
        same_base += patterns([[x for seed, x in values.items() if seed % bases == one] for values in arms])
    any_base = patterns([[values[seed] for seed in range(FIRST)] for values in arms])
    return {"one seed for all rungs": same_seed, "one base policy, any seeds": same_base, "any base policies": any_base}


def report(root: str) -> None:
    """Both tables of one results root."""
    results = ladder(root)
    scores = points(results)
    sd, degrees = seed_spread(scores, bases_of(results))
    print(f"\n{root}: seeds from one base policy spread by {sd:.2f} points ({degrees} degrees of freedom)\n")
    print(
        "| null ladder, spread of a run | rung reported | rises at all 5 | >= 1 step above 2 | >= 2 | >= 3 |\n|---|---|---|---|---|---|"
    )
    for spread, tries in itertools.product((sd, 2 * sd), (1, 3, 10)):
        rises, large = null_ladders(spread, tries)
        text = " | ".join(f"{100 * x:.1f} %" for x in large)
        print(f"| {spread:.2f} | best of {tries} | {100 * rises:.2f} % | {text} |")
    means = [np.mean([x for seed, x in values.items() if seed < FIRST]) for values in scores.values()]
    truth = "".join("+" if b > a else "-" for a, b in itertools.pairwise(means))
    print(
        f"\n| ladders of single runs (pattern of the means of eight seeds: {truth}) | number | that pattern | rises at all 5 | most "
        f"common |"
    )
    print("|---|---|---|---|---|")
    for name, counts in real_ladders(scores, bases_of(results)).items():
        total, (common, times) = counts.total(), counts.most_common(1)[0]
        shares = [f"{100 * counts[key] / total:.1f} %" for key in (truth, "+" * RUNGS)]
        print(f"| {name} | {total} | {shares[0]} | {shares[1]} | {common} ({100 * times / total:.1f} %) |")


def main(roots: list[str]) -> None:
    """Print the tables of every root, and what keeping whatever rises does."""
    for root in roots:
        report(root)
    print("\n| null tricks tried one by one, kept if above the best so far | at least 5 kept |\n|---|---|")
    for tricks in (5, 10, 20, 50, 100):
        print(f"| {tricks} | {100 * kept_rungs(tricks):.1f} % |")


if __name__ == "__main__":
    command(main, __doc__)
