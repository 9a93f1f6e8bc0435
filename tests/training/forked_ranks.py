"""Ranks without torchrun: `python forked_ranks.py` imports their libraries once, prints its port, and forks the ranks of runs asked for.

`python forked_ranks.py PORT RUN_DIRECTORY ATTEMPT RANKS` asks for those of one run and ends with the worst exit code of all.
A test of what ranks compute starts them so; that torchrun starts, stops and reports them is tested with torchrun.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from multiprocessing.connection import Client, Listener
from pathlib import Path


def serve() -> None:
    """Serve one asker after the other until the process that started this one is gone."""
    import transformers.models.llama.modeling_llama  # noqa: F401 (and with it torch._dynamo)

    import harness.training.loop  # noqa: F401
    from harness.training.torchrun import die_with

    die_with(os.getppid())
    with Listener(("localhost", 0)) as listener:
        print(listener.address[1], flush=True)
        while True:
            with listener.accept() as asker:
                asker.send(forked(*asker.recv()))


def forked(run: Path, attempt: int, ranks: int) -> int:
    """The worst exit code of all ranks; the error file names those that were killed."""
    from harness.store.layout import attempt_dir
    from harness.training import torchrun

    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    children = []
    for number in range(ranks):
        child = os.fork()
        if child == 0:
            own = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
            os.environ.update({name: str(value) for name, value in own.items()})
            os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
            os._exit(torchrun.main(run, attempt))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    killed = [f"rank {n} was killed by {signal.Signals(-code).name}" for n, code in enumerate(codes) if code < 0]
    if killed:
        torchrun.record_error(attempt_dir(run, attempt), torchrun.RankFailed(), "; ".join(killed))
    return max(map(abs, codes))


def ask(port: int, run: Path, attempt: int, ranks: int) -> int:
    with Client(("localhost", port)) as server:
        server.send((run, attempt, ranks))
        return server.recv()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve()
    sys.exit(ask(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
