"""What a new user meets: messages that name the culprit and the next command."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from small_runs import SMALL
from verbs import Said

from harness.configuration import compose
from harness.configuration.error import ConfigError
from harness.execution.attempt import commit
from harness.experiment.declaration import as_file
from harness.problems import hygiene
from harness.problems.benchmarks.dataset import Config as Dataset


def test_a_broken_yaml_is_named_with_line_and_column(tmp_path, monkeypatch, said):
    shutil.copytree(compose.config_directory(), tmp_path / "conf")
    monkeypatch.setattr(compose, "config_directory", lambda: tmp_path / "conf")
    broken = tmp_path / "conf" / "experiment" / "mine.yaml"
    broken.write_text(as_file("name: mine\narms:\n  - name: a\n   overrides: []\n"))
    (line,) = said("plan", "experiment=mine", code=2).splitlines()
    assert f'"{broken}", line 7, column 6' in line


def test_data_that_cannot_be_had_names_the_key(tmp_path):
    unpinned = Dataset(name="x", source="some/where")
    with pytest.raises(ConfigError, match=r"^task: .*task\.path=FILE"):
        hygiene.report({}, unpinned)
    with pytest.raises(ConfigError, match=r"^evaluation\.benchmarks\.x: .*evaluation\.benchmarks\.NAME\.path=FILE"):
        hygiene.report({"x": unpinned})
    missing = Dataset(name="x", path=str(tmp_path / "none.jsonl"))
    with pytest.raises(ConfigError, match=r"^task: cannot read .*none\.jsonl"):
        hygiene.report({}, missing)


@pytest.mark.parametrize(
    ("text", "says"),
    [("id,problem,answer\n1,1+1,2\n", "is CSV, not JSON"), ('{"id": 1, "problem": "1+1", "answer": ""}\n', "is empty")],
)
def test_plan_reads_local_problems(text, says, tmp_path, said):
    (tmp_path / "mine.jsonl").write_text(text)
    given = ["model=qwen25_0_5b", "task=dataset", f"task.path={tmp_path}/mine.jsonl", f"runtime.results={tmp_path}"]
    told = " ".join(said("plan", *given).split())
    assert "cannot start: task: " in told
    assert says in told
    assert "cannot start" not in said("plan", *given, "runtime.elsewhere=true")


def test_a_gpu_that_is_not_visible_is_missed_before_anything_runs(tmp_path, said, monkeypatch):
    monkeypatch.setattr("harness.experiment.checks.version", lambda _: "2.13.0")  # torch for GPUs
    given = ("runtime.device=cuda", f"runtime.results={tmp_path}")
    for visible, is_told in (("", True), ("0", False)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert ("no GPU is visible here" in " ".join(said("plan", *given).split())) is is_told
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    told = said("run", "engine=vllm", "algorithm=grpo", "runtime.device=cpu", given[1], code=2)
    assert "set runtime.device=cuda" in " ".join(told.split())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "no GPU is visible here" in said("run", *given, code=2)
    assert not list(tmp_path.glob("runs/*"))


def test_a_model_without_a_name_or_a_commit_cannot_start(tmp_path, said):
    given = ("model=pretrained", "optimizer=verl_dapo", f"runtime.results={tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    folder, revision = f"model.path={tmp_path}", f"model.revision={'0' * 40}"
    told = " ".join(said("plan", *given).split())
    assert all(words in told for words in ("cannot start: ", "needs model.path="))
    assert "is a folder here" in said("run", *given, folder, revision, code=2)
    for more in (("model.path=ORG/NAME", revision), (folder,)):
        assert "cannot start" not in said("plan", *given, *more)


HAS_VLLM = pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="this environment has the engine")
FOR_GPUS = pytest.mark.skipif(not torch.__version__.endswith("+cpu"), reason="this torch is for GPUs, too")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        pytest.param(["engine=vllm"], "engine=vllm needs the package vllm", marks=HAS_VLLM),
        pytest.param(["runtime.device=cuda"], "runtime.device=cuda needs torch for GPUs", marks=FOR_GPUS),
        (["backend=trl"], "backend=trl needs the package trl, release 1.16"),
        (
            ["backend=trl", "backend.sampler=vllm_colocate", "algorithm.engine_correction.old_log_probs=recomputed"],
            "vllm_colocate needs the package vllm",
        ),
        (
            ["backend=verl", "model=qwen25_0_5b", "runtime.device=cuda"],
            "backend=verl needs runtime.verl.python",
        ),
    ],
)
def test_what_is_missing_here_is_said_before_anything_runs_here(tmp_path, said, monkeypatch, overrides, says):
    monkeypatch.setattr("harness.backends.trl.settings.find_spec", lambda _: None)
    given = (*overrides, f"runtime.results={tmp_path}")
    for words in (" ".join(said("plan", *given).split()), said("run", *given, code=2)):
        assert says in words
    assert not list(tmp_path.glob("runs/*"))
    assert "cannot start" not in said("plan", *given, "runtime.elsewhere=true")


def test_the_commit_is_that_of_our_own_checkout(tmp_path):
    assert commit(tmp_path) is None  # no repository
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init"], [*who, "commit", "--allow-empty", "-m", "code"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    assert commit(tmp_path)
    (package := tmp_path / ".venv").mkdir()  # installed into another project, whose code is not ours
    assert commit(package) is None


# ---- a policy that answers nothing right ----

# One token is no answer.
ASKED = ["-m", "algorithm=grpo", "seed=0,1", *SMALL, "sampling.max_response_tokens=1", "training.steps=1"]
REMEDY = "is right, so there is nothing to learn from rewards; use easier problems"


def test_plan_asks_the_policy_before_training_on_request(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    results = f"runtime.results={tmp_path}"
    told = said("plan", "--sample", *ASKED, results)
    assert "before training, all arms: 0 % of 128 answers are right" in told
    assert "of 32 groups of 4 0 % are mixed, 0 % all right, 100 % all wrong" in told
    assert f"warning: no answer to 32 training problems {REMEDY}" in told
    assert "before training" not in said("plan", *ASKED, results)


def test_a_run_says_it_after_its_first_evaluation_and_once_for_all(said: Said, tmp_path: Path) -> None:
    told = said("run", "--no-answer", *ASKED, f"runtime.results={tmp_path}")
    assert told.count(f"warning: before RL no answer on arithmetic_heldout {REMEDY}") == 1
    assert "2 finished" in told
