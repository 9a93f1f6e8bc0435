"""One call from graded samples to every metric, for evaluation in training and for ``harness evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.evaluation.metrics.exact import (
    UnevenSamples,
    avg_at_n,
    g_pass_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_hat_k,
)
from harness.evaluation.metrics.votes import NO_ANSWER, count_votes, group_answers, majority_at_k

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
    one_way_equivalences: int = 0

    def __post_init__(self) -> None:
        if (self.right_R & self.lost_R).any():
            raise ValueError("a lost sample is marked right: finish_reason and correct contradict each other")
        counts_P = np.bincount(self.problem_R, minlength=self.problems)
        if (counts_P != self.n).any():
            odd = np.flatnonzero(counts_P != self.n)
            raise UnevenSamples(
                f"{len(odd)} of {self.problems} problems do not have n={self.n} samples (first: problem "
                f"number {odd[0]} has {counts_P[odd[0]]}); generate the missing ones or record them as lost"
            )


def samples_from_columns(
    problem_id: Sequence[Any],
    correct: ArrayLike,
    answer: Sequence[str | None],
    response_tokens: ArrayLike,
    finish_reason: Sequence[str],
    verdict: Sequence[str],
    *,
    n: int | None = None,
    equivalent: Callable[[str, str], bool] | None = None,
) -> Samples:
    """Arrays from columns of the sample table. Equal canonical ``answer`` strings of a problem are one class.

    Args:
        problem_id: one id per sample, any order.
        correct: verdict of each sample as a boolean.
        answer: canonical answer, None where nothing was extracted.
        response_tokens: tokens of each response.
        finish_reason: ``stop``, ``length`` (the cap), anything else is a lost sample.
        verdict: the verifier's word, counted for its health.
        n: samples per problem; by default the largest number any problem has.
        equivalent: verifier equivalence that merges different strings of one problem, as in
            ``votes.group_answers``; needed where canonical strings do not decide.

    Raises:
        UnevenSamples: if a problem has fewer or more than n rows.
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
    conflicts = 0 if equivalent is None else _merge_equivalent(problem_R, class_R, answers, equivalent)
    counts_P = np.bincount(problem_R, minlength=len(problem_ids))
    return Samples(
        problems=len(problem_ids),
        n=int(counts_P.max(initial=0)) if n is None else n,
        problem_R=problem_R,
        right_R=np.asarray(correct, dtype=bool),
        class_R=class_R,
        tokens_R=np.asarray(response_tokens, dtype=np.int64),
        truncated_R=capped[reason_R] if len(reasons) else np.zeros(0, dtype=bool),
        lost_R=lost_R,
        verdict_R=verdict_R,
        verdict_names=tuple(str(name) for name in verdicts),
        one_way_equivalences=conflicts,
    )


def _merge_equivalent(
    problem_R: Ints, class_R: Ints, answers: Sequence[Any], equivalent: Callable[[str, str], bool]
) -> int:
    """Give equivalent answers of a problem one class, in place; returns the number of one-way equivalences."""
    order = np.argsort(problem_R, kind="stable")
    starts = np.flatnonzero(np.diff(problem_R[order], prepend=-1))
    conflicts = 0
    for rows in np.split(order, starts[1:]):
        codes = list(dict.fromkeys(class_R[rows][class_R[rows] >= 0].tolist()))
        grouped = group_answers([answers[code] for code in codes], equivalent)
        conflicts += len(grouped.conflicts)
        first = {int(c): code for c, code in reversed(list(zip(grouped.class_N, codes, strict=True)))}
        merged = {code: first[int(c)] for c, code in zip(grouped.class_N, codes, strict=True)}
        class_R[rows] = [merged.get(code, NO_ANSWER) for code in class_R[rows].tolist()]
    return conflicts


def factorise(values: Iterable[Any]) -> tuple[Ints, list[Any]]:
    """Integer codes in order of first appearance, and the distinct values."""
    seen: dict[Any, int] = {}
    items = values.tolist() if isinstance(values, np.ndarray) else values
    codes = np.array([seen.setdefault(value, len(seen)) for value in items], dtype=np.int64)
    return codes, list(seen)


def default_ks(n: int) -> list[int]:
    """1, 2, 4, ... up to n, and n itself."""
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}) if n else []


def problem_scores(samples: Samples, ks: Sequence[int]) -> dict[str, Floats]:
    """Every metric per problem: name such as ``pass@8`` to float64[P]."""
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


def summarise(samples: Samples, ks: Sequence[int] | None = None) -> dict[str, Any]:
    """Every metric of one evaluation as a plain (JSON-ready) dict.

    Keys: ``problems``, ``samples_per_problem``, ``lost_samples``, ``scores`` (name to mean over problems),
    ``truncated_fraction``, ``truncated_right_fraction``, ``accuracy_finished`` (among the responses not cut),
    ``no_answer_fraction``, ``response_tokens`` (all / right / wrong / truncated: count, mean, p50, p95;
    truncated overlaps the other two), ``verdicts`` (counts by the verifier's word), ``vote_conflicts``,
    ``coarse_ks`` (k above n/2, where Pass@k rests on few subsets) and ``rules``. A mean over nothing is None.
    """
    if samples.problems == 0:
        raise ValueError("no samples to summarise: the evaluation produced no rows")
    ks = default_ks(samples.n) if ks is None else sorted(set(ks))
    finished_R = ~samples.truncated_R & ~samples.lost_R
    votes = count_votes(
        samples.problem_R, samples.class_R, samples.right_R, problems=samples.problems, n=samples.n
    )
    verdict_counts = np.bincount(samples.verdict_R, minlength=len(samples.verdict_names))
    return {
        "problems": samples.problems,
        "samples_per_problem": samples.n,
        "lost_samples": int(samples.lost_R.sum()),
        "scores": {name: float(values.mean()) for name, values in problem_scores(samples, ks).items()},
        "truncated_fraction": _mean(samples.truncated_R),
        "truncated_right_fraction": _mean(samples.truncated_R & samples.right_R),
        "accuracy_finished": _mean(samples.right_R[finished_R]),
        "no_answer_fraction": _mean(samples.class_R == NO_ANSWER),
        "response_tokens": length_by_outcome(samples),
        "verdicts": {
            name: int(count)
            for name, count in sorted(zip(samples.verdict_names, verdict_counts, strict=True))
        },
        "vote_conflicts": votes.conflicts,
        "one_way_equivalences": samples.one_way_equivalences,
        "coarse_ks": [k for k in ks if 2 * k > samples.n],
        "rules": dict(RULES),
    }


def length_by_outcome(samples: Samples) -> dict[str, dict[str, float | int | None]]:
    """Response tokens (count, mean, p50, p95) of all, right, wrong, truncated responses; none of the lost."""
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


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
