"""Samples for the page: the same problems for every arm, and those that the two graders judge differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence.caveats import grader_gaps
from analysis.evidence.results import Results
from harness.evaluation.protocol import ProblemText, problem_texts
from harness.experiment.plan import Plan, PlannedArm
from harness.store import ResultStore, StoreError
from harness.store.run import RunDir

SAMPLES_PER_PROBLEM = 2
MAX_PROBLEMS = 64
MAX_CHARACTERS = 4000
COLUMNS = (
    "problem_id",
    "sample_index",
    "max_response_tokens",
    "response_tokens",
    "finish_reason",
    "answer",
    "correct",
    "verdict",
    "second_correct",
    "response",
)


def browser_data(
    results: Results, store_root: Path | str, byte_limit: int = 6_000_000, *, so_far: bool = False
) -> dict[str, Any]:
    """Return ``{"seed", "so_far", "problems": [{"id", "text", "gold", "rates", "samples": [[...] per arm]}]}``.

    Text and gold are null where the data are not on this machine. One seed that most arms finished; problems in
    falling order of disagreement between the arms; the first ``SAMPLES_PER_PROBLEM`` sample indices of each,
    never picked by content. Problems are dropped from the end until the text fits ``byte_limit``.

    With ``so_far`` an unfinished run shows its newest evaluation; ``so_far`` of the answer has that step for each arm,
    null for an arm whose run finished or has no evaluation.
    """
    plan, store = results.experiment.plan, ResultStore(store_root)

    def rank(seed: int) -> tuple[int, int]:
        """Most arms to show, then most that finished."""
        shown = sum(shown_step(results, arm, seed, so_far) is not None for arm in plan.arms)
        return shown, sum(seed in results.scores(arm, "avg") for arm in plan.arms)

    seed = max(plan.seeds, key=rank)  # the first of several that are equal
    steps = [shown_step(results, arm, seed, so_far) for arm in plan.arms]
    of_arms = list(zip(plan.arms, steps, strict=True))
    open_steps = [None if seed in results.scores(arm, "avg") else step for arm, step in of_arms]
    keys = [(arm.runs.get(seed, ""), step or 0, plan.primary_cap) for arm, step in of_arms]
    problem_avg, problem_ids = results.experiment.problem_avg, results.experiment.problem_ids
    rates = [None if step is None else problem_avg.get(key) for key, step in zip(keys, steps, strict=True)]
    shown = [rate for rate in rates if rate is not None]
    if not shown or not problem_ids:
        return {"seed": seed, "so_far": open_steps, "problems": []}
    order = np.argsort(-np.ptp(np.array(shown), axis=0), kind="stable")[:MAX_PROBLEMS]
    # The samples of a foreign run were never here; what the first arm was asked, all were asked.
    samples = [
        {} if rate is None else _samples(_evaluation(store.run(run_id), plan, step))
        for rate, (run_id, step, _) in zip(rates, keys, strict=True)
    ]
    first = next(key[0] for key, step in zip(keys, steps, strict=True) if step is not None)
    try:
        texts = problem_texts(store.run(first), plan.benchmark)
    except StoreError:
        texts = {}
    problems, size = [], 0
    for index in order:
        name = problem_ids[index]
        problem = {
            "id": name,
            "text": _cut(texts[name].prompt) if name in texts else None,
            "gold": texts[name].gold if name in texts else None,
            "rates": [None if rate is None else round(float(rate[index]), 4) for rate in rates],
            "samples": [shown_samples.get(name, []) for shown_samples in samples],
        }
        size += len(str(problem).encode())
        if size > byte_limit:
            break
        problems.append(problem)
    return {"seed": seed, "so_far": open_steps, "problems": problems}


def shown_step(results: Results, arm: PlannedArm, seed: int, so_far: bool) -> int | None:
    """The step to show of a run: of a finished one its checkpoint, else with ``so_far`` its newest evaluation."""
    plan, frame = results.experiment.plan, results.per_seed
    rows = frame[(frame["arm"] == arm.name) & (frame["seed"] == seed) & (frame["cap"] == plan.primary_cap)]
    if len(rows):
        return int(rows["checkpoint"].iloc[0])
    key = (arm.runs.get(seed) if so_far else None, plan.primary_cap)
    return max((step for run, step, cap in results.experiment.problem_avg if (run, cap) == key), default=None)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} … [{len(text)} characters]"


def _evaluation(run: RunDir, plan: Plan, step: int) -> pd.DataFrame:
    """The samples of a run at one step and the plan's cap, by problem and index."""
    table = run.samples(plan.benchmark, step, COLUMNS)
    return table[table["max_response_tokens"] == plan.primary_cap].sort_values(["problem_id", "sample_index"])


def _samples(table: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The first samples of each problem, as the page shows them."""
    shown: dict[str, list[dict[str, Any]]] = {}
    for row in table[table["sample_index"] < SAMPLES_PER_PROBLEM].to_dict("records"):
        shown.setdefault(str(row["problem_id"]), []).append(
            {
                "right": bool(row["correct"]),
                "verdict": str(row["verdict"]),
                "answer": row["answer"] if isinstance(row["answer"], str) else None,
                "tokens": int(row["response_tokens"]),
                "truncated": row["finish_reason"] == "length",
                "text": _cut(str(row["response"])),
            }
        )
    return shown


HEADER = ("right by", "arm", "problem", "gold", "answer that the verifier read", "end of the response")
_OF_EACH = 4
_SHOWN_CHARACTERS = 300


def parting_samples(results: Results, store_root: Path | str) -> list[tuple[str, ...]]:
    """Return rows of `HEADER`: some samples that only the verifier holds right, then some that only the second grader does.

    Of the seed that the browser of samples shows, at each arm's checkpoint: the first in the order of problem and sample, one of each
    arm in turn.
    """
    plan = results.experiment.plan
    gaps = grader_gaps(results)
    if not any(gap.only_first or gap.only_second for gap in gaps.values()):
        return []
    seed = max(plan.seeds, key=lambda seed: sum(seed in results.scores(arm, "avg") for arm in plan.arms))
    frames, texts = list[pd.DataFrame](), dict[str, ProblemText]()
    for arm in plan.arms:
        step = shown_step(results, arm, seed, False)
        if step is None or arm.name not in gaps:
            continue
        run = ResultStore(store_root).run(arm.runs[seed])
        table = _evaluation(run, plan, step)
        frames.append(table[table["second_correct"].notna()].assign(arm=arm.label))
        texts = texts or problem_texts(run, plan.benchmark)
    if not frames:
        return []
    rows: list[tuple[str, ...]] = []
    for name, first in (("the verifier only", True), ("the second grader only", False)):
        parting = [
            frame[(frame["correct"] == first) & (frame["second_correct"] != first)] for frame in frames
        ]
        placed = pd.concat([frame.assign(place=range(len(frame))) for frame in parting])
        in_turn = placed.sort_values("place", kind="stable")  # the first of each arm before the second of any
        for row in in_turn.head(_OF_EACH).to_dict("records"):
            text = texts.get(row["problem_id"])
            asked, gold = ("", "") if text is None else (text.prompt[-_SHOWN_CHARACTERS:], text.gold)
            answer = row["answer"] if isinstance(row["answer"], str) else "none"
            end = row["response"][-_SHOWN_CHARACTERS:]
            rows.append((name, row["arm"], asked or row["problem_id"], gold, answer, end))
    return rows
