"""Evaluations of the same problems side by side: which problems they share, and differences paired by problem.

A problem is the unit: its samples are averaged first, so that they count as one cluster, and the interval is Student's t over the
differences of problems (Miller 2024, arXiv:2411.00640). Where both sides have several training runs it is over runs and
problems (`harness.statistics.intervals.two_way_difference`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import UnevenSamples, default_ks, reduce_samples
from harness.evaluation.result import code_samples
from harness.problems.problem import normalised
from harness.statistics.intervals import Estimate, comparison_level, paired_difference, two_way_difference
from harness.verify import MathVerifier

Floats = NDArray[np.float64]
AVG, TOKENS = "avg", "tokens"
_SHOWN = 5


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, a frame of graded samples a training run, the runs' training seeds where they are known.

    `said`: what there was to say when it was read.
    Columns: problem_id, gold, problem (text or None), correct, answer, verdict, finish_reason, tokens (NaN where unknown).
    """

    name: str
    runs: Sequence[pd.DataFrame]
    seeds: Sequence[int | None]
    said: Sequence[str] = ()


@dataclass(frozen=True)
class Comparison:
    """Scores of the sides on their shared `problems` (id and gold), and the differences.

    `scores`: side → metric → values [runs, problems], fractions of 1 (tokens: a response's mean). `differences`: side → metric → its
    difference to the first side, in the same units. `notes`: problems that were left out.
    """

    problems: pd.DataFrame
    scores: Mapping[str, Mapping[str, Floats]]
    differences: Mapping[str, Mapping[str, Estimate]]
    notes: Sequence[str] = field(default_factory=list)

    @property
    def reference(self) -> str:
        """The side that the others are compared with."""
        return next(iter(self.scores))

    def by_problem(self) -> pd.DataFrame:
        """The problems with every side's share of right samples, those first on which a side differs most from the first one."""
        shares = {name: found[AVG].mean(axis=0) for name, found in self.scores.items()}
        frame = self.problems.assign(**shares)
        others = frame[[*self.differences]].sub(frame[self.reference], axis=0)
        apart = others.abs().max(axis=1)
        return frame.loc[apart.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def compare(
    sides: Sequence[Side],
    verifier: MathVerifier,
    *,
    margin: float | None = None,
    ks: Sequence[int] | None = None,
    by_text: bool | None = None,
) -> Comparison:
    """Compare every side with the first.

    `margin` is a fraction of 1. `ks` None: powers of two that all sides have samples for. `by_text` None: problems match by id where any is
    shared. Raises `ConfigError` where nothing matches, or a side has unequal numbers of samples a problem.
    """
    keyed, notes = _matched(sides, by_text, verifier)
    first = keyed[0].runs[0].drop_duplicates("key")
    most = min(int(frame.groupby("key").size().max()) for side in keyed for frame in side.runs)
    wanted = [k for k in ks or default_ks(most) if k > 1]
    if wanted and max(wanted) > most:
        raise ConfigError(f"ks={wanted}: a side has {most} samples of a problem only")
    scores = {side.name: _scores(side, wanted, verifier) for side in keyed}
    metrics = [name for name in scores[keyed[0].name] if all(name in found for found in scores.values())]
    level = comparison_level(len(sides) - 1)
    differences = {
        side.name: {
            name: replace(
                _difference(
                    scores[keyed[0].name][name], scores[side.name][name], _same_seeds(keyed[0], side), level
                ),
                margin=None if name == TOKENS else margin,
                family=len(sides) - 1,
            )
            for name in metrics
        }
        for side in keyed[1:]
    }
    problems = first[["problem_id", "gold"]].reset_index(drop=True)
    return Comparison(problems, scores, differences, notes)


# ---- problems that are the same ----


def _matched(
    sides: Sequence[Side], by_text: bool | None, verifier: MathVerifier
) -> tuple[list[Side], list[str]]:
    """The sides with the problems alone that all runs of all sides have, in one order, under the column `key`; and what was left out."""
    frames = [(side.name, frame) for side in sides for frame in side.runs]
    if by_text is None:
        by_text = not set.intersection(*(set(frame["problem_id"]) for _, frame in frames))
    keys = [_keys(name, frame, by_text) for name, frame in frames]
    shared = set.intersection(*map(set, keys))
    golds = [dict(zip(key, frame["gold"], strict=True)) for key, (_, frame) in zip(keys, frames, strict=True)]
    others = {
        key
        for key in shared
        if any(not _same_gold(golds[0][key], found[key], verifier) for found in golds[1:])
    }
    what = "text" if by_text else "id"
    notes = []
    for name, key in {name: key for (name, _), key in zip(frames, keys, strict=True)}.items():
        if absent := sorted(set(key) - shared):
            notes.append(
                f"{name}: {len(absent)} of {key.nunique()} problems are not on every side: {_some(absent)}"
            )
    if others:
        notes.append(
            f"{len(others)} problems of one {what} have different golds and are left out: {_some(sorted(others))}"
            + (
                ""
                if by_text
                else "; if these are other problems under the same ids, match=problem compares texts"
            )
        )
    if not shared - others:
        other = "match=id" if by_text else "match=problem compares their texts"
        raise ConfigError(
            f"no problem is on every side by its {what}; {other}. {' '.join([*notes, ''])}Are these evaluations of one benchmark?"
        )
    order = {
        key: place for place, key in enumerate(dict.fromkeys(k for k in keys[0] if k in shared - others))
    }
    kept = iter(
        frame.assign(key=key, place=key.map(order)).dropna(subset="place").sort_values("place", kind="stable")
        for key, (_, frame) in zip(keys, frames, strict=True)
    )
    return [replace(side, runs=[next(kept) for _ in side.runs]) for side in sides], notes


def _keys(name: str, frame: pd.DataFrame, by_text: bool) -> pd.Series:
    if not by_text:
        return frame["problem_id"]
    if frame["problem"].isna().any():
        raise ConfigError(
            f"{name} shares no problem ids with the others and has no texts of its problems to match by"
        )
    keys = frame["problem"].map(normalised)
    twice = frame.groupby(keys)["problem_id"].nunique()
    if (twice > 1).any():
        raise ConfigError(
            f"{name}: {int((twice > 1).sum())} problems have one text: {_some(list(twice[twice > 1].index))}"
        )
    return keys


def _same_gold(a: str, b: str, verifier: MathVerifier) -> bool:
    if normalised(a) == normalised(b) or verifier.equivalent(a, b):
        return True
    return (
        verifier.verify(a, b).correct or verifier.verify(b, a).correct
    )  # one is a solution with the answer at its end


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:60]) for name in names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


# ---- numbers ----


def _scores(side: Side, ks: Sequence[int], verifier: MathVerifier) -> dict[str, Floats]:
    """Metric → values [runs, problems] of a side whose frames are in the order of the problems."""
    found: dict[str, list[Floats]] = {}
    for frame in side.runs:
        placed = frame.assign(problem_id=frame["place"], length=0)  # codes are sorted: by place
        try:
            reduced = reduce_samples(code_samples(placed, "length", verifier.equivalent_many), ks)
        except UnevenSamples as error:
            raise ConfigError(f"{side.name}: {error}") from error
        values = {AVG: reduced.avg_P}
        values |= {f"{kind}@{k}": reduced.scores[f"{kind}@{k}"] for kind in ("pass", "maj") for k in ks}
        tokens = frame.groupby("place")["tokens"].mean().to_numpy(dtype=np.float64)
        if np.isfinite(tokens).all():
            values[TOKENS] = tokens
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: np.array(rows) for name, rows in found.items() if len(rows) == len(side.runs)}


def _same_seeds(a: Side, b: Side) -> bool:
    return None not in a.seeds and list(a.seeds) == list(b.seeds)


def _difference(a_SP: Floats, b_SP: Floats, paired: bool, level: float) -> Estimate:
    if min(len(a_SP), len(b_SP)) > 1 and a_SP.shape[1] > 1:
        return two_way_difference(b_SP, a_SP, paired=paired, level=level)
    found = paired_difference(b_SP.mean(axis=0), a_SP.mean(axis=0), level)
    if math.isnan(found.low):
        return replace(found, seeds=1, method="no spread over problems")
    return replace(found, seeds=1, method="paired t over problems")
