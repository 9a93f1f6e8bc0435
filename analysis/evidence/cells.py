"""Samples of a run reduced to cells: one row of metrics per (evaluated step, response cap)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.evaluation.metrics.exact import UnevenSamples
from harness.evaluation.metrics.summary import Samples, default_ks, length_by_outcome, problem_scores
from harness.evaluation.metrics.votes import NO_ANSWER
from harness.evaluation.result import voting_answers

Floats = NDArray[np.float64]

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
)


@dataclass(frozen=True)
class RunCells:
    """Metrics of one run: ``frame`` one row per (step, cap); ``problem_avg`` [problems] per (step, cap).

    ``problem_ids`` is the shared problem order; ``refused`` one line per cell that cannot be scored.
    """

    frame: pd.DataFrame
    problem_avg: dict[tuple[int, int], Floats]
    problem_ids: tuple[str, ...]
    refused: tuple[str, ...]


def run_cells(
    samples: pd.DataFrame,
    ks_by_step: dict[int, Sequence[int]] | None = None,
    equivalent: Callable[[str, str], bool] | None = None,
) -> RunCells:
    """Reduce the samples of one run (columns ``step`` and ``SAMPLE_COLUMNS``) to cells.

    Args:
        samples: rows of all evaluated steps.
        ks_by_step: k values per step; steps not named get k = n only (k-curves are wanted at few steps).
        equivalent: the verifier's equality of two answers, for votes; None: equal texts only.
    """
    problem_codes, problems = pd.factorize(samples["problem_id"], sort=True)
    verdict_codes, verdicts = pd.factorize(samples["verdict"], sort=True)
    columns = {
        "problem": problem_codes.astype(np.int64),
        "class": pd.factorize(_votes(samples, equivalent))[0].astype(np.int64),  # missing answers get -1
        "verdict": verdict_codes.astype(np.int64),
        "right": samples["correct"].to_numpy(dtype=bool),
        "tokens": samples["response_tokens"].to_numpy(dtype=np.int64),
        "truncated": (samples["finish_reason"] == "length").to_numpy(dtype=bool),
        "lost": (~samples["finish_reason"].isin(["stop", "length"])).to_numpy(dtype=bool),
        "entropy": samples["entropy_sum_nats"].to_numpy(dtype=np.float64),
        "log_prob": samples["log_prob_sum"].to_numpy(dtype=np.float64),
    }
    step = samples["step"].to_numpy(dtype=np.int64)
    cap = samples["max_response_tokens"].to_numpy(dtype=np.int64)
    names = tuple(str(name) for name in verdicts)
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    averages: dict[tuple[int, int], Floats] = {}
    for key in sorted(set(zip(step.tolist(), cap.tolist(), strict=True))):
        mask = (step == key[0]) & (cap == key[1])
        part = {name: values[mask] for name, values in columns.items()}
        try:
            cell = _samples(part, len(problems), names)
        except UnevenSamples as error:
            refused.append(f"step {key[0]}, cap {key[1]}: {error}")
            continue
        ks = [k for k in (ks_by_step or {}).get(key[0], ()) if k <= cell.n] or [cell.n]
        scores = problem_scores(cell, ks)
        averages[key] = scores[f"avg@{cell.n}"]
        rows.append({"step": key[0], "cap": key[1], **_row(cell, scores, part["entropy"], part["log_prob"])})
    return RunCells(
        pd.DataFrame.from_records(rows), averages, tuple(str(p) for p in problems), tuple(refused)
    )


def _votes(samples: pd.DataFrame, equivalent: Callable[[str, str], bool] | None) -> pd.Series[Any]:
    """What each sample votes for; equal texts are equal votes, and where all answers of a problem are integers that is all."""
    answers = samples["answer"]
    if equivalent is None:
        return answers
    codes, texts = pd.factorize(answers)
    plain = np.array([*(_INTEGER.fullmatch(text) is not None for text in texts), True])  # the last: no answer
    rows = samples["problem_id"].isin(samples["problem_id"][~plain[codes]].unique()).to_numpy()
    if rows.any():
        answers = answers.copy()
        answers[rows] = voting_answers(samples[rows], equivalent)
    return answers


def k_curve(n: int) -> list[int]:
    """The k of Pass@k and Maj@k curves: powers of two up to n."""
    return default_ks(n)


def table_ks(n: int) -> list[int]:
    """The k worth a column: n/4 (Pass@k needs n >= 2k to be smooth) and n itself."""
    return sorted({k for k in (n // 4, n) if k >= 2 and (k & (k - 1) == 0 or k == n)})


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
