"""What runs read: it can be read here or is left to another machine, and what changed at its place makes another run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from stored_runs import about, created

from harness.configuration.error import ConfigError
from harness.experiment.data import content_hashes, data_faults, require_same_content, unread_data
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_multirun
from harness.store import ResultStore


def problems(path: Path, answer: int) -> Path:
    path.write_text(json.dumps({"id": "p0", "problem": "How many?", "answer": str(answer)}) + "\n")
    return path


def checkpoint(folder: Path, value: float) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    save_file({"embed": torch.full((8,), value)}, folder / "model.safetensors")
    return folder


def begun(plan: Plan, store: ResultStore, **recorded: object) -> None:
    """Every run as its supervisor begins it: one record of contents for all, unless another is given."""
    provenance = recorded or {"data": content_hashes([planned.config for planned in plan.arms])}
    for spec in plan.specs:
        created(store.run(spec.run_id), spec.config_yaml, about(spec, provenance=provenance))


def check(plan: Plan, store: ResultStore) -> None:
    require_same_content(plan, store, content_hashes([planned.config for planned in plan.arms]))


def test_a_changed_problem_set_stops_the_runs_that_read_it_and_no_others(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    files = [problems(tmp_path / name, 1) for name in ("a.jsonl", "b.jsonl")]
    tasks = f"task.path={','.join(map(str, files))}"
    both = plan_multirun(["task=gsm8k_train", "model=qwen25_0_5b", tasks, "seed=0"])
    begun(both, store)
    check(both, store)
    problems(files[1], 2)
    first, second = (
        plan_multirun(["task=gsm8k_train", "model=qwen25_0_5b", f"task.path={file}", "seed=0"]) for file in files
    )
    check(first, store)
    (spec,) = second.specs
    with pytest.raises(ConfigError, match=f"the problem set task has changed since run {spec.run_id} began"):
        check(second, store)


def test_another_checkpoint_at_the_same_path_is_not_the_same_run(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    folder = checkpoint(tmp_path / "policy", 0.0)
    plan = plan_multirun(["model=pretrained", f"model.path={folder}", "seed=0"])
    begun(plan, store)
    check(plan, store)
    checkpoint(folder, 1.0)
    with pytest.raises(ConfigError, match=rf"the checkpoint model.path={folder} has changed"):
        check(plan, store)


def test_a_checkpoint_that_this_machine_lacks_is_left_to_the_machine_that_has_it(tmp_path: Path) -> None:
    plan = plan_multirun(["model=pretrained", f"model.path={tmp_path / 'elsewhere'}", "seed=0"])
    assert not any(name.startswith("model") for name in content_hashes([plan.arms[0].config]))


def test_the_data_of_every_arm_is_read_and_what_only_other_machines_have_is_left_to_them(tmp_path: Path) -> None:
    first, second = (problems(tmp_path / name, 1) for name in ("a.jsonl", "b.jsonl"))
    second.write_text('{"id": 1, "problem": "1+1", "answer": ""}\n')
    given = ["task=gsm8k_train", "model=qwen25_0_5b", f"task.path={first},{second},{tmp_path}/none.jsonl", "seed=0"]
    plan = plan_multirun(given)
    lines = unread_data(plan)
    assert [line[: len("cannot start: task: ")] for line in lines] == ["cannot start: task: "] * 2
    assert "is empty" in lines[0]
    assert "none.jsonl" in lines[1]
    with pytest.raises(ConfigError, match=r"^task: .*is empty"):
        data_faults(plan)
    elsewhere = plan_multirun([*given, "runtime.elsewhere=true"])
    assert unread_data(elsewhere) == []
    assert data_faults(elsewhere) == []
