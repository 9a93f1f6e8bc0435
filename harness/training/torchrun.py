"""One run on several processes of this machine, started by `torchrun`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.configuration.sections import RuntimeConfig
from harness.store import RunDir
from harness.store.layout import attempt_dir

STOP, RESULT, ERROR = "stop-ranks", "ranks.json", "rank-error.txt"
_POLL_SECONDS = 0.5


class RankFailed(RuntimeError):
    """A rank of the run ended with an error; the message is that rank's."""


def wanted_ranks(runtime: RuntimeConfig) -> int:
    """Number of processes: `runtime.ranks`, by default one for each GPU of the run, and one on a CPU."""
    if runtime.ranks:
        return runtime.ranks
    return runtime.gpus_per_run if runtime.device == "cuda" else 1


def distributed(runtime: RuntimeConfig) -> bool:
    """Return whether a run is trained by more than one process."""
    return wanted_ranks(runtime) > 1


def train_on_ranks(runtime: RuntimeConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Train `run` under torchrun; see `harness.backends`. A request to stop reaches the ranks as a file.

    Raises:
        RankFailed: a rank failed.
    """
    folder = attempt_dir(run.path, attempt)
    for name in (STOP, RESULT, ERROR):
        (folder / name).unlink(missing_ok=True)
    process = subprocess.Popen(torchrun_command(runtime, run.path, attempt), preexec_fn=_ignore_warnings)
    try:
        while process.poll() is None:
            if stop() and not (folder / STOP).exists():
                (folder / STOP).touch()
            time.sleep(_POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if (folder / RESULT).exists():  # all ranks were done: a process that dies after that undoes nothing
        return bool(json.loads((folder / RESULT).read_text())["complete"])
    if (folder / ERROR).exists():
        raise RankFailed((folder / ERROR).read_text().strip())
    raise RankFailed(
        f"torchrun ended with code {process.returncode} and no rank recorded an error: one was killed (often for memory); torchrun's "
        "report above names it and the signal"
    )


def torchrun_command(runtime: RuntimeConfig, run: Path, attempt: int) -> list[str]:
    """The command line that starts all ranks of a run on this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher.append(f"--nproc-per-node={wanted_ranks(runtime)}")
    return [*launcher, "-m", "harness.training.rank", str(run), str(attempt)]


def _ignore_warnings() -> None:
    # Slurm sends its warning of the time limit to every process of a step; the ranks stop when a file asks them to.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
