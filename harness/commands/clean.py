"""Free space: shows what it would remove, asks, and never touches metrics or samples of finished runs but for `--experiment`.

harness clean                       shows what could go
harness clean --checkpoints         checkpoints of finished runs (they can no longer be evaluated anew)
harness clean --experiment experiment=NAME      the whole experiment, with the runs that no other experiment has
"""

import argparse
from collections.abc import Callable, Iterator, Set
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from harness.commands._arguments import SELECTION, Selection, flag, require_idle, select
from harness.configuration.error import ConfigError
from harness.store import RunClaimed, StoreError, layout
from harness.store.atomic import leftovers, remove_directory, write_errors


@dataclass(frozen=True)
class Removable:
    """A directory that could go; `run_id` is the run whose claim has to be free, if any."""

    path: Path
    run_id: str | None
    bytes: int


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


def _experiment(selection: Selection) -> Iterator[Removable]:
    """The runs that no other experiment has, then the experiment: a command that is killed between is given again."""
    other_experiments = _other_experiments(selection, set(selection.run_ids))
    for run_id in selection.run_ids if selection.experiments else ():
        path = selection.store.run(run_id).path
        if run_id not in other_experiments and path.is_dir():
            yield Removable(path, run_id, _size(path))
    for name in selection.experiments:
        path = layout.plan_file(selection.store.root, name).parent
        yield Removable(path, None, _size(path))


_KINDS: dict[str, tuple[str, Callable[[Selection], Iterator[Removable]]]] = {
    "checkpoints": ("checkpoints of finished runs", _checkpoints),
    "experiment": ("the experiments that are named, with runs that no other has", _experiment),
}


ARGUMENTS = {
    **{f"--{name}": flag(help_text) for name, (help_text, _) in _KINDS.items()},
    "--yes": flag("do not ask"),
    **SELECTION,
}


def _remove(selection: Selection, item: Removable) -> bool:
    """Remove under the run's claim: it may have been taken up meanwhile."""
    try:
        with nullcontext() if item.run_id is None else selection.store.run(item.run_id).lock():
            remove_directory(item.path)
            return True
    except RunClaimed:
        print(f"  kept {item.path}: it runs")
    except StoreError as error:
        print(f"  kept {item.path}: {error}")
    return False


def _size(path: Path) -> int:
    return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())


def _amount(items: list[Removable]) -> str:
    total = sum(item.bytes for item in items)
    return f"{len(items)} director{'y' if len(items) == 1 else 'ies'}, {total / 1e6:.1f} MB"
