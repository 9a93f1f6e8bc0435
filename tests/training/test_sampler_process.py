"""An engine in a process of its own samples while the trainer updates: same numbers as without it, and nothing of it is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "execution"))

from small_runs import Bench, claimed, finished, small_config
from sweep_support import processes_with, wait_until

from harness.commands.plan import gpu_line
from harness.execution.supervisor import worker_count
from harness.rollout.types import EngineDied, SamplingParams
from harness.training import sampler_process
from harness.training.loop import train_run

WORKER = "import sys, pathlib; from harness.execution.worker import main; main(pathlib.Path(sys.argv[1]))"


def test_a_killed_trainer_leaves_no_sampler_and_the_next_attempt_gives_the_same_numbers(tmp_path: Path) -> None:
    config = small_config(training__steps=8, sampling__lag_steps=1, algorithm__dead_groups__policy="refill")
    serial, config.runtime.sampler_gpus = finished(config, tmp_path / "serial"), 1
    run, mark = claimed(config, tmp_path), f"KILLED={tmp_path}"
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(run.path)], env={**os.environ, "KILLED": str(tmp_path)}
    )
    wait_until(lambda: (run.last_step() or {"step": 0})["step"] >= 3)
    assert len(processes_with(mark)) >= 2
    process.kill()
    process.wait()
    wait_until(lambda: not processes_with(mark), what="the sampler to end")
    assert train_run(config, run, lambda: False, attempt=1)
    timeless = [name for name in serial.steps().columns if name != "attempt" and not name.startswith("seconds")]
    assert serial.steps()[timeless].equals(run.steps()[timeless])
    assert serial.samples("arithmetic_heldout", 8).equals(run.samples("arithmetic_heldout", 8))


def test_what_fails_in_the_sampler_is_one_error_of_the_trainer(bench: Bench) -> None:
    engine = bench.trainer(small_config(sampling__lag_steps=1, runtime__sampler_gpus=1)).engine
    for error in (r"^the process that samples: IndexError: index out of range", r"ended \(exit code 0\)"):
        with pytest.raises(EngineDied, match=error):
            engine.generate([[9999]], np.zeros((1, 1), np.uint64), SamplingParams(4))


def test_a_run_has_gpus_for_both_and_the_sampler_sees_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sampler_process, "Child", lambda _, environment, **__: seen.append(environment))
    monkeypatch.setattr(sampler_process.SamplerProcess, "_ask", lambda *_: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,GPU-c")
    runtime = (config := small_config(runtime__device="cuda", runtime__sampler_gpus=2)).runtime
    sampler_process.SamplerProcess(config, MagicMock())
    assert seen[0]["CUDA_VISIBLE_DEVICES"] == "1,GPU-c"
    assert worker_count(runtime, gpus=7) == 2
    assert gpu_line(runtime) == "a run takes 3 GPUs: 1 to train, 2 to sample beside it"
