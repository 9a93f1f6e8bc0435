"""Training through verl's process: data, rewards, metrics, validations, export, evaluation; failure, stop and resume.

verl is a stand-in here (`fake/`) with verl's command line and files; `test_verl_environment.py` asks the real one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_verl import interpreter, verl_run

from harness.backends import verl
from harness.backends.verl.metrics import MetricsImport
from harness.backends.verl.overrides import Place
from harness.backends.verl.process import VerlFailed
from harness.backends.verl.process import interpreter as find_interpreter
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.configuration.sections import VerlRuntime
from harness.model.checkpoint import load_decoder, load_tokenizer
from harness.store import RunDir

Prepared = tuple[RunConfig, RunDir]
GROUPS, SIZE = 8, 4  # of `small_config`; the stand-in generates one group more and throws it away


@pytest.fixture
def prepared(tmp_path: Path, base_policy: Path) -> Prepared:
    return verl_run(tmp_path, base_policy)


def never() -> bool:
    return False


def stop_when_stalled(run: RunDir) -> Callable[[], bool]:
    log = run.path / "attempts" / "000" / "verl.log"
    return lambda: log.exists() and b"stalled" in log.read_bytes()


def rows(run: RunDir) -> pd.DataFrame:
    return run.steps().drop(columns=["attempt"])


def test_a_run_has_rows_samples_and_an_exported_policy(prepared: Prepared) -> None:
    config, run = prepared
    assert verl.train(config, run, never, 0)
    steps = run.steps()
    assert list(steps["step"]) == [1, 2, 3, 4]
    # Of 9 groups of 4 at step s, 8 have s right answers: all groups count, those that verl threw away too.
    assert list(steps["accuracy_mean"]) == pytest.approx([GROUPS * s / (SIZE * (GROUPS + 1)) for s in (1, 2, 3, 4)])
    assert list(steps["all_right_groups"]) == [0, 0, 0, 8]
    assert list(steps["all_wrong_groups"]) == [1, 1, 1, 1]
    assert (list(steps["groups"]), list(steps["discarded_groups"])) == ([9] * 4, [1] * 4)
    # A right answer is `\\boxed{d}` and the end token, 4 tokens here; a wrong one the end token alone.
    tokens = [GROUPS * (4 * s + SIZE - s) + SIZE for s in (1, 2, 3, 4)]
    assert list(steps["generated_tokens"]) == tokens
    assert list(steps["generated_tokens_total"]) == [sum(tokens[: i + 1]) for i in range(4)]
    assert list(steps["updates"]) == [4, 8, 12, 16]
    assert list(steps["gradient_norm"]) == pytest.approx([0.5, 0.25, 0.5 / 3, 0.125])
    assert run.sample_steps("arithmetic_heldout") == [0, 2, 4]
    step, folder = run.checkpoints()[-1]
    assert step == 4
    assert load_decoder(folder / "policy").shape == load_decoder(Path(config.model.path)).shape
    assert load_tokenizer(folder / "policy").eos_token_id == load_tokenizer(Path(config.model.path)).eos_token_id
    # Verl's own, for prompts that are written out.
    assert not (folder / "policy" / "chat_template.jinja").exists()
    assert not (run.path / "verl" / "checkpoints").exists()
    samples = run.samples("arithmetic_heldout", 2)
    assert len(samples) == 6 * 4  # at the training cap only
    assert set(samples["max_response_tokens"]) == {12}
    # At step 2 the first two of four samples of every problem are right.
    by_index = samples.groupby("sample_index")["correct"].mean()
    assert dict(by_index) == {0: 1.0, 1: 1.0, 2: 0.0, 3: 0.0}
    wrong = samples[~samples["correct"]]
    assert set(wrong["verdict"]) == {"no_answer"}
    assert wrong["answer"].isna().all()
    assert set(samples["response_tokens"]) == {1, 4}
    ours = run.samples("arithmetic_heldout", 4)
    assert set(ours["max_response_tokens"]) == {12, 24}  # the last step is evaluated by ours, at every cap


def test_a_failure_says_why_and_the_next_attempt_resumes(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    config, run = prepared
    monkeypatch.setenv("FAKE_VERL", "fail@3")
    with pytest.raises(VerlFailed, match=r"exit code 1(.|\n)*CUDA out of memory"):
        verl.train(config, run, never, 0)
    assert list(run.steps()["step"]) == [1, 2]
    monkeypatch.delenv("FAKE_VERL")
    assert verl.train(config, run, never, 1)
    steps = run.steps()
    assert list(steps["attempt"]) == [0, 0, 1, 1]
    assert run.sample_steps("arithmetic_heldout") == [0, 2, 4]


def test_a_stopped_run_resumes_to_the_rows_of_an_undisturbed_one(
    prepared: Prepared, tmp_path: Path, base_policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    config, run = prepared
    config.runtime.checkpoint_every = 2
    monkeypatch.setenv("FAKE_VERL", "stall@4")
    begin = time.monotonic()
    assert not verl.train(config, run, stop_when_stalled(run), 0)
    assert time.monotonic() - begin < 240
    assert list(run.steps()["step"]) == [1, 2, 3]  # the newest checkpoint is of step 2
    monkeypatch.delenv("FAKE_VERL")
    assert verl.train(config, run, never, 1)
    other_config, other = verl_run(tmp_path / "other", base_policy)
    assert verl.train(other_config, other, never, 0)
    pd.testing.assert_frame_equal(rows(run), rows(other))


def two_logged_steps(
    folder: Path, base_policy: Path, graded_step: int
) -> tuple[RunDir, Place, MetricsImport, list[list[object]]]:
    """A run of whose steps 1 and 2 verl has logged metrics, and the ledger's lines of one of them, not written yet."""
    config, run = verl_run(folder, base_policy)
    place = Place(run.path, folder, base_policy, 20, (1,), 0)
    place.ledger.mkdir(parents=True)
    place.metrics.write_text("".join(json.dumps({"step": step, "data": {"actor/lr": 1e-6}}) + "\n" for step in (1, 2)))
    lines: list[list[object]] = [
        [graded_step, f"g{group}", 5, 1.0, 1, 0] for group in range(GROUPS) for _ in range(SIZE)
    ]
    return run, place, MetricsImport(config, run, place, 0), lines


def test_a_row_waits_for_the_lines_of_other_nodes_and_lacks_what_never_comes(
    tmp_path: Path, base_policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, place, metrics, lines = two_logged_steps(tmp_path, base_policy, graded_step=1)
    near, far = (place.ledger / name for name in ("here.jsonl", "there.jsonl"))
    near.write_text("".join(json.dumps(line) + "\n" for line in lines[:-3]))
    metrics.update()
    assert run.last_step() is None, "three of 32 responses are not seen yet"
    far.write_text("".join(json.dumps(line) + "\n" for line in lines[-3:]))
    metrics.update()
    assert run.steps()["generated_tokens"].tolist() == [5 * GROUPS * SIZE]
    metrics.finish(patience_seconds=0.0)
    steps = run.steps()
    assert (steps["step"].tolist(), steps["accuracy_mean"].isna().tolist()) == ([1, 2], [False, True])
    assert "warning: step 2: 0 graded responses are in " in capsys.readouterr().err


def test_a_run_goes_on_from_the_checkpoint_that_verl_names(tmp_path: Path, base_policy: Path) -> None:
    _, run = verl_run(tmp_path, base_policy)
    assert run.resume_step() == -1
    checkpoints = run.path / "verl" / "checkpoints"
    (checkpoints / "global_step_4").mkdir(parents=True)
    assert run.resume_step() == -1, "it may be half written"
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("4")
    assert run.resume_step() == 4


def test_a_group_that_stays_short_does_not_hold_up_later_rows(
    tmp_path: Path, base_policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place, metrics, lines = two_logged_steps(tmp_path, base_policy, graded_step=2)
    (place.ledger / "here.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    metrics.update()
    assert run.last_step() is None
    monkeypatch.setattr("harness.backends.verl.metrics._LEDGER_SECONDS", 0.0)
    metrics.update()
    assert run.steps()["accuracy_mean"].isna().tolist() == [True, False]


def test_a_run_whose_training_was_done_only_evaluates(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    config, run = prepared
    assert verl.train(config, run, never, 0)
    monkeypatch.setenv("FAKE_VERL", "fail@1")
    assert verl.train(config, run, never, 1)
    assert list(run.steps()["attempt"]) == [0, 0, 0, 0]


def test_no_steps_are_the_evaluation_before_rl_alone(prepared: Prepared) -> None:
    config, run = prepared
    config.training.steps = 0
    assert verl.train(config, run, never, 0)
    assert run.sample_steps("arithmetic_heldout") == [0]
    assert not (run.path / "verl").exists()


def test_a_stop_before_training_leaves_the_evaluation_before_rl(prepared: Prepared) -> None:
    config, run = prepared
    assert not verl.train(config, run, lambda: True, 0)
    assert run.sample_steps("arithmetic_heldout") == [0]
    assert not (run.path / "verl" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runtime.gpus_per_run": 3}, "8 responses .* cannot be divided over 3 GPUs"),
        ({"runtime.gpus_per_run": 2, "runtime.verl.sequence_parallel": 4}, "does not divide the 2 GPUs"),
        ({"runtime.nodes": 2}, "a Ray that verl starts has this node only"),
        ({"algorithm.overlong.policy": "wrong"}, "algorithm.overlong.policy=wrong: verl's reward function"),
    ],
)
def test_what_verl_cannot_run_is_said_before_anything_is_spent(
    prepared: Prepared, changes: dict[str, Any], message: str
) -> None:
    config, run = prepared
    for key, value in changes.items():
        owner, _, name = key.rpartition(".")
        setattr(attrgetter(owner)(config), name, value)
    with pytest.raises(ConfigError, match=message):
        verl.train(config, run, never, 0)
    assert run.sample_steps("arithmetic_heldout") == []


def test_another_interpreter_than_verls_is_said(tmp_path: Path) -> None:
    cases = {
        "": "needs runtime.verl.python",
        str(tmp_path / "nowhere"): "is no interpreter",
        str(interpreter(tmp_path / "bare", "")): "has no verl",
        str(interpreter(tmp_path / "old", "0.7.0")): "has verl 0.7.0, but keys and units are those of 0.9.1",
    }
    for python, message in cases.items():
        with pytest.raises(ConfigError, match=message):
            find_interpreter(VerlRuntime(python=python))


@pytest.fixture
def orphan() -> Iterator[int]:
    """The process that a killed parent had started."""
    code = (
        "import sys, time; from pathlib import Path; from harness.training.torchrun import Child\n"
        "child = Child(['sleep', '300'], {}, Path('/dev/null')); print(child._process.pid, flush=True); time.sleep(300)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    yield pid
    if alive(pid):
        os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_verl_does_not_outlive_a_killed_worker(orphan: int) -> None:
    deadline = time.monotonic() + 20
    while alive(orphan) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(orphan)
