"""Does *seeds until it is decided* do what it says? Simulated ladders of five comparisons, with known truth.

``python experiments/statistics/simulation.py looks`` prints how often any word of a ladder is wrong over all its looks, and how
many seeds the design takes beside the fixed design of equal power. Six arms stand in a row, each compared with the
one below, so that neighbouring comparisons share an arm; scores are normal. Differences are in standard deviations of one seed's
difference between two arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from simulated_ladders import welch_band

from harness.statistics.intervals import comparison_level, t_band
from harness.statistics.sequential import Floats, design_levels

COMPARISONS = 5
LADDER = [(arm + 1, arm) for arm in range(COMPARISONS)]
LOOKS = ((5, 8, 11, 14, 17, 20), tuple(range(4, 21, 2)), tuple(range(4, 21)), tuple(range(3, 21)))
EFFECTS = (3.0, 2.0, 1.5, 1.0)
_BATCH = 5_000  # ladders in memory at once

Codes = NDArray[np.int64]
Pair = tuple[int, int]  # an arm and the arm it is compared with, as indices

OPEN, HIGHER, LOWER, EQUIVALENT = 0, 1, 2, 3


@dataclass(frozen=True)
class Course:
    """Ends of the comparisons: ``word_NC`` codes, ``seeds_NC`` at which each was closed, ``runs_N`` over all arms."""

    word_NC: Codes
    seeds_NC: Codes
    runs_N: Codes


def run_course(
    scores_NAS: Floats, pairs: Sequence[Pair], looks: Sequence[int], *, paired: bool = True, margin: float | None = None
) -> Course:
    """Look at every experiment as the design says. Arms get seeds while a comparison of them is open, the first look's at least."""
    count, arms, _ = scores_NAS.shape
    word_NC = np.full((count, len(pairs)), OPEN)
    seeds_NC = np.full(word_NC.shape, looks[-1])
    for seeds, level in zip(looks, design_levels(looks, len(pairs)), strict=True):
        ours, theirs = (scores_NAS[:, list(side), :seeds] for side in zip(*pairs, strict=True))
        value, half = t_band(ours - theirs, 1 - level) if paired else welch_band(ours, theirs, 1 - level)
        low, high = value - half, value + half
        inside = np.zeros_like(word_NC, dtype=bool) if margin is None else (low > -margin) & (high < margin)
        new_NC = np.select([low > 0, high < 0, inside], [HIGHER, LOWER, EQUIVALENT], OPEN)
        closed_NC = (word_NC == OPEN) & (new_NC != OPEN)
        word_NC[closed_NC], seeds_NC[closed_NC] = new_NC[closed_NC], seeds
    seeds_NA = np.full((count, arms), looks[0])
    for index, pair in enumerate(pairs):
        seeds_NA[:, pair] = np.maximum(seeds_NA[:, pair], seeds_NC[:, [index]])
    return Course(word_NC, seeds_NC, seeds_NA.sum(axis=1))


def simulate_ladders(
    looks: Sequence[int],
    effect: float,
    simulations: int,
    *,
    paired: bool = True,
    margin: float | None = None,
    seed: int = 0,
) -> Course:
    """Run the design on ladders whose every step has the true difference ``effect``."""
    rng = np.random.default_rng([seed, len(looks), looks[0], int(paired), round(1000 * effect)])
    parts = []
    for start in range(0, simulations, _BATCH):
        count = min(_BATCH, simulations - start)
        # What arms share within a seed cancels in paired differences, so each has its own part only.
        own_NAS = rng.normal(0, np.sqrt(0.5), (count, COMPARISONS + 1, looks[-1]))
        scores_NAS = own_NAS + effect * np.arange(COMPARISONS + 1)[:, None]
        parts.append(run_course(scores_NAS, LADDER, looks, paired=paired, margin=margin))
    words, seeds, runs = zip(*((part.word_NC, part.seeds_NC, part.runs_N) for part in parts), strict=True)
    return Course(np.concatenate(words), np.concatenate(seeds), np.concatenate(runs))


def any_of(course: Course, *codes: int) -> float:
    """Share of experiments in which at least one comparison ends with one of these words."""
    return float(np.isin(course.word_NC, codes).any(axis=1).mean())


def fixed_seeds(power: float, effect: float, limit: int = 200) -> int:
    """Fewest seeds of a fixed design of five paired comparisons, corrected likewise, with at least this power each."""
    alpha = 1 - comparison_level(COMPARISONS)
    for seeds in range(2, limit):
        t, shift = float(stats.t.isf(alpha / 2, seeds - 1)), effect * np.sqrt(seeds)
        if stats.nct.sf(t, seeds - 1, shift) >= power:
            return seeds
    raise ValueError(f"power {power:g} at {effect:g} standard deviations needs {limit} seeds or more")


def power_at_least(hits: int, trials: int) -> float:
    """Lower end of the one-sided 95 % Clopper-Pearson interval: what a simulation shows of a power near one."""
    return float(stats.beta.ppf(0.05, hits, trials - hits + 1)) if hits else 0.0


def error_lines(simulations: int, seed: int) -> list[str]:
    """Table of error rates."""
    lines = [
        "| looks | any false word, paired | independent seeds | equivalent at the margin |",
        "|---|---|---|---|",
    ]
    for looks in LOOKS:
        paired_rate, welch_rate = (
            any_of(simulate_ladders(looks, 0.0, simulations, paired=p, seed=seed), LOWER, HIGHER) for p in (True, False)
        )
        edge_rate = any_of(simulate_ladders(looks, 1.0, simulations, margin=1.0, seed=seed), EQUIVALENT)
        lines.append(f"| {looks_text(looks)} | {paired_rate:.2%} | {welch_rate:.2%} | {edge_rate:.2%} |")
    return lines


def seed_lines(simulations: int, seed: int) -> list[str]:
    """Table of seeds and power."""
    header = "| looks | true difference, sd | power | mean seeds | fixed design of equal power | fewer |"
    lines = [header, "|---|---|---|---|---|---|"]
    for looks in LOOKS:
        for effect in EFFECTS:
            course = simulate_ladders(looks, effect, simulations, seed=seed)
            hits = int((course.word_NC == HIGHER).sum())
            seed_count = fixed_seeds(power_at_least(hits, course.word_NC.size), effect)
            mean = float(course.seeds_NC.mean())
            power = hits / course.word_NC.size
            lines.append(
                f"| {looks_text(looks)} | {effect:g} | {power:.2%} | {mean:.2f} | {seed_count} | {1 - mean / seed_count:.0%} |"
            )
    return lines


def report(simulations: int, seed: int) -> str:
    """Both tables as Markdown."""
    return "\n".join([*error_lines(simulations, seed), "", *seed_lines(simulations, seed)]) + "\n"


def looks_text(looks: Sequence[int]) -> str:
    """``5, 8, …, 20``."""
    return f"{looks[0]}, {looks[1]}, …, {looks[-1]}"
