"""The summary of graded samples as written to disk: one shape for recorded samples and for models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.configuration.error import ConfigError
from harness.evaluation.metrics.exact import UnevenSamples
from harness.evaluation.metrics.graders import PARTS, second_codes, shares
from harness.evaluation.metrics.summary import (
    RULES,
    Samples,
    default_ks,
    length_by_outcome,
    problem_scores,
    samples_from_columns,
)
from harness.evaluation.metrics.votes import NO_ANSWER, representatives
from harness.statistics.intervals import problems_interval
from harness.verify import TROUBLE

SCHEMA_VERSION = 1
INTERVAL_METHOD = (
    "95 %, over problems: Student's t on per-problem scores, cut to [0, 1]; where every problem scores the same 0 or 1, "
    "Clopper-Pearson on the number of problems"
)
_INTEGER = re.compile(r"-?[0-9]{1,1000}")


def arrays(frame: pd.DataFrame, length: str, equivalent: Callable[[str, str], bool] | None) -> Samples:
    """Return arrays of graded samples; columns problem_id, correct, answer, verdict, finish_reason and `length`.

    Args:
        frame: one row per sample.
        length: the column of response lengths.
        equivalent: the verifier's equality of two answers, for votes; None: equal texts only.

    Raises:
        ConfigError: problems have different numbers of samples.
    """
    try:
        return samples_from_columns(
            frame["problem_id"].tolist(),
            frame["correct"].to_numpy(),
            voting_answers(frame, equivalent),
            frame[length].to_numpy(),
            frame["finish_reason"].tolist(),
            frame["verdict"].tolist(),
        )
    except UnevenSamples as error:
        raise ConfigError(str(error)) from error


def voting_answers(frame: pd.DataFrame, equivalent: Callable[[str, str], bool] | None) -> list[str | None]:
    """Return the answer each sample votes for: one text for each class of equal answers of a problem, None for no answer.

    Right answers are one class, since all equal the gold; only wrong ones are compared with each other, integers as integers, and an
    answer that troubled the verifier stands alone.
    """
    texts = [answer if isinstance(answer, str) else None for answer in frame["answer"]]
    if equivalent is None:
        return texts
    voted = list(texts)
    rights, troubled = frame["correct"].tolist(), frame["verdict"].isin(TROUBLE).tolist()
    answers_of: dict[str, list[tuple[int, str]]] = {}
    for row, problem in enumerate(frame["problem_id"].tolist()):
        if (text := texts[row]) is not None:
            answers_of.setdefault(problem, []).append((row, text))
    for answers in answers_of.values():
        right = list(dict.fromkeys(text for row, text in answers if rights[row]))
        wrong = [(row, text) for row, text in answers if text not in right and not troubled[row]]
        firsts = representatives([text for _, text in wrong], lambda a, b: _equal(a, b, equivalent))
        for (row, _), first in zip(wrong, firsts, strict=True):
            voted[row] = first
        for row, text in answers:
            if text in right:
                voted[row] = right[0]
    return voted


def _equal(a: str, b: str, equivalent: Callable[[str, str], bool]) -> bool:
    if _INTEGER.fullmatch(a) and _INTEGER.fullmatch(b):
        return int(a) == int(b)
    return equivalent(a, b)


def result_of(samples: Samples, ks: Sequence[int] | None, length: str) -> dict[str, Any]:
    """Return scores, intervals and health as a JSON-ready mapping; a mean over nothing is None.

    Keys: `n_problems`, `samples_per_problem`, `n_samples` (all of them), `avg`, `pass_at` and `maj_at` by k (as text), `intervals`
    for the same three, `scores` (every metric by name, mean over problems), `coarse_ks` (k above n/2, where Pass@k rests on few
    subsets), `verifier` (counts by verdict and how many ended in trouble), `lost_samples`, `truncated_fraction`,
    `truncated_right_fraction`, `accuracy_finished` (of the responses that were not cut), `no_answer_fraction`, the distribution of
    `length` by outcome (truncated overlaps right and wrong), `rules`.
    """
    wanted = default_ks(samples.n) if ks is None else sorted(set(ks))
    if wanted and (wanted[0] < 1 or wanted[-1] > samples.n):
        raise ConfigError(f"k={wanted} must lie between 1 and the {samples.n} samples of a problem")
    per_problem = problem_scores(samples, wanted)
    scores = {name: float(values.mean()) for name, values in per_problem.items()}
    average = f"avg@{samples.n}"
    counts = np.bincount(samples.verdict_R, minlength=len(samples.verdict_names)).tolist()
    verdicts = dict(sorted(zip(samples.verdict_names, counts, strict=True)))
    return {
        "schema_version": SCHEMA_VERSION,
        "n_problems": samples.problems,
        "samples_per_problem": samples.n,
        "n_samples": samples.problems * samples.n,
        "avg": scores[average],
        "pass_at": {str(k): scores[f"pass@{k}"] for k in wanted},
        "maj_at": {str(k): scores[f"maj@{k}"] for k in wanted},
        "intervals": {
            "method": INTERVAL_METHOD,
            "avg": _interval(per_problem[average]),
            "pass_at": {str(k): _interval(per_problem[f"pass@{k}"]) for k in wanted},
            "maj_at": {str(k): _interval(per_problem[f"maj@{k}"]) for k in wanted},
        },
        "scores": scores,
        "coarse_ks": [k for k in wanted if 2 * k > samples.n],
        "lost_samples": int(samples.lost_R.sum()),
        "truncated_fraction": _mean(samples.truncated_R),
        "truncated_right_fraction": _mean(samples.truncated_R & samples.right_R),
        "accuracy_finished": _mean(samples.right_R[~samples.truncated_R & ~samples.lost_R]),
        "no_answer_fraction": _mean(samples.class_R == NO_ANSWER),
        length: length_by_outcome(samples),
        "verifier": {
            "verdicts": verdicts,
            "trouble": sum(verdicts.get(name, 0) for name in TROUBLE),
            "vote_conflicts": samples.votes.conflicts,
        },
        "rules": dict(RULES),
    }


def graders_of(frame: pd.DataFrame) -> dict[str, float] | None:
    """Return the shares that both graders, only the verifier and only the second hold right; None where the second has no verdict."""
    found = shares(frame["correct"].to_numpy(dtype=bool), second_codes(frame["second_correct"].tolist()))
    return None if np.isnan(found["both"]) else found


def graders_text(found: Mapping[str, float]) -> str:
    """Write the shares of two graders in a line."""
    both, first, second = (f"{100 * found[part]:.2f} %" for part in PARTS)
    return f"second grader: {both} right by both, {first} by the verifier only, {second} by the second only"


def _interval(score_P: np.ndarray) -> list[float] | None:
    found = problems_interval(score_P)
    return None if found is None else list(found)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
