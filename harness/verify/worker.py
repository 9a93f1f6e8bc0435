"""A process that grades with computer algebra, one case after another, until it is killed or its link closes.

A fresh interpreter with a fixed environment (`ENVIRONMENT`). The kernel ends it when a case has used its processor time, also inside one
call of C: `setitimer(ITIMER_PROF)` with SIGPROF's default action. It never outlives its parent for longer than one case.
"""

import resource
import signal
import sys
from multiprocessing.connection import Connection

ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "SYMPY_GROUND_TYPES": "python",
    "MPMATH_NOGMPY": "1",
    "SYMPY_USE_CACHE": "yes",
    "OMP_NUM_THREADS": "1",
}
READY = "ready"
_RECURSION_LIMIT = 3_000
_MEMORY_BYTES = 768 << 20  # sympy alone needs about 200 MiB
_WARM_UP = (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"), (r"\int_0^1 x dx", r"\frac{1}{2}")


def main(descriptor: int, cpu_seconds: float) -> None:
    """Answer cases with (verdict, method): (gold, answer, percent policy) by algebra, (gold, response) by plain Math-Verify.

    Args:
        descriptor: socket to the parent; the first message out is `READY`, or why there is nothing to work with.
        cpu_seconds: processor time of one case.
    """
    link = Connection(descriptor)
    try:
        from harness.verify import algebra

        for gold, answer in _WARM_UP:
            algebra.grade(gold, answer, "either")
    except Exception as error:
        link.send(f"{type(error).__name__}: {error}")
        return
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(_RECURSION_LIMIT)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    link.send(READY)
    while True:
        try:
            case = link.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        verdict = algebra.grade_response(*case) if len(case) == 2 else algebra.grade(*case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        link.send(verdict)
