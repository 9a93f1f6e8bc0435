"""Evaluations of the same problems, each compared with the first, problem by problem.

A problem is the unit: its samples are averaged first, so that they count as one cluster, and the interval is Student's t over the
differences of problems (Miller 2024, arXiv:2411.00640). Where each problem is right or wrong as a whole (one answer each, Pass@k of k
answers) it is Tango's. It says which of these checkpoints does better, and nothing about training again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import UnevenSamples, default_ks, reduce_samples
from harness.evaluation.recorded import read_recorded
from harness.evaluation.result import code_samples, require_ks
from harness.evaluation.stored import stored_samples
from harness.problems.problem import normalise
from harness.statistics.intervals import Estimate, comparison_level, paired_difference
from harness.statistics.pairs import paired_shares
from harness.store import ResultStore
from harness.store.layout import MANIFEST
from harness.verify import MathVerifier

Floats = NDArray[np.float64]
AVG, TOKENS = "avg", "length"
_EXAMPLES = 5


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, its graded samples, and what there was to say when it was read.

    Columns: problem_id, gold, problem (text or None), correct, answer, verdict, finish_reason, tokens (NaN where unknown).
    """

    name: str
    frame: pd.DataFrame
    remarks: Sequence[str] = ()

    @property
    def samples(self) -> int:
        """The samples of a problem, of that which has most."""
        return int(self.frame.groupby("problem_id").size().max())

    @property
    def rules(self) -> str:
        """The rules by which its stored verdicts were given, empty where they are not known."""
        return str(self.frame["rules"].iloc[0]) if "rules" in self.frame else ""


@dataclass(frozen=True)
class Comparison:
    """Scores of the sides on their shared `problems` (id and gold), and the differences.

    `scores`: side → metric → value of each problem, fractions of 1 (length: a response's mean tokens). `differences`: side → metric → its
    difference to the first side, in the same units. `notes`: what was left out.
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
        frame = self.problems.assign(**{name: scores[AVG] for name, scores in self.scores.items()})
        gaps = frame[[*self.differences]].sub(frame[self.reference], axis=0).abs().max(axis=1)
        return frame.loc[gaps.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def read_side(
    name: str,
    part: str,
    store: ResultStore,
    *,
    benchmark: str | None = None,
    cap: int | None = None,
    golds: Path | None = None,
) -> Side:
    """Return the evaluation that a side names; verdicts are those that are stored, none for files of others.

    `part` is RUN_ID, RUN_ID@STEP, a folder of `harness evaluate` (FOLDER@MODEL where it has several) or a file; `golds` are for files that
    have none. `cap` None is the largest, in tokens. Raises `ConfigError` where nothing is there, or several could be meant.
    """
    remarks: list[str] = []
    if Path(part).is_file():
        recording = read_recorded(Path(part), golds)
        remarks = [f"{part}: {line}" for line in recording.lines()]
        frame = pd.DataFrame(recording.samples).assign(model=Path(part).name, benchmark="")
    else:
        frame = _read_stored(part, store)
    return Side(name, _select_samples(part, frame, benchmark, cap), remarks)


def _read_stored(part: str, store: ResultStore) -> pd.DataFrame:
    folder, _, model = part.partition("@")
    if not Path(folder).is_dir() or (Path(folder) / MANIFEST).exists():
        return stored_samples(part, store)
    frame = stored_samples(folder, store)
    models = frame["model"].unique().tolist()
    if (model and model not in models) or (not model and len(models) > 1):
        raise ConfigError(f"{part}: it has the models {', '.join(models)}; name one of them: {folder}@{models[0]}")
    return frame[frame["model"] == model] if model else frame


def _select_samples(part: str, frame: pd.DataFrame, benchmark: str | None, cap: int | None) -> pd.DataFrame:
    """The samples of one benchmark at one cap, in the columns of `Side`."""
    names = frame["benchmark"].unique().tolist()
    if names != [""]:  # a file does not say
        if (benchmark or names[0]) not in names or (benchmark is None and len(names) > 1):
            raise ConfigError(f"{part} was evaluated on {', '.join(names)}; choose one: benchmark={names[0]}")
        frame = frame[frame["benchmark"] == (benchmark or names[0])]
    if "max_response_tokens" in frame:
        caps = sorted(frame["max_response_tokens"].unique().tolist())
        if cap is not None and cap not in caps:
            raise ConfigError(f"{part} was evaluated at caps of {', '.join(map(str, caps))} tokens, not at {cap}")
        frame = frame[frame["max_response_tokens"] == (cap or caps[-1])]
    for name in ("problem", "response_tokens"):
        if name not in frame:
            frame = frame.assign(**{name: None})
    return frame.assign(tokens=frame["response_tokens"].astype(float)).reset_index(drop=True)


def compare(
    sides: Sequence[Side],
    verifier: MathVerifier,
    *,
    margin: float | None = None,
    ks: Sequence[int] | None = None,
    by_text: bool | None = None,
) -> Comparison:
    """Compare every side with the first; the intervals of one metric are simultaneous over the compared sides.

    `margin` is a fraction of 1. `ks` None: powers of two that all sides have samples for. `by_text` None: problems match by id where any is
    shared. Raises `ConfigError` where nothing matches, or a side has unequal numbers of samples a problem.
    """
    matched_sides, notes = _match_sides(sides, by_text, verifier)
    first, *others = matched_sides
    most = min(side.samples for side in matched_sides)
    k_values = [k for k in ks or default_ks(most) if k > 1]
    require_ks(k_values, most)
    scores = {side.name: _scores(side, k_values, verifier) for side in matched_sides}
    metrics = [name for name in scores[first.name] if all(name in table for table in scores.values())]
    level = comparison_level(len(others))

    def difference(side: Side, metric: str) -> Estimate:
        a_P, b_P = scores[side.name][metric], scores[first.name][metric]
        whole = metric != TOKENS and all(np.allclose(one, np.round(one)) for one in (a_P, b_P))
        estimate = paired_shares(a_P > 0.5, b_P > 0.5, level) if whole else _difference(a_P, b_P, level)
        return replace(estimate, margin=None if metric == TOKENS else margin, family=len(others))

    differences = {side.name: {metric: difference(side, metric) for metric in metrics} for side in others}
    problems = first.frame.drop_duplicates("key")[["problem_id", "gold"]].reset_index(drop=True)
    return Comparison(problems, scores, differences, [*_lost_notes(matched_sides), *_cap_notes(sides), *notes])


def _difference(other_P: Floats, first_P: Floats, level: float) -> Estimate:
    estimate = paired_difference(other_P, first_P, level)
    flat = np.isnan(estimate.low)
    return replace(estimate, method="no spread over problems" if flat else "paired t over problems")


def _lost_notes(sides: Sequence[Side]) -> list[str]:
    """A note for each side that has lost samples: they count as wrong, so its score is not that of its answers."""
    notes = []
    for side in sides:
        lost = ~side.frame["finish_reason"].isin(["stop", "length"])
        share = 100 * side.frame["correct"][~lost].mean()
        there = "" if lost.all() else f"; of those that are there {share:.1f} % are right"
        if lost.any():
            notes.append(f"{side.name}: {lost.sum()} of {len(lost)} samples were lost and count as wrong{there}")
    return notes


def _cap_notes(sides: Sequence[Side]) -> list[str]:
    """A note where the sides were sampled with different caps."""
    column = "max_response_tokens"
    caps = {side.name: side.frame[column].iloc[0] if column in side.frame else None for side in sides}
    if len({cap for cap in caps.values() if cap is not None}) < 2:
        return []
    texts = "; ".join(f"{name}: {'unknown' if cap is None else cap}" for name, cap in caps.items())
    return [f"the caps differ, in tokens ({texts}); cap=TOKENS chooses one that every side has"]


def _match_sides(sides: Sequence[Side], by_text: bool | None, verifier: MathVerifier) -> tuple[list[Side], list[str]]:
    """The sides with the problems alone that all sides have, in one order, under the column `key`; and what was left out."""
    if by_text is None:
        by_text = not set.intersection(*(set(side.frame["problem_id"]) for side in sides))
    keys = [_keys(side, by_text) for side in sides]
    shared_keys = set.intersection(*map(set, keys))
    golds = [dict(zip(key, side.frame["gold"], strict=True)) for key, side in zip(keys, sides, strict=True)]
    others = {k for k in shared_keys if any(not _same_gold(golds[0][k], each[k], verifier) for each in golds[1:])}
    what = "text" if by_text else "id"
    notes = []
    for side, key in zip(sides, keys, strict=True):
        if absent := sorted(set(key) - shared_keys):
            notes.append(
                f"{side.name}: {len(absent)} of {key.nunique()} problems are not on every side: {_quote(absent)}"
            )
    if others:
        notes.append(
            f"{len(others)} problems of one {what} have different golds and are left out: {_quote(sorted(others))}"
            + "; match=problem compares texts" * (not by_text)
        )
    if not shared_keys - others:
        other = "match=id" if by_text else "match=problem compares their texts"
        raise ConfigError(f"no problem is on every side by its {what}; {other}. {' '.join(notes)}")
    order = {key: place for place, key in enumerate(dict.fromkeys(k for k in keys[0] if k in shared_keys - others))}
    frames = [
        side.frame.assign(key=key, place=key.map(order)).dropna(subset="place").sort_values("place", kind="stable")
        for key, side in zip(keys, sides, strict=True)
    ]
    return [replace(side, frame=frame) for side, frame in zip(sides, frames, strict=True)], notes


def _keys(side: Side, by_text: bool) -> pd.Series:
    frame = side.frame
    if not by_text:
        return frame["problem_id"]
    if frame["problem"].isna().any():
        raise ConfigError(f"{side.name} shares no problem ids with the others and has no texts of its problems")
    keys = frame["problem"].map(normalise)
    id_counts = frame.groupby(keys)["problem_id"].nunique()
    if (id_counts > 1).any():
        texts = list(id_counts[id_counts > 1].index)
        raise ConfigError(f"{side.name}: {len(texts)} problems have one text: {_quote(texts)}")
    return keys


def _same_gold(a: str, b: str, verifier: MathVerifier) -> bool:
    if normalise(a) == normalise(b) or verifier.equivalent_many([(a, b)])[0]:
        return True
    # One is a solution with the answer at its end.
    return verifier.verify(a, b).correct or verifier.verify(b, a).correct


def _quote(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:60]) for name in names[:_EXAMPLES]) + (" …" if len(names) > _EXAMPLES else "")


def _scores(side: Side, ks: Sequence[int], verifier: MathVerifier) -> dict[str, Floats]:
    """Metric → value of each problem, of a side whose frame is in the order of the problems."""
    # Codes are of sorted texts, so that the places need as many digits each.
    frame = side.frame.assign(problem_id=side.frame["place"].map("{:09.0f}".format), length=0)
    try:
        reduction = reduce_samples(code_samples(frame, "length", verifier.equivalent_many), ks)
    except UnevenSamples as error:
        raise ConfigError(f"{side.name}: {error}") from error
    values = {AVG: reduction.avg_P}
    values |= {f"{kind}@{k}": reduction.scores[f"{kind}@{k}"] for kind in ("pass", "maj") for k in ks}
    tokens = frame.groupby("place")["tokens"].mean().to_numpy(dtype=np.float64)
    return values | ({TOKENS: tokens} if np.isfinite(tokens).all() else {})
