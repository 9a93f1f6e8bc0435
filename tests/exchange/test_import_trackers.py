"""wandb and TensorBoard hold the metrics of any trainer: whose they are is told by their names."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness.cli import main
from harness.exchange.importers import open_instruct, prime_rl, tensorboard, trl, verl, wandb
from harness.exchange.importers._format import format_of
from harness.exchange.importers._log import ForeignLogError, log_of
from harness.exchange.importers._trainer import trainers
from harness.store import ResultStore

RECORDS = [
    {"type": "header", "header": {}},
    {"type": "run", "run": {"config": {"update": {"_wandb": {}, "seed": 3, "algorithm": {"loss": "gspo"}}}}},
    {"type": "history", "history": {"step": {"num": 1}, "item": {"critic/score/mean": 0.25, "bad": "NaN", "_runtime": 2.0}}},
    {"type": "summary", "summary": {"update": {"critic/score/mean": 9}}},
    {"type": "history", "history": {"step": {"num": 2}, "item": {"critic/score/mean": 0.5, "text": "x", "training/global_step": 2}}},
]  # fmt: skip
TORN = "wandb leet inspect: reached the end of an incomplete .wandb file"


@pytest.fixture
def reader(monkeypatch, tmp_path):
    """wandb's reader as one that prints what is given; returns the file to read."""

    def answers(stdout="", stderr="", code=0):
        done = subprocess.CompletedProcess([], code, stdout, stderr)
        monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(__spec__=object()))
        monkeypatch.setattr(wandb.subprocess, "run", lambda *_, **__: done)
        (tmp_path / "run-abc.wandb").touch()
        return tmp_path / "run-abc.wandb"

    return answers


def test_a_wandb_file_is_read_by_wandb_and_torn_ends_are_said(reader):
    log = wandb.read(reader("\n".join(map(json.dumps, RECORDS)), TORN))
    assert log.trainer.name == "verl"
    assert [(row["step"], row["reward_mean"]) for row in log.rows()] == [(1, 0.25), (2, 0.5)]
    assert log.config == {"seed": 3, "algorithm": {"loss": "gspo"}}
    assert log.said == ["run-abc.wandb: reached the end of an incomplete .wandb file"]


def test_what_wandb_does_not_read_is_named_with_the_fix(reader, monkeypatch):
    with pytest.raises(ForeignLogError, match="holds no history"):
        wandb.read(reader("", TORN))
    with pytest.raises(ForeignLogError, match="pip install -U wandb"):
        wandb.read(reader("", "Error: No such option: --json", 2))
    path = reader()
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ForeignLogError, match="needs wandb's own reader: pip install"):
        wandb.read(path)
    with pytest.raises(ForeignLogError, match="needs wandb: pip install"):
        wandb.read(tmp := wandb.Path("wandb:me/mine/abc"))
    assert format_of(tmp) == "wandb"


class Api:
    """wandb's public API, as far as it is used."""

    def __init__(self):
        if Api.refusal:
            raise ValueError(Api.refusal)

    refusal = ""
    served: tuple[SimpleNamespace, ...] = ()

    def run(self, address):
        return next(run for run in self.served if address == f"me/mine/{run.id}")

    def runs(self, project):
        assert project == "me/mine"
        return list(self.served)


@pytest.fixture
def server(monkeypatch):
    """Two arms of open-instruct with two seeds on a server."""

    def run(number, loss, seed):
        rows = [{"_step": 1, "_runtime": 1.0, "training_step": 1, "episode": 64, "global_step": 64, "scores": number + 1.5},
                {"_step": 2, "training_step": 2, "scores": 2.0 + seed, "eval/objective/math_correct_rate": 0.1 * number}]  # fmt: skip
        config = {"loss_fn": loss, "seed": seed, "run_name": f"r{number}", "_wandb": {}}
        return SimpleNamespace(
            id=f"id{number}",
            name=f"r{number}",
            created_at=number,
            config=config,
            scan_history=lambda: iter(rows),
        )

    Api.served = tuple(
        run(number, *each)
        for number, each in enumerate([("dapo", 1), ("dapo", 2), ("cispo", 1), ("cispo", 2)])
    )
    Api.refusal = ""
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=Api, __spec__=object()))


def test_a_project_on_wandbs_server_is_one_experiment(server, tmp_path, said):
    root = f"runtime.results={tmp_path / 'res'}"
    text = said("import_runs", "folder=wandb:me/mine", "experiment=mine", root)
    assert "arm loss_fn=dapo: seeds 1 (r0 (id0), 2 steps), 2 (r1 (id1), 2 steps)" in text
    plan = ResultStore(tmp_path / "res").plan("mine")
    assert (plan["benchmark"], plan["metric"]) == ("math", "accuracy")
    steps = ResultStore(tmp_path / "res").run(plan["arms"][0]["runs"]["2"]).steps()
    assert list(steps["step"]) == [1, 2]  # not its global_step, which counts episodes
    assert steps["reward_mean"].iloc[-1] == 4.0
    assert main(["import_runs", "path=wandb:me/mine/id3", "experiment=one", "arm=a", "seed=2", root]) == 0


def test_a_server_that_gives_nothing_says_what_it_wants(server, tmp_path, said):
    Api.refusal = "api_key not configured (no-tty)"
    text = said(
        "import_runs", "folder=wandb:me/mine", "experiment=mine", f"runtime.results={tmp_path}", code=2
    )
    assert "api_key not configured" in text
    assert "it wants WANDB_API_KEY" in text


@pytest.mark.optional
def test_a_wandb_folder_as_wandb_writes_it(tmp_path):
    real = pytest.importorskip("wandb")
    run = real.init(
        mode="offline",
        dir=str(tmp_path),
        config={"seed": 4},
        settings=real.Settings(silent=True, console="off"),
    )
    for step in (1, 2):
        run.log({"train/reward": step / 4, "train/global_step": 10 * step})
    run.finish()
    log = wandb.read(tmp_path)
    assert log.trainer.name == "trl"
    assert [(row["step"], row["reward_mean"]) for row in log.rows()] == [(10, 0.25), (20, 0.5)]
    assert log.config["seed"] == 4


@pytest.mark.optional
def test_event_files_are_read_by_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for name, scale in (("a", 1), ("b", 2)):
        writer = EventFileWriter(str(tmp_path / name))
        for step in (1, 2):
            value = summary_pb2.Summary.Value(tag="critic/score/mean", simple_value=scale * step / 4)
            writer.add_event(
                event_pb2.Event(wall_time=1.0, step=step, summary=summary_pb2.Summary(value=[value]))
            )
        writer.close()
    assert format_of(tmp_path) == "tensorboard"
    with pytest.raises(ForeignLogError, match="holds 2 runs; choose one with run=: a, b"):
        tensorboard.read(tmp_path)
    log = tensorboard.read(tmp_path, "b")
    assert [(row["step"], row["reward_mean"]) for row in log.rows()] == [(1, 0.5), (2, 1.0)]
    (file,) = (tmp_path / "a").iterdir()
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(ForeignLogError, match="hold no scalars"):
        tensorboard.read(tmp_path / "a")


def test_event_files_without_their_reader_say_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "events.out.tfevents.1").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    with pytest.raises(ForeignLogError, match="needs TensorBoard's reader: pip install"):
        tensorboard.read(tmp_path)
    with pytest.raises(ForeignLogError, match="holds no event files"):
        tensorboard.read(tmp_path / "empty")


def test_prime_rls_lines_of_all_its_ages(tmp_path):
    new = {"step": 4, "time": 1.0, "train/agg/all/agent/reward/mean": 0.5, "train/agg/all/num_output_tokens/mean": 90.0,
           "train/agg/all/agent/is_truncated/mean": 0.25, "progress/output_tokens": 640, "off_policy/mean": 1.0}  # fmt: skip
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        json.dumps(new) + "\n" + json.dumps({"step": 4, "eval/aime/effective/agent/avg@8": 0.2}) + '\n{"st'
    )
    log = prime_rl.read(tmp_path)
    (row,) = log.rows(responses_per_step=8)
    assert (row["reward_mean"], row["response_tokens_mean"], row["truncated_fraction"]) == (0.5, 90.0, 0.25)
    assert (row["trained_tokens"], row["generated_tokens"]) == (
        640,
        720,
    )  # what was dropped was generated as well
    assert row["evaluation/aime/avg@8"] == 0.2
    assert log.said == ["metrics.jsonl: 1 torn line left out"]
    assert format_of(path) == "prime_rl"
    for old in (
        {"reward/all/mean": 0.5, "decode_len/all/mean": 9.0},
        {"reward/mean": 0.5, "completion_len/mean": 9.0},
    ):
        (row,) = log_of([{"step": 1, "eval/math/avg@4": 0.3, **old}], "x").rows()
        assert (row["reward_mean"], row["response_tokens_mean"], row["evaluation/math/avg@4"]) == (
            0.5,
            9.0,
            0.3,
        )


def test_open_instructs_metrics_of_an_export(tmp_path):
    path = tmp_path / "history.json"
    values = {
        "scores": 6.2,
        "objective/verifiable_correct_rate": 0.62,
        "val/sequence_lengths": 300.0,
        "lr": 5e-7,
        "val/stop_rate": 0.9,
    }
    path.write_text(
        json.dumps([{"training_step": 3, "global_step": 192, **values, "eval/pass_at_4_unbiased": 0.7}])
    )
    (row,) = open_instruct.read(path).rows()
    assert (row["step"], row["reward_mean"], row["accuracy_mean"]) == (3, 6.2, 0.62)
    assert (row["response_tokens_mean"], row["learning_rate"], row["evaluation/eval/pass@4"]) == (
        300.0,
        5e-7,
        0.7,
    )
    assert row["val/stop_rate"] == 0.9
    assert "truncated_fraction" not in row  # a response that called a tool did not stop, and was not cut


@pytest.mark.parametrize(
    "prefix",
    ["", "(TaskRunner pid=71) ", "\x1b[36m(TaskRunner pid=71)\x1b[0m ", "2026-01-02 10:00:00,1 INFO "],
)
def test_verls_console_lines_are_found_behind_what_stands_before_them(tmp_path, prefix):
    path = tmp_path / "run.log"
    path.write_text(
        f"Training Progress: 1%| | 1/90\r{prefix}step:1 - critic/score/mean:0.25 - actor/lr:1e-06\nstep: 2 of 3\n"
    )
    (row,) = verl.read(path).rows()
    assert (row["step"], row["reward_mean"]) == (1, 0.25)
    assert format_of(path) == "verl"


def test_of_a_torn_state_the_checkpoint_before_is_read(tmp_path):
    for step in (9, 100):
        place = tmp_path / f"checkpoint-{step}"
        place.mkdir()
        (place / "trainer_state.json").write_text(
            json.dumps({"log_history": [{"step": step, "reward": 0.5, "completion_length": 9.0}]})
        )
    state = tmp_path / "checkpoint-100" / "trainer_state.json"
    state.write_text(state.read_text()[:40])
    log = trl.read(tmp_path)
    assert [(row["step"], row["response_tokens_mean"]) for row in log.rows()] == [(9, 9.0)]
    assert "is torn" in log.said[0]
    assert log.said[0].endswith("read checkpoint-9 instead")


def test_names_that_no_trainer_has_stay_and_it_is_said(tmp_path, said):
    path = tmp_path / "history.csv"
    path.write_text("_step,mine/score\n1,0.5\n2,0.6\n")
    arguments = [
        "import_runs",
        f"path={path}",
        "experiment=e",
        "arm=a",
        "seed=0",
        f"runtime.results={tmp_path / 'res'}",
    ]
    text = said(*arguments, "score=mine/score", "unit=reward")
    assert (
        "no name in it is one of a trainer that is known here: 0 metrics are known, 1 keep their names (mine/score)"
        in text
    )
    assert "did you mean 'trl'" in said(*arguments, "trainer=trk", "score=x", code=2)


def test_a_file_that_is_no_log_asks_for_its_format(tmp_path):
    path = tmp_path / "notes.bin"
    path.write_bytes(b"\0")
    with pytest.raises(
        ForeignLogError, match=r"nothing in it says which format it is; give format=open_instruct\|"
    ):
        format_of(path)
    with pytest.raises(ForeignLogError, match="there is no such file"):
        format_of(tmp_path / "absent")


def test_a_rate_and_a_loss_are_anyones():
    assert log_of([{"_step": 1, "lr": 0.5, "loss": 1.0, "reward": 1.0}], "x").trainer.name == ""


@pytest.mark.parametrize("name", trainers())
def test_a_trainers_metrics_are_told_by_their_names(name):
    known = {
        "verl": "critic/score/mean",
        "trl": "completions/mean_length",
        "prime_rl": "reward/all/mean",
        "open_instruct": "scores",
    }
    assert log_of([{"_step": 1, "training_step": 1, "step": 1, known[name]: 0.5}], "x").trainer.name == name
