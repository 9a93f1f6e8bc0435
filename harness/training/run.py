"""One run from configuration to finished store entry, with the built-in trainer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch

from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.model.ranks import Ranks
from harness.reward.grading import Grader
from harness.store import RunDir, layout
from harness.store.atomic import write_file
from harness.training.loop import train
from harness.training.numerics import deterministic, settle_kernel
from harness.training.run_parts import RunParts


def train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Prepare the initial policy, train, evaluate; see `harness.backends`."""
    with deterministic(config.runtime.deterministic):
        return _train_run(config, run, stop, attempt)


def _train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    torch.set_num_threads(config.runtime.threads)
    ranks = Ranks.join()
    cache = run.path.parent.parent / "cache"
    phases = {"begin": time.time()}
    kernel = ranks.from_first(settle_kernel(config.runtime, run, attempt) if ranks.first else None)
    source = implementation("harness.base_policy", config.model)
    if ranks.first:
        run.say_phase(attempt, "preparing the base policy")
    # Rank 0 warms up or downloads; the others wait, and find it in the cache.
    initial = ranks.from_first(
        source.prepare(config.model, config.task, config.seed, cache, kernel) if ranks.first else None
    )
    phases["initial_policy_ready"] = time.time()
    grader = Grader(config.verifier, config.runtime)
    try:
        parts = RunParts(config, run, initial, kernel, grader, ranks)
        phases["trainer_ready"] = time.time()
        try:
            complete = train(parts, stop, attempt)
        finally:
            parts.close()
    finally:
        grader.close()
    phases["end"] = time.time()
    if not ranks.first:
        return complete
    # For where the time goes (`tests/benchmarks/ladder_split.py`); nothing else reads it.
    write_file(layout.attempt_dir(run.path, attempt) / "phases.json", json.dumps(phases).encode())
    return complete
