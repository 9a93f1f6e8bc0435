"""Power cuts: what no fsync has put on the disk is gone. After each fsync the disk is read as the next boot would find it.

A file has the content of its last fsync, a folder the names of its last fsync; a name whose file was never flushed is an empty file. Or
folders are as they are and contents alone are lost, as some file systems have it. A disk may also keep a later write and
lose an earlier one: of what was not flushed any name may be the old or the new one, and any file the old, the new, a part, or with a hole.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from stored_runs import RUN_ID, about, created, graded

from harness.store import ResultStore, RunDir, atomic, layout
from harness.store.error import StoreError
from harness.store.pack import merge

Tree = dict[str, "Tree | bytes"]


@dataclass
class Disk:
    """What lies on the disk under a root, after every fsync and every rename."""

    root: Path
    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)  # descriptors, so that no inode is used twice
    boots: list[Tree] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)  # boots so far, when a promise was made
    dice: random.Random = field(default_factory=lambda: random.Random(0))

    def flushed(self, descriptor: int) -> None:
        about_it = os.fstat(descriptor)
        self.kept.append(os.dup(descriptor))
        if stat.S_ISDIR(about_it.st_mode):
            with os.scandir(descriptor) as entries:
                self.names[about_it.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            with open(f"/proc/self/fd/{descriptor}", "rb") as file:
                self.contents[about_it.st_ino] = file.read()
        self.boot()

    def boot(self) -> None:
        root = self.root.stat().st_ino
        folders = {Path(folder).stat().st_ino for folder, _, _ in os.walk(self.root)}
        self.boots += [self._durable(root, folders), self._named(self.root)]
        live = {path.stat().st_ino: path for path in (self.root, *self.root.rglob("*"))}
        self.boots += [self._mixed(root, live) for _ in range(MIXES)]

    def promise(self) -> None:
        self.acknowledged.append(len(self.boots))

    def _durable(self, inode: int, folders: set[int]) -> Tree:
        found: Tree = {}
        for name, child in self.names.get(inode, {}).items():
            is_folder = child in self.names or child in folders
            found[name] = self._durable(child, folders) if is_folder else self.contents.get(child, b"")
        return found

    def _named(self, folder: Path) -> Tree:
        return {
            entry.name: self._named(entry) if entry.is_dir() else self.contents.get(entry.stat().st_ino, b"")
            for entry in folder.iterdir()
        }

    def _mixed(self, inode: int, live: dict[int, Path]) -> Tree:
        """What a disk may hold that writes in any order."""
        before, now = self.names.get(inode, {}), {}
        if inode in live:
            now = {path.name: path.stat().st_ino for path in live[inode].iterdir()}
        found: Tree = {}
        for name in sorted(before.keys() | now.keys()):
            child = self.dice.choice([before.get(name), now.get(name)])
            if child is not None and (child in self.names or (child in live and live[child].is_dir())):
                found[name] = self._mixed(child, live)
            elif child is not None:
                old = self.contents.get(child, b"")
                found[name] = self._torn(old, live[child].read_bytes() if child in live else old)
        return found

    def _torn(self, old: bytes, new: bytes) -> bytes:
        cut = self.dice.randint(min(len(old), len(new)), len(new))  # what was flushed stays
        hole = old + b"\0" * (cut - len(old)) + new[cut:]
        return old if old == new else self.dice.choice([old, new, new[:cut], hole])


MIXES = 4  # a look at the disk


@contextmanager
def recorded(root: Path) -> Iterator[Disk]:
    """The disk while its writers work."""
    disk, fsync, rename, replace = Disk(root), os.fsync, os.rename, os.replace

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        disk.flushed(descriptor)

    def moved(move: Callable[..., None]) -> Callable[..., None]:
        def and_look(*places: str) -> None:
            move(*places)
            disk.boot()

        return and_look

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        patch.setattr(os, "rename", moved(rename))
        patch.setattr(os, "replace", moved(replace))
        yield disk
    disk.boot()
    for descriptor in disk.kept:
        os.close(descriptor)


def booted(disk: Disk, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Each disk that a power cut may leave, and how many promises had been made by then."""
    seen: set[str] = set()
    for number, tree in enumerate(disk.boots):
        promises = sum(made <= number for made in disk.acknowledged)
        key = repr((promises, tree))
        if key not in seen:
            seen.add(key)
            root = tmp_path / f"boot-{number}"
            _write(tree, root)
            yield promises, root


def _write(tree: Tree, folder: Path) -> None:
    folder.mkdir()
    for name, found in tree.items():
        if isinstance(found, bytes):
            (folder / name).write_bytes(found)
        else:
            _write(found, folder / name)


def check(root: Path, promised: set[str]) -> None:
    """Nothing finished is lost, and nothing unfinished looks finished."""
    store = ResultStore(root)
    finished = set()
    for run_id in store.run_ids():
        run, whole = store.run(run_id), contextlib.suppress(StoreError)
        manifest = run.manifest()
        if manifest is not None and manifest["status"] == "finished":
            assert run.fault() == ""
            finished.add(run_id)
            whole = contextlib.nullcontext()
        with whole:
            run.steps()
        assert run.newest_checkpoint()[1] == []
    assert promised <= finished
    for name in store.plans():
        assert store.plan(name)["arms"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that was there before; the store is not."""
    (tmp_path / "before").mkdir()
    return tmp_path / "before"


def live(run: RunDir, promise: Callable[[], None] = lambda: None) -> None:
    """The life of a run: steps, samples, checkpoints, its end. A promise after each checkpoint, and after the end."""
    with run.lock():
        created(run, "a: 1\n", about(status="running"))
        for step in (1, 2, 3):
            run.append_step({"step": step, "generated_tokens": 10})
            run.write_samples("b", 1, step, graded([True, False, step == 2]))
            run.publish_checkpoint(step, _state, keep=2)
            promise()
        run.write_manifest(run.seal_manifest(run.manifest() or {}))
        promise()


def _state(folder: Path) -> None:
    (folder / "policy").mkdir()
    (folder / "policy" / "weights").write_bytes(b"w" * 100)


def test_a_run_survives_with_its_newest_checkpoint(root: Path, tmp_path: Path) -> None:
    run = ResultStore(root / "results").run(RUN_ID)
    with recorded(root) as disk:
        disk.boot()
        live(run, disk.promise)
    for promises, boot in booted(disk, tmp_path):
        check(boot / "results", {RUN_ID} if promises == 4 else set())
        found = ResultStore(boot / "results").run(RUN_ID)
        newest = found.newest_checkpoint()[0]
        assert promises == 0 or (newest is not None and newest.name >= layout.step_name(min(promises, 3)))
        goes_on_after = layout.parse_step(newest.name) if newest else 0
        with found.lock():
            found.rewind(goes_on_after or 0)  # as the next attempt does
        assert found.steps()["step"].tolist() == list(range(1, (goes_on_after or 0) + 1))


@pytest.mark.parametrize("here", ["nothing", "unfinished"])
def test_a_merge_takes_runs_whole_or_not_at_all(root: Path, tmp_path: Path, here: str) -> None:
    source, store = ResultStore(tmp_path / "source"), ResultStore(root / "results")
    for run_id in (RUN_ID, RUN_ID[::-1]):
        live(source.run(run_id))
    source.write_plan("mine", {"arms": [{"name": "a", "runs": {"0": RUN_ID}}]})
    if here == "unfinished":
        created(store.run(RUN_ID), "a: 1\n", about(status="running"))
    with recorded(root) as disk:
        for path in (root, *root.rglob("*")):  # what was there is on the disk
            atomic.sync_file(path)
        merge(store, source.root)
        disk.promise()
    for promises, boot in booted(disk, tmp_path):
        check(boot / "results", {RUN_ID, RUN_ID[::-1]} if promises else set())
        assert not promises or ResultStore(boot / "results").plans() == ["mine"]
