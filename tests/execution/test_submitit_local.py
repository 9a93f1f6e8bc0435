"""Jobs in processes of their own by submitit's local executor: the path that Slurm takes, without Slurm."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.execution.launch import slurm
from launch_support import Events, statuses, use_stubs, work
from sweep_support import spec, sweep, wait_until

from harness.configuration.error import ConfigError
from harness.store import ResultStore

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _stubs(monkeypatch):
    use_stubs(monkeypatch)


def test_without_submitit_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[slurm\]'"):
        slurm.launch(slurm.Config(cluster="local"), work(tmp_path, [spec(0, steps=1, seconds=0)]), Events())


def test_each_job_runs_its_share_and_failures_stay_alone(tmp_path):
    specs = [spec(0), spec(1, do="raise"), spec(2), spec(3)]
    events = Events()
    summary = slurm.launch(
        slurm.Config(cluster="local", runs_per_job=2), work(tmp_path, specs, "by_config"), events
    )
    assert sorted(summary.finished) == [specs[n].run_id for n in (0, 2, 3)]
    assert summary.failed == [specs[1].run_id]
    assert "reward model exploded" in summary.errors[specs[1].run_id]
    assert (specs[1].run_id, "failed") in events.ended_runs
    again = slurm.launch(slurm.Config(cluster="local"), work(tmp_path, specs[:1], "by_config"), Events())
    assert again.skipped == [specs[0].run_id]


def test_submitting_without_waiting_returns_and_the_jobs_go_on(tmp_path):
    specs = sweep(2, steps=10, seconds=0.05)
    summary = slurm.launch(slurm.Config(cluster="local", wait=False), work(tmp_path, specs), Events())
    assert sorted(summary.submitted) == [one.run_id for one in specs]
    store = ResultStore(tmp_path)
    wait_until(lambda: statuses(store, specs) == ["finished"] * 2, 60)


def test_a_stop_signal_makes_the_jobs_checkpoint_and_the_next_call_resumes(tmp_path):
    specs = sweep(2, steps=40, seconds=0.2)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "from launch_support import work, Events; from sweep_support import sweep;"
        "from harness.execution.launch import slurm as s;"
        "summary = s.launch(s.Config(cluster='local'), work(Path(sys.argv[2]), sweep(2, steps=40, seconds=0.2)), Events());"
        "print(len(summary.interrupted), summary.stopped_by)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(HERE), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    store = ResultStore(tmp_path)
    wait_until(lambda: all((store.run(one.run_id).last_step() or {}).get("step", 0) > 2 for one in specs), 60)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert output.split() == ["2", str(int(signal.SIGTERM))]
    assert statuses(store, specs) == ["interrupted"] * 2
    reached = [store.run(one.run_id).checkpoints()[-1][0] for one in specs]
    summary = slurm.launch(slurm.Config(cluster="local"), work(tmp_path, specs), Events())
    assert len(summary.finished) == 2
    for one, step in zip(specs, reached, strict=True):
        steps = store.run(one.run_id).steps()
        assert list(steps["step"]) == list(range(1, 41))
        assert (steps["attempt"] == 1).sum() == 40 - step
