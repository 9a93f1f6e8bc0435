"""A real `harness run` of random weights, killed in the middle of training and run again: it goes on at its checkpoint and ends.

python tests/gpu/killed_run.py --out resume.json
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import TINY, leave, parser

from harness.store import ResultStore

STEPS, EVERY, KILL_AFTER = 8, 2, 3


def command(results: Path, device: str) -> list[str]:
    """The run, with two hundredths of the quick start's work."""
    keys = [
        "model=random_init",
        "sampling.max_response_tokens=256",
        "evaluation.caps=[256]",
        "evaluation.samples_per_problem=2",
        "evaluation.benchmarks.arithmetic_heldout.problems=8",
        "algorithm.prompts_per_step=8",
        "algorithm.responses_per_prompt=8",
        "algorithm.updates_per_step=2",
        # Random weights are never right: without this term no group would have a gradient.
        "algorithm.entropy_coefficient=0.001",
        f"training.steps={STEPS}",
        f"training.evaluate_every={STEPS}",
        f"runtime.checkpoint_every={EVERY}",
        "runtime.micro_batch_tokens=16384",
        "runtime.gradient_checkpointing=true",
        "runtime.rollout_rows=64",
        f"runtime.device={device}",
        f"runtime.results={results}",
    ]
    if device != "cuda":
        keys += [f"+model.overrides.{name}={value}" for name, value in TINY.items()]
        keys += ["model.precision=float32", "sampling.max_response_tokens=16", "evaluation.caps=[16]"]
    return [sys.executable, "-m", "harness", "run", "-m", "--no-answer", "seed=0", *keys]


def kill_in_the_middle(results: Path, device: str) -> list[int]:
    """Start the run, and kill all that belongs to it once step `KILL_AFTER` and a checkpoint are written; the steps that stand then."""
    # Whoever ends this script ends the run: `finally` below.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    process = subprocess.Popen(command(results, device), start_new_session=True)
    try:
        while process.poll() is None:
            if (steps := logged(results, "step")) and steps[-1] >= KILL_AFTER and checkpoints_of(results):
                break
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the workers die with the one that forks them
            process.wait()
    return logged(results, "step")


def logged(results: Path, column: str) -> list[int]:
    """Return a column of the steps. By `attempt`: those before the checkpoint stay the first one's where a run goes on."""
    store = ResultStore(results)
    return [value for run_id in store.run_ids() for value in store.run(run_id).steps()[column].tolist()]


def checkpoints_of(results: Path) -> list[int]:
    store = ResultStore(results)
    return [step for run_id in store.run_ids() for step, _ in store.run(run_id).checkpoints()]


def main() -> None:
    options = parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results, begin = Path(folder) / "results", time.monotonic()
        killed = kill_in_the_middle(results, options.device)
        code = subprocess.run(command(results, options.device), check=False).returncode
        store = ResultStore(results)
        manifests = [store.run(run_id).manifest() or {} for run_id in store.run_ids()]
        row: dict[str, Any] = {
            "steps_when_killed": killed,
            "steps": logged(results, "step"),
            "attempts": logged(results, "attempt"),
            "outcomes": [item["outcome"] for manifest in manifests for item in manifest["attempts"]],
            "devices": [item["device"] for manifest in manifests for item in manifest["attempts"]],
            "seconds": round(time.monotonic() - begin, 1),
        }
    expected = row["steps"] == list(range(1, STEPS + 1)) and row["outcomes"] == ["lost", "finished"]
    went_on = len(set(row["attempts"])) == 2 and row["attempts"] == sorted(row["attempts"])
    if code or not expected or not went_on:
        row["failed"] = (
            f"exit code {code}; wanted steps 1 to {STEPS}, the first of them by an attempt that was lost, the others by the second"
        )
    leave(row, options.out)


if __name__ == "__main__":
    main()
