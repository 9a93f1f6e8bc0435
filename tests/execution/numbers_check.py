"""Acceptance of the numbers of training: a few short runs, each number beside an interval of `numbers_check.json`.

Training noise is a function of (seed, step, problem, sample, position), so a run elsewhere differs from the same run here by rounding
only: the first step agrees closely. Later steps amplify rounding and agree in distribution. `benchmarks/numbers_intervals.py` makes
the intervals anew, from 24 seeds.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id, content_hash, run_id
from harness.configuration.schema import RunConfig
from harness.execution.progress import Progress
from harness.execution.supervisor import Summary, dispatch
from harness.experiment.data import content_hashes
from harness.experiment.plan import RunSpec
from harness.store import ResultStore, RunDir

FILE = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2, 3)  # each starts from a base policy of its own
ARMS = {  # they share no surrogate, aggregation, overlong policy or treatment of dead groups
    "grpo": ["algorithm=grpo"],
    "cispo_refill": [
        "algorithm=cispo",
        "algorithm.overlong.policy=mask_and_soft",
        "algorithm.dead_groups.policy=refill",
    ],
}
COMMON = [
    "model.bases.count=8",
    "algorithm.prompts_per_step=16",
    "algorithm.updates_per_step=4",
    "optimizer.learning_rate=5e-4",
    "training.steps=8",
    "training.evaluate_every=8",
    "evaluation.benchmarks.arithmetic_heldout.problems=64",
    "evaluation.samples_per_problem=8",
    "evaluation.caps=[32]",
]
# Numbers of the first step by column of the metrics, then of the second half of training.
FIRST = (
    "accuracy_mean",
    "response_tokens_mean",
    "entropy_nats",
    "loss",
    "gradient_norm",
    "sampler_log_prob_gap_mean",
)
LATE = ("accuracy_mean", "entropy_nats", "response_tokens_mean")


def configs(*overrides: str) -> dict[str, RunConfig]:
    """The configuration of each arm; overrides of `runtime` and `engine` change nothing that is compared."""
    return {arm: compose_run([*choices, *COMMON, *overrides]) for arm, choices in ARMS.items()}


def specs(arms: Mapping[str, RunConfig], seeds: Iterable[int]) -> dict[tuple[str, int], RunSpec]:
    """The run of every arm and seed."""
    runs = {}
    for seed, (arm, config) in itertools.product(seeds, arms.items()):
        run = dataclasses.replace(config, seed=seed)
        labels = {"experiment": "numbers", "arm": arm, "steps": str(run.training.steps)}
        runs[arm, seed] = RunSpec(run, run_id(run), arm_id(run), labels)
    return runs


def train(arms: Mapping[str, RunConfig], seeds: Iterable[int], root: Path, progress: Progress) -> Summary:
    """Bring the runs to their end in a results root of their own."""
    runs = list(specs(arms, seeds).values())
    return dispatch(runs, ResultStore(root), progress, "numbers check")


def measured(run: RunDir) -> dict[str, float]:
    """Read all numbers off a finished run, by name."""
    rows = run.steps().sort_values("step")
    late = rows.iloc[len(rows) // 2 :]
    samples = run.samples("arithmetic_heldout", int(rows["step"].iloc[-1]), ["correct"])
    return {
        **{f"first step: {name}": float(rows[name].iloc[0]) for name in FIRST},
        **{f"second half: {name}": float(late[name].mean()) for name in LATE},
        "score after training": float(samples["correct"].mean()),
    }


def outside(runs: Mapping[str, Sequence[Mapping[str, float]]], kind: str = "same_noise") -> dict[str, float]:
    """The numbers, as means over `SEEDS`, that lie outside their intervals (NaN does); `own_noise`: of an engine that draws otherwise."""
    intervals = json.loads(FILE.read_text())["intervals"]
    means = {
        (arm, name): sum(run[name] for run in of_arm) / len(of_arm)
        for arm, of_arm in runs.items()
        for name in intervals[arm]
    }
    return {
        f"{arm}, {name}": mean
        for (arm, name), mean in means.items()
        if not intervals[arm][name][kind][0] <= mean <= intervals[arm][name][kind][1]
    }


def belongs_to(arms: Mapping[str, RunConfig]) -> str:
    """Hash what the runs are made of: configurations, problems, base policies."""
    bases: Any = next(iter(arms.values())).model
    ids = {arm: arm_id(config) for arm, config in arms.items()}
    problems = content_hashes(arms.values())
    return content_hash({"arms": ids, "problems": problems, "bases": bases.bases.identity()})
