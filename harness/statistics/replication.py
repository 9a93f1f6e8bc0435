"""Second looks: the evidence behind a word, a page of words, both looks together, and the chance that a word comes again.

A word is that of an interval (`finding`), so its p-value is the error at which the interval would just stop giving it: two-sided, against
the border that is nearest (zero, or the margin), and over all looks of the design (repeated p-values: Jennison & Turnbull 1989, JRSS B 51,
305). A word of two looks is wrong unless both are right, so its p-value is the larger one (partial conjunction: Benjamini & Heller 2008,
Biometrics 64, 1215). Claims on a page share runs, so the page is corrected by Benjamini & Yekutieli's rule (2001, Ann. Stat. 29, 1165).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from harness.statistics.estimate import Estimate
from harness.statistics.families import FAMILY_LEVEL, Paired, judge_one
from harness.statistics.finding import Finding, finding, settled
from harness.statistics.sequential import nominal_levels

_ROUNDS = 6  # of a search whose error shrinks about tenfold in each
_SIMULATIONS = 1_000


def distance_to_another_word(effect: Estimate, word: Finding, expects: str) -> float:
    """How far the value lies inside the borders of a word, in its unit; negative outside, NaN of a word that says nothing."""
    if word not in (Finding.HOLDS, Finding.REVERSED, Finding.NOTHING) or math.isnan(effect.value):
        return math.nan
    margin = math.inf if effect.margin is None else effect.margin
    if word is Finding.NOTHING:
        return margin - abs(effect.value)
    above = {
        "higher": effect.value,
        "lower": -effect.value,
        "not_lower": effect.value + margin,
        "not_higher": margin - effect.value,
        "equivalent": margin - abs(effect.value),
    }[expects]
    return above if word is Finding.HOLDS else -above


def word_p_value(effect: Estimate, looks: Sequence[int], word: Finding, expects: str) -> float:
    """Family error at which the design would just still say the word; 1 where it does not say it, or where a word says nothing.

    Args:
        effect: of the look at which the design stopped, with standard error and degrees of freedom.
        looks: seeds at each look as declared; none, or a look that is not one of them: as if there were this look alone.
        word: what is said of the claim, by this look or by another.
        expects: what the claim predicts.
    """
    distance = distance_to_another_word(effect, word, expects)
    if not distance > 0 or not effect.standard_error > 0:
        return 1.0
    p = 2 * float(special.stdtr(effect.degrees, -distance / effect.standard_error))
    return repeated_p_value(p, looks, effect.seeds)


def repeated_p_value(p: float, looks: Sequence[int], seeds: int) -> float:
    """The family error whose boundary at the look of so many seeds is just reached by a two-sided `p` of that look alone, at most 1."""
    if len(looks) < 2 or seeds not in looks or p <= 0:
        return min(1.0, p)
    place, error = list(looks).index(seeds), min(1.0, p * looks[-1] / seeds)
    for _ in range(_ROUNDS if place else 0):  # at the first look the boundary is the part of the error itself
        error = min(1.0, error * p / nominal_levels(tuple(looks), error)[place])
    return max(p, error)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Yekutieli's adjusted p-values of a page: whatever depends on whatever, those up to q are wrong in a share of q."""
    from scipy.stats import false_discovery_control

    return [float(one) for one in false_discovery_control(p_values, method="by")] if p_values else []


def pooled(
    first: Estimate, second: Estimate, first_looks: Sequence[int], second_looks: Sequence[int]
) -> Estimate:
    """Both looks as one sequential design: Student's t over the replicates of both, at the level of a further look.

    The second look's seeds follow those of the first, and the error is spent over all of them, so that the interval covers whatever made
    the first look stop. The value leans to the first look's where only decided claims get a second one.

    Raises:
        ValueError: a look has no spread, or is not paired.
    """
    if not (first.degrees >= 1 and second.degrees >= 1):
        raise ValueError("both looks need an interval over two replicates or more")
    if any("Welch" in one.method for one in (first, second)):
        raise ValueError("looks that are not paired cannot be pooled")
    parts = [(one.degrees + 1, one.value, one.standard_error) for one in (first, second)]
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


@dataclass(frozen=True)
class Prospect:
    """A second look if the first effect is true: its chance to say the word, and the seeds that it takes on average."""

    chance: float
    seeds: float


def prospect(first: Estimate, looks: Sequence[int], expects: str, word: Finding) -> Prospect:
    """The power of a sequential design for an effect as it was found, in a fixed simulation of 1,000 designs with normal differences.

    The chance has a standard error of at most 1.6 %, and is flattering: first looks that were decided lean away from the border.
    """
    rng = np.random.default_rng([len(looks), looks[-1]])
    levels = nominal_levels(tuple(looks), 1 - FAMILY_LEVEL)
    spread = first.standard_error * math.sqrt(first.degrees + 1)
    said = taken = 0
    for differences in rng.normal(first.value, spread, (_SIMULATIONS, looks[-1])):
        for seeds, level in zip(looks, levels, strict=True):
            found = judge_one(Paired(differences[:seeds]), margin=first.margin, level=1 - level)
            if settled(found, expects):
                break
        said += finding(found, expects) is word
        taken += found.seeds
    return Prospect(said / _SIMULATIONS, taken / _SIMULATIONS)


def shared(first: Mapping[int, str], second: Mapping[int, str]) -> str:
    """What two looks have in common, each as seed to base policy: ``the seeds 8, 9``, ``the base policies set/8``; empty if nothing."""
    seeds = sorted(first.keys() & second.keys())
    starts = sorted({*first.values()} & {*second.values()})
    said = [_listed("seed", seeds), _listed("base policy", starts).replace("policys", "policies")]
    return " and ".join(filter(None, said))


def _listed(what: str, items: Collection[object]) -> str:
    return f"the {what}{'s' if len(items) > 1 else ''} {', '.join(map(str, items))}" if items else ""
