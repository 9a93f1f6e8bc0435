"""Samples for the browser: the same problems and sample indices for every arm, within a size limit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis.evidence.results import Results
from analysis.evidence.stored_plan import StoredArm
from harness.evaluation.problem_texts import ProblemText, problem_texts
from harness.store import ResultStore, StoreError

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
    plan = results.experiment.plan
    seed = _seed(results, so_far)
    steps = {arm.name: _step(results, arm, seed, so_far) for arm in plan.arms}
    open_steps = [None if seed in results.scores(arm, "avg") else steps[arm.name] for arm in plan.arms]
    rates = [_rates(results, arm, seed, steps[arm.name]) for arm in plan.arms]
    problem_ids = results.experiment.problem_ids
    shown = [rate for rate in rates if rate is not None]
    if not shown or not problem_ids:
        return {"seed": seed, "so_far": open_steps, "problems": []}
    order = np.argsort(-np.ptp(np.array(shown), axis=0), kind="stable")[:MAX_PROBLEMS]
    samples = [_samples(results, arm, seed, steps[arm.name], store_root) for arm in plan.arms]
    texts = _texts(results, seed, steps, store_root)
    problems, size = [], 0
    for index in order:
        name = problem_ids[index]
        problem = {
            "id": name,
            "text": _cut(texts[name].prompt) if name in texts else None,
            "gold": texts[name].gold if name in texts else None,
            "rates": [None if rate is None else round(float(rate[index]), 4) for rate in rates],
            "samples": [found.get(name, []) for found in samples],
        }
        size += len(str(problem).encode())
        if size > byte_limit:
            break
        problems.append(problem)
    return {"seed": seed, "so_far": open_steps, "problems": problems}


def _seed(results: Results, so_far: bool) -> int:
    """The seed with most arms to show, then with most that finished; the first of several."""
    plan = results.experiment.plan

    def rank(seed: int) -> tuple[int, int]:
        shown = sum(_step(results, arm, seed, so_far) is not None for arm in plan.arms)
        return shown, sum(seed in results.scores(arm, "avg") for arm in plan.arms)

    return max(plan.seeds, key=rank)  # the first of several that are equal


def _step(results: Results, arm: StoredArm, seed: int, so_far: bool) -> int | None:
    """The step to show of a run: of a finished one its checkpoint, else with ``so_far`` its newest evaluation."""
    plan, frame = results.experiment.plan, results.per_seed
    rows = frame[(frame["arm"] == arm.name) & (frame["seed"] == seed) & (frame["cap"] == plan.primary_cap)]
    if len(rows):
        return int(rows["steps"].iloc[0][-1])
    key = (arm.runs.get(seed) if so_far else None, plan.primary_cap)
    return max((step for run, step, cap in results.experiment.problem_avg if (run, cap) == key), default=None)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} … [{len(text)} characters]"


def _texts(
    results: Results, seed: int, steps: Mapping[str, int | None], store_root: Path | str
) -> dict[str, ProblemText]:
    """What the first arm with this seed was asked; all arms were asked the same."""
    store, plan = ResultStore(store_root), results.experiment.plan
    for arm in plan.arms:
        if steps[arm.name] is not None:
            try:
                return problem_texts(store.run(arm.runs[seed]), plan.benchmark)
            except StoreError:
                return {}
    return {}


def _rates(results: Results, arm: StoredArm, seed: int, step: int | None) -> Any:
    """Look up how often each problem was solved; None where the run was not evaluated there."""
    if step is None:
        return None
    return results.experiment.problem_avg.get((arm.runs[seed], step, results.experiment.plan.primary_cap))


def _samples(
    results: Results, arm: StoredArm, seed: int, step: int | None, store_root: Path | str
) -> dict[str, list[dict[str, Any]]]:
    plan = results.experiment.plan
    if step is None or _rates(results, arm, seed, step) is None:
        return {}  # a foreign run: its samples were never here
    table = ResultStore(store_root).run(arm.runs[seed]).samples(plan.benchmark, step, COLUMNS)
    table = table[
        (table["max_response_tokens"] == plan.primary_cap) & (table["sample_index"] < SAMPLES_PER_PROBLEM)
    ].sort_values(["problem_id", "sample_index"])
    found: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_dict("records"):
        found.setdefault(str(row["problem_id"]), []).append(
            {
                "right": bool(row["correct"]),
                "verdict": str(row["verdict"]),
                "answer": row["answer"] if isinstance(row["answer"], str) else None,
                "tokens": int(row["response_tokens"]),
                "truncated": row["finish_reason"] == "length",
                "text": _cut(str(row["response"])),
            }
        )
    return found
