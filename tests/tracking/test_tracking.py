"""Trackers follow the store: what arrives while runs go on, what survives a resume, and that their faults disturb no run."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from stored_runs import about, created

from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id, run_id
from harness.configuration.sections import RuntimeConfig
from harness.execution.progress import Progress
from harness.execution.supervisor import RunBatch, supervise
from harness.experiment.plan import RunSpec
from harness.store import ResultStore
from harness.tracking import _feed, wandb
from harness.tracking._feed import TrackerFeed

HERE = Path(__file__).parent


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("WANDB_SILENT", "true")
    return ResultStore((tmp_path / "results").resolve())


def specs(*trackers: str, seeds: int = 2) -> list[RunSpec]:
    chosen = [f"tracker=[{','.join(trackers)}]", "training.steps=3"]
    labels = {"experiment": "tracked", "arm": "dapo/clip higher", "steps": "3"}
    configs = [compose_run([*chosen, f"seed={seed}"]) for seed in range(seeds)]
    return [RunSpec(config, run_id(config), arm_id(config), labels) for config in configs]


def run(store: ResultStore, runs: list[RunSpec], entry: str = "three_steps", **tracker: str):
    trackers = runs[0].config.runtime.trackers
    trackers = {name: dataclasses.replace(config, **tracker) for name, config in trackers.items()}
    runtime = RuntimeConfig(device="cpu", workers=2, trackers=trackers)
    work = RunBatch(store.root, runs, runtime, {}, f"stub_tracked:{entry}")
    return supervise(work, Progress())


def use_fake(monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    """Make wandb a fake that records, raises or hangs."""
    monkeypatch.setenv("FAKE_WANDB", behaviour)
    monkeypatch.syspath_prepend(str(HERE / "fake"))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)


@pytest.fixture(autouse=True)
def _forget_the_fake():
    yield
    if "fake" in str(getattr(sys.modules.get("wandb"), "__file__", "")):
        del sys.modules["wandb"]


def fake_calls(store: ResultStore, name: str = "") -> list[dict]:
    path = store.root / "fake_wandb.jsonl"
    calls = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [call for call in calls if not name or call["call"] == name]


def test_wandb_gets_every_step_under_our_id_group_and_job_type(store, monkeypatch):
    use_fake(monkeypatch, "record")
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    calls = fake_calls(store)
    inits = {call["id"]: call for call in calls if call["call"] == "init"}
    assert {name.partition("-")[0] for name in inits} == {spec.run_id for spec in runs}
    (one,) = (call for name, call in inits.items() if name.startswith(runs[0].run_id))
    assert (one["group"], one["job_type"], one["mode"]) == ("tracked", "dapo/clip higher", "offline")
    assert one["resume"] == "allow"
    assert one["config"]["training"]["steps"] == 3
    logged = [call["step"] for call in calls if call["call"] == "log" and call["id"] == one["id"]]
    assert logged == [1, 2, 3]
    assert [call["exit_code"] for call in calls if call["call"] == "finish"] == [0, 0]


def test_a_resumed_run_sends_only_what_wandb_lacks(store, monkeypatch):
    use_fake(monkeypatch, "record")
    runs = specs("wandb", seeds=1)
    assert run(store, runs, "two_then_stop").interrupted
    assert run(store, runs).finished
    assert [call["step"] for call in fake_calls(store, "log")] == [1, 2, 3]
    assert len({call["id"] for call in fake_calls(store, "init")}) == 1
    run(store, runs)
    assert len(fake_calls(store, "init")) == 2, "what finished before is not sent again"


def test_the_same_run_in_another_root_or_made_anew_is_another_run_of_wandb(store, monkeypatch, tmp_path):
    """Under one id W&B would drop its steps, which lie below those that it has."""
    use_fake(monkeypatch, "record")
    runs, other = specs("wandb", seeds=1), ResultStore((tmp_path / "other").resolve())
    run(store, runs)
    run(other, runs)
    shutil.rmtree(store.run(runs[0].run_id).path)
    run(store, runs)
    ids = [call["id"] for each in (store, other) for call in fake_calls(each, "init")]
    assert len(set(ids)) == 3
    assert [call["step"] for call in fake_calls(store, "log")] == [1, 2, 3] * 2


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("raise_on_init", "tracker wandb gets no more of this run"),
        ("raise_on_log", "tracker wandb gets no more of this run"),
        ("hang", "trackers did not take all rows in time; the store has them"),
    ],
)
def test_a_tracker_that_fails_or_hangs_disturbs_no_run(store, monkeypatch, capsys, fault, says):
    use_fake(monkeypatch, fault)
    monkeypatch.setattr(_feed, "PATIENCE_SECONDS", 1.0)
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    assert says in capsys.readouterr().err
    assert list(store.run(runs[1].run_id).steps()["step"]) == [1, 2, 3]


def shown_steps(monkeypatch: pytest.MonkeyPatch, poll_seconds: float) -> dict[str, list[int]]:
    """The steps that a tracker will be sent, by run."""
    steps: dict[str, list[int]] = defaultdict(list)
    monkeypatch.setattr(_feed, "_POLL_SECONDS", poll_seconds)
    sink = partial(Mock, spec=["log", "close"])
    monkeypatch.setattr(wandb, "open_sink", lambda _, run: sink(log=lambda step, _: steps[run.run_id].append(step)))
    return steps


def test_curves_are_shown_while_a_run_goes_on_and_repeated_steps_once(store, monkeypatch):
    (spec,) = specs("wandb", seeds=1)
    folder = store.run(spec.run_id)
    created(folder, spec.config_yaml, about(spec, "running"))
    shown = shown_steps(monkeypatch, 0.01)
    feed = TrackerFeed(spec.config.runtime.trackers)
    feed.begin(folder)
    for step in (1, 2, 3, 2, 3, 4):
        folder.append_step({"step": step, "reward_mean": 0.5})
    deadline = time.monotonic() + 60
    while shown.get(spec.run_id) != [1, 2, 3, 4]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with open(folder.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 5, "rew')
    feed.close()
    assert shown[spec.run_id] == [1, 2, 3, 4]


def test_a_long_run_is_shown_while_short_ones_come_and_go(store, monkeypatch):
    long, *short = specs("wandb", seeds=4)
    for each in (long, *short):
        created(store.run(each.run_id), each.config_yaml, about(each, "running"))
        store.run(each.run_id).append_step({"step": 1, "reward_mean": 0.5})
    shown = shown_steps(monkeypatch, 0.2)
    feed = TrackerFeed(long.config.runtime.trackers)
    feed.begin(store.run(long.run_id))
    deadline = time.monotonic() + 20
    while not shown.get(long.run_id) and time.monotonic() < deadline:
        for each in short:
            feed.begin(store.run(each.run_id))
            feed.end(store.run(each.run_id))
        time.sleep(0.01)
    feed_was_starved = not shown.get(long.run_id)
    feed.close()
    assert not feed_was_starved
