"""A note of the files that reports wrote into a folder: one that is no longer made is removed, a file of somebody else never."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from harness.store import atomic

NAME = "written.json"


def note_written(
    out: Path, experiment: str, paths: Iterable[Path], made_anew: Callable[[PurePosixPath], bool]
) -> list[Path]:
    """Remove what earlier reports of the experiment wrote and this one no longer makes, and note what it wrote.

    A file goes only if it is noted under this experiment, is one that this report would have made anew, and still has the content
    that was written: one that somebody changed or put there stays.

    Args:
        out: the folder of the reports.
        experiment: several may be written to one folder; each has its own list.
        paths: what this report wrote, below ``out``.
        made_anew: whether this report was asked for the kind of file at a path below ``out``.

    Returns:
        The removed files.
    """
    lists = _lists(out / NAME)
    before = lists.get(experiment, {})
    now = {path.relative_to(out).as_posix(): _digest(path) for path in paths}
    kept = {name: digest for name, digest in before.items() if not made_anew(PurePosixPath(name))}
    gone = {out / name: digest for name, digest in before.items() if name not in {**kept, **now}}
    removed = [path for path, digest in gone.items() if path.is_file() and _digest(path) == digest]
    for path in removed:
        path.unlink()
    lists[experiment] = dict(sorted({**kept, **now}.items()))
    atomic.write_file(out / NAME, json.dumps(lists, indent=1).encode() + b"\n", durable=False)
    return removed


def _lists(path: Path) -> dict[str, dict[str, str]]:
    """Experiment to file to the SHA-256 of its content; nothing where the note is not there or not readable."""
    try:
        found = json.loads(path.read_bytes())
        return {
            str(experiment): {
                name: str(digest)
                for name, digest in files.items()
                if not name.startswith("/") and ".." not in PurePosixPath(name).parts
            }
            for experiment, files in found.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
