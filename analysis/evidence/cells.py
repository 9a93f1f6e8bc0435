"""Samples of a run reduced to cells: one row of metrics per (evaluated step, response cap)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from analysis.evidence.metric_values import AVG_BY_SECOND
from harness.evaluation.metrics.exact import UnevenSamples
from harness.evaluation.metrics.names import BY_SECOND
from harness.evaluation.metrics.summary import (
    NO_VERDICT,
    Codes,
    Reduction,
    Samples,
    grader_shares,
    reduce_samples,
)
from harness.evaluation.metrics.votes import Equivalence
from harness.evaluation.result import code_samples

Floats = NDArray[np.float64]

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
    """The samples of all evaluations of a run: as arrays, and one row a sample of what else a cell is made of."""

    samples: Samples
    rows: pd.DataFrame  # step, cap, entropy, log_prob, second

    @property
    def largest(self) -> int:
        """Samples of the problem that has the most in one evaluation at one cap."""
        counts = self.rows.groupby(["step", "cap", self.samples.problem_R]).size()
        return int(counts.max()) if len(counts) else 0


def run_samples(table: pa.Table | pd.DataFrame, equivalent: Equivalence | None = None) -> RunSamples:
    """Code the samples of one run (columns ``step`` and ``SAMPLE_COLUMNS``).

    ``equivalent``: the verifier's equality of pairs of answers, for votes; None: equal texts only.
    """
    table = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    frame = table.drop_columns(["second_correct"]).to_pandas()
    rows = {
        "step": frame["step"].to_numpy(dtype=np.int64),
        "cap": frame["max_response_tokens"].to_numpy(dtype=np.int64),
        "entropy": frame["entropy_sum_nats"].to_numpy(dtype=np.float64),
        "log_prob": frame["log_prob_sum"].to_numpy(dtype=np.float64),
        "second": table.column("second_correct").cast(pa.int8()).fill_null(NO_VERDICT).to_numpy(),
    }
    return RunSamples(code_samples(frame, "response_tokens", equivalent), pd.DataFrame(rows))


def run_cells(
    run: RunSamples, ks_by_step: Mapping[int, Sequence[int]] | None = None, *, by_second: bool = False
) -> RunCells:
    """Reduce the samples of one run to cells, with k values by step; steps not named get k = n only.

    With ``by_second`` every metric by the second grader too, not avg alone.
    """
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    averages: dict[tuple[int, int], Floats] = {}
    problem_ids = run.samples.problem_ids
    key: Any
    for key, places in run.rows.groupby(["step", "cap"]).indices.items():
        step, cap = key
        samples, part = run.samples.take(places), run.rows.iloc[places]
        ks = [k for k in (ks_by_step or {}).get(step, ()) if k <= samples.n] or [samples.n]
        try:
            reduced = reduce_samples(samples, ks)
        except UnevenSamples as error:
            refused.append(f"step {step}, cap {cap}: {error}")
            continue
        averages[step, cap] = reduced.avg_P
        row = {"step": step, "cap": cap, **_row(samples, reduced, part)}
        row |= {
            f"{KIND}{kind}": float(reduced.avg_P[of].mean())
            for kind, of in problem_kinds(problem_ids).items()
        }
        second_R = part["second"].to_numpy()
        if (second_R != NO_VERDICT).any():
            row |= _graders(samples, second_R, ks if by_second else ())
        rows.append(row)
    return RunCells(tuple(rows), averages, problem_ids, tuple(refused))


def problem_kinds(problem_ids: Sequence[str]) -> dict[str, list[int]]:
    """Return the problems of each kind, which stands in the middle of ids such as `heldout/sum/0`; nothing where there are not several."""
    parts = [name.split("/") for name in problem_ids]
    kinds = {part[1] for part in parts if len(part) == 3}
    if len(kinds) < 2 or any(len(part) != 3 for part in parts):
        return {}
    return {kind: [place for place, part in enumerate(parts) if part[1] == kind] for kind in sorted(kinds)}


def _graders(samples: Samples, second_R: Codes, ks: Sequence[int]) -> dict[str, float]:
    """Return the shares of two graders (``graders_...``) and metrics by the second: avg, and with ``ks`` all that a grader decides."""
    found = {f"graders_{name}": share for name, share in grader_shares(samples.right_R, second_R).items()}
    judged = second_R != NO_VERDICT
    only_first = judged & samples.right_R & (second_R == 0)
    judged_P, only_first_P = (
        np.bincount(samples.problem_R[of], minlength=samples.problems) for of in (judged, only_first)
    )
    share_P = only_first_P[judged_P > 0] / judged_P[judged_P > 0]
    spread = share_P.std(ddof=1) if len(share_P) > 1 else np.nan
    found["graders_error"] = float(spread / np.sqrt(len(share_P)))
    right_R = (second_R == 1) & ~samples.lost_R
    found[AVG_BY_SECOND] = float(right_R.mean())
    if ks:
        # What it holds right is one class of answers; the other votes are the first grader's readings.
        class_R = np.where(right_R, samples.class_R.max(initial=0) + 1, samples.class_R)
        theirs = replace(samples, right_R=right_R, class_R=class_R)
        reduced = reduce_samples(theirs, ks)
        found |= {f"{name}{BY_SECOND}": value for name, value in reduced.means.items()}
        for outcome in ("right", "wrong"):
            value = reduced.lengths[outcome]["mean"]
            found[f"tokens_{outcome}_mean{BY_SECOND}"] = np.nan if value is None else value
    return found


def _row(samples: Samples, reduced: Reduction, part: pd.DataFrame) -> dict[str, Any]:
    tokens, means = int(samples.tokens_R.sum()), reduced.means
    row: dict[str, Any] = {
        "problems": samples.problems,
        "samples": reduced.n,
        "avg": means[f"avg@{reduced.n}"],
        **means,
        **reduced.shares,
        "lost_samples": reduced.lost,
        "entropy_nats": float(part["entropy"].to_numpy().sum()) / tokens if tokens else np.nan,
        "token_probability": float(np.exp(part["log_prob"].to_numpy().sum() / tokens)) if tokens else np.nan,
    }
    for outcome, length in reduced.lengths.items():
        for statistic in ("mean", "p50", "p95"):
            value = length[statistic]
            row[f"tokens_{outcome}_{statistic}"] = np.nan if value is None else value
    return row | {f"verdict_{name}": count for name, count in reduced.verdicts.items()}
