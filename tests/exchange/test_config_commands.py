"""`harness translate` both ways: what they read and print, and what they say of mistakes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tables import table
from trainer_configs import TRL, VERL
from verbs import Said

from harness.commands._arguments import key_values
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.exchange.dialect import hydra_value, read_config


def composed(text: str) -> RunConfig:
    """The configuration that printed overrides make in a shell."""
    words = [line for line in text.splitlines() if line and not line.startswith("#")]
    command = f"printf '%s\\0' {' '.join(words)}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return compose_run(done.stdout.split("\0")[:-1])


def test_an_export_is_yaml_with_remarks(said: Said) -> None:
    text = said("translate", "to=trl", "algorithm=dapo")
    assert "importance_sampling_level: sequence" in said("translate", "to=trl", "claim=gspo", "arm=gspo")
    ladder = ("translate", "to=trl", "experiment=dapo_ladder")
    assert "epsilon_high: 0.28" in said(*ladder, "arm=dapo_2_clip_higher")
    assert yaml.safe_load(text)["epsilon_high"] == 0.28
    assert "# trl cannot express:" in text
    assert "dead_groups.policy=refill" in text
    assert "naive GRPO" not in text
    note = "# note: this is naive GRPO (algorithm=grpo): nothing given chooses another"
    assert note in said("translate", "to=trl", "optimizer.learning_rate=1e-6")


def test_what_was_exported_is_imported(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "grpo_config.yaml"
    file.write_text(said("translate", "to=trl", "algorithm=dr_grpo", "algorithm.surrogate.clip_high=0.25"))
    text = said("translate", "from=trl", f"file={file}", "repetition_penalty=1.2", "devices=1")
    config = composed(text)
    assert (config.algorithm.aggregation.kind, config.algorithm.surrogate.clip_high) == ("constant_sum", 0.25)
    assert "#   repetition_penalty=1.2: no counterpart here, only for 1.0" in text.splitlines()
    assert "# read as TRL 1.16 reads it" in text.splitlines()


def test_hydras_own_file_is_read_with_what_it_refers_to(tmp_path: Path) -> None:
    """Hydra writes `${...}` as it stands."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "data: {max_response_length: 1024}\nactor_rollout_ref:\n  rollout: {n: 8, response_length: '${data.max_response_length}', k: {}}\n"
        "  actor: {strategy: fsdp, rollout_n: '${oc.select:actor_rollout_ref.rollout.n,1}', x: '${oc.select:no.key,2}',"
        " optim: {lr: 1e-6}}\n"
        "  ref: {strategy: '${actor_rollout_ref.actor.strategy}', all: '${actor_rollout_ref.actor.optim}', lost: '${no.such.key}'}\n"
    )
    values = read_config(file)
    assert values["actor_rollout_ref.rollout.response_length"] == 1024
    assert values["actor_rollout_ref.actor.rollout_n"] == 8
    assert values["actor_rollout_ref.actor.x"] == 2
    assert (values["actor_rollout_ref.ref.strategy"], values["actor_rollout_ref.ref.all.lr"]) == ("fsdp", 1e-6)
    assert values["actor_rollout_ref.ref.lost"] == "${no.such.key}"
    assert values["actor_rollout_ref.rollout.k"] == {}


@table(__file__, "outside", "text")
def test_what_a_file_refers_to_outside_of_itself_is_never_read(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("A_TOKEN", "hf_secret")
    file, out = tmp_path / "config.yaml", tmp_path / "mine" / "experiment" / "grpo.yaml"
    file.write_text(f"beta: 0.1\nuse_peft: true\n{text}\n")
    refusal = said("translate", "from=trl", f"file={file}", f"out={out}", code=2)
    assert "refers to another setting" in refusal
    assert "hf_secret" not in refusal
    assert not out.exists()


def test_a_text_that_hydra_would_resolve_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "hf_secret")
    with pytest.raises(ConfigError, match="refers to another setting"):
        hydra_value(["a", "'${oc.env:A_TOKEN}"])


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000, "- " * 5_000])
def test_deep_nesting_is_one_line_with_the_name_of_the_file(deep: str, said: Said, tmp_path: Path) -> None:
    for name in ("config.yaml", "args.json", "log.json", "log.jsonl", "samples.jsonl", "samples.json"):
        (tmp_path / name).write_text(deep)
    for file, *verb in (
        ("config.yaml", "translate", "from=verl", f"file={tmp_path / 'config.yaml'}"),
        ("args.json", "translate", "from=trl", f"file={tmp_path / 'args.json'}"),
        ("log.json", "report", f"logs={tmp_path / 'log.json'}", f"out={tmp_path / 'out'}"),
        ("log.jsonl", "report", f"logs={tmp_path / 'log.jsonl'}", f"out={tmp_path / 'out'}"),
        ("samples.jsonl", "evaluate", f"samples={tmp_path / 'samples.jsonl'}", f"out={tmp_path / 'out'}"),
        ("samples.json", "evaluate", f"samples={tmp_path / 'samples.json'}", f"out={tmp_path / 'out'}"),
        ("samples.jsonl", "evaluate", "check", f"data.path={tmp_path / 'samples.jsonl'}"),
    ):
        refusal = said(*verb, code=2)
        assert file in refusal, verb
        assert refusal.strip().count("\n") == 0
        assert len(refusal) < 1000


def test_references_that_multiply_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    keys = {f"k{number}": "${all}" for number in range(1000)}
    file.write_text(yaml.safe_dump({"all": {f"k{number}": 1 for number in range(1000)}, **keys}))
    with pytest.raises(ConfigError, match="more than 100000 settings"):
        read_config(file)


@table(__file__, "kinds", "name, text")
def test_a_file_of_each_kind_is_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_config(tmp_path / name) == {"beta": 0.1, "learning_rate": 1e-6}


@pytest.mark.parametrize("text", ["", "[]", "hello", "train_grpo --beta 0.1", "import trl\nx = 1\n"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(ConfigError, match=r"holds neither settings nor key=value lines|is not YAML"):
        read_config(tmp_path / "x")


@pytest.mark.parametrize(("dialect", "values"), [("trl", TRL), ("verl", VERL)])
def test_a_resolved_configuration_becomes_overrides_and_a_list(
    dialect: str, values: dict[str, Any], said: Said, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(values))
    text = said("translate", f"from={dialect}", f"file={file}", "a_key_of_mine=3")
    assert composed(text).algorithm.surrogate.clip_high == 0.28
    assert "#   a_key_of_mine=3: no row in the table" in text.splitlines()
    assert "# not in the file" not in text


def test_the_command_line_comes_last_and_what_is_missing_is_named(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text(json.dumps({"beta": 0.2, "epsilon": 0.3}))
    text = said("translate", "from=trl", f"file={file}", "beta=0.1")
    assert composed(text).algorithm.kl.coefficient == 0.1
    (missing,) = [line for line in text.splitlines() if line.startswith("# not in the file")]
    assert "num_generations" in missing
    assert " epsilon," not in missing


def test_what_names_things_keeps_its_spelling() -> None:
    names = ("arm", "run", "prompt", "quoted")
    spelled = ["prompt=### Q: {problem} ### A:", "quoted='grpo: #2'"]
    assert key_values(["arm=grpo #2", "run=null", *spelled], names, "x", texts=names) == {
        "arm": "grpo #2",
        "run": None,
        "prompt": "### Q: {problem} ### A:",
        "quoted": "grpo: #2",
    }
    given = key_values(["arm=1e-4", "run=010", "cap=1e3"], ("arm", "run", "cap"), "x", texts=("arm", "run"))
    assert given == {"arm": "1e-4", "run": "010", "cap": 1000.0}
    assert key_values(["regrade=1234567e12345678"], ("regrade",), "x") == {"regrade": "1234567e12345678"}
    for key, path in (("out", "my results #2"), ("data.path", "dir #2"), ("folder", "010"), ("model", "12:30")):
        assert key_values([f"{key}={path}"], (key,), "x") == {key: path}


def test_a_configuration_becomes_an_experiment_that_plan_takes(said: Said, tmp_path: Path) -> None:
    file, out = tmp_path / "config.yaml", tmp_path / "questions" / "experiment" / "mine.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in TRL.items() if "lora" not in key}))
    out.parent.mkdir(parents=True)
    command = ["translate", "from=trl", f"file={file}", "for=testbed", f"out={out}"]
    assert "experiment=mine" in said(*command)
    assert "1 run, 0 finished" in said(
        "plan", "--config-dir", str(out.parent.parent), "experiment=mine", f"runtime.results={tmp_path}"
    )
    config = compose_run(yaml.safe_load(out.read_text())["experiment"]["arms"][0]["overrides"])
    # The method is theirs; model, rates, lengths and sizes are the testbed's.
    assert (config.model.kind, config.optimizer, config.training) == (
        "testbed",
        compose_run([]).optimizer,
        compose_run([]).training,
    )
    assert (config.algorithm.surrogate.clip_high, config.algorithm.kl.coefficient) == (0.28, 0.04)
    year = out.with_stem("2024")
    said(*command[:-1], "verifier.form=value", "evaluation=gsm8k", f"out={year}")
    declared = yaml.safe_load(year.read_text())["experiment"]
    assert (declared["name"], declared["benchmark"], declared["arms"][0]["name"]) == ("2024", "math500", "2024")
    assert declared["arms"][0]["overrides"][-2:] == ["verifier.form=value", "evaluation=gsm8k"]  # ours, as given
    assert f"out={out} is there; name another file, or delete it" in said(*command, code=2)


def test_a_large_models_lengths_and_rate_on_the_testbed_are_said_before_training(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own/experiment").mkdir(parents=True)
    settings = ["max_completion_length=1024", "learning_rate=1e-6"]
    assert "move it to FOLDER/experiment/x.yaml, then harness plan" in said(
        "translate", "from=trl", *settings, "out=x.yaml"
    )
    shown = said("translate", "from=trl", *settings, "out=own/experiment/mine.yaml")
    assert "; harness plan --config-dir own experiment=mine\n" in shown
    own = ["--config-dir", "own", "experiment=mine"]
    planned = said("plan", *own, code=1)
    assert "refused mine: responses of up to" in planned
    assert "[learning rate] mine: optimizer.learning_rate=1e-06" in planned
    assert "(translate ... for=testbed" in said("run", *own, code=2)
    assert not Path("results").exists()
