"""Ranks end together: what was finished stays finished, and nobody waits for a rank that is gone."""

from __future__ import annotations

import errno
import json
import sys
import time
from pathlib import Path

import pytest
from small_runs import claimed, small_config

from harness.configuration.schema import RuntimeConfig
from harness.store import RunDir, StoreFull
from harness.training import torchrun
from harness.training.torchrun import RESULT, RankFailed, train_on_ranks

LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def train_with(command: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a run is complete whose ranks this command starts."""
    (folder / "attempts" / "001").mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(torchrun, "torchrun_command", lambda *_: command)
    return train_on_ranks(RuntimeConfig(), RunDir(folder), lambda: False, 1)


def test_nobody_waits_for_a_rank_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "rank.py"
    program.write_text("import os, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 9)\ntime.sleep(3600)")
    begin = time.monotonic()
    with pytest.raises(RankFailed, match=r"ended with code 1: a rank was killed .*memory"):
        train_with([*LAUNCHER, str(program)], tmp_path, monkeypatch)
    assert time.monotonic() - begin < 120


@pytest.mark.parametrize("complete", [True, False])
def test_the_result_counts_and_not_how_torchrun_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    result = tmp_path / "attempts" / "001" / RESULT
    content = json.dumps({"complete": complete})
    program = f"import os, pathlib\npathlib.Path({str(result)!r}).write_text({content!r})\nos.abort()"
    assert train_with([sys.executable, "-c", program], tmp_path, monkeypatch) is complete


def test_without_a_result_the_run_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RankFailed, match="ended with code 0"):
        train_with([sys.executable, "-c", ""], tmp_path, monkeypatch)


FULL_DISK = """
import sys
from pathlib import Path
from harness.store import StoreFull
from harness.training import loop, torchrun

def train_run(config, run, *_):
    raise StoreFull("no space left writing the checkpoint")

loop.train_run = train_run
torchrun.main(Path(sys.argv[1]), 1)
"""


def test_a_full_disk_of_a_rank_is_one_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = claimed(small_config(), tmp_path)
    command = [sys.executable, "-c", FULL_DISK, str(run.path)]
    with pytest.raises(StoreFull, match="rank 0: StoreFull: no space left writing the checkpoint"):
        train_with(command, run.path, monkeypatch)


def test_a_disk_that_something_else_filled_is_full_all_the_same(tmp_path: Path) -> None:
    torchrun.record_error(tmp_path, OSError(errno.ENOSPC, "No space left on device"), "rank 0")
    assert json.loads((tmp_path / torchrun.ERROR).read_text())["kind"] == "disk"


def test_a_disk_too_full_for_the_error_itself_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_file(path: Path, data: bytes) -> None:
        raise StoreFull(f"no space left writing {path}")

    monkeypatch.setattr(torchrun, "write_file", write_file)
    with pytest.raises(StoreFull, match="no space left"):
        train_with([sys.executable, "-c", ""], tmp_path, monkeypatch)
