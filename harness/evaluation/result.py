"""The summary of graded samples as written to disk: one shape for recorded samples and for models."""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import (
    NO_ANSWER,
    PARTS,
    RULES,
    Equivalence,
    Ints,
    Samples,
    UnevenSamples,
    default_ks,
    grader_shares,
    reduce_samples,
    representatives,
    second_codes,
)
from harness.statistics.intervals import problems_interval
from harness.verify import TROUBLE
from harness.verify.compare import value_forms
from harness.verify.read.answers import read_text
from harness.verify.read.expressions import names_of
from harness.verify.read.grammar import Node
from harness.verify.read.values import NoValue, calls, is_real, value

SCHEMA_VERSION = 1
INTERVAL_METHOD = (
    "95 %, over problems: Student's t on per-problem scores, united with the exact bound on kinds of problems that none of "
    "them is of"
)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")  # one text a value
_DIGITS = re.compile(r"-?[0-9]{1,1000}")
_KEY_STEPS = 10**5


def code_samples(frame: pd.DataFrame, length: str, equivalent: Equivalence | None) -> Samples:
    """Return arrays of graded samples, problems in sorted order; equal answers of a problem are one class.

    `length` is the column of response lengths. A finish_reason that is neither ``stop`` nor ``length`` marks a lost sample. `equivalent`
    compares answers for votes; None: equal texts only.
    """
    problem_R, problems = codes(frame["problem_id"])
    verdict_R, verdicts = codes(frame["verdict"])
    reason_R, reasons = codes(frame["finish_reason"])
    lost_R = np.array([reason not in ("stop", "length") for reason in reasons], dtype=bool)[reason_R]
    return Samples(
        problem_ids=tuple(problems),
        verdict_names=tuple(verdicts),
        problem_R=problem_R,
        right_R=frame["correct"].to_numpy(dtype=bool),
        class_R=np.where(lost_R, NO_ANSWER, _classes(frame, problem_R, equivalent)),
        tokens_R=frame[length].to_numpy(dtype=np.int64),
        truncated_R=np.array([reason == "length" for reason in reasons], dtype=bool)[reason_R],
        lost_R=lost_R,
        verdict_R=verdict_R,
    )


def codes(values: pd.Series) -> tuple[Ints, list[str]]:
    """Return codes of a text column and the texts that occur, sorted; a missing text gets -1."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        raw_R, names = values.cat.codes.to_numpy(), values.cat.categories.tolist()
        used = np.bincount(raw_R + 1, minlength=len(names) + 1)[1:] > 0
        order = [place for place in sorted(range(len(names)), key=names.__getitem__) if used[place]]
        rank = np.full(len(names) + 1, -1)  # the last: a missing text
        rank[order] = np.arange(len(order))
        return rank[raw_R], [names[place] for place in order]
    code_R, texts = pd.factorize(values, sort=True)
    return code_R.astype(np.int64), [*map(str, texts)]


def _classes(frame: pd.DataFrame, problem_R: Ints, equivalent: Equivalence | None) -> Ints:
    """Return the class of answers that each sample votes for; where a problem has integers alone, equal texts are equal answers."""
    class_R, texts = codes(frame["answer"])
    if equivalent is None:
        return class_R
    algebra = np.array([*(_INTEGER.fullmatch(text) is None for text in texts), False])  # the last: no answer
    rows = np.flatnonzero(np.isin(problem_R, np.unique(problem_R[algebra[class_R]])))
    if len(rows):
        code = {text: number for number, text in enumerate(texts)}
        votes = voting_answers(frame.iloc[rows], equivalent)
        class_R[rows] = [NO_ANSWER if text is None else code[text] for text in votes]
    return class_R


def voting_answers(frame: pd.DataFrame, equivalent: Equivalence) -> list[str | None]:
    """Return the answer each sample votes for: one text for each class of equal answers of a problem, None for no answer.

    Right answers are one class, since all equal the gold; only wrong ones are compared with each other, integers as integers, and an
    answer that troubled the verifier stands alone.
    """
    votes = [answer if isinstance(answer, str) else None for answer in frame["answer"]]
    rights, trouble = frame["correct"].tolist(), frame["verdict"].isin(TROUBLE).tolist()
    rights_of: dict[str, dict[str, None]] = {}
    wrong_of: dict[str, list[int]] = {}
    problems = frame["problem_id"].tolist()
    for text, problem, right in zip(votes, problems, rights, strict=True):
        if text is not None and right:
            rights_of.setdefault(problem, {})[text] = None
    for row, (text, problem) in enumerate(zip(votes, problems, strict=True)):
        if text in rights_of.get(problem, ()):
            votes[row] = next(iter(rights_of[problem]))
        elif text is not None and not trouble[row]:
            wrong_of.setdefault(problem, []).append(row)
    groups = [[str(votes[row]) for row in rows] for rows in wrong_of.values()]
    firsts = representatives(groups, lambda pairs: _equal(pairs, equivalent), magnitudes)
    for rows, first in zip(wrong_of.values(), firsts, strict=True):
        for row, text in zip(rows, first, strict=True):
            votes[row] = text
    return votes


def magnitudes(text: str) -> tuple[int, ...]:
    """Return keys of an answer: two answers that the verifier holds equal share one, or one of them has none.

    They are its value at fixed values of its letters, in steps far wider than any rounding, and the next step. What is compared by more
    than a value has none: units, percent, words, ratios, functions.
    """
    try:
        numbers = _numbers(read_text(text))
    except (NoValue, RecursionError):
        return ()
    low, high = min(numbers), max(numbers)  # the same in any order, and with items said twice
    step = math.floor((low if low == high else high + 7 * low) * _KEY_STEPS)
    return step, step + 1


def _numbers(node: Node) -> list[Fraction]:
    forms = value_forms(node, strict=True) if node.kind == "relation" and len(node.items) == 2 else ()
    if len(forms) == 1:
        return _numbers(forms[0])
    if node.kind in ("list", "set", "bracket") and node.items:
        return [number for item in node.items for number in _numbers(item)]
    is_more = node.unit or node.percent or node.modulus or node.items
    # Functions may be read in more ways than one; roots are not.
    if node.tree is None or is_more or calls(node.tree) - {"root"} or node.text.startswith((r"\emptyset", r"\mathbb")):
        raise NoValue
    number = value(node.tree, {name: Fraction(3 + sum(map(ord, name)) % 97, 7) for name in names_of(node.tree)})
    if not is_real(number) or not abs(number) < 10**30:
        raise NoValue
    return [number if isinstance(number, Fraction) else Fraction(str(number.real))]


def _equal(pairs: Sequence[tuple[str, str]], equivalent: Equivalence) -> list[bool]:
    """Compare pairs of answers, two integers as integers and all others in one call of the verifier."""
    integers = {pair: int(pair[0]) == int(pair[1]) for pair in pairs if all(map(_DIGITS.fullmatch, pair))}
    others = [pair for pair in pairs if pair not in integers]
    verdicts = integers | dict(zip(others, equivalent(others) if others else [], strict=True))
    return [verdicts[pair] for pair in pairs]


def require_ks(ks: Sequence[int], samples: int) -> None:
    """Raise `ConfigError` unless each k of Pass@k and Maj@k is one of 1 .. `samples`, those that each problem has."""
    if ks and not 1 <= min(ks) <= max(ks) <= samples:
        raise ConfigError(f"ks={list(ks)} must lie between 1 and the {samples} samples of a problem")


def result_of(samples: Samples, ks: Sequence[int] | None, length: str) -> dict[str, Any]:
    """Return scores, intervals and health as a JSON-ready mapping; a mean over nothing is None.

    `avg` counts lost samples as wrong, `avg_present` leaves them out, and with them the problems of which nothing is there.
    Truncated overlaps right and wrong in the distribution of `length`.
    """
    k_values = default_ks(samples.n) if ks is None else sorted(set(ks))
    require_ks(k_values, samples.n)
    try:
        reduction = reduce_samples(samples, k_values)
    except UnevenSamples as error:
        raise ConfigError(str(error)) from error
    means, verdicts = reduction.means, dict(sorted(reduction.verdicts.items()))
    return {
        "schema_version": SCHEMA_VERSION,
        "n_problems": samples.problems,
        "samples_per_problem": reduction.n,
        "n_samples": samples.problems * reduction.n,
        "avg": means[f"avg@{reduction.n}"],
        "avg_present": _present(samples),
        "pass_at": {str(k): means[f"pass@{k}"] for k in k_values},
        "maj_at": {str(k): means[f"maj@{k}"] for k in k_values},
        "intervals": {
            "method": INTERVAL_METHOD,
            "avg": _interval(reduction.avg_P),
            "pass_at": {str(k): _interval(reduction.scores[f"pass@{k}"]) for k in k_values},
            "maj_at": {str(k): _interval(reduction.scores[f"maj@{k}"]) for k in k_values},
        },
        "scores": means,
        "lost_samples": reduction.lost_samples,
        **{name: None if np.isnan(share) else share for name, share in reduction.shares.items()},
        length: reduction.lengths,
        "verifier": {
            "verdicts": verdicts,
            "trouble": sum(verdicts.get(name, 0) for name in TROUBLE),
        },
        "rules": dict(RULES),
    }


def _present(samples: Samples) -> float | None:
    """The mean over problems of the share of right answers among the samples that are there; None where all are lost."""
    there_P = np.bincount(samples.problem_R[~samples.lost_R], minlength=samples.problems)
    right_P = np.bincount(samples.problem_R[samples.right_R], minlength=samples.problems)
    known_P = there_P > 0
    return float((right_P[known_P] / there_P[known_P]).mean()) if known_P.any() else None


def graders_of(frame: pd.DataFrame) -> dict[str, float] | None:
    """Return the shares that both graders, only the verifier and only the second hold right; None where the second has no verdict."""
    second = second_codes(frame["second_correct"].tolist())
    shares = grader_shares(frame["correct"].to_numpy(dtype=bool), second)
    return None if np.isnan(shares["both"]) else shares


def graders_text(shares: Mapping[str, float]) -> str:
    """Write the shares of two graders in a line."""
    both, first, second = (f"{100 * shares[part]:.2f} %" for part in PARTS)
    return f"second grader: {both} right by both, {first} by the verifier only, {second} by the second only"


def _interval(score_P: np.ndarray) -> list[float] | None:
    interval = problems_interval(score_P)
    return None if interval is None else list(interval)
