"""One run on several processes: `torchrun` over this machine's ranks, through `srun` over the nodes of a Slurm job."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.configuration.runtime import RuntimeConfig
from harness.store import RunDir
from harness.store.layout import attempt_dir

STOP, RESULT, ERROR = "stop-ranks", "ranks.json", "rank-error.txt"
_POLL_SECONDS = 0.5


class RankFailed(RuntimeError):
    """A rank of the run ended with an error; the message is that rank's."""


def wanted_ranks(runtime: RuntimeConfig) -> int:
    """Processes a node: `runtime.ranks`, by default one a GPU of the run, one on a CPU."""
    if runtime.ranks:
        return runtime.ranks
    return runtime.gpus_per_run if runtime.device == "cuda" else 1


def distributed(runtime: RuntimeConfig) -> bool:
    """Return whether a run is trained by more than one process."""
    return wanted_ranks(runtime) * runtime.nodes > 1


def train_on_ranks(runtime: RuntimeConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Train `run` under torchrun; see `harness.backends`. Signals reach the ranks as a file, which all nodes see.

    Raises:
        ConfigError: several nodes outside a Slurm job.
        RankFailed: a rank failed.
    """
    folder = attempt_dir(run.path, attempt)
    for name in (STOP, RESULT, ERROR):
        (folder / name).unlink(missing_ok=True)
    command = torchrun_command(runtime, run.path, attempt, os.environ)
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            if stop() and not (folder / STOP).exists():
                (folder / STOP).touch()
            time.sleep(_POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if (folder / RESULT).exists():  # all ranks were through: a process that dies after that undoes nothing
        return bool(json.loads((folder / RESULT).read_text())["complete"])
    error = folder / ERROR
    said = error.read_text().strip() if error.exists() else f"torchrun ended with code {process.returncode}"
    raise RankFailed(said)


def torchrun_command(
    runtime: RuntimeConfig, run: Path, attempt: int, environment: Mapping[str, str]
) -> list[str]:
    """The command line that starts all ranks of a run."""
    launcher = [sys.executable, "-m", "harness.training.agent", str(run), str(attempt)]
    launcher.append(f"--nproc-per-node={wanted_ranks(runtime)}")
    entry = ["-m", "harness.training.rank", str(run), str(attempt)]
    if runtime.nodes == 1:
        return [*launcher, "--standalone", *entry]
    if "SLURM_JOB_ID" not in environment or shutil.which("srun") is None:
        raise ConfigError(
            f"runtime.nodes={runtime.nodes} needs a Slurm job over that many nodes; use launcher=slurm, or set runtime.nodes=1"
        )
    # The batch step runs on the first node, which is where the ranks meet.
    port = 20000 + int(environment["SLURM_JOB_ID"]) % 20000
    meeting = [
        f"--nnodes={runtime.nodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={socket.gethostname()}:{port}",
        f"--rdzv-id={run.name}-{attempt}",
    ]
    tasks = [f"--nodes={runtime.nodes}", f"--ntasks={runtime.nodes}", "--ntasks-per-node=1"]
    if "SLURM_CPUS_PER_TASK" in environment:  # a step does not inherit it
        tasks.append(f"--cpus-per-task={environment['SLURM_CPUS_PER_TASK']}")
    return ["srun", *tasks, "--overlap", "--kill-on-bad-exit=1", *launcher, *meeting, *entry]
