"""How a process of ours lives: few passes of the collector while libraries load, and an end that takes nothing apart."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

# New objects between two passes of the collector. Importing torch makes 300,000 that all stay: at Python's 700 the passes over them
# take a seventh of the import. Not off altogether: a supervisor lives for days.
_OBJECTS_BETWEEN_PASSES = 100_000
_NOT_WRITTEN = 120  # the exit code by which Python says that output could not be flushed


def spare_collector() -> None:
    """Let the collector pass seldom in this process.

    For commands: in a trainer, cycles hold memory of its device. A command that loads several models collects between them.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_PASSES, *gc.get_threshold()[1:])


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Import libraries: the collector does not pass meanwhile, and never over what they made."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load(entry: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, function = entry.partition(":")
    return getattr(importlib.import_module(module), function)


def run_command(entry: str) -> NoReturn:
    """The whole life of a process that runs the command `module:function`, which returns the exit code."""

    def action() -> int:
        with loading():
            command = load(entry)
        return int(command())

    spare_collector()
    end_process(action)


def end_process(action: Callable[[], int]) -> NoReturn:
    """Run `action` and end this process with its exit code: 1 and a traceback if it raises, 130 if it is interrupted.

    Threads are joined, exit functions run and buffers flushed as in a usual end, but the interpreter is not taken apart: with torch
    loaded that takes 0.3 s, in a forked worker all of it spent on copying shared pages. Under a profiler or a debugger, which has
    something to do after the code, it is.
    """
    code = _code(action)
    if _watched():
        sys.exit(code)
    with contextlib.suppress(SystemExit):
        sys.exit(code)  # a tracker puts its own function in this place, to learn the code
    # As Python ends the main thread: executors hear that no more work comes, then every thread that is no daemon is joined.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    code = _flushed(code)
    ctypes.CDLL(None).fflush(None)
    os._exit(code)


def _code(action: Callable[[], int]) -> int:
    try:
        return action()
    except SystemExit as end:
        if isinstance(end.code, str) and sys.stderr is not None:
            sys.stderr.write(end.code + "\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _flushed(code: int) -> int:
    """The exit code once buffers are written: that of a pipe whose reader has gone, or Python's own for what cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BrokenPipeError:
            code = code or 128 + signal.SIGPIPE
        except OSError:
            code = code or _NOT_WRITTEN
    return code


def _watched() -> bool:
    """Whether a profiler or a debugger looks at this process."""
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    tools = monitoring is not None and any(monitoring.get_tool(number) for number in range(6))
    return bool(sys.getprofile() or sys.gettrace() or tools)
