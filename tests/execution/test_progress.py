"""What the progress displays and the status table say."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from stored_runs import about, created
from sweep_support import spec

from harness.execution.progress import LiveProgress, Snapshot, format_seconds, status_table
from harness.store import ResultStore, layout
from harness.store.reader import RunState, run_state, run_status


def running(step: int = 30, total: int | None = 100, phase: str = "") -> RunState:
    """A run whose steps take half a second; brackets in its name are no markup."""
    return RunState("0" * 16, "running", "caps [red] seed 0", 1, step, total, phase, reward=0.5, pace=0.5)


def test_the_time_left_follows_from_the_pace_of_the_newest_step():
    assert running().seconds_left == pytest.approx(35.0)
    assert running(step=120).seconds_left == 0
    assert running(total=None).seconds_left is None
    assert RunState("0" * 16, "running", total=100).seconds_left is None


def test_the_time_left_is_known_from_the_first_step_of_any_run():
    starting = RunState("1" * 16, "running", total=100)
    assert Snapshot(2, 0, 0, 0, 0, running=[starting]).seconds_left is None
    both = Snapshot(2, 0, 0, 0, 0, running=[running(), starting])
    assert both.seconds_left == pytest.approx((70 + 100) / 4)
    assert both.completed_runs == pytest.approx(0.3)


def test_the_sweep_is_estimated_from_all_steps_left_and_the_summed_rate():
    snapshot = Snapshot(total=4, finished=1, failed=0, waiting=1, waiting_steps=100, running=[running(), running()])
    assert snapshot.seconds_left == pytest.approx((70 + 70 + 100) / 4.0)
    assert snapshot.headline() == "1/4 finished, 2 running, 1 waiting, about 60 s left"
    snapshot.waiting_steps = None
    assert snapshot.seconds_left is None
    snapshot.failed, snapshot.stopping = 1, True
    assert "1 failed, stopping" in snapshot.headline()


def test_the_live_table_shows_runs_and_keeps_failures():
    stream = io.StringIO()
    live = LiveProgress(Console(file=stream, force_terminal=True, width=100, color_system=None))
    live.begin(3, 0)
    live.update(Snapshot(total=3, finished=0, failed=0, waiting=2, waiting_steps=200, running=[running()]))
    live.end_run("naive seed 1", "0" * 16, "failed", "exit code 1; out of memory")
    live.end_run("naive seed 2", "1" * 16, "finished", "")
    live.close()
    text = stream.getvalue()
    assert "caps [red] seed 0" in text
    assert "30/100" in text
    assert "10 %" in text  # of all runs, by steps
    assert "━" in text
    assert "0.500" in text
    assert "failed naive seed 1" in text
    assert "out of memory" in text
    assert "naive seed 2" not in text


def test_the_status_table_tells_running_from_lost_and_why_runs_failed(tmp_path):
    store = ResultStore(tmp_path)
    for number, status in enumerate(["running", "running", "failed", "finished"]):
        run = store.run(spec(number).run_id)
        labels = {"arm": f"arm_{number}", "steps": "100", "experiment": f"asked_{number}"}
        created(run, "", about(None, status, seed=number, labels=labels, error="exit code 1; boom"))
        run.append_step({"step": 40, "reward_mean": 0.25, "seconds_total": 2.0})
    newer = store.run(spec(5).run_id)
    newer.path.mkdir()
    (newer.path / "manifest.json").write_text('{"schema_version": 9}')
    stream = io.StringIO()
    with store.run(spec(0).run_id).lock():
        Console(file=stream, width=200).print(status_table([run_state(store, spec(n).run_id) for n in range(6)]))
        assert [run_status(store.run(spec(n).run_id)) for n in (0, 1, 2, 4)] == ["running", "lost", "failed", None]
    text = stream.getvalue()
    lines = {line.split()[0]: line for line in map(str.strip, text.splitlines()) if line.startswith("0" * 8)}
    assert "1 failed, 1 finished, 1 lost, 1 running, 1 unreadable, 1 waiting" in text
    assert "asked_0: 1 running" in text
    assert lines[spec(0).run_id].split()[1:4] == ["asked_0", "arm_0", "0"]
    assert f"{spec(2).run_id} asked_2 arm_2 seed 2: exit code 1; boom" in text
    assert "running" in lines[spec(0).run_id]
    assert "40/100" in lines[spec(0).run_id]
    assert "2 min" in lines[spec(0).run_id]
    assert "lost" in lines[spec(1).run_id]
    assert "boom" in text
    assert "newer version" in text
    assert spec(3).run_id not in text


@pytest.mark.parametrize("width", [80, 60])
def test_status_cuts_no_column_where_names_are_long(width: int) -> None:
    arms = [f"+ clip-higher and more of the same {number} seed {number}" for number in range(2)]
    states = [RunState("0" * 16, "running", name, 1, 12, 60, "", -0.493, 99.0) for name in arms]
    stream = io.StringIO()
    Console(file=stream, width=width).print(status_table(states))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert all(word in stream.getvalue() for word in ("left", "running", "12/60", "−0.493", "0" * 16, states[0].where))
    assert format_seconds(states[0].seconds_left) in stream.getvalue()
    end = next(line.index("seed") for line in lines if "seed" in line)
    assert "+clip-higherandmoreofthesame1" in "".join("".join(line[18:end].split()) for line in lines)


def test_before_the_first_step_progress_says_what_a_run_does(tmp_path):
    store = ResultStore(tmp_path)
    run = store.run("0" * 16)
    created(run, "", about(None, "running", attempts=[{}], labels={"steps": "60"}))
    run.new_attempt()

    def where() -> str:
        return run_state(store, run.run_id).where

    with run.lock():
        assert where() == "0/60 starting"
        run.say_phase(0, "evaluating the base policy")
        assert where() == "0/60 evaluating the base policy"
        run.append_step({"step": 3})
        run.say_phase(0, layout.TRAINING)
        assert where() == "3/60"
        run.say_phase(0, "")  # a backend that says nothing
        assert where() == "3/60"
