"""Free space: shows what it would remove, asks, and never touches metrics or samples of finished runs but for `--experiment`.

harness clean                       shows what could go
harness clean --checkpoints         checkpoints of finished runs (they can no longer be evaluated anew)
harness clean --unfinished          failed, interrupted and lost runs (they start over), and what a killed clean left
harness clean --cache               warm-up checkpoints and probes (they are made again)
harness clean --experiment experiment=NAME      the whole experiment, with the runs that no other experiment has
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Set
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from harness.commands._arguments import SELECTION, Selection, flag, require_idle, select
from harness.configuration.error import ConfigError
from harness.store import ResultStore, RunClaimed, StoreError, layout
from harness.store.atomic import leftovers, remove_directory, write_errors
from harness.store.pack import merge_lock


@dataclass(frozen=True)
class Removable:
    """A directory that could go; `run_id` is the run whose claim has to be free, if any, `whole`: with what finished in it."""

    path: Path
    run_id: str | None
    bytes: int
    whole: bool = False


def run(options: argparse.Namespace) -> int:
    selection = select(options.overrides)
    if options.experiment and not selection.experiments:
        raise ConfigError("name what is to go: harness clean --experiment experiment=NAME")
    if options.experiment:
        require_idle(selection)
    removables: list[Removable] = []
    for name, (help_text, find) in _KINDS.items():
        items = list(find(selection))
        selected = getattr(options, name)
        print(f"{'remove' if selected else 'could remove'} {_amount(items)}: {help_text} (--{name})")
        if selected:
            removables += items
    if not removables:
        return 0
    other_experiments = _other_experiments(selection, set(selection.run_ids))
    for run_id, others in other_experiments.items() if options.experiment else ():
        print(f"  kept {selection.store.run(run_id).path}: it is of {', '.join(others)}, too")
    for item in removables:
        others = other_experiments.get(item.run_id or "", [])
        print(f"  {item.path}" + f" (of {', '.join(others)}, too)" * bool(others))
    if not options.yes and not _confirm(f"Remove {_amount(removables)}? [y/N] "):
        print("nothing removed")
        return 0
    with write_errors(selection.store.root):
        removed_items = [item for item in removables if _remove(selection, item)]
    print(f"removed {_amount(removed_items)}")
    return 0


def _confirm(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:  # nobody is there to answer
        return False


def _other_experiments(selection: Selection, run_ids: Set[str]) -> dict[str, list[str]]:
    """Name the experiments beside those asked for that have one of the runs."""
    items: dict[str, list[str]] = {}
    experiments = selection.experiments
    for name in sorted(set(selection.store.plans()) - set(experiments)) if experiments else ():
        for arm in selection.store.plan(name)["arms"]:
            for run_id in run_ids & set(arm["runs"].values()):
                items.setdefault(run_id, []).append(name)
    return items


def _checkpoints(selection: Selection) -> Iterator[Removable]:
    for run_id in selection.run_ids:
        run = selection.store.run(run_id)
        if run.status == "finished":
            for _, path in run.checkpoints():
                yield Removable(path, run_id, _size(path))
            for path in filter(Path.is_dir, leftovers(run.path / "checkpoints")):
                yield Removable(path, run_id, _size(path))


def _unfinished_runs(selection: Selection) -> Iterator[Removable]:
    for run_id in selection.run_ids:
        run = selection.store.run(run_id)
        # What finished and is damaged, or is of a newer version, is somebody's only copy.
        if run.status in ("finished", layout.INCOMPLETE, layout.UNREADABLE) or run.without_manifest():
            continue
        if run.path.is_dir() and run.claim_holder() is None:
            yield Removable(run.path, run_id, _size(run.path))
    root = selection.store.root
    for folder in () if selection.experiments else (layout.runs_dir(root), layout.experiments_dir(root)):
        for path in filter(Path.is_dir, leftovers(folder)):
            yield Removable(path, None, _size(path), whole=True)


def _experiment(selection: Selection) -> Iterator[Removable]:
    """The runs that no other experiment has, then the experiment: a command that is killed between is given again."""
    other_experiments = _other_experiments(selection, set(selection.run_ids))
    for run_id in selection.run_ids if selection.experiments else ():
        path = selection.store.run(run_id).path
        if run_id not in other_experiments and path.is_dir():
            yield Removable(path, run_id, _size(path), whole=True)
    for name in selection.experiments:
        path = layout.plan_file(selection.store.root, name).parent
        yield Removable(path, None, _size(path), whole=True)


def _cache(selection: Selection) -> Iterator[Removable]:
    store = selection.store
    root = store.root / "cache"
    if root.is_dir() and (active_run := _active_run(store)):
        print(f"  kept {root}: {active_run} uses it; clean it when nothing runs")
        return
    for path in filter(Path.is_dir, sorted(root.glob("*"))):
        if path.name != "leases":
            yield Removable(path, None, _size(path))


def _active_run(store: ResultStore) -> str:
    """A run that somebody works on now, in words; the claims of runs without a manifest count as well."""
    for path in sorted(layout.runs_dir(store.root).glob("*")):
        if layout.RUN_ID.fullmatch(path.name):
            run = store.run(path.name)
            try:
                if run.claim_holder() is not None or run.worker_holder() is not None:
                    return f"run {path.name}"
            except StoreError:  # another user's lock: nobody else can tell
                return f"perhaps run {path.name} of another user"
    return ""


_KINDS: dict[str, tuple[str, Callable[[Selection], Iterator[Removable]]]] = {
    "checkpoints": ("checkpoints of finished runs", _checkpoints),
    "unfinished": ("failed, interrupted and lost runs, and what a killed clean left", _unfinished_runs),
    "cache": ("what is made again when needed", _cache),
    "experiment": ("the experiments that are named, with runs that no other has", _experiment),
}


ARGUMENTS = {
    **{f"--{name}": flag(help_text) for name, (help_text, _) in _KINDS.items()},
    "--yes": flag("do not ask"),
    **SELECTION,
}


def _remove(selection: Selection, item: Removable) -> bool:
    """Remove under the run's claim, what a killed command left where no merge is, and look again: it may have been taken up meanwhile."""
    run = None if item.run_id is None else selection.store.run(item.run_id)
    if run is None and not item.whole and (active_run := _active_run(selection.store)):
        print(f"  kept {item.path}: {active_run} began meanwhile")
        return False
    is_leftover = item.path.suffix == ".tmp"
    try:
        with merge_lock(selection.store) if is_leftover else nullcontext() if run is None else run.lock():
            is_checkpoint = item.path.parent.name == "checkpoints"
            if run is not None and not item.whole and (run.status == "finished") != is_checkpoint:
                return False
            remove_directory(item.path)
            return True
    except RunClaimed:
        print(f"  kept {item.path}: {'a merge' if is_leftover else 'it'} runs")
    except StoreError as error:
        print(f"  kept {item.path}: {error}")
    return False


def _size(path: Path) -> int:
    return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())


def _amount(items: list[Removable]) -> str:
    total = sum(item.bytes for item in items)
    return f"{len(items)} director{'y' if len(items) == 1 else 'ies'}, {total / 1e6:.1f} MB"
