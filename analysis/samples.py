"""Evaluations of a run as cells, one row of metrics per (evaluated step, response cap)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from harness.evaluation.metrics import names
from harness.evaluation.metrics.names import Metric
from harness.evaluation.result import code_samples
from harness.store import ResultStore

if TYPE_CHECKING:
    from harness.verify import MathVerifier

Floats = NDArray[np.float64]

SAMPLE_COLUMNS = (
    "problem_id", "max_response_tokens", "response_tokens", "finish_reason", "answer", "correct", "verdict", "entropy_sum_nats",
    "log_prob_sum", "second_correct",
)  # fmt: skip
_LENGTHS = ("mean", "p50", "p95")


@dataclass(frozen=True)
class RunCells:
    """Metrics of one run: ``rows`` one per (step, cap); ``problem_avg`` [problems] per (step, cap).

    ``problem_ids`` is the shared problem order; ``refusals`` one line per cell that cannot be scored.
    """

    rows: list[dict[str, Any]]
    problem_avg: dict[tuple[int, int], Floats]
    problem_ids: tuple[str, ...]
    refusals: list[str]


def run_cells(
    table: pa.Table,
    ks_of: Callable[[int, int], Collection[int]],
    equivalent: names.Equivalence | None,
) -> RunCells:
    """Reduce the samples of one run (columns ``step`` and ``SAMPLE_COLUMNS``) to cells.

    ``ks_of``: the k at a step, given the samples of the problem that has the most in one cell; where there is none k = n. ``equivalent``:
    the verifier's equality of pairs of answers, for votes; None: equal texts only.
    """
    frame = table.drop_columns(["second_correct"]).to_pandas(use_threads=False)  # for thousands of small tables
    run = code_samples(frame, "response_tokens", equivalent)
    second_R = table.column("second_correct").cast(pa.int8()).fill_null(names.NO_VERDICT).to_numpy()
    sums_R = [frame[name].to_numpy(dtype=np.float64) for name in ("entropy_sum_nats", "log_prob_sum")]
    step_R, cap_R = (frame[name].to_numpy() for name in ("step", "max_response_tokens"))
    pairs = sorted(itertools.product(*(pd.unique(values).tolist() for values in (step_R, cap_R))))
    places_of = {(step, cap): np.flatnonzero((step_R == step) & (cap_R == cap)) for step, cap in pairs}
    cells = {key: places for key, places in places_of.items() if len(places)}
    largest = max((int(np.bincount(run.problem_R[places]).max()) for places in cells.values()), default=0)
    result = RunCells([], {}, run.problem_ids, [])
    for (step, cap), places in cells.items():
        samples = run.take(places)
        ks = [k for k in ks_of(step, largest) if k <= samples.n] or [samples.n]
        try:
            reduction = names.reduce_samples(samples, ks)
        except names.UnevenSamples as error:
            result.refusals.append(f"step {step}, cap {cap}: {error}")
            continue
        result.problem_avg[step, cap] = reduction.avg_P
        row = {"step": step, "cap": cap, **_row(samples, reduction, *(float(each[places].sum()) for each in sums_R))}
        if (second_R[places] != names.NO_VERDICT).any():
            row |= _grader_row(samples, second_R[places])
        result.rows.append(row)
    return result


def _grader_row(samples: names.Samples, second_R: names.Codes) -> dict[str, float]:
    """Return the shares of two graders (``graders_...``), and the standard error over problems of what only the first holds right."""
    row = {f"graders_{name}": share for name, share in names.grader_shares(samples.right_R, second_R).items()}
    judged = second_R != names.NO_VERDICT
    only_first = judged & samples.right_R & (second_R == 0)
    judged_P, only_first_P = (
        np.bincount(samples.problem_R[mask], minlength=samples.problems) for mask in (judged, only_first)
    )
    share_P = only_first_P[judged_P > 0] / judged_P[judged_P > 0]
    spread = share_P.std(ddof=1) if len(share_P) > 1 else np.nan
    row["graders_error"] = float(spread / np.sqrt(len(share_P)))
    return row


def _row(samples: names.Samples, reduction: names.Reduction, entropy: float, log_prob: float) -> dict[str, Any]:
    tokens, means = int(samples.tokens_R.sum()), reduction.means
    return {
        "problems": samples.problems,
        "samples": reduction.n,
        "avg": means[f"avg@{reduction.n}"],
        **means,
        **reduction.shares,
        "lost_samples": reduction.lost_samples,
        "entropy_nats": entropy / tokens if tokens else np.nan,
        "token_probability": float(np.exp(log_prob / tokens)) if tokens else np.nan,
        **{f"tokens_{kind}_{name}": row[name] for kind, row in reduction.lengths.items() for name in _LENGTHS},
        **{f"verdict_{name}": count for name, count in reduction.verdicts.items()},
    }


# With a sign that lacks its left side an integer equals no other: the verifier cannot read it.
_SIGN, _BARE = re.compile(r"[*?]"), re.compile(r"[*?]?[0-9]+")


@contextmanager
def answer_equality() -> Iterator[names.Equivalence]:
    """Give the verifier's equality of pairs of answers, for votes. The verifier is loaded at the first pair that needs it."""
    with ExitStack() as stack:

        @cache
        def verifier() -> MathVerifier:
            from harness.verify import MathVerifier

            return stack.enter_context(MathVerifier())

        def equal(pairs: Sequence[tuple[str, str]]) -> list[bool]:
            others = [pair for pair in pairs if not (all(map(_BARE.fullmatch, pair)) and any(map(_SIGN.match, pair)))]
            verdicts = dict(zip(others, verifier().equivalent_many(others) if others else [], strict=True))
            return [verdicts.get(pair, pair[0] == pair[1]) for pair in pairs]

        yield equal


def reduce_run(
    store: ResultStore, run_id: str, benchmark: str, *, curves: bool, ks: Collection[Any], equality: names.Equivalence
) -> RunCells:
    """Reduce the samples of a run on one benchmark to cells. Raises `StoreError` where they cannot be read.

    ``curves``: every k of Pass@k and Maj@k that a figure draws, not n alone; ``ks``: those asked about beside them; ``equality``: of
    answers, by which votes are counted.
    """
    run = store.run(run_id)
    sample_steps = run.sample_steps(benchmark)

    def ks_of(step: int, largest: int) -> Collection[int]:
        if step in (sample_steps[0], sample_steps[-1]):  # before RL and the checkpoint
            return sorted({*(names.default_ks(largest) if curves else [largest]), *ks})
        return sorted({*ks, largest}) if ks and curves else ()  # a curve over training is drawn of what is asked

    tables = []
    for step in sample_steps:
        table = run.sample_table(benchmark, step, SAMPLE_COLUMNS, coded=True)
        tables.append(table.append_column("step", pa.repeat(step, len(table))))
    samples = pa.concat_tables(tables).unify_dictionaries()
    return run_cells(samples, ks_of, equality)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


# Metrics that every evaluation or checkpoint row has anyway; Pass@k and Maj@k are columns of their own name.
COLUMNS: Mapping[str, str] = {
    "avg": "avg",
    "length": "tokens_all_mean",
    "length_right": "tokens_right_mean",
    "length_wrong": "tokens_wrong_mean",
    "length_truncated": "tokens_truncated_mean",
    "truncated": "truncated_fraction",
    "no_answer": "no_answer_fraction",
    "entropy": "entropy_nats",
    "generated_tokens": "train_generated_tokens_total",
}
# What a metric needs of the step metrics.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "dead_groups": ("all_right_groups", "all_wrong_groups", "groups"),
    "seconds": ("seconds_total",),
}


def column_of(metric: Metric) -> str:
    """The column of ``Results.per_seed`` that holds a metric."""
    return COLUMNS.get(metric.kind, metric.name)


def is_evaluated(metric: Metric) -> bool:
    """Say whether every evaluation has a value of it, so that it has a curve over training."""
    return metric.kind in ("pass", "maj") or (metric.kind in COLUMNS and metric.kind != "generated_tokens")


def is_computed(metric: Metric) -> bool:
    """Say whether it is computed here, and not read off the row of the checkpoint."""
    return metric.kind in ("area", "seconds", "dead_groups", names.TRAINING)


def needed_columns(metric: Metric) -> tuple[str, ...]:
    """The columns of the step metrics that a computed metric is made of."""
    return (str(metric.parameter),) if metric.kind == names.TRAINING else _NEEDS.get(metric.kind, ())


def value_of(metric: Metric, cells: pd.DataFrame, steps: pd.DataFrame, checkpoint: int) -> float:
    """A metric (see `is_computed`) of one run in the stored unit, from its evaluations at one cap and step metrics up to the checkpoint.

    Both come in the order of their steps. NaN where the run has not logged what it needs.
    """
    step, score = (cells[name].to_numpy(dtype=np.float64) for name in ("step", "avg"))
    if metric.kind == "area":  # mean height of the accuracy curve, linear between evaluations
        return float(np.trapezoid(score, step) / np.ptp(step)) if len(step) > 1 else float("nan")
    if not len(steps) or any(column not in steps for column in needed_columns(metric)):
        return float("nan")
    if metric.kind == "seconds":  # NaN from the first step on whose time is not logged
        times = steps.assign(seconds=steps["seconds_total"].cumsum(skipna=False))
        return float(total_at(times, "seconds", [checkpoint])[0])
    past_steps = steps[steps["step"] <= checkpoint]
    if metric.kind == "dead_groups":
        return float(((past_steps["all_right_groups"] + past_steps["all_wrong_groups"]) / past_steps["groups"]).mean())
    return float(past_steps[str(metric.parameter)].mean())


def total_at(steps: pd.DataFrame, column: str, wanted_steps: ArrayLike) -> Floats:
    """A cumulative column at each wanted step of steps in ascending order; zero at step 0, NaN where the step is not logged."""
    wanted, logged = np.asarray(wanted_steps, dtype=np.int64), steps["step"].to_numpy()
    totals = np.append(
        steps[column].to_numpy(dtype=np.float64) if column in steps else np.full(len(steps), np.nan), np.nan
    )
    places = np.searchsorted(logged, wanted)
    is_logged = np.append(logged, -1)[places] == wanted
    return np.where(wanted == 0, 0.0, np.where(is_logged, totals[places], np.nan))
