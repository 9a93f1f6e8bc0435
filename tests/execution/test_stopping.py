"""Supervisors that are stopped, killed, or run beside each other."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time

import pytest
from sweep_support import Supervisor, final_table, sweep, wait_until

from harness.execution.supervise import stop_supervisors
from harness.store import ResultStore

RUNS, STEPS, SECONDS = 4, 30, 0.02


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results")


def some_steps_done(store: ResultStore, least: int = 1) -> bool:
    rows = [store.run(one.run_id).last_step() for one in sweep(RUNS, STEPS, SECONDS)]
    return any(row is not None and row["step"] >= least for row in rows)


def outcomes(store: ResultStore) -> list[list[str]]:
    return [[a["outcome"] for a in store.run(run_id).manifest()["attempts"]] for run_id in store.run_ids()]


def assert_equals_an_undisturbed_sweep(store: ResultStore) -> None:
    reference = store.root.parent / "undisturbed"
    Supervisor(reference, RUNS, STEPS, 0).output()
    assert final_table(store) == final_table(ResultStore(reference))


def test_a_killed_supervisor_leaves_no_worker_and_the_next_one_finishes_the_rest_once(store):
    first = Supervisor(store.root, RUNS, STEPS, SECONDS)
    wait_until(lambda: some_steps_done(store, 7))
    first.kill()
    killed = time.monotonic()
    wait_until(lambda: not first.others(), seconds=5, what="orphans to end")
    assert time.monotonic() - killed < 3
    first.output()
    assert "failed=[]" in Supervisor(store.root, RUNS, STEPS, SECONDS).output()
    histories = outcomes(store)
    assert sorted(histories)[-2:] == [["lost", "finished"]] * 2
    assert all(history.count("finished") == 1 for history in histories)
    assert_equals_an_undisturbed_sweep(store)


def test_a_terminated_supervisor_checkpoints_and_the_next_one_resumes(store):
    first = Supervisor(store.root, RUNS, STEPS, SECONDS)
    wait_until(lambda: some_steps_done(store, 2))
    first.kill(signal.SIGTERM)
    output = first.output()
    assert first.process.returncode == 1
    assert output.count("interrupted arm_") == 2
    interrupted = [run_id for run_id in store.run_ids() if store.run(run_id).status == "interrupted"]
    assert len(interrupted) == 2
    assert all(store.run(run_id).checkpoints() for run_id in interrupted)
    Supervisor(store.root, RUNS, STEPS, SECONDS).output()
    for run_id in interrupted:
        lines = (store.run(run_id).path / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(1, STEPS + 1)), "no step twice"
    assert_equals_an_undisturbed_sweep(store)


def test_a_second_stop_kills_the_workers_at_once(store):
    slow = Supervisor(store.root, 1, 3, 200.0)  # a step outlasts every wait below
    wait_until(lambda: store.run(f"{0:016x}").worked_on_by() is not None)
    wait_until(lambda: store.run(f"{0:016x}").status == "running")
    time.sleep(0.3)  # the worker has installed its handler
    slow.kill(signal.SIGINT)
    time.sleep(0.5)
    assert slow.process.poll() is None, "it waits for the step to end"
    for _ in range(
        5
    ):  # on a starved core a second signal can melt into the first: send it again, as a person would
        slow.kill(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            slow.process.wait(3.0)
            break
    assert "interrupted=['0000000000000000']" in slow.output()


def test_two_supervisors_share_a_sweep_and_run_nothing_twice(store):
    pair = [Supervisor(store.root, RUNS, STEPS, SECONDS, workers=1) for _ in range(2)]
    texts = [one.output() for one in pair]
    assert outcomes(store) == [["finished"]] * RUNS
    assert all("finished arm_" in text for text in texts), "both had a share"
    assert_equals_an_undisturbed_sweep(store)


def test_stop_from_another_terminal_reaches_the_supervisor(store):
    supervisor = Supervisor(store.root, RUNS, STEPS, 0.1)
    wait_until(lambda: some_steps_done(store))
    assert stop_supervisors(store) == ([supervisor.process.pid], [])
    assert "interrupted arm_" in supervisor.output()
    assert stop_supervisors(store) == ([], [])
