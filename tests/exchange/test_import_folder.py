"""A folder of runs becomes one experiment: arms by what differs in their configurations, seeds by what repeats them."""

from __future__ import annotations

import json
import os
import random

import pytest
import torch
import yaml
from import_support import trl_state

from harness.cli import main
from harness.exchange.importers._arms import group
from harness.exchange.importers._config import arguments
from harness.exchange.importers._log import ForeignLogError
from harness.store import ResultStore


def verl_run(folder, arm, seed, *, name="", steps=4, **settings):
    """A run of verl with its file logger's lines and Hydra's configuration."""
    place = folder / (name or f"{arm}-{seed}")
    (place / ".hydra").mkdir(parents=True)
    config = {
        "algorithm": {"loss": arm},
        "data": {"seed": seed, **settings},
        "trainer": {"experiment_name": f"{arm}{seed}"},
    }
    (place / ".hydra" / "config.yaml").write_text(yaml.safe_dump(config))
    draw = random.Random(f"{arm} {seed} {steps}").random
    lines = [
        {"step": step, "data": {"critic/score/mean": draw(), "actor/grad_norm": draw()}}
        for step in range(1, steps + 1)
    ]
    lines[-1]["data"]["val-core/aime/acc/mean@4"] = 0.4 + seed / 100
    (place / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return place


@pytest.fixture
def runs(tmp_path):
    """Two arms with two seeds."""
    for arm in ("grpo", "gspo"):
        for seed in (3, 5):
            verl_run(tmp_path / "runs", arm, seed)
    return tmp_path / "runs"


@pytest.fixture
def imported(tmp_path, capsys):
    """Import the folder `runs`, and return exit code and what was said."""

    def run(*more):
        capsys.readouterr()
        code = main(
            [
                "import_runs",
                f"folder={tmp_path / 'runs'}",
                "experiment=mine",
                f"runtime.results={tmp_path / 'res'}",
                *more,
            ]
        )
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def arms_of(tmp_path):
    plan = ResultStore(tmp_path / "res").plan("mine")
    return {arm["name"]: sorted(arm["runs"], key=int) for arm in plan["arms"]}


def test_what_differs_makes_arms_and_seeds_repeat_them(runs, tmp_path, imported):
    code, text = imported()
    assert code == 0
    assert arms_of(tmp_path) == {"loss=grpo": ["3", "5"], "loss=gspo": ["3", "5"]}
    second = ResultStore(tmp_path / "res").plan("mine")["arms"][1]
    assert second["changes"] == {"algorithm.loss": ["grpo", "gspo"]}
    assert second["parent"] == "loss=grpo"
    assert "read as verl's names: 3 metrics are known, 0 keep their names" in text
    assert main(["report", "experiment=mine", f"runtime.results={tmp_path / 'res'}", "only=table"]) == 0
    code, text = imported()
    assert code == 0
    assert text.count("already here") == 4


def test_a_parent_comes_first_and_has_to_be_an_arm(runs, tmp_path, imported):
    code, text = imported("parent=loss=gspp")
    assert code == 2
    assert "did you mean 'loss=gspo'" in text
    assert imported("parent=loss=gspo")[0] == 0
    assert list(arms_of(tmp_path)) == ["loss=gspo", "loss=grpo"]


def test_two_logs_of_one_run_count_once(runs, tmp_path, imported):
    copy = verl_run(runs, "grpo", 3, name="again/copy") / "metrics.jsonl"
    copy.write_text("".join(copy.read_text().splitlines(keepends=True)[:3]))
    lines = map(json.loads, (runs / "gspo-3" / "metrics.jsonl").read_text().splitlines())
    printed = (
        f"step:{line['step']} - " + " - ".join(f"{key}:{value:.4g}" for key, value in line["data"].items())
        for line in lines
    )
    (runs / "gspo-3" / "console.log").write_text("\n".join(printed))
    code, text = imported()
    assert code == 0
    assert "again/copy/metrics is another log of the run grpo-3/metrics" in text
    assert "gspo-3/console is another log of the run gspo-3/metrics" in text
    assert arms_of(tmp_path)["loss=grpo"] == ["3", "5"]


def test_a_torn_log_a_run_without_configuration_and_other_problems_are_named_and_the_rest_is_kept(
    runs, tmp_path, imported
):
    log = runs / "grpo-3" / "metrics.jsonl"
    log.write_text(log.read_text() + '{"step": 5, "da')
    (runs / "bare").mkdir()
    (runs / "bare" / "metrics.jsonl").write_text(
        (runs / "gspo-3" / "metrics.jsonl").read_text().replace("0.", "0.1")
    )
    verl_run(runs, "gspo", 7, val_files="math500.parquet")
    verl_run(runs, "gspo", 5, name="longer", steps=6)
    code, text = imported()
    assert code == 1
    assert "grpo-3/metrics: metrics.jsonl: 1 torn line left out" in text
    assert "bare/metrics: no configuration beside it: put its config.yaml" in text
    assert (
        'gspo-7/metrics: it was evaluated on other problems (data.val_files: "math500.parquet", the others: null)'
        in text
    )
    assert (
        "gspo-5/metrics: a second run of arm loss=gspo, seed 5, beside longer/metrics, which goes on to step 6"
        in text
    )
    assert arms_of(tmp_path) == {"loss=grpo": ["3", "5"], "loss=gspo": ["3", "5"]}


def test_nothing_read_is_an_error(tmp_path, imported):
    assert imported()[1].endswith("is no folder; path= takes one log\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "trainer_state.json").write_text('{"log_history": [{"st')
    (tmp_path / "runs" / "empty.jsonl").touch()
    (tmp_path / "runs" / "rollouts.jsonl").write_text('{"reward": 1, "step": 3, "output": "4"}\n')
    code, text = imported()
    assert code == 2
    assert "has no run that can be read" in text
    assert "is torn: it begins as JSON and does not end" in text
    assert "2 files are no logs that are known: empty.jsonl, rollouts.jsonl" in text
    assert not (tmp_path / "res").exists()


def test_keys_of_one_run_do_not_go_with_a_folder(runs, imported):
    assert "folder= takes all runs below it, arm= is of one run" in imported("arm=grpo")[1]
    assert "responses_per_step= at least 1" in imported("responses_per_step=0")[1]
    assert (
        "by=lr: no configuration of these runs has that key; varying are algorithm.loss, data.seed"
        in imported("by=lr")[1]
    )


def test_names_tell_arms_and_seeds_where_asked(tmp_path, imported):
    for name, reward in (("a2_vi_42", 0.1), ("a2_vi_43", 0.2), ("plain", 0.3)):
        place = tmp_path / "runs" / name / "checkpoint-50"
        place.mkdir(parents=True)
        trl_state(place / "trainer_state.json", [reward, 0.4, reward / 3], at={30: {"eval_accuracy": reward}})
    code, text = imported("by=name")
    assert code == 1
    assert "plain: by=name: it does not end in a seed" in text
    assert arms_of(tmp_path) == {"a2_vi": ["42", "43"]}


def test_the_machine_makes_no_arm_unless_asked():
    configs = {
        name: {"learning_rate": rate, "seed": seed, "output_dir": name, "dataloader_num_workers": seed}
        for name, rate, seed in (("a", 1e-6, 0), ("b", 1e-6, 1), ("c", 2e-6, 0))
    }
    found = group(configs, dict.fromkeys(configs, 1), [])
    assert {name: (place.arm, place.seed) for name, place in found.placed.items()} == {
        "a": ("learning_rate=1e-06", 0),
        "b": ("learning_rate=1e-06", 1),
        "c": ("learning_rate=2e-06", 0),
    }
    assert "differ as well, and make no arm: dataloader_num_workers" in found.said[0]
    asked = group(configs, dict.fromkeys(configs, 1), ["dataloader_num_workers"])
    assert {place.arm for place in asked.placed.values()} == {
        "dataloader_num_workers=0",
        "dataloader_num_workers=1",
    }


def test_runs_without_a_seed_are_numbered_and_it_is_said():
    found = group({"x": {"lr": 1}, "y": {"lr": 1}}, {"x": 1, "y": 1}, [])
    assert [place.seed for place in found.placed.values()] == [0, 1]
    assert found.said == [
        "arm all: its configurations have no seed; its runs are numbered in the order of their names"
    ]


class Loaded:
    """As a Trainer's arguments: an object with values; or one whose pickle would run something."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('ran')",)) if getattr(self, "bad", False) else super().__reduce__()


def test_training_arguments_are_read_and_nothing_of_them_runs(tmp_path):
    good, bad = Loaded(), Loaded()
    vars(good).update(learning_rate=1e-6, seed=7, loss_type="dapo", _n_gpu=1, device=torch.device("cpu"))
    bad.bad = True
    torch.save(good, tmp_path / "training_args.bin")
    assert arguments(tmp_path / "training_args.bin") == {
        "learning_rate": 1e-6,
        "seed": 7,
        "loss_type": "dapo",
        "device": "cpu",
    }
    torch.save(bad, tmp_path / "bad.bin")
    assert arguments(tmp_path / "bad.bin") == {}
    (tmp_path / "torn.bin").write_bytes((tmp_path / "training_args.bin").read_bytes()[:200])
    assert arguments(tmp_path / "torn.bin") == {}


def test_a_state_is_of_the_run_of_its_training_arguments(tmp_path, imported):
    for seed in (1, 2):
        place = tmp_path / "runs" / f"out{seed}" / "checkpoint-30"
        place.mkdir(parents=True)
        trl_state(
            place / "trainer_state.json", [0.1 * seed, 0.4, 0.2 * seed], at={30: {"eval_accuracy": 0.3}}
        )
        settings = Loaded()
        vars(settings).update(seed=seed, beta=0.0)
        torch.save(settings, place / "training_args.bin")
    assert imported()[0] == 0
    assert arms_of(tmp_path) == {"all": ["1", "2"]}


def test_a_folder_with_no_such_score_says_which_there_are(runs, imported):
    code, text = imported("score=aime/avg@8")
    assert code == 2
    assert "has no score 'aime/avg@8'; did you mean 'aime/avg@4'" in text


def test_group_names_what_no_configuration_has():
    with pytest.raises(ForeignLogError, match="by=gamma"):
        group({"x": {"lr": 1}}, {"x": 1}, ["gamma"])


def test_an_experiment_goes_with_the_runs_that_no_other_has(runs, tmp_path, imported, said):
    imported()
    root = f"runtime.results={tmp_path / 'res'}"
    store = ResultStore(tmp_path / "res")
    plan = store.plan("mine")
    assert f"{tmp_path / 'res'} holds mine" in said("report", root, code=2)
    assert f"{tmp_path / 'res'} holds mine" in said("pack", root, code=2)
    assert "holds no experiment 'absent'; choose one of: mine" in said(
        "status", "experiment=absent", root, code=2
    )
    shared = plan["arms"][0]["runs"]["3"]
    store.write_plan("other", {**plan, "name": "other", "arms": [{**plan["arms"][0], "runs": {"3": shared}}]})
    assert "name what is to go" in said("clean", "--experiment", root, code=2)
    with store.run(shared).lock():
        told = said("clean", "--experiment", "--yes", "experiment=mine", root, code=2)
        assert f"run {shared} runs (process {os.getpid()} on " in told
    told = said("clean", "--experiment", "--yes", "experiment=mine", root)
    assert f"kept {store.run(shared).path}: it is of other, too" in told
    assert "removed 4 directories" in told
    assert (store.plans(), store.run_ids()) == (["other"], [shared])
