"""Workers for the tests of the supervisor; the fork server imports this module by PYTHONPATH."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import yaml
from stored_runs import graded

from harness.configuration.error import ConfigError
from harness.store import RunDir, StoreFull

CHECKPOINT_EVERY = 5


def steps(path: Path) -> int:
    """`steps` steps of `seconds` each, deterministic, with checkpoints; resumes, and stops when asked."""
    run = RunDir(path)
    config = yaml.safe_load(run.config())
    stopping: list[int] = []
    attempt = len(list((path / "attempts").iterdir())) - 1
    told = path / "attempts" / f"{attempt:03d}"

    def stop(number: int, _: object) -> None:
        stopping.append(number)
        (told / "asked_to_stop").touch()

    for wanted in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):  # Slurm signals every process of a job
        signal.signal(wanted, stop)
    (told / "listens").touch()
    value, done = config["seed"], 0
    for done, checkpoint in run.checkpoints()[-1:]:  # noqa: B007
        value = int((checkpoint / "value").read_text())

    def save(directory: Path) -> None:
        (directory / "value").write_text(str(value))

    for step in range(done + 1, config["steps"] + 1):
        time.sleep(config["seconds"])
        value = (value * 6364136223846793005 + step) % 2**63
        run.append_step({"step": step, "attempt": attempt, "reward_mean": value / 2**63})
        if stopping or step % CHECKPOINT_EVERY == 0:
            run.publish_checkpoint(step, save, keep=2)
        if stopping:
            return 75
    run.write_samples("stub", 1, config["steps"], _samples(value))
    return 0


def with_child(path: Path) -> int:
    """The same, with a process of its own that would outlive it."""
    subprocess.Popen(["sleep", "1000"])
    return steps(path)


def _samples(value: int) -> pd.DataFrame:
    return graded([value % 2 == 0, False, True, False]).assign(
        sampling_seed=[value + index for index in range(4)], answer=[str(value), None, "1", "2"]
    )


def by_config(path: Path) -> int:
    """Do what the configuration says: return a code, raise, die of a signal, or leave a grandchild behind."""
    config = yaml.safe_load(RunDir(path).config())
    with open(path / "calls.txt", "a") as calls:
        calls.write(f"{os.getpid()}\n")
    match config.get("do"):
        case "raise":
            print("about to fail", file=sys.stderr)
            raise RuntimeError("reward model exploded")
        case "exit_message":
            print("unfinished line", end="")
            sys.exit("no such data set: see conf/benchmark")
        case "refuse":
            raise ConfigError("runtime.ranks=3 cannot be; set runtime.ranks=1")
        case "full":
            raise StoreFull("no space left writing checkpoints; free space")
        case "full_elsewhere":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "rollouts.jsonl")
        case "crash_once" if len(list((path / "attempts").iterdir())) == 1:
            raise RuntimeError("the GPU fell off the bus")
        case "signal":
            os.kill(os.getpid(), config["signal"])
        case "grandchild":
            child = subprocess.Popen(["sleep", "1000"])
            (path / "grandchild.txt").write_text(str(child.pid))
        case "environment":
            (path / "environment.txt").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    time.sleep(config.get("seconds", 0))
    return int(config.get("code", 0))
