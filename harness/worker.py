"""The worker: one process, one run. Started by the supervisor with a run directory that holds `config.yaml`.

Heavy imports stand at the top on purpose: the supervisor's fork server imports this module once, and every run starts from there.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from types import FrameType

import torch
import transformers.models.auto.tokenization_auto
import transformers.models.llama.configuration_llama  # noqa: F401
import yaml

from harness.config import RunConfig, load
from harness.grading import Grader
from harness.model.linear import resolve_kernel
from harness.registry import implementation
from harness.store import RunDir
from harness.store.atomic import write_file
from harness.supervise.outcome import EXIT_INTERRUPTED
from harness.training.loop import Trainer


def main(run_path: Path) -> int:
    """Train and evaluate the run; returns the process's exit code.

    SIGTERM, SIGUSR1 and SIGUSR2 (Slurm's pre-emption) finish the current step, write a checkpoint and return `EXIT_INTERRUPTED`.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    run = RunDir(run_path)
    config = load(yaml.safe_load(run.config()))
    stopping = _StopFlag()
    torch.set_num_threads(config.runtime.threads)
    return train(config, run, stopping)


def train(config: RunConfig, run: RunDir, stop: _StopFlag) -> int:
    """The run itself, in this process."""
    cache = run.path.parent.parent / "cache"
    phases: dict[str, float | str] = {"begin": time.time()}
    kernel = resolve_kernel(config.runtime.linear_kernel, cache)
    phases["linear_kernel"] = kernel
    initial = implementation("harness.model.source", config.model).prepare(
        config.model, config.task, cache, kernel
    )
    phases["initial_policy_ready"] = time.time()
    grader = Grader(config.verifier, config.runtime)
    try:
        trainer = Trainer(config, run, initial, kernel, grader)
        phases["trainer_ready"] = time.time()
        complete = trainer.train(stop, attempt=_attempt(run))
    finally:
        grader.close()
    phases["end"] = time.time()
    # For where the time goes (`tests/benchmarks/ladder_split.py`); nothing else reads it.
    attempt = run.path / "attempts" / f"{_attempt(run):03d}"
    write_file(attempt / "phases.json", json.dumps(phases).encode())
    return 0 if complete else EXIT_INTERRUPTED


def _attempt(run: RunDir) -> int:
    """The number of this attempt: the newest directory the supervisor made."""
    attempts = run.path / "attempts"
    return max((int(item.name) for item in attempts.glob("[0-9]*")), default=0)


class _StopFlag:
    """True once a stop signal came; installed on construction."""

    def __init__(self) -> None:
        self._stop = False
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def __call__(self) -> bool:
        return self._stop
