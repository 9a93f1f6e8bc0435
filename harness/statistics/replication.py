"""Two looks at a claim: the evidence behind a word, and the pooled interval.

A word's p-value is the error at which its interval would just stop giving it. It is two-sided, against the nearest border (zero or the
margin), and holds over all looks of the design (repeated p-values: Jennison & Turnbull 1989, JRSS B 51, 305).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from scipy import special

from harness.statistics.intervals import DECIDED, FAMILY_LEVEL, Estimate, Finding
from harness.statistics.sequential import nominal_levels

_ROUNDS = 6  # of a search whose error shrinks about tenfold in each


def distance_to_another_word(effect: Estimate, word: Finding, expects: str) -> float:
    """How far the value lies inside the borders of a word, in its unit; negative outside, NaN where the word says nothing."""
    if word not in DECIDED or math.isnan(effect.value):
        return math.nan
    margin = math.inf if effect.margin is None else effect.margin
    inside = {
        "higher": effect.value,
        "lower": -effect.value,
        "not_lower": effect.value + margin,
        "not_higher": margin - effect.value,
        "equivalent": margin - abs(effect.value),
    }
    if word is Finding.NOTHING:
        return inside["equivalent"]
    return inside[expects] if word is Finding.HOLDS else -inside[expects]


def word_p_value(effect: Estimate, looks: Sequence[int], word: Finding, expects: str) -> float:
    """Family error at which the design would just still say the word; 1 where it does not say it, or where the word says nothing.

    Args:
        effect: at the look where the design stopped, with standard error and degrees of freedom.
        looks: seeds at each declared look; a look that is not among them counts as if it were alone.
        word: what is said of the claim, by this look or by another.
        expects: what the claim predicts.
    """
    distance = distance_to_another_word(effect, word, expects)
    if not distance > 0 or not effect.standard_error > 0:
        return 1.0
    p = 2 * float(special.stdtr(effect.degrees, -distance / effect.standard_error))
    return repeated_p_value(p, looks, effect.seeds)


def repeated_p_value(p: float, looks: Sequence[int], seeds: int) -> float:
    """Family error whose boundary is just reached by a two-sided `p` of the look at `seeds` alone; at most 1."""
    if len(looks) < 2 or seeds not in looks or p <= 0:
        return min(1.0, p)
    place, error = list(looks).index(seeds), min(1.0, p * looks[-1] / seeds)
    for _ in range(_ROUNDS if place else 0):  # at the first look the boundary is the part of the error itself
        error = min(1.0, error * p / nominal_levels(tuple(looks), error)[place])
    return max(p, error)


def pooled(
    first: Estimate, second: Estimate, first_looks: Sequence[int], second_looks: Sequence[int]
) -> Estimate:
    """Both looks as one sequential design: Student's t over the replicates of both, at the level of a further look.

    The second look's seeds follow those of the first and the error is spent over all, so the interval covers whatever made the first
    look stop. The value leans to the first look where only decided claims get a second one.

    Raises:
        ValueError: a look has no spread, or is not paired.
    """
    if not (first.degrees >= 1 and second.degrees >= 1):
        raise ValueError("both looks need an interval over two replicates or more")
    if any("Welch" in look.method for look in (first, second)):
        raise ValueError("looks that are not paired cannot be pooled")
    parts = [(look.degrees + 1, look.value, look.standard_error) for look in (first, second)]
    number = sum(count for count, *_ in parts)
    value = sum(count * mean for count, mean, _ in parts) / number
    squares = sum(
        count * (count - 1) * error**2 + count * (mean - value) ** 2 for count, mean, error in parts
    )
    error, seeds = math.sqrt(squares / (number - 1) / number), first.seeds + second.seeds
    looks = [seen for seen in first_looks if seen <= first.seeds] or [first.seeds]
    looks += [first.seeds + seen for seen in second_looks or [second.seeds]]
    level = 1 - nominal_levels(tuple(looks), 1 - FAMILY_LEVEL)[looks.index(seeds)]
    half = float(special.stdtrit(number - 1, 0.5 + level / 2)) * error
    whole = Estimate(value, value - half, value + half, seeds=seeds, margin=first.margin)
    return replace(whole, standard_error=error, degrees=number - 1, level=level, method="both looks, t")


def shared(first: Mapping[int, str], second: Mapping[int, str]) -> str:
    """What two looks (seed to base policy) have in common: ``the seeds 8, 9``, ``the base policies set/8``; empty if nothing."""
    seeds = _listed("seed", "seeds", sorted(first.keys() & second.keys()))
    policies = _listed("base policy", "base policies", sorted({*first.values()} & {*second.values()}))
    return " and ".join(filter(None, [seeds, policies]))


def _listed(singular: str, plural: str, items: Collection[object]) -> str:
    return f"the {plural if len(items) > 1 else singular} {', '.join(map(str, items))}" if items else ""
