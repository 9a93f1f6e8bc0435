"""Ranks end together: what was finished stays finished, and nobody waits for a rank that is gone."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.configuration.schema import RuntimeConfig
from harness.store import RunDir
from harness.training import torchrun
from harness.training.torchrun import ERROR, RESULT, RankFailed, train_on_ranks

WAIT = 120  # seconds: torchrun's own patience is 300, that of the ranks four hours


def start_agents(folder: Path, entries: list[str]) -> list[subprocess.Popen[bytes]]:
    """One agent for each "node" of a run whose ranks are these programs."""
    (folder / "attempts" / "001").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    agents = []
    for number, entry in enumerate(entries):
        program = folder / f"rank_{number}.py"
        program.write_text("import json, os, pathlib, sys, time\n" + entry)
        options = [f"--nnodes={len(entries)}", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=test"]
        options.append(f"--rdzv-endpoint=localhost:{port}")
        command = [sys.executable, "-m", "harness.training.agent", str(folder), "1", *options, str(program)]
        agents.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    return agents


def ends(agents: list[subprocess.Popen[bytes]]) -> list[int]:
    try:
        return [agent.wait(WAIT) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()


def agents_of(folder: Path, first: str, then: str, once: Path) -> list[int]:
    """How two agents end whose ranks are `first`, and `then` once that file exists."""
    wait = f"\nwhile not os.path.exists({str(once)!r}): time.sleep(0.1)\n"
    return ends(start_agents(folder, [f"{first}\n", wait + then]))


def test_a_node_whose_ranks_wait_learns_that_another_died(tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    first = f"pathlib.Path({str(waits)!r}).touch(); time.sleep(3600)"
    assert agents_of(tmp_path, first, "os.kill(os.getpid(), 9)", waits) == [1, 1]
    assert "was killed by SIGKILL" in (tmp_path / "attempts" / "001" / ERROR).read_text()


def test_a_rank_that_was_killed_is_named_beside_the_one_that_lost_it(tmp_path: Path) -> None:
    error = tmp_path / "attempts" / "001" / ERROR
    first = f"pathlib.Path({str(error)!r}).write_text('rank 1: connection reset\\n'); time.sleep(3600)"
    assert agents_of(tmp_path, first, "os.kill(os.getpid(), 11)", error) == [1, 1]
    lost, killed = error.read_text().splitlines()
    assert lost == "rank 1: connection reset"
    assert killed.endswith("rank 1 was killed by SIGSEGV")


def test_a_rank_that_dies_after_the_result_undoes_nothing(tmp_path: Path) -> None:
    result = tmp_path / "attempts" / "001" / RESULT
    first = f"pathlib.Path({str(result)!r}).write_text(json.dumps(dict(complete=True)))"
    assert agents_of(tmp_path, first, "os.abort()", result) == [0, 0]
    assert not (result.parent / ERROR).exists()


@pytest.mark.parametrize("complete", [True, False])
def test_the_result_counts_and_not_how_torchrun_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    folder = tmp_path / "attempts" / "001"
    folder.mkdir(parents=True)
    program = f"import os, pathlib\npathlib.Path({str(folder / RESULT)!r}).write_text({json.dumps({'complete': complete})!r})\nos.abort()"
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(torchrun, "torchrun_command", lambda *_: command)
    assert train_on_ranks(RuntimeConfig(), RunDir(tmp_path), lambda: False, 1) is complete


def test_without_a_result_the_run_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "attempts" / "001").mkdir(parents=True)
    monkeypatch.setattr(torchrun, "torchrun_command", lambda *_: [sys.executable, "-c", ""])
    with pytest.raises(RankFailed, match="ended with code 0"):
        train_on_ranks(RuntimeConfig(), RunDir(tmp_path), lambda: False, 1)
