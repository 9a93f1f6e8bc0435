"""Samples of a run reduced to cells: one row of metrics per (evaluated step, response cap)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from analysis.evidence.metric_values import AVG_BY_SECOND
from harness.evaluation.metrics.exact import UnevenSamples
from harness.evaluation.metrics.graders import NO_VERDICT, Codes, shares
from harness.evaluation.metrics.names import BY_SECOND
from harness.evaluation.metrics.summary import Samples, length_by_outcome, problem_scores
from harness.evaluation.metrics.votes import NO_ANSWER
from harness.evaluation.result import voting_answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")

SAMPLE_COLUMNS = (
    "problem_id",
    "max_response_tokens",
    "response_tokens",
    "finish_reason",
    "answer",
    "correct",
    "verdict",
    "entropy_sum_nats",
    "log_prob_sum",
    "second_correct",
)
KIND = "avg_of_"  # a column for the problems of each kind
_VOTE_COLUMNS = ["problem_id", "answer", "correct", "verdict"]


@dataclass(frozen=True)
class RunCells:
    """Metrics of one run: ``rows`` one per (step, cap); ``problem_avg`` [problems] per (step, cap).

    ``problem_ids`` is the shared problem order; ``refused`` one line per cell that cannot be scored.
    """

    rows: tuple[Mapping[str, Any], ...]
    problem_avg: dict[tuple[int, int], Floats]
    problem_ids: tuple[str, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True)
class RunSamples:
    """The samples of all evaluations of a run, one row a sample; what their codes stand for beside them."""

    rows: pd.DataFrame
    problem_ids: tuple[str, ...]
    verdict_names: tuple[str, ...]

    @property
    def largest(self) -> int:
        """Samples of the problem that has the most in one evaluation at one cap."""
        return int(self.rows.groupby(["step", "cap", "problem"]).size().max()) if len(self.rows) else 0


def run_samples(
    samples: pa.Table | pd.DataFrame, equivalent: Callable[[str, str], bool] | None = None
) -> RunSamples:
    """Code the samples of one run (columns ``step`` and ``SAMPLE_COLUMNS``).

    ``equivalent``: the verifier's equality of two answers, for votes; None: equal texts only.
    """
    table = samples if isinstance(samples, pa.Table) else pa.Table.from_pandas(samples, preserve_index=False)
    problem, problems = _codes(table, "problem_id")
    verdict, verdicts = _codes(table, "verdict")
    reason, reasons = _codes(table, "finish_reason")
    columns = {
        "step": _numbers(table, "step", np.int64),
        "cap": _numbers(table, "max_response_tokens", np.int64),
        "problem": problem,
        "class": _votes(table, problem, equivalent),  # missing answers get -1
        "verdict": verdict,
        "right": _numbers(table, "correct", np.bool_),
        "tokens": _numbers(table, "response_tokens", np.int64),
        "truncated": np.array([name == "length" for name in reasons], dtype=bool)[reason],
        "lost": np.array([name not in ("stop", "length") for name in reasons], dtype=bool)[reason],
        "entropy": _numbers(table, "entropy_sum_nats", np.float64),
        "log_prob": _numbers(table, "log_prob_sum", np.float64),
        "second": table.column("second_correct").cast(pa.int8()).fill_null(NO_VERDICT).to_numpy(),
    }
    return RunSamples(pd.DataFrame(columns), tuple(problems), tuple(verdicts))


def run_cells(
    samples: RunSamples, ks_by_step: Mapping[int, Sequence[int]] | None = None, *, by_second: bool = False
) -> RunCells:
    """Reduce the samples of one run to cells, with k values by step; steps not named get k = n only.

    With ``by_second`` every metric by the second grader too, not avg alone.
    """
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    averages: dict[tuple[int, int], Floats] = {}
    key: Any
    for key, frame in samples.rows.groupby(["step", "cap"]):
        step, cap = key
        part = {str(name): values.to_numpy() for name, values in frame.items()}
        try:
            cell = _samples(part, len(samples.problem_ids), samples.verdict_names)
        except UnevenSamples as error:
            refused.append(f"step {step}, cap {cap}: {error}")
            continue
        ks = [k for k in (ks_by_step or {}).get(step, ()) if k <= cell.n] or [cell.n]
        scores = problem_scores(cell, ks)
        averages[step, cap] = scores[f"avg@{cell.n}"]
        rows.append({"step": step, "cap": cap, **_row(cell, scores, part["entropy"], part["log_prob"])})
        rows[-1] |= {
            f"{KIND}{kind}": float(averages[step, cap][of].mean())
            for kind, of in problem_kinds(samples.problem_ids).items()
        }
        if (part["second"] != NO_VERDICT).any():
            rows[-1] |= _graders(cell, part["second"], ks if by_second else ())
    return RunCells(tuple(rows), averages, samples.problem_ids, tuple(refused))


def problem_kinds(problem_ids: Sequence[str]) -> dict[str, list[int]]:
    """Return the problems of each kind, which stands in the middle of ids such as `heldout/sum/0`; nothing where there are not several."""
    parts = [name.split("/") for name in problem_ids]
    kinds = {part[1] for part in parts if len(part) == 3}
    if len(kinds) < 2 or any(len(part) != 3 for part in parts):
        return {}
    return {kind: [place for place, part in enumerate(parts) if part[1] == kind] for kind in sorted(kinds)}


def _codes(table: pa.Table, name: str) -> tuple[Ints, list[str]]:
    """Codes of a text column and the texts that occur, sorted; a missing text gets -1."""
    column = table.column(name).to_pandas().astype("category").cat.remove_unused_categories()
    texts = sorted(column.cat.categories)
    return column.cat.reorder_categories(texts).cat.codes.to_numpy(dtype=np.int64), texts


def _numbers(table: pa.Table, name: str, kind: type[np.generic]) -> NDArray[Any]:
    return table.column(name).to_numpy().astype(kind)


def _votes(table: pa.Table, problem_R: Ints, equivalent: Callable[[str, str], bool] | None) -> Ints:
    """The class of answers each sample votes for; equal texts are equal votes, and where a problem has integers only that is all."""
    class_R, texts = _codes(table, "answer")
    if equivalent is None:
        return class_R
    algebra = np.array([*(_INTEGER.fullmatch(text) is None for text in texts), False])  # the last: no answer
    asked_P = np.zeros(int(problem_R.max(initial=0)) + 1, dtype=bool)
    asked_P[problem_R[algebra[class_R]]] = True
    rows = np.flatnonzero(asked_P[problem_R])
    if len(rows):
        columns = table.select(_VOTE_COLUMNS).take(pa.array(rows))
        frame = pd.DataFrame({name: columns.column(name).to_pylist() for name in _VOTE_COLUMNS})
        code = {text: number for number, text in enumerate(texts)}
        class_R[rows] = [
            NO_ANSWER if text is None else code[text] for text in voting_answers(frame, equivalent)
        ]
    return class_R


def _samples(part: dict[str, NDArray[Any]], problems: int, verdict_names: tuple[str, ...]) -> Samples:
    counts = np.bincount(part["problem"], minlength=problems)
    return Samples(
        problems=problems,
        n=int(counts.max(initial=0)),
        problem_R=part["problem"],
        right_R=part["right"],
        class_R=np.where(part["lost"], NO_ANSWER, part["class"]),
        tokens_R=part["tokens"],
        truncated_R=part["truncated"],
        lost_R=part["lost"],
        verdict_R=part["verdict"],
        verdict_names=verdict_names,
    )


def _graders(cell: Samples, second_R: Codes, ks: Sequence[int]) -> dict[str, float]:
    """Return the shares of two graders (``graders_...``) and metrics by the second: avg, and with ``ks`` all that a grader decides."""
    found = {f"graders_{name}": share for name, share in shares(cell.right_R, second_R).items()}
    judged = second_R != NO_VERDICT
    only_first = judged & cell.right_R & (second_R == 0)
    judged_P, only_first_P = (
        np.bincount(cell.problem_R[of], minlength=cell.problems) for of in (judged, only_first)
    )
    share_P = only_first_P[judged_P > 0] / judged_P[judged_P > 0]
    spread = share_P.std(ddof=1) if len(share_P) > 1 else np.nan
    found["graders_error"] = float(spread / np.sqrt(len(share_P)))
    right_R = (second_R == 1) & ~cell.lost_R
    found[AVG_BY_SECOND] = float(right_R.mean())
    if ks:
        # What it holds right is one class of answers; the other votes are the first grader's readings.
        class_R = np.where(right_R, cell.class_R.max(initial=0) + 1, cell.class_R)
        theirs = replace(cell, right_R=right_R, class_R=class_R)
        scores = problem_scores(theirs, ks)
        found |= {f"{name}{BY_SECOND}": float(values.mean()) for name, values in scores.items()}
        for outcome in ("right", "wrong"):
            value = length_by_outcome(theirs)[outcome]["mean"]
            found[f"tokens_{outcome}_mean{BY_SECOND}"] = np.nan if value is None else value
    return found


def _row(cell: Samples, scores: dict[str, Floats], entropy_R: Floats, log_prob_R: Floats) -> dict[str, Any]:
    finished = ~cell.truncated_R & ~cell.lost_R
    tokens = int(cell.tokens_R.sum())
    row: dict[str, Any] = {
        "problems": cell.problems,
        "samples": cell.n,
        "avg": float(scores[f"avg@{cell.n}"].mean()),
        **{name: float(values.mean()) for name, values in scores.items()},
        "truncated_fraction": float(cell.truncated_R.mean()),
        "truncated_right_fraction": float((cell.truncated_R & cell.right_R).mean()),
        "accuracy_finished": float(cell.right_R[finished].mean()) if finished.any() else np.nan,
        "no_answer_fraction": float((cell.class_R == NO_ANSWER).mean()),
        "lost_samples": int(cell.lost_R.sum()),
        "entropy_nats": float(entropy_R.sum()) / tokens if tokens else np.nan,
        "token_probability": float(np.exp(log_prob_R.sum() / tokens)) if tokens else np.nan,
    }
    for outcome, length in length_by_outcome(cell).items():
        for statistic in ("mean", "p50", "p95"):
            value = length[statistic]
            row[f"tokens_{outcome}_{statistic}"] = np.nan if value is None else value
    counts = np.bincount(cell.verdict_R, minlength=len(cell.verdict_names))
    for name, count in zip(cell.verdict_names, counts, strict=True):
        row[f"verdict_{name}"] = int(count)
    return row
