"""Graded samples as arrays and everything that is reduced from them: one reducer for evaluations, recorded samples and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from harness.evaluation.metrics.exact import (
    NO_ANSWER,
    avg_at_n,
    count_votes,
    majority_at_k,
    pass_at_k,
    require_samples,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]
Length = dict[str, float | int | None]

RULES = {
    "denominator": "every problem has n samples; lost samples count as wrong and without an answer",
    "maj@k": "mean over k-subsets; equivalence classes; uniform ties; abstentions take a place, never win",
    "pass@k": "unbiased, 1 - C(n-c,k)/C(n,k)",
    "truncated": "finish reason is the token cap, whatever the length",
}
NO_VERDICT = -1  # of the second grader
PARTS = ("both", "only_first", "only_second")


@dataclass(frozen=True)
class Samples:
    """R graded samples of P problems as arrays.

    ``problem_R`` 0 .. P-1; ``class_R`` answer class, ``-1`` for none; ``lost_R`` samples that an engine
    failed to return (they are rows, wrong, without an answer); ``verdict_R`` indexes ``verdict_names``.
    """

    problem_ids: tuple[str, ...]
    verdict_names: tuple[str, ...]
    problem_R: Ints
    right_R: Bools
    class_R: Ints
    tokens_R: Ints
    truncated_R: Bools
    lost_R: Bools
    verdict_R: Ints

    def __post_init__(self) -> None:
        if (self.right_R & self.lost_R).any():
            raise ValueError("a lost sample is marked right: finish_reason and correct contradict each other")

    @property
    def problems(self) -> int:
        """Number of problems, those without a sample included."""
        return len(self.problem_ids)

    @cached_property
    def samples_P(self) -> Ints:
        """Samples of each problem."""
        return np.bincount(self.problem_R, minlength=self.problems)

    @property
    def n(self) -> int:
        """Samples of the problem that has the most."""
        return int(self.samples_P.max(initial=0))

    def take(self, rows: Ints) -> Samples:
        """Return some of the samples, of the same problems."""
        arrays = {name: values[rows] for name, values in vars(self).items() if name.endswith("_R")}
        return Samples(self.problem_ids, self.verdict_names, **arrays)


@dataclass(frozen=True)
class Reduction:
    """Every metric of the samples of one policy at one cap.

    Attributes:
        n: samples per problem.
        scores: metric such as ``pass@8`` to its value of every problem, [P].
        shares: ``truncated_fraction``, ``truncated_right_fraction``, ``accuracy_finished`` (of the responses that were not cut) and
            ``no_answer_fraction``; NaN over nothing.
        lost: samples that an engine failed to return.
        verdicts: verdict to number of samples.
        lengths: response tokens (count, mean, p50, p95) of all, right, wrong and truncated responses; none of the lost.
        conflicts: classes of answers whose members have both verdicts.
    """

    n: int
    scores: dict[str, Floats]
    shares: dict[str, float]
    lost: int
    verdicts: dict[str, int]
    lengths: dict[str, Length]
    conflicts: int

    @property
    def avg_P(self) -> Floats:
        """avg@n of every problem."""
        return self.scores[f"avg@{self.n}"]

    @property
    def means(self) -> dict[str, float]:
        """Mean over problems of every metric."""
        return {name: float(values.mean()) for name, values in self.scores.items()}


def reduce_samples(samples: Samples, ks: Sequence[int]) -> Reduction:
    """Reduce the samples of one policy at one cap.

    Args:
        samples: the samples; every problem has n of them.
        ks: k of Pass@k and Maj@k, each in 1 .. n.

    Raises:
        UnevenSamples: problems have different numbers of samples.
    """
    n = samples.n
    require_samples(samples.samples_P, n)
    right_P = np.bincount(samples.problem_R[samples.right_R], minlength=samples.problems)
    votes = count_votes(samples.problem_R, samples.class_R, samples.right_R, problems=samples.problems, n=n)
    majority = majority_at_k(votes, ks)
    scores = {f"avg@{n}": avg_at_n(right_P, samples.samples_P, n)}
    for k in ks:
        scores[f"pass@{k}"] = pass_at_k(right_P, n, k)
        scores[f"maj@{k}"] = majority[k]
    counts = np.bincount(samples.verdict_R, minlength=len(samples.verdict_names)).tolist()
    finished = ~samples.truncated_R & ~samples.lost_R
    return Reduction(
        n=n,
        scores=scores,
        shares={
            "truncated_fraction": _mean(samples.truncated_R),
            "truncated_right_fraction": _mean(samples.truncated_R & samples.right_R),
            "accuracy_finished": _mean(samples.right_R[finished]),
            "no_answer_fraction": _mean(samples.class_R == NO_ANSWER),
        },
        lost=int(samples.lost_R.sum()),
        verdicts=dict(zip(samples.verdict_names, counts, strict=True)),
        lengths=_lengths(samples),
        conflicts=votes.conflicts,
    )


def default_ks(n: int) -> list[int]:
    """Return 1, 2, 4, ... up to n, and n itself."""
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}) if n else []


def second_codes(verdicts: Iterable[bool | None]) -> Codes:
    """Return the second grader's verdicts as 1 right, 0 wrong, -1 none."""
    return np.array([NO_VERDICT if verdict is None else int(verdict) for verdict in verdicts], dtype=np.int8)


def grader_shares(first_R: Bools, second_R: Codes) -> dict[str, float]:
    """Return the shares of `PARTS` among the samples that the second grader has a verdict on; NaN without any."""
    right, wrong = second_R == 1, second_R == 0
    judged = int(right.sum() + wrong.sum())
    parts = {"both": first_R & right, "only_first": first_R & wrong, "only_second": ~first_R & right}
    return {name: float(there.sum() / judged) if judged else np.nan for name, there in parts.items()}


def nothing_to_learn(right: float | None, where: str) -> str:
    """Say what to do where a policy answers nothing or everything right; empty in between.

    Args:
        right: share of right answers; None where no question was put.
        where: which answers, such as "on gsm8k".
    """
    if right not in (0.0, 1.0):
        return ""
    how, remedy = ("no answer", "easier") if right == 0 else ("every answer", "harder")
    return (
        f"{how} {where} is right, so there is nothing to learn from rewards; use {remedy} problems, or look at samples for a form of "
        "the answer that the verifier does not read"
    )


def _lengths(samples: Samples) -> dict[str, Length]:
    present = ~samples.lost_R
    groups = {
        "all": present,
        "right": samples.right_R,
        "wrong": present & ~samples.right_R,
        "truncated": samples.truncated_R,
    }
    return {name: _length(samples.tokens_R[mask]) for name, mask in groups.items()}


def _length(tokens_R: Ints) -> Length:
    if not len(tokens_R):
        return {"count": 0, "mean": None, "p50": None, "p95": None}
    p50, p95 = np.quantile(tokens_R, [0.5, 0.95])
    return {"count": len(tokens_R), "mean": float(tokens_R.mean()), "p50": float(p50), "p95": float(p95)}


def _mean(values: Bools) -> float:
    return float(values.mean()) if len(values) else np.nan
