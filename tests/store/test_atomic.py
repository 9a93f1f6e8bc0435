"""Directories that several writers make alike: one of them is published, whole, and no writer fails."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.store.atomic import publish_directory_once

WRITERS = 8


def test_writers_that_meet_publish_one_whole_directory(tmp_path: Path) -> None:
    path, together = tmp_path / "cache" / "base", threading.Barrier(WRITERS)

    def write(folder: Path) -> None:
        (folder / "a").write_text("1")
        (folder / "b").write_text("2")
        together.wait()  # everybody has written before anybody publishes

    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(publish_directory_once, path, write) for _ in range(WRITERS)]:
            done.result()
    assert {file.name: file.read_text() for file in path.iterdir()} == {"a": "1", "b": "2"}
    assert list(path.parent.iterdir()) == [path], "no temporary directory stays"


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "base"
    publish_directory_once(path, lambda folder: (folder / "a").touch())
    inode = path.stat().st_ino
    publish_directory_once(path, lambda _: pytest.fail("it was written again"))
    assert path.stat().st_ino == inode


def test_a_writer_that_fails_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "a").touch()
        raise ValueError("no weights")

    with pytest.raises(ValueError, match="no weights"):
        publish_directory_once(tmp_path / "base", write)
    assert list(tmp_path.iterdir()) == []
