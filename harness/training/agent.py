"""torchrun on one node of a run: `python -m harness.training.agent RUN_DIRECTORY ATTEMPT TORCHRUN_OPTIONS...`.

torchrun alone learns late of the others: ranks that wait in NCCL for a dead one wait for hours, and an agent whose ranks are done waits
five minutes for one that failed. So every agent looks for what the ranks leave in the attempt's folder, and ends soon after it is there.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from harness.store.layout import attempt_dir
from harness.training.torchrun import ERROR, RESULT

_POLL_SECONDS = 1.0
_GRACE_SECONDS = 5.0  # for ranks that are just ending, or that have more to say


def main(folder: Path, options: Sequence[str]) -> int:
    """Start this node's ranks and wait for them. 0: the run has a result, whatever became of its processes after that."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        # Slurm's warning of the time limit reaches every process of a step; the ranks are stopped by a file.
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_run, args=(folder,), daemon=True).start()
    reason, killed = "its ranks ended without a result", False
    try:
        torchrun.main(list(options))
    except BaseException as error:
        reason, killed = _said(error)
    if (folder / RESULT).exists():
        return 0
    # A rank that was killed has said nothing, while others may have written that they lost it: both are told.
    if killed or not (folder / ERROR).exists():
        with (folder / ERROR).open("a") as file:
            file.write(f"{socket.gethostname()}: {reason}\n")
    return 1


def _said(error: BaseException) -> tuple[str, bool]:
    """One line, of several ranks that failed about the first; and whether a signal killed that rank."""
    if not isinstance(error, ChildFailedError):
        return f"{type(error).__name__}: {error}".strip(), False
    rank, failure = error.get_first_failure()
    code = failure.exitcode
    if code < 0:  # SIGTERM is how torchrun ends the others
        return f"rank {rank} was killed by {signal.Signals(-code).name}", code != -signal.SIGTERM
    return f"rank {rank} ended with exit code {code}", False


def _end_with_the_run(folder: Path) -> None:
    while not any((folder / name).exists() for name in (RESULT, ERROR)):
        time.sleep(_POLL_SECONDS)
    time.sleep(_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)  # torchrun ends its ranks and raises
    time.sleep(_GRACE_SECONDS)
    # It waits for other agents where no signal reaches Python. Ranks that still live die with this process.
    _leave(0 if (folder / RESULT).exists() else 1)


def _leave(code: int) -> None:
    """End at once: a signal that comes now changes nothing."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main(attempt_dir(Path(sys.argv[1]), int(sys.argv[2])), sys.argv[3:]))
