"""Does *seeds until it is decided* do what it says? Simulated ladders of five comparisons, with known truth.

``python experiments/statistics/simulation.py looks`` prints how often any word of a ladder is wrong over all its looks, and how
many seeds the design takes beside the fixed design of equal power. Six arms stand in a row, each compared with the
one below, so that neighbouring comparisons share an arm; scores are normal. Differences are in standard deviations of one seed's
difference between two arms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.experiment.looks import EQUIVALENT, HIGHER, LOWER, Course, run_course
from harness.statistics.intervals import comparison_level

COMPARISONS = 5
LADDER = [(arm + 1, arm) for arm in range(COMPARISONS)]
LOOKS = ((5, 8, 11, 14, 17, 20), tuple(range(4, 21, 2)), tuple(range(4, 21)), tuple(range(3, 21)))
EFFECTS = (3.0, 2.0, 1.5, 1.0)
_BATCH = 5_000  # ladders in memory at once


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
