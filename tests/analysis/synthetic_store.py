"""A synthetic experiment in a real result store."""

from __future__ import annotations

import functools
import json
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from stored_runs import created

from analysis.frames import load_experiment
from analysis.results import Results, results_of
from harness.store import ResultStore, RunDir

RUNGS = [
    ("ladder_0_naive_grpo", "naive GRPO", 0.50, 30.0),
    ("ladder_1_overlong_filtering", "+ overlong filtering", 0.47, 36.0),
    ("ladder_2_clip_higher", "+ clip-higher", 0.52, 38.0),
    ("ladder_3_dynamic_sampling", "+ dynamic sampling_& refill", 0.70, 50.0),
]


# For tests of what the last evaluation says: two steps, one cap.
SHORT = {"problems": 40, "steps": 2, "evaluate": (0, 2), "caps": (32,)}


def make_samples(rng, accuracy, problems, n, cap):
    rows = problems * n
    difficulty = np.clip(accuracy + 0.35 * np.sin(np.arange(problems)), 0.02, 0.98)
    right = rng.random((problems, n)) < difficulty[:, None]
    wrong = rng.integers(1, 6, (problems, n))
    answer = np.where(right, 0, wrong).ravel()
    tokens = rng.integers(3, cap + 1, rows)
    truncated = (tokens == cap) & ~right.ravel()
    answers = [None if cut else str(a) for a, cut in zip(answer, truncated, strict=True)]
    verdict = np.where(right.ravel(), "right", np.where(truncated, "no_answer", "wrong"))
    return pd.DataFrame(
        {
            "problem_id": np.repeat([f"p{i:04d}" for i in range(problems)], n),
            "sample_index": np.tile(np.arange(n), problems),
            "sampling_seed": np.arange(rows, dtype=np.uint64),
            "max_response_tokens": cap,
            "response_tokens": tokens,
            "finish_reason": np.where(truncated, "length", "stop"),
            "answer": answers,
            "correct": right.ravel(),
            "verdict": verdict,
            "method": "integer",
            "entropy_sum_nats": tokens * rng.uniform(0.1, 0.3, rows),
            "log_prob_sum": -tokens * 0.2,
            "response": [f"7+8=5,<b>{i}</b>#{a}$" for i, a in enumerate(answers)],
        }
    )


def step_row(rng, step, last, accuracy):
    progress = step / last
    tokens = 3000 + int(200 * rng.random())
    return {
        "step": step,
        "updates": step * 16,
        "attempt": 0,
        "reward_mean": 2 * accuracy * progress - 1,
        "accuracy_mean": 0.3 + (accuracy - 0.3) * progress + rng.normal(0, 0.02),
        "entropy_nats": 0.3 * np.exp(-2 * progress) + rng.normal(0, 0.005),
        "response_tokens_mean": 12 + rng.normal(),
        "response_tokens_mean_right": 10 + rng.normal(),
        "response_tokens_mean_wrong": 14 + rng.normal(),
        "response_tokens_mean_truncated": 32.0 if progress < 0.8 else None,
        "truncated_fraction": max(0.12 * (1 - progress) + rng.normal(0, 0.01), 0),
        "clip_fraction_low": 0.015 + rng.normal(0, 0.001),
        "clip_fraction_high": 0.008 + rng.normal(0, 0.001),
        "up_clipped_old_probability_mean": 0.45 + rng.normal(0, 0.03),
        "gradient_norm": 0.6 + rng.normal(0, 0.05),
        "groups": 32,
        "all_right_groups": 14 * progress + rng.random(),
        "all_wrong_groups": 6 * (1 - progress) + rng.random(),
        "kept_groups": 20,
        "discarded_groups": 0,
        "gradient_groups": 20,
        "generated_tokens": tokens,
        "generated_tokens_total": 3100 * step,
        "trained_tokens": tokens,
        "seconds_rollout": 0.05,
        "seconds_verify": 0.01,
        "seconds_train": 0.1,
        "seconds_evaluate": 0.0,
        "seconds_total": 0.16,
    }


def _arm_record(index, name, label, published, parent, patches, runs) -> dict[str, Any]:
    """An arm as a plan stores it."""
    return {
        "name": name,
        "label": label,
        "parent": parent,
        "patch": patches[-1] if patches else None,
        "patches": patches,
        "arm_id": f"{index:08x}",
        "runs": runs,
        "published": {"value": published, "unit": "avg@32 AIME24", "source": "DAPO Table 1"},
        "changes": {"algorithm.overlong.policy": ["score", "mask"]} if index else {},
    }


def build_store(
    root: Path,
    *,
    rungs=RUNGS,
    seeds=(0, 1, 2),
    problems=24,
    n=8,
    steps=20,
    evaluate=(0, 10, 20),
    caps=(32, 64),
    missing=(),
    design="cumulative",
    name="ladder",
    patches=None,
    samples=make_samples,
    arm_fields=None,
    **fields,
) -> ResultStore:
    """Write a store and plan; runs in ``missing`` as (rung index, seed) -> status are left unfinished.

    ``fields``: of the plan, and ``arm_fields`` of each of its arms, in the place of those that are written else.
    """
    store = ResultStore(root)
    arms = []
    for index, (arm, label, accuracy, published) in enumerate(rungs):
        runs = {}
        for seed in seeds:
            run_id = f"{index:08x}{seed:08x}"
            runs[str(seed)] = run_id
            status = dict(missing).get((index, seed), "finished")
            if status != "not started":
                shape = problems, n, steps, evaluate, caps, samples
                write_run(store, run_id, arm, seed, accuracy, status, *shape)
        own = patches[index] if patches is not None else [rung[0].split("_", 2)[-1] for rung in rungs[1 : index + 1]]
        parent = rungs[index - 1][0] if index and design == "cumulative" else None
        record = _arm_record(index, arm, label, published, parent, own, runs)
        arms.append(record | (arm_fields[index] if arm_fields else {}))
    plan = {
        "name": name,
        "title": "Which rung helps?",
        "question": "Which trick of the ladder helps & by how much?",
        "design": design,
        "benchmark": "arithmetic_heldout",
        "primary_cap": caps[0],
        "caps": list(caps),
        "metric": "avg",
        "seeds": list(seeds),
        "paired": True,
        "arms": arms,
        "command": f"harness run experiment={name}",
        **fields,
    }
    store.write_plan(name, plan)
    return store


def loaded(root: Path, name: str = "ladder", **options) -> Results:
    """The results of a stored experiment, as a report reads them."""
    return results_of(load_experiment(root, name, **options))


def declared(root: Path, **fields: Any) -> Results:
    """The results of the stored experiment, which is from now on declared with these fields."""
    store = ResultStore(root)
    store.write_plan("ladder", store.plan("ladder") | fields)
    return loaded(root)


def replanned(results: Results, **changes: Any) -> Results:
    """The same results under a plan with these fields changed."""
    plan = replace(results.experiment.plan, **changes)
    return replace(results, experiment=replace(results.experiment, plan=plan))


def relogged(run, change) -> None:
    """The logged steps of a run, each with the fields that `change` makes of its row."""
    path = run.path / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | change(row)) + "\n" for row in rows))


def embedded(text: str, name: str):
    """The JSON that a page carries under this id."""
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', text, re.S)[1])


def write_run(store, run_id, arm, seed, accuracy, status, *shape):
    run = store.run(run_id)
    created(
        run,
        "algorithm: grpo\n",
        {
            "identity_version": 1,
            "arm_id": run_id[:8],
            "seed": seed,
            "status": status,
            "labels": {"arm": arm},
            "attempts": [],
            "provenance": {"git_commit": "abc", "packages": {"numpy": "2"}, "hardware": {"cpu": "x"}},
            "error": None if status == "finished" else "Killed",
        },
    )
    shutil.copytree(_measured(seed, accuracy, status == "finished", *shape), run.path, dirs_exist_ok=True)


_MADE = tempfile.TemporaryDirectory()


@functools.cache
def _measured(seed, accuracy, is_finished, problems, n, steps, evaluate, caps, samples) -> Path:
    """The metrics and samples of such a run, made once a process."""
    run = RunDir(Path(tempfile.mkdtemp(dir=_MADE.name)))
    rng = np.random.default_rng([seed, int(accuracy * 1000)])
    accuracy = accuracy + 0.02 * np.random.default_rng(seed).normal() + 0.005 * rng.normal()
    done = steps if is_finished else steps // 2
    for step in range(1, done + 1):
        run.append_step(step_row(rng, step, steps, accuracy))
    for step in evaluate:
        if step <= done:
            level = 0.3 + (accuracy - 0.3) * step / max(steps, 1)
            frames = [samples(rng, level, problems, n, cap) for cap in caps]
            run.write_samples("arithmetic_heldout", 1, step, pd.concat(frames, ignore_index=True))
    return run.path
