"""verl's own interpreter, and its programs as child processes."""

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.configuration.sections import VERL_VERSION as VERSION
from harness.configuration.sections import VerlRuntime
from harness.store.reader import read_tail
from harness.training.torchrun import Child

LOG = "verl.log"
_VERSION_SCRIPT = "import importlib.metadata, sys; sys.stdout.write(importlib.metadata.version('verl'))"
_SCRIPT_SECONDS = 60.0
_HINT = "docs/verl.md says how to make that environment"


class VerlFailed(RuntimeError):
    """verl ended with an error; the message has the last lines of its log."""


def check(child: Child, log: Path) -> None:
    """Raise `VerlFailed` where a child ended with an error."""
    code = child.code
    if code:
        ending = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
        raise VerlFailed(f"verl ended with {ending}; the end of {log}:\n{read_tail(log)}")


def run_to_end(command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Run a command of verl's environment. Raises `VerlFailed`."""
    child = Child(command, environment, log, death=signal.SIGTERM)
    try:
        while child.wait(1.0):
            pass
    finally:
        child.stop(0.0)
    check(child, log)


def interpreter(runtime: VerlRuntime) -> str:
    """Return the interpreter of verl's environment. Raises `ConfigError` where there is none with our version of verl."""
    if not runtime.python:
        raise ConfigError(f"backend=verl needs runtime.verl.python, the interpreter of verl's own environment; {_HINT}")
    python = shutil.which(os.path.expanduser(runtime.python))
    if python is None:
        raise ConfigError(f"runtime.verl.python={runtime.python} is no interpreter; {_HINT}")
    try:
        answer = _ask_version(python)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"runtime.verl.python={runtime.python} does not run: {error}") from error
    if answer.returncode:
        last_line = (answer.stderr.strip() or "no message").splitlines()[-1]
        raise ConfigError(f"runtime.verl.python={runtime.python} has no verl ({last_line}); {_HINT}")
    if answer.stdout != VERSION:
        raise ConfigError(f"runtime.verl.python={runtime.python} has verl {answer.stdout}; install {VERSION} there")
    return python


def absent_programs(config: RunConfig) -> list[str]:
    """Return what this machine lacks for verl: its interpreter, or the Ray of several nodes."""
    runtime, reasons = config.runtime, []
    if runtime.nodes > 1 and runtime.verl.ray_address is None:
        reasons.append(f"runtime.nodes={runtime.nodes}: verl's `ray start` on all, then runtime.verl.ray_address=auto")
    try:
        interpreter(runtime.verl)
    except ConfigError as error:
        reasons.append(str(error))
    return reasons


@functools.cache  # every arm of a plan asks
def _ask_version(python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", _VERSION_SCRIPT],
        capture_output=True,
        text=True,
        timeout=_SCRIPT_SECONDS,
        check=False,
        env=environment(python),
    )


def environment(python: str) -> dict[str, str]:
    """Return this process's environment for another interpreter: nothing that imports our packages, its own programs first."""
    leaks = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    variables = {key: value for key, value in os.environ.items() if key not in leaks}
    return {**variables, "PATH": os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)])}
