"""Supervisors that are stopped, killed, run beside each other, or die between their claim and the first manifest."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sweep_support import STUB_PATH, Supervisor, final_table, spec, sweep, wait_until

from harness.execution.attempt import Attempt
from harness.execution.fork_server import SUPERVISOR, of_this_process
from harness.store import ResultStore, RunDir, layout

RUNS, STEPS, SECONDS = 4, 30, 0.02


def some_steps_done(store: ResultStore, least: int = 1) -> bool:
    rows = [store.run(one.run_id).last_step() for one in sweep(RUNS, STEPS, SECONDS)]
    return any(row is not None and row["step"] >= least for row in rows)


def outcomes(store: ResultStore) -> list[list[str]]:
    return [[a["outcome"] for a in store.run(run_id).manifest()["attempts"]] for run_id in store.run_ids()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> bytes:
    """The final table of a sweep that nothing happens to."""
    root = tmp_path_factory.mktemp("undisturbed")
    Supervisor(root, RUNS, STEPS, 0).output()
    return final_table(ResultStore(root))


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """The temporary directory of the processes that a test starts."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_a_killed_supervisor_leaves_no_worker_and_the_next_one_finishes_the_rest_once(store, undisturbed, scratch):
    first = Supervisor(store.root, RUNS, STEPS, SECONDS)
    wait_until(lambda: some_steps_done(store, 7))
    first.kill()
    wait_until(lambda: not first.others(), seconds=60, what="orphans to end")
    wait_until(lambda: not list(scratch.glob("pymp-*")), seconds=60, what="the fork server's folder to go")
    first.output()
    assert "failed=[]" in Supervisor(store.root, RUNS, STEPS, SECONDS).output()
    histories = outcomes(store)
    assert sorted(histories)[-2:] == [["lost", "finished"]] * 2
    assert all(history.count("finished") == 1 for history in histories)
    assert final_table(store) == undisturbed


def test_a_supervisor_that_is_killed_while_libraries_load_leaves_nothing_behind(store, scratch):
    first = Supervisor(store.root, RUNS, STEPS, SECONDS, entry="stub_slow:steps")
    wait_until(lambda: bool(first.others()), what="the fork server")
    time.sleep(1)
    first.kill()
    wait_until(lambda: not first.others(), seconds=6, what="the fork server to end")
    assert store.run_ids() == []
    assert not list(scratch.glob("pymp-*"))


def python(code: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": STUB_PATH, **environment})


def test_a_fork_server_outlives_the_thread_that_started_it_and_no_supervisor(tmp_path):
    begun = tmp_path / "begun"
    code = f"import harness.execution.fork_server, time; open({str(begun)!r}, 'w'); time.sleep(99)"
    with ThreadPoolExecutor(1) as thread:
        server = thread.submit(python, code, **{SUPERVISOR: f"{os.getpid()}:{tmp_path}"}).result()
        wait_until(begun.exists, what="the fork server")
    time.sleep(1)
    assert server.poll() is None
    assert begun.exists()
    server.kill()
    assert python(code, **{SUPERVISOR: f"{server.pid}:{tmp_path}"}).wait() == -signal.SIGKILL
    assert not tmp_path.exists()
    with multiprocessing.get_context("fork").Pool(1) as pool:  # its processes have the folder of this one
        assert pool.apply(of_this_process)[SUPERVISOR].endswith(":")


def test_a_process_that_begins_after_its_parents_end_is_killed_whatever_it_does_on_signals():
    code = "import signal; from harness.training import torchrun; signal.signal(15, signal.SIG_IGN)"
    assert python(f"{code}; torchrun.die_with(1, signal.SIGTERM)").wait() == -signal.SIGKILL


def test_what_workers_started_dies_with_a_killed_supervisor(store):
    first = Supervisor(store.root, 1, 3, 200.0, entry="stub_worker:with_child")
    wait_until((store.run(f"{0:016x}").path / "attempts" / "000" / "listens").exists, what="the worker")
    first.kill()
    wait_until(lambda: not first.others(), seconds=6, what="the worker and its child to end")
    assert not first.others()


def test_a_terminated_supervisor_checkpoints_and_the_next_one_resumes(store, undisturbed):
    first = Supervisor(store.root, RUNS, STEPS, SECONDS)
    wait_until(lambda: some_steps_done(store, 2) and len([*store.root.glob("runs/*/attempts/000/listens")]) == 2)
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
    assert final_table(store) == undisturbed


def test_a_second_stop_kills_the_workers_at_once(store):
    slow = Supervisor(store.root, 1, 3, 200.0)  # a step outlasts every wait below
    attempt: Path = store.run(f"{0:016x}").path / "attempts" / "000"
    wait_until((attempt / "listens").exists, seconds=60)
    slow.kill(signal.SIGINT)
    wait_until((attempt / "asked_to_stop").exists, seconds=60)
    assert slow.process.poll() is None, "it waits for the step to end"
    slow.kill(signal.SIGINT)
    assert "interrupted=['0000000000000000']" in slow.output()


def test_two_supervisors_share_a_sweep_and_run_nothing_twice(store, undisturbed):
    pair = [Supervisor(store.root, RUNS, STEPS, SECONDS, workers=1) for _ in range(2)]
    texts = [one.output() for one in pair]
    assert outcomes(store) == [["finished"]] * RUNS
    assert all("finished arm_" in text for text in texts), "both had a share"
    assert final_table(store) == undisturbed


RECORD = {"provenance": {}, "environment": {}}
DEATHS = ("claim", "attempt", "configuration", "manifest")


def die_in(death: str, root: Path) -> None:
    """Begin an attempt and end without any cleaning up, before (manifest: within) one of its writes."""
    if death == "claim":
        RunDir.manifest = lambda self: os._exit(9)
    elif death == "attempt":
        RunDir.write_config = lambda self, text: os._exit(9)
    else:
        name = {"configuration": layout.CONFIG, "manifest": layout.MANIFEST}[death]
        replace = os.replace
        os.replace = lambda old, new: os._exit(9) if Path(new).name == name else replace(old, new)
    Attempt.begin(spec(0), ResultStore(root).run(spec(0).run_id), **RECORD)
    os._exit(1)


def die(death: str, root: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=die_in, args=(death, root))
    child.start()
    child.join()
    assert child.exitcode == 9


@pytest.mark.parametrize("death", DEATHS)
def test_an_unfinished_start_is_no_problem_and_is_taken_over(tmp_path, death):
    store = ResultStore(tmp_path)
    run = store.run(spec(0).run_id)
    die(death, tmp_path)
    assert run.path.exists()
    (run.path / ".hydra").mkdir()
    (run.path / ".hydra" / "overrides.yaml").touch()  # Hydra writes it before the run is claimed
    assert (run.unfinished_start(), run.exists(), store.problems(), store.run_ids()) == (True, False, [], [])
    die(death, tmp_path)  # and once more
    attempt = Attempt.begin(spec(0), run, **RECORD)
    assert attempt is not None
    attempt.end(0, stopping=False)
    assert [path.name for path in (run.path / "attempts").iterdir()] == ["000"]
    assert [record["index"] for record in run.manifest()["attempts"]] == [0]
    assert not list(run.path.rglob("*.tmp"))
    assert (store.run_ids(), store.problems()) == ([run.run_id], [])


@pytest.mark.parametrize(
    "file",
    ["notes.txt", "metrics.jsonl", "attempts/000/stdout.log", "samples/b/step-000000/part-000.parquet"],
)
def test_a_directory_with_anything_else_is_told_and_left_alone(tmp_path, file):
    store = ResultStore(tmp_path)
    run = store.run(spec(0).run_id)
    die("manifest", tmp_path)
    mine = run.path / file
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    (problem,) = store.problems()
    assert "has no manifest.json" in problem
    attempt = Attempt.begin(spec(0), run, **RECORD)
    assert attempt is not None
    attempt.abandon()
    assert mine.read_text() == "mine"
