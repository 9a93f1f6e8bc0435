"""Ranks without torchrun: `python forked_ranks.py RUN_DIRECTORY ATTEMPT RANKS` imports their libraries once and forks them.

A test of what ranks compute starts them so; that torchrun starts, stops and reports them is tested with torchrun.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import torch._dynamo
import torch.distributed.fsdp  # noqa: F401

from harness.training import rank


def main(run: Path, attempt: int, ranks: int) -> int:
    """The worst exit code of all ranks."""
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
            os._exit(rank.main(run, attempt))
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
