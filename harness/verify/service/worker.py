"""The processes that grade with computer algebra: a template that has imported it once, and its short-lived forks.

The template is a fresh interpreter with a fixed environment (hash seed, pure-Python number types), single-threaded and
idle, so forking it is safe whatever the parent process runs, costs milliseconds, and needs no importable `__main__`.
It owns its forks: only the template signals them, so a reused process id is never hit. When the parent goes away the
template sees its control socket close and takes the forks with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_WARM_UP = (
    ("\\frac{1}{2}+\\sqrt{x}", "\\sqrt{x}+0.5"),
    ("x^2-1", "(x-1)(x+1)"),
    ("2\\sqrt{3}+1", "1+\\sqrt{12}"),
)
_RECURSION_LIMIT = 3_000
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "SYMPY_GROUND_TYPES": "python",
    "MPMATH_NOGMPY": "1",
    "SYMPY_USE_CACHE": "yes",
    "OMP_NUM_THREADS": "1",
}


def run_template(control_fd: int) -> None:
    """Serve fork and kill requests until the control socket closes."""
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _import_and_warm_up()
        gc.freeze()  # its forks share these pages: a pass of the collector would copy them
    except Exception as error:
        control.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        return
    children: set[int] = set()
    buffer, descriptors = b"", []
    while True:
        readable, _, _ = select.select([control], [], [], 0.5)
        _reap(children)
        if not readable:
            continue
        data, received, _, _ = socket.recv_fds(control, 65_536, 16)
        if not data:
            break
        buffer += data
        descriptors += received
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["do"] == "fork":
                _fork(control, descriptors.pop(0), request, children)
            elif request["pid"] in children:
                os.kill(request["pid"], signal.SIGKILL)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _import_and_warm_up() -> None:
    from harness.verify.compare.symbolic import grade

    for gold, answer in _WARM_UP:
        grade(gold, answer, "either", 6)


def _reap(children: set[int]) -> None:
    while children:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        children.discard(pid)


def _fork(control: socket.socket, descriptor: int, request: dict[str, Any], children: set[int]) -> None:
    template = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            control.close()
            _die_with(template)
            _serve(socket.socket(fileno=descriptor), request)
            status = 0
        finally:
            os._exit(status)
    os.close(descriptor)
    children.add(pid)


def _die_with(template: int) -> None:
    """Has the kernel end this process with the template, where the kernel can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != template:
            os._exit(1)


def _serve(connection: socket.socket, limits: dict[str, Any]) -> None:
    """Grades one request after another until the connection closes."""
    from harness.verify.compare import plain
    from harness.verify.compare.symbolic import grade

    sys.setrecursionlimit(_RECURSION_LIMIT)
    memory = limits["memory_mib"] << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
    stream = connection.makefile("rb")
    for line in stream:
        request = json.loads(line)
        _limit_processor_time(request["cpu_seconds"])
        began = time.process_time()
        case = request["case"]  # (gold, response) is the second grader's
        verdict, method, fatal = plain.grade(*case) if len(case) == 2 else grade(*case)
        answer = {
            "verdict": verdict,
            "method": method,
            "fatal": fatal,
            "cpu_seconds": time.process_time() - began,
        }
        connection.sendall(json.dumps(answer).encode() + b"\n")
        if fatal:
            return


def _limit_processor_time(seconds: float) -> None:
    """A backstop in the kernel, should the parent stop watching the clock."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time() + seconds) + 3
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard < 0 else min(soft, hard), hard))
