"""A verb run in this process or in one of its own, and its words."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from harness.cli import main
from harness.configuration import user_code

ROOT = Path(__file__).parents[1]


class Said(Protocol):
    """Runs a verb, which must end with `code` and no traceback; returns what it printed, of a refusal on the stream of errors alone."""

    def __call__(self, *arguments: str, code: int = 0) -> str: ...


def jsonl(path: Path, rows: Iterable[object]) -> Path:
    """Write a file with a line of JSON a row."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def python(where: Path, *command: str, code: int = 0, site: Path | None = None) -> str:
    """Run Python in a folder, on this checkout and the packages in `site`; it must end with `code`. Returns what it printed."""
    places = [str(ROOT), *([str(site)] if site else [])]
    more = {"PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *command], cwd=where, env={**os.environ, **more}, capture_output=True, text=True, check=False, timeout=1200
    )  # fmt: skip
    assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def harness(where: Path, *command: str, code: int = 0, site: Path | None = None) -> str:
    """Run a verb like `python`."""
    return python(where, "-m", "harness", *command, code=code, site=site)


def harness_here(where: Path, *command: str) -> str:
    """Run a verb in that folder, in this process: libraries are loaded, and workers come from one fork server."""
    with _here(where) as said:
        assert main(list(command)) == 0, f"{command}\n{said.getvalue()[-3000:]}"
    return said.getvalue()


def python_here(where: Path, code: str, *arguments: str) -> str:
    """Run the text of a program in that folder, in this process. Returns what it printed."""
    with _here(where) as said, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["program", *arguments])
        exec(compile(code, "program", "exec"), {"__name__": "__main__"})
    return said.getvalue()


@contextlib.contextmanager
def _here(where: Path) -> Iterator[io.StringIO]:
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        patch.chdir(where)
        patch.setenv("COLUMNS", "200")
        patch.setenv("MPLBACKEND", "agg")
        patch.setattr(user_code, "FILES", {})  # a process of its own knows no other command's members
        yield said
