"""The part of the page with samples that the two graders judge differently."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.evidence.graders import grader_gaps
from analysis.evidence.results import Results
from analysis.html.samples import shown_step
from harness.evaluation.problem_texts import ProblemText, problem_texts
from harness.store import ResultStore

HEADER = ("right by", "arm", "problem", "gold", "answer that the verifier read", "end of the response")
_OF_EACH = 4
_SHOWN_CHARACTERS = 300
_COLUMNS = (
    "problem_id", "sample_index", "max_response_tokens", "answer", "correct", "second_correct", "response",
)  # fmt: skip


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
        table = run.samples(plan.benchmark, step, _COLUMNS)
        table = table[(table["max_response_tokens"] == plan.primary_cap) & table["second_correct"].notna()]
        frames.append(table.sort_values(["problem_id", "sample_index"]).assign(arm=arm.label))
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
            said = row["answer"] if isinstance(row["answer"], str) else "none"
            end = row["response"][-_SHOWN_CHARACTERS:]
            rows.append((name, row["arm"], asked or row["problem_id"], gold, said, end))
    return rows
