"""What `multiprocessing`'s fork server does before it loads the worker's libraries; importing it elsewhere does nothing.

A signal to the whole job must not end it, since its workers write checkpoints then, and it must not outlive its supervisor's start.
"""

import gc
import os
import signal

from harness.training.torchrun import die_with

SUPERVISOR = "HARNESS_SUPERVISOR"  # its process id, in the environment of its fork server
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def _begin(supervisor: int) -> None:
    # Blocked, not ignored: a worker gets what arrives while it starts as soon as it unblocks them.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    die_with(supervisor)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # what libraries say when they are imported
        os.dup2(nowhere, number)
    server = os.getpid()
    # Workers share these pages: a pass of the collector would copy them.
    os.register_at_fork(before=lambda: gc.freeze() if os.getpid() == server else None)


if SUPERVISOR in os.environ:
    _begin(int(os.environ.pop(SUPERVISOR)))
