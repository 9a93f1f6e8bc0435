"""Packs from others: what no pack of ours holds is refused in one line, nothing of it is taken, and a killed merge leaves nothing."""

from __future__ import annotations

import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stored_runs import about
from verbs import Said

from harness.store import ResultStore, StoreError, pack

RUN = "runs/00000000000000aa"
PART = "samples/b/step-000001/part-000.parquet"
Members = list[tuple[tarfile.TarInfo, bytes]]


def member(name: str, content: bytes = b"{}", size: int | None = None) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = len(content) if size is None else size
    return entry, content


def packed(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content))
    return path


def sparse(path: Path) -> Path:
    """A GNU sparse member of 8 TiB whose content is a hole."""
    entry = tarfile.TarInfo(f"{RUN}/metrics.jsonl")
    entry.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386 : 386 + 24] = b"00000000000\0" + b"00000000000\0"
    header[483:495] = (1 << 43).to_bytes(12, "big")
    header[483] |= 0x80
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(lzma.compress(bytes(header) + b"\0" * 10_240))
    return path


def linked(path: Path) -> Path:
    entry, content = member(f"{RUN}/config.yaml", b"")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return packed(path, [(entry, content)])


def long_header(path: Path) -> Path:
    """A name that is said to be as long as the whole archive."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 100 << 20
    path.write_bytes(lzma.compress(entry.tobuf(tarfile.GNU_FORMAT) + b"a" * (100 << 20), preset=0))
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "sparse": (sparse, "no plain file"),
    "link": (linked, "no plain file"),
    "long header": (long_header, "more in it than it declares"),
    "attempts": (lambda path: packed(path, [member(f"{RUN}/attempts/000/env.json")]), "no file of an experiment or a run"),
    "a large stranger": (lambda path: packed(path, [member("big", b"\0" * 1000)]), "no file of an experiment or a run"),
    "absolute": (lambda path: packed(path, [member(f"/{RUN}/config.yaml")]), "no file of an experiment or a run"),
    "up": (lambda path: packed(path, [member(f"{RUN}/checkpoints/step-000001/../../../../x")]), "no file of an"),
    "hidden": (lambda path: packed(path, [member(f"{RUN}/checkpoints/step-000001/.x")]), "no file of an"),
    "deep": (lambda path: packed(path, [member(f"{RUN}/checkpoints/step-000001" + "/a" * 2500)]), "no file of an"),
    "escape": (lambda path: packed(path, [member("runs/\x1b]0;x\x07/config.yaml")]), r"runs/\x1b]0;x\x07/config.yaml"),
    "twice": (lambda path: packed(path, [member(f"{RUN}/config.yaml")] * 2), "in it twice"),
    "file as folder": (
        lambda path: packed(path, [member(f"{RUN}/checkpoints/step-000001/a{end}") for end in ("", "/b")]),
        "is torn, or no pack",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_pack_of_ours_holds_is_refused_by_name(tmp_path: Path, said: Said, kind: str) -> None:
    make, words = REFUSED[kind]
    source = make(tmp_path / "pack.tar.xz")
    told = said("merge", str(source), f"runtime.results={tmp_path / 'results'}", code=1)
    assert words in told
    assert str(source) in told
    assert len(told.strip().splitlines()) == 1
    assert "\x1b" not in told
    assert not (tmp_path / "results").exists()


def test_a_pack_that_claims_a_hundred_times_its_size_is_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_LEAST_BYTES", 1 << 20)
    honest = packed(tmp_path / "honest", [member(f"{RUN}/{PART}", os.urandom(3 << 20))])
    with pack.open_root(str(honest)) as root:
        assert (root / RUN / PART).stat().st_size == 3 << 20
    for members in (
        [member(f"{RUN}/{PART}", b"\0" * (4 << 20))],
        [member(f"{RUN}/samples/b/step-000001/part-{number}.parquet", b"") for number in range(3000)],
    ):
        bomb = str(packed(tmp_path / "x", members))
        with pytest.raises(StoreError, match="100 times its size"), pack.open_root(bomb):
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_reader_of_a_pack_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    source = packed(tmp_path / "pack", [member(f"{RUN}/config.yaml")])
    folder = tmp_path / "tmp"
    folder.mkdir()
    code = f"import time;from harness.store.pack import open_root\nwith open_root({str(source)!r}):\n print(1, flush=True)\n time.sleep(99)"
    reader = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}
    )
    assert reader.stdout is not None
    reader.stdout.readline()
    assert [path.name for path in folder.glob("*/runs/*")] == [Path(RUN).name]
    reader.send_signal(number)
    reader.communicate()
    deadline = time.monotonic() + 30
    while any(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(folder.iterdir()) == []


def test_what_a_killed_merge_was_copying_goes_with_the_next_one(tmp_path: Path) -> None:
    store, source = ResultStore(tmp_path / "results"), tmp_path / "other"
    (source / "runs").mkdir(parents=True)
    copying = store.root / "runs" / ".00000000000000aa.0123456789ab.tmp"
    copying.mkdir(parents=True)
    pack.merge(store, source)
    assert not copying.exists()


def test_a_run_that_cannot_be_read_stays_apart_and_the_rest_is_merged(tmp_path: Path) -> None:
    store, source = ResultStore(tmp_path / "results"), ResultStore(tmp_path / "other")
    for root in (store, source):
        for number in "ab":
            root.run(number * 16).create("", about(status="interrupted"))
    store.run("a" * 16).append_step({"step": 2})
    (source.run("a" * 16).path / "metrics.jsonl").mkdir()
    source.run("b" * 16).append_step({"step": 3})
    merged = pack.merge(store, source.root)
    assert [line for line in merged.conflicts if "Is a directory" in line and "a" * 16 in line]
    assert (store.run("b" * 16).last_step() or {})["step"] == 3


def test_a_plan_whose_seeds_are_no_list_stays_apart(tmp_path: Path) -> None:
    store, source = ResultStore(tmp_path / "results"), ResultStore(tmp_path / "other")
    for root, seeds in ((store, [0]), (source, None)):
        root.write_plan("e", {"arms": [], "seeds": seeds})
    (conflict,) = pack.merge(store, source.root).conflicts
    assert conflict.startswith("experiment e: ")
