"""Graded samples as arrays, and every metric of them per problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.evaluation.metrics.exact import (
    avg_at_n,
    g_pass_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_hat_k,
    require_samples,
)
from harness.evaluation.metrics.votes import NO_ANSWER, Votes, count_votes, majority_at_k

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RULES = {
    "denominator": "every problem has n samples; lost samples count as wrong and without an answer",
    "maj@k": "mean over k-subsets; equivalence classes; uniform ties; abstentions take a place, never win",
    "pass@k": "unbiased, 1 - C(n-c,k)/C(n,k)",
    "truncated": "finish reason is the token cap, whatever the length",
}


@dataclass(frozen=True)
class Samples:
    """R graded samples as arrays; P problems with n samples each.

    ``problem_R`` 0 .. P-1; ``class_R`` answer class, ``-1`` for none; ``lost_R`` samples that an engine
    failed to return (they are rows, wrong, without an answer); ``verdict_R`` indexes ``verdict_names``.
    """

    problems: int
    n: int
    problem_R: Ints
    right_R: Bools
    class_R: Ints
    tokens_R: Ints
    truncated_R: Bools
    lost_R: Bools
    verdict_R: Ints
    verdict_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if (self.right_R & self.lost_R).any():
            raise ValueError("a lost sample is marked right: finish_reason and correct contradict each other")
        require_samples(np.bincount(self.problem_R, minlength=self.problems), self.n)

    @property
    def votes(self) -> Votes:
        """The sizes of the answer classes."""
        return count_votes(self.problem_R, self.class_R, self.right_R, problems=self.problems, n=self.n)


def samples_from_columns(
    problem_id: Sequence[Any],
    correct: ArrayLike,
    answer: Sequence[str | None],
    response_tokens: ArrayLike,
    finish_reason: Sequence[str],
    verdict: Sequence[str],
) -> Samples:
    """Return arrays of columns of the sample table. Equal canonical ``answer`` strings of a problem are one class.

    Args:
        problem_id: one id per sample, any order.
        correct: verdict of each sample as a boolean.
        answer: canonical answer, None where nothing was extracted.
        response_tokens: tokens of each response.
        finish_reason: ``stop``, ``length`` (the cap), anything else is a lost sample.
        verdict: the verifier's word, counted for its health.

    Raises:
        UnevenSamples: problems have different numbers of rows.
    """
    problem_R, problem_ids = factorise(problem_id)
    reason_R, reasons = factorise(finish_reason)
    verdict_R, verdicts = factorise(verdict)
    class_R, answers = factorise(answer)
    if None in answers:
        class_R[class_R == answers.index(None)] = NO_ANSWER
    known = np.array([reason in ("stop", "length") for reason in reasons], dtype=bool)
    capped = np.array([reason == "length" for reason in reasons], dtype=bool)
    lost_R = ~known[reason_R] if len(reasons) else np.zeros(0, dtype=bool)
    class_R[lost_R] = NO_ANSWER
    counts_P = np.bincount(problem_R, minlength=len(problem_ids))
    return Samples(
        problems=len(problem_ids),
        n=int(counts_P.max(initial=0)),
        problem_R=problem_R,
        right_R=np.asarray(correct, dtype=bool),
        class_R=class_R,
        tokens_R=np.asarray(response_tokens, dtype=np.int64),
        truncated_R=capped[reason_R] if len(reasons) else np.zeros(0, dtype=bool),
        lost_R=lost_R,
        verdict_R=verdict_R,
        verdict_names=tuple(str(name) for name in verdicts),
    )


def factorise(values: Iterable[Any]) -> tuple[Ints, list[Any]]:
    """Return integer codes in order of first appearance, and the distinct values."""
    seen: dict[Any, int] = {}
    items = values.tolist() if isinstance(values, np.ndarray) else values
    codes = np.array([seen.setdefault(value, len(seen)) for value in items], dtype=np.int64)
    return codes, list(seen)


def default_ks(n: int) -> list[int]:
    """Return 1, 2, 4, ... up to n, and n itself."""
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}) if n else []


def problem_scores(samples: Samples, ks: Sequence[int]) -> dict[str, Floats]:
    """Return every metric per problem: name such as ``pass@8`` to float64[P]."""
    n = samples.n
    right_P = np.bincount(samples.problem_R[samples.right_R], minlength=samples.problems)
    samples_P = np.bincount(samples.problem_R, minlength=samples.problems)
    scores = {f"avg@{n}": avg_at_n(right_P, samples_P, n)}
    votes = count_votes(samples.problem_R, samples.class_R, samples.right_R, problems=samples.problems, n=n)
    majority = majority_at_k(votes, ks)
    for k in ks:
        scores[f"pass@{k}"] = pass_at_k(right_P, n, k)
        scores[f"maj@{k}"] = majority[k]
        scores[f"pass^{k}"] = pass_hat_k(right_P, n, k)
        scores[f"g_pass@{k}_0.5"] = g_pass_at_k(right_P, n, k, 0.5)
        if k >= 2:
            scores[f"mg_pass@{k}"] = mg_pass_at_k(right_P, n, k)
    return scores


def length_by_outcome(samples: Samples) -> dict[str, dict[str, float | int | None]]:
    """Return response tokens (count, mean, p50, p95) of all, right, wrong, truncated responses; none of the lost."""
    there = ~samples.lost_R
    groups = {
        "all": there,
        "right": samples.right_R,
        "wrong": there & ~samples.right_R,
        "truncated": samples.truncated_R,
    }
    return {name: _length(samples.tokens_R[mask]) for name, mask in groups.items()}


def _length(tokens_R: Ints) -> dict[str, float | int | None]:
    if not len(tokens_R):
        return {"count": 0, "mean": None, "p50": None, "p95": None}
    p50, p95 = np.quantile(tokens_R, [0.5, 0.95])
    return {"count": len(tokens_R), "mean": float(tokens_R.mean()), "p50": float(p50), "p95": float(p95)}
