"""A process that grades with computer algebra, one case after another, until it is killed or its link closes."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection

_PR_SET_PDEATHSIG = 1
_RECURSION_LIMIT = 3_000
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "SYMPY_GROUND_TYPES": "python",
    "MPMATH_NOGMPY": "1",
    "SYMPY_USE_CACHE": "yes",
    "OMP_NUM_THREADS": "1",
}


def work(link: Connection, not_ours: list[Connection], server: int, memory_mib: int) -> None:
    """Answer each case with (verdict, method, whether the process should be replaced, processor seconds).

    Args:
        link: cases come in, answers go out.
        not_ours: links of others that came with the fork.
        server: the process that this one must not outlive.
        memory_mib: address space of this process (Linux).
    """
    from harness.verify.compare import plain
    from harness.verify.compare.symbolic import grade

    for other in not_ours:
        other.close()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            return
        resource.setrlimit(resource.RLIMIT_AS, (memory_mib << 20, memory_mib << 20))
    sys.setrecursionlimit(_RECURSION_LIMIT)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fatal = False
    while not fatal:
        try:
            case = link.recv()
        except EOFError:
            return
        began = time.process_time()
        verdict, method, fatal = plain.grade(*case) if len(case) == 2 else grade(*case)
        link.send((verdict, method, fatal, time.process_time() - began))
