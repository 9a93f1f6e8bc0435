"""Free space: shows what it would remove, asks, and never touches metrics or samples of finished runs.

harness clean                       shows what could go
harness clean --checkpoints         checkpoints of finished runs (they can no longer be evaluated anew)
harness clean --unfinished          directories of failed, interrupted and lost runs (they start over)
harness clean --cache               warm-up checkpoints, probes and job files (they are made again)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.commands._select import HELP, Selection, select
from harness.store import RunClaimed
from harness.store.atomic import remove_directory


@dataclass(frozen=True)
class Removable:
    """A directory that could go; `run_id` is the run whose claim has to be free, if any."""

    path: Path
    run_id: str | None
    bytes: int


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    for name, (help_text, _) in _KINDS.items():
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("overrides", nargs="*", help=HELP)


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    selection = select(options.overrides)
    chosen: list[Removable] = []
    for name, (help_text, find) in _KINDS.items():
        found = list(find(selection))
        wanted = getattr(options, name)
        print(f"{'remove' if wanted else 'could remove'} {_amount(found)}: {help_text} (--{name})")
        if wanted:
            chosen += found
    if not chosen:
        return 0
    for item in chosen:
        print(f"  {item.path}")
    if not options.yes and input(f"Remove {_amount(chosen)}? [y/N] ").strip().lower() not in ("y", "yes"):
        print("nothing removed")
        return 0
    removed = [item for item in chosen if _remove(selection, item)]
    print(f"removed {_amount(removed)}")
    return 0


def _checkpoints(selection: Selection) -> Iterator[Removable]:
    for run_id in selection.run_ids:
        run = selection.store.run(run_id)
        if run.status == "finished":
            for _, path in run.checkpoints():
                yield Removable(path, run_id, _size(path))


def _unfinished(selection: Selection) -> Iterator[Removable]:
    for run_id in selection.run_ids:
        run = selection.store.run(run_id)
        if run.status != "finished" and run.claimed_by() is None:
            yield Removable(run.path, run_id, _size(run.path))


def _cache(selection: Selection) -> Iterator[Removable]:
    root = selection.store.root / "cache"
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir() and path.name != "leases":
            yield Removable(path, None, _size(path))


_KINDS: dict[str, tuple[str, Callable[[Selection], Iterator[Removable]]]] = {
    "checkpoints": ("checkpoints of finished runs", _checkpoints),
    "unfinished": ("failed, interrupted and lost runs", _unfinished),
    "cache": ("what is made again when needed", _cache),
}


def _remove(selection: Selection, item: Removable) -> bool:
    """Remove under the run's claim, and look at its status again: it may have been taken up meanwhile."""
    if item.run_id is None:
        remove_directory(item.path)
        return True
    run = selection.store.run(item.run_id)
    try:
        with run.lock():
            inside = item.path.parent.name == "checkpoints"
            if (run.status == "finished") != inside:
                return False
            remove_directory(item.path)
            return True
    except RunClaimed:
        print(f"  kept {item.path}: it runs")
        return False


def _size(path: Path) -> int:
    return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())


def _amount(items: list[Removable]) -> str:
    total = sum(item.bytes for item in items)
    return f"{len(items)} director{'y' if len(items) == 1 else 'ies'}, {total / 1e6:.1f} MB"
