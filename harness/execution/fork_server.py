"""What `multiprocessing`'s fork server does before it loads the worker's libraries; importing it elsewhere does nothing.

A signal to the whole job must not end it, since its workers write checkpoints then, and it must not outlive its supervisor's start.
"""

import gc
import os
import shutil
import signal
from multiprocessing import parent_process, util

from harness.training.torchrun import die_with

SUPERVISOR = "HARNESS_SUPERVISOR"  # its process id and its folder for sockets, in the environment of its fork server
SUPERVISOR_DIED = signal.SIGALRM
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def of_this_process() -> dict[str, str]:
    """The variable by which a fork server knows this process as its supervisor; children of `multiprocessing` use their parent's folder."""
    return {SUPERVISOR: f"{os.getpid()}:{util.get_temp_dir() if parent_process() is None else ''}"}


def _begin(supervisor: int, folder: str) -> None:
    # Blocked, not ignored: a worker gets what arrives while it starts as soon as it unblocks them.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    server = os.getpid()

    def end(*_: object) -> None:
        if os.getppid() == supervisor:  # only its thread that started this process ended
            return
        if os.getpid() == server:
            shutil.rmtree(folder, ignore_errors=True)  # where a killed supervisor had its socket
        os.kill(os.getpid(), signal.SIGKILL)

    signal.signal(SUPERVISOR_DIED, end)
    die_with(os.getppid(), SUPERVISOR_DIED)
    end()  # where it died before the call
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # what libraries say when they are imported
        os.dup2(nowhere, number)
    # Workers share these pages: a pass of the collector would copy them.
    os.register_at_fork(before=lambda: gc.freeze() if os.getpid() == server else None)


if SUPERVISOR in os.environ:
    supervisor, _, folder = os.environ.pop(SUPERVISOR).partition(":")
    _begin(int(supervisor), folder)
