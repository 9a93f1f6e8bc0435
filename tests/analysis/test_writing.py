"""What a report writes appears whole or not at all, and a disk that takes nothing is named in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from analysis.figures.drawing import save
from analysis.tables.table import write_texts
from harness.store import StoreFull, StoreReadOnly


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, StoreFull), (errno.EROFS, StoreReadOnly)])
def test_a_disk_that_takes_nothing_is_named_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    write_texts(tmp_path, {"answer.md": "old"})
    save(Figure(), tmp_path, "ladder", ("pdf", "png", "svg"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(expected, match=r"answer\.md"):
            write_texts(tmp_path, {"answer.md": "new"})
        with pytest.raises(expected, match=r"ladder\.pdf"):
            save(Figure(figsize=(1, 1)), tmp_path, "ladder", ("pdf",))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
