"""Trackers follow the store: what arrives while runs go on, what survives a resume, and that their faults disturb no run."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

import pytest
from stored_runs import about

from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id, run_id
from harness.configuration.sections import RuntimeConfig
from harness.execution.progress import Progress
from harness.execution.supervisor import RunBatch, Summary, supervise
from harness.experiment.plan import RunSpec
from harness.experiment.planning import plan_experiment
from harness.search.ask_and_tell import sweep_of
from harness.store import ResultStore
from harness.tracking import _feed, tensorboard
from harness.tracking._feed import About, TrackerFeed, send_results, sent_step

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


@pytest.mark.parametrize("fault", ["raise_on_init", "raise_on_log"])
def test_a_tracker_that_fails_disturbs_no_run_and_gets_all_of_it_from_the_same_command(
    store, monkeypatch, capsys, fault
):
    use_fake(monkeypatch, fault)
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    assert "tracker wandb gets no more of this run" in capsys.readouterr().err
    assert list(store.run(runs[0].run_id).steps()["step"]) == [1, 2, 3]
    assert sent_step(store.run(runs[0].run_id), "wandb", "offline rlvr-harness") == 0
    monkeypatch.setenv("FAKE_WANDB", "record")
    for _ in range(2):  # and once only
        assert len(run(store, runs).skipped) == 2
    assert [call["step"] for call in fake_calls(store, "log")] == [1, 2, 3] * 2


def test_a_tracker_without_a_destination_leaves_the_others_their_rows(store, monkeypatch, capsys):
    use_fake(monkeypatch, "record")
    monkeypatch.setattr(tensorboard, "destination", lambda config: 1 / 0)
    assert len(run(store, specs("tensorboard", "wandb", seeds=1)).finished) == 1
    assert [call["step"] for call in fake_calls(store, "log")] == [1, 2, 3]
    assert "tracker tensorboard gets no more of this run: division by zero" in capsys.readouterr().err


def test_a_tracker_that_hangs_is_given_up_on(store, monkeypatch, capsys):
    use_fake(monkeypatch, "hang")
    monkeypatch.setattr(_feed, "PATIENCE_SECONDS", 1.0)
    begin = time.monotonic()
    runs = specs("wandb")
    assert len(run(store, runs).finished) == 2
    assert time.monotonic() - begin < 300
    assert "run the same command again to send the rest" in capsys.readouterr().err
    assert list(store.run(runs[1].run_id).steps()["step"]) == [1, 2, 3]


def test_each_destination_gets_a_run_once(store, monkeypatch):
    use_fake(monkeypatch, "record")
    runs = specs("wandb", seeds=1)
    for project in ("mine", "mine", "theirs"):
        run(store, runs, mode="online", project=project)
    assert [call["mode"] for call in fake_calls(store, "init")] == ["online"] * 2
    assert sent_step(store.run(runs[0].run_id), "wandb", "online theirs") == 3


DESIGN = ["experiment=dapo_one_factor", "experiment.seeds=[0]", "hydra/launcher=basic"]
SPACE = "optimizer.learning_rate=interval(1e-4,2e-4)"
OPTIONS = {"objectives": ["-generated_tokens_total"], "seeds": [0], "trials": 1, "sampler": "tpe", "seed": 0}
SEARCH = ["-m", "hydra/sweeper=search", SPACE, *(f"hydra.sweeper.{key}={value}" for key, value in OPTIONS.items())]


@pytest.mark.parametrize("arguments", [DESIGN, SEARCH])
def test_the_same_command_sends_the_rest_where_no_supervisor_sees_finished_runs(store, monkeypatch, said, arguments):
    use_fake(monkeypatch, "record")
    common = ["tracker=wandb", f"runtime.results={store.root}"]
    search = sweep_of([SPACE, *common], OPTIONS, "")[0] if arguments is SEARCH else None
    runs = search.ask(1) if search else plan_experiment([*DESIGN[:2], *common]).specs
    for one in runs:
        folder = store.run(one.run_id)
        folder.create(one.config_yaml, about(one))
        folder.append_step({"step": 1, "generated_tokens_total": 10})
    if search:
        search.tell(Summary())
    said("run", "--no-answer", *arguments, *common)
    assert {call["id"] for call in fake_calls(store, "log")} == {one.run_id for one in runs}


def test_tables_that_a_tracker_refuses_are_one_line(store, monkeypatch, capsys):
    use_fake(monkeypatch, "raise_on_init")
    send_results(store, "tracked", specs("wandb")[0].config.runtime.trackers)
    told = capsys.readouterr().err
    assert told.splitlines() == [
        "tracker wandb did not take the tables and figures (RuntimeError: no network); run the same command again"
    ]


def test_tensorboard_keeps_runs_of_one_name_and_its_directories_apart(tmp_path, monkeypatch):
    folders: list[Path] = []
    monkeypatch.setattr(tensorboard, "_Sink", folders.append)
    for number in ("0123456789abcdef", "fedcba9876543210"):
        told = About(number, "mine", "grpo", "", 0, {}, {}, tmp_path)
        tensorboard.open_sink(tensorboard.Config(), told)
    assert [folder.name for folder in folders] == ["seed-0-01234567", "seed-0-fedcba98"]
    places = {tensorboard.destination(tensorboard.Config(directory=name)) for name in (None, "a", "b")}
    assert len(places) == 3


def test_curves_are_shown_while_a_run_goes_on_and_repeated_steps_once(store, monkeypatch):
    (spec,) = specs("tensorboard", seeds=1)
    folder = store.run(spec.run_id)
    folder.create(spec.config_yaml, about(spec, "running"))
    seen: list[int] = []

    class Sink:
        def log(self, step: int, metrics: dict[str, float]) -> None:
            seen.append(step)

        def close(self, finished: bool) -> None:
            assert not finished

    monkeypatch.setattr(_feed, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(tensorboard, "open_sink", lambda config, about: Sink())
    feed = TrackerFeed(spec.config.runtime.trackers)
    feed.begin(folder)
    for step in (1, 2, 3, 2, 3, 4):
        folder.append_step({"step": step, "reward_mean": 0.5})
    deadline = time.monotonic() + 60
    while seen != [1, 2, 3, 4]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with open(folder.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 5, "rew')
    feed.close()
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
