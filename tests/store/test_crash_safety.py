"""Writers killed in the middle, full and read-only disks, racing claimants: readers never see torn state."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stored_runs import RUN_ID, about, created, graded

from harness.store import ResultStore, RunClaimed, RunDir, StoreFull, StoreReadOnly, atomic, lease
from harness.store.seal import SEAL, folder_fault

WRITER = """
import sys
from pathlib import Path
from harness.store import RunDir
run = RunDir(Path(sys.argv[1]))
if not run.exists():
    run.write_config("a: 1")
    run.write_manifest({"arm_id": "a", "seed": 0, "status": "running", "labels": {}, "attempts": []})
last = run.last_step()
step = 0 if last is None else last["step"]
def checkpoint(directory):
    for name in ("weights", "optimiser", "state"):
        (directory / name).write_text(str(step) * 2000)
print("ready", flush=True)
while True:
    step += 1
    run.append_step({"step": step, "reward_mean": 0.5, "padding": "x" * 3000})
    run.write_manifest({**run.manifest(), "note": str(step) * 3000})
    run.publish_checkpoint(step, checkpoint, keep=2)
"""


def started(code: str, path: Path) -> subprocess.Popen[bytes]:
    """A process of this code over a run's path, once it has said that it is where it wants to be."""
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def check_nothing_is_torn(run: RunDir) -> None:
    manifest = run.manifest()
    note = manifest.get("note", "")
    assert note == note[: len(note) // 3000] * 3000
    steps = list(run.steps()["step"])
    assert steps == list(range(1, len(steps) + 1))
    checkpoints = run.checkpoints()
    assert len(checkpoints) <= 3  # the newest is published before the oldest goes
    for step, path in checkpoints:
        assert {entry.name for entry in path.iterdir()} == {"weights", "optimiser", "state", SEAL}
        assert not folder_fault(path)
        assert step <= len(steps)


def test_a_reader_never_sees_torn_state_of_a_writer_that_is_killed_at_random(tmp_path):
    run = RunDir(tmp_path / "runs" / RUN_ID)
    chance = random.Random(0)
    for _ in range(6):
        writer = started(WRITER, run.path)
        time.sleep(chance.uniform(0.0, 0.3))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        check_nothing_is_torn(run)
    run.remove_leftovers()
    assert not [path for path in run.path.rglob(".*.tmp") if path.parent != run.path]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_dropped_and_mended_by_the_next_attempt(tmp_path, cut):
    run = RunDir(tmp_path / RUN_ID)
    run.path.mkdir()
    for step in (1, 2, 3):
        run.append_step({"step": step, "reward_mean": step / 8, "note": "n" * 40})
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(run.steps()["step"]) == ([1, 2, 3] if cut == 1 else [1, 2])
    again = RunDir(run.path)
    again.rewind(3)  # as the next attempt does
    again.append_step({"step": 3, "reward_mean": 0.75})
    assert list(again.steps()["step"]) == [1, 2, 3]
    assert list(again.steps()["reward_mean"]) == [0.125, 0.25, 0.75]
    assert again.last_step() == {"step": 3, "reward_mean": 0.75}


def fail_with(number: int):
    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.ENOSPC, StoreFull), (errno.EDQUOT, StoreFull), (errno.EROFS, StoreReadOnly)]
)
def test_disk_errors_name_the_path_and_the_fix_and_leave_the_old_file(tmp_path, monkeypatch, number, expected):
    path = tmp_path / "manifest.json"
    atomic.write_file(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_with(number))
        with pytest.raises(expected, match=r"manifest\.json.*runtime\.results"):
            atomic.write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path], "no temporary file stays behind"


def test_a_checkpoint_and_samples_that_do_not_fit_say_so_and_are_not_there(tmp_path, monkeypatch):
    run = ResultStore(tmp_path).run(RUN_ID)
    created(run, "a: 1", about(status="running"))
    with pytest.raises(StoreFull, match="checkpoints"):
        run.publish_checkpoint(1, fail_with(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_with(errno.ENOSPC))
        with pytest.raises(StoreFull, match="samples"):
            run.write_samples("b", 1, 0, graded([True]))
    assert (run.checkpoints(), run.benchmarks(), run.status) == ([], [], "running")


def test_a_step_that_does_not_fit_on_the_disk_leaves_the_file_whole(tmp_path, monkeypatch):
    run = RunDir(tmp_path / RUN_ID)
    run.path.mkdir()
    run.append_step({"step": 1})
    write = os.write

    def half_then_full(descriptor: int, data: bytes) -> int:
        if data.startswith(b"{"):
            return write(descriptor, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half_then_full)
        with pytest.raises(StoreFull, match=r"metrics\.jsonl"):
            run.append_step({"step": 2})
    assert (run.path / "metrics.jsonl").read_text() == '{"step": 1}\n'
    run.append_step({"step": 2})
    assert list(run.steps()["step"]) == [1, 2]


def claim_and_count(root: Path, start, wins, losses, done) -> None:
    start.wait()
    try:
        with ResultStore(root).run(RUN_ID).lock():
            with wins.get_lock():
                wins.value += 1
            done.wait()
    except RunClaimed:
        with losses.get_lock():
            losses.value += 1


def test_of_many_claimants_exactly_one_wins(tmp_path):
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        start, done = context.Event(), context.Event()
        wins, losses = context.Value("i", 0), context.Value("i", 0)
        racers = [
            context.Process(target=claim_and_count, args=(tmp_path, start, wins, losses, done)) for _ in range(16)
        ]
        for racer in racers:
            racer.start()
        start.set()
        deadline = time.monotonic() + 20
        while wins.value + losses.value < 16:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        done.set()
        for racer in racers:
            racer.join()
        assert (wins.value, losses.value) == (1, 15)


def test_a_claim_names_its_holder_and_dies_with_it(tmp_path):
    run = ResultStore(tmp_path).run(RUN_ID)
    code = (
        "import sys, time; from pathlib import Path; from harness.store import RunDir\n"
        "lease = RunDir(Path(sys.argv[1])).lock(); print('held', flush=True); time.sleep(60)"
    )
    holder = started(code, run.path)
    with pytest.raises(RunClaimed, match=rf"claim\.lock is held by process {holder.pid} on "):
        run.lock()
    assert run.claim_holder().pid == holder.pid
    holder.kill()
    holder.communicate()
    assert run.claim_holder() is None
    run.lock().release()


def test_looking_who_holds_a_lock_never_makes_a_claim_fail(tmp_path):
    run = ResultStore(tmp_path).run(RUN_ID)
    run.lock().release()
    code = (
        "import sys; from pathlib import Path; from harness.store import RunDir\n"
        "run = RunDir(Path(sys.argv[1])); print('go', flush=True)\n"
        "while True: run.claim_holder()"
    )
    with started(code, run.path) as watcher:
        try:
            for _ in range(300):
                run.lock().release()  # raises `RunClaimed` where looking counts as holding
            assert watcher.poll() is None, "somebody looked all the time"
        finally:
            watcher.kill()


def test_a_claim_without_a_name_is_waited_for_and_is_a_claim_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "_NAMING_SECONDS", 0.3)
    path = tmp_path / "claim.lock"
    with lease.acquire(path):
        path.write_text("")  # as between its lock and its name
        begin = time.monotonic()
        with pytest.raises(RunClaimed, match="has not named itself"):
            lease.acquire(path)
        assert time.monotonic() - begin >= 0.3
        assert lease.holder(path) == lease.Holder(None, None)


def test_a_forked_child_does_not_keep_the_claim_of_its_parent(tmp_path):
    held = lease.acquire(tmp_path / "claim.lock")
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    child.start()
    held.release()
    lease.acquire(tmp_path / "claim.lock").release()  # raises where the child still holds it
    assert child.is_alive()
    child.kill()
    child.join()


def test_a_lock_on_a_file_that_was_cleaned_away_is_taken_anew(tmp_path, monkeypatch):
    path, real, calls = tmp_path / "run" / "claim.lock", lease._wait_for, []

    def cleaned_meanwhile(*arguments):
        if not calls:
            path.unlink()
            path.parent.rmdir()
        calls.append(arguments)
        real(*arguments)

    monkeypatch.setattr(lease, "_wait_for", cleaned_meanwhile)
    with lease.acquire(path):
        assert len(calls) == 2
        assert path.exists()
        with pytest.raises(RunClaimed):
            lease.acquire(path)
