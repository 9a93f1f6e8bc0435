"""The word for a claim, from the one comparison that it is about."""

from __future__ import annotations

import math
from enum import StrEnum

from harness.statistics.estimate import Estimate, Verdict


class Finding(StrEnum):
    """Words for what an experiment says of a claim."""

    HOLDS = "holds here"
    REVERSED = "reversed here"
    NOTHING = "equivalent to nothing"
    OPEN = "open"
    NOT_ENGAGED = "not engaged"


DECIDED = (Finding.HOLDS, Finding.REVERSED, Finding.NOTHING)
"""The words that a second look can repeat."""


class Second(StrEnum):
    """Words for what a second look says of the first one's."""

    REPLICATED = "replicated"
    FIRST_ONLY = "first look only"
    CONTRADICTED = "contradicted"


def second_look(first: Finding, second: Finding) -> Second:
    """The word for two looks: the same word again, the opposite one, or neither."""
    if first is second:
        return Second.REPLICATED
    opposite = {first, second} == {Finding.HOLDS, Finding.REVERSED}
    return Second.CONTRADICTED if opposite else Second.FIRST_ONLY


def settled(effect: Estimate, expects: str | None) -> bool:
    """True where difference and claim have their words: *lower* alone does not say whether it is lower by the margin or more."""
    known = effect.verdict != Verdict.NOT_RESOLVED
    return known and (expects is None or finding(effect, expects) is not Finding.OPEN)


def finding(effect: Estimate, expects: str, hardly: bool = False) -> Finding:
    """The word for a claim that ``expects`` this sign of ``effect``; ``hardly``: its mechanism was hardly engaged.

    ``not_lower`` holds where the whole interval lies above minus the margin (non-inferiority), and is reversed where all of it lies below;
    ``not_higher`` the other way round; ``equivalent`` where it lies within the margin, or all beyond it.
    An effect whose sign is known came from somewhere, however little was measured of it: only what shows nothing is not engaged.
    """
    margin = math.inf if effect.margin is None else effect.margin
    if math.isnan(effect.low):
        return Finding.OPEN
    if hardly and not effect.resolved:
        return Finding.NOT_ENGAGED
    upward = expects in ("higher", "not_lower", "equivalent")
    low, high = (effect.low, effect.high) if upward else (-effect.high, -effect.low)
    if expects in ("higher", "lower"):
        if low > 0 or high < 0:
            return Finding.HOLDS if low > 0 else Finding.REVERSED
        return Finding.NOTHING if effect.inside_margin else Finding.OPEN
    if expects == "equivalent":
        beyond = low > margin or high < -margin
        return Finding.HOLDS if effect.inside_margin else Finding.REVERSED if beyond else Finding.OPEN
    return Finding.HOLDS if low > -margin else Finding.REVERSED if high < -margin else Finding.OPEN
