"""Trackers follow the store: what arrives, what survives a resume, and that their faults disturb no run."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stored_runs import about

from harness.configuration.compose import compose_run
from harness.configuration.runtime import RuntimeConfig
from harness.execution import follower as _tracker
from harness.execution.launch._supervise import RunBatch, supervise_here
from harness.execution.progress import Progress
from harness.experiment.planning import RunSpec
from harness.store import ResultStore
from harness.tracking import tensorboard
from harness.tracking._follow import Followed
from harness.tracking._results import online, sync_runs
from harness.tracking._sink import About, sent_step

HERE = Path(__file__).parent


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("WANDB_SILENT", "true")
    return ResultStore((tmp_path / "results").resolve())


def specs(*trackers: str, seeds: int = 2) -> list[RunSpec]:
    config = compose_run([f"tracker=[{','.join(trackers)}]", "training.steps=3"])
    labels = {"experiment": "tracked", "arm": "dapo/clip higher"}
    found = []
    for seed in range(seeds):
        config = compose_run([f"tracker=[{','.join(trackers)}]", "training.steps=3", f"seed={seed}"])
        found.append(RunSpec.of(config, labels))
    return found


def run(store: ResultStore, runs: list[RunSpec], entry: str = "three_steps"):
    work = RunBatch(
        store.root,
        runs,
        RuntimeConfig(device="cpu", workers=2, trackers=runs[0].config.runtime.trackers),
        {},
        "tracked",
        entry=f"stub_tracked:{entry}",
    )
    return supervise_here(work, Progress())


def use_fake(monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    """Make the follower's wandb a fake that records, raises or hangs."""
    monkeypatch.setenv("FAKE_WANDB", behaviour)
    monkeypatch.setenv("PYTHONPATH", f"{HERE}:{HERE / 'fake'}")


def fake_calls(store: ResultStore) -> list[dict]:
    path = store.root / "fake_wandb.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_wandb_gets_every_step_under_our_id_group_and_job_type(store, monkeypatch):
    use_fake(monkeypatch, "record")
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    calls = fake_calls(store)
    inits = {call["id"]: call for call in calls if call["call"] == "init"}
    assert set(inits) == {spec.run_id for spec in runs}
    one = inits[runs[0].run_id]
    assert (one["group"], one["job_type"], one["mode"]) == ("tracked", "dapo/clip higher", "offline")
    assert one["resume"] == "allow"
    assert one["config"]["training"]["steps"] == 3
    logged = [call["step"] for call in calls if call["call"] == "log" and call["id"] == runs[0].run_id]
    assert logged == [1, 2, 3]
    assert [call["exit_code"] for call in calls if call["call"] == "finish"] == [0, 0]
    assert sent_step(store.run(runs[0].run_id), "wandb", "offline rlvr-harness") == 3


def test_a_resumed_run_sends_only_what_is_new(store, monkeypatch):
    use_fake(monkeypatch, "record")
    runs = specs("wandb", seeds=1)
    assert run(store, runs, "two_then_stop").interrupted
    assert run(store, runs).finished
    steps = [call["step"] for call in fake_calls(store) if call["call"] == "log"]
    assert steps == [1, 2, 3]


@pytest.mark.parametrize("fault", ["raise_on_init", "raise_on_log", "exit_on_log"])
def test_a_tracker_that_fails_disturbs_no_run(store, monkeypatch, fault):
    use_fake(monkeypatch, fault)
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    assert list(store.run(runs[0].run_id).steps()["step"]) == [1, 2, 3]
    assert sent_step(store.run(runs[0].run_id), "wandb", "offline rlvr-harness") == 0
    (log,) = (store.root / "cache" / "tracking").glob("follower-*.log")
    assert "tracker wandb" in log.read_text() or fault == "exit_on_log"


def test_a_tracker_that_hangs_is_given_up_on(store, monkeypatch):
    use_fake(monkeypatch, "hang")
    monkeypatch.setattr(_tracker, "PATIENCE_SECONDS", 1.0)
    begin = time.monotonic()
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    assert time.monotonic() - begin < 300
    assert list(store.run(runs[1].run_id).steps()["step"]) == [1, 2, 3]


def test_sync_sends_finished_runs_once(store, monkeypatch):
    runs = specs("wandb")
    use_fake(monkeypatch, "raise_on_init")
    run(store, runs)
    monkeypatch.setenv("FAKE_WANDB", "record")
    monkeypatch.syspath_prepend(str(HERE / "fake"))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    trackers = online(runs[0].config.runtime.trackers)
    ids = store.run_ids()
    assert sync_runs(store, ids, trackers)["sent"] == ids
    assert sync_runs(store, ids, trackers) == {"sent": [], "had": ids, "failed": []}
    assert sent_step(store.run(ids[0]), "wandb", "online rlvr-harness") == 3
    modes = {call["mode"] for call in fake_calls(store) if call["call"] == "init"}
    assert modes == {"online"}
    monkeypatch.delitem(sys.modules, "wandb", raising=False)


def test_sync_sends_to_each_destination_once(store, monkeypatch):
    use_fake(monkeypatch, "record")
    runs = specs("wandb", seeds=1)
    run(store, runs)
    monkeypatch.syspath_prepend(str(HERE / "fake"))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    ids, trackers = store.run_ids(), online(runs[0].config.runtime.trackers)
    mine = {name: dataclasses.replace(config, project="mine") for name, config in trackers.items()}
    for wanted in (trackers, mine):
        assert sync_runs(store, ids, wanted)["sent"] == ids
    for wanted in (trackers, mine):
        assert sync_runs(store, ids, wanted)["had"] == ids
    monkeypatch.delitem(sys.modules, "wandb", raising=False)


def test_tensorboard_keeps_runs_of_one_name_and_its_directories_apart(tmp_path, monkeypatch):
    folders: list[Path] = []
    monkeypatch.setattr(tensorboard, "_Sink", folders.append)
    for run_id in ("0123456789abcdef", "fedcba9876543210"):
        told = About(run_id, "mine", "grpo", "", 0, {}, {}, tmp_path)
        tensorboard.open_sink(tensorboard.Config(), told)
    assert [folder.name for folder in folders] == ["seed-0-01234567", "seed-0-fedcba98"]
    places = {tensorboard.destination(tensorboard.Config(directory=name)) for name in (None, "a", "b")}
    assert len(places) == 3


def test_a_run_that_repeats_steps_after_a_crash_is_followed_without_repeats(store):
    (spec,) = specs("tensorboard", seeds=1)
    folder = store.run(spec.run_id)
    folder.create(
        spec.config_yaml,
        about(spec, "running"),
    )
    followed = Followed(folder.path)
    seen: list[int] = []

    class Sink:
        def log(self, step: int, metrics: dict[str, float]) -> None:
            seen.append(step)

        def close(self, finished: bool) -> None:
            assert not finished

    followed._sinks, followed._sent = {"t": (Sink(), "offline")}, {"t": 0}
    for step in (1, 2, 3, 2, 3, 4):
        folder.append_step({"step": step, "reward_mean": 0.5})
        followed.advance()
    with open(folder.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 5, "rew')
    followed.close()
    assert seen == [1, 2, 3, 4]


def test_tensorboard_event_files_hold_the_curves(store):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = specs("tensorboard", seeds=1)
    assert run(store, runs).finished
    folder = store.root / "tensorboard" / "tracked" / "dapo_clip_higher" / f"seed-0-{runs[0].run_id[:8]}"
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward_mean")] == [
        (1, 0.5),
        (2, 0.5),
        (3, 0.5),
    ]


def test_the_real_wandb_writes_offline_runs_and_sync_sees_them(store):
    sys.modules.pop("wandb", None)  # the stand-in of another test
    runs = specs("wandb", seeds=1)
    assert run(store, runs).finished
    (folder,) = (store.root / "wandb").glob(f"offline-run-*-{runs[0].run_id}")
    assert list(folder.glob("run-*.wandb"))
    assert sent_step(store.run(runs[0].run_id), "wandb", "offline rlvr-harness") == 3


def test_a_torn_line_of_the_input_does_not_keep_the_follower():
    follower = [sys.executable, "-m", "harness.tracking._follow"]
    ended = subprocess.run(follower, input='{"run": ', capture_output=True, text=True, timeout=60, check=True)
    assert "a line of the input is lost" in ended.stderr
