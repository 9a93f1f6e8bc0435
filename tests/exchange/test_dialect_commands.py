"""`harness export` and `harness import` of settings: what they print, read back, and say of mistakes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from verbs import Said

from harness.cli import main
from harness.commands._arguments import key_values
from harness.configuration.compose import compose_run

ACTOR = "actor_rollout_ref.actor"


def test_the_command_exports_yaml_with_remarks(said: Said) -> None:
    text = said("export", "dialect=trl", "algorithm=dapo")
    assert yaml.safe_load(text)["epsilon_high"] == 0.28
    assert "# trl cannot express:" in text
    assert "dead_groups.policy=refill" in text
    assert "naive GRPO" not in text


def test_an_export_that_chooses_no_algorithm_says_which_it_is(said: Said) -> None:
    note = "# note: this is naive GRPO (algorithm=grpo): nothing given chooses another"
    assert note in said("export", "dialect=trl", "preset=dapo_qwen25_7b", "optimizer.learning_rate=1e-6")
    for chosen in ("rung=dapo_2_clip_higher", "patch=clip_higher", "algorithm=grpo"):
        assert note not in said("export", "dialect=trl", "preset=dapo_qwen25_7b", chosen)


def test_the_command_imports_what_it_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "dialect=trl", "algorithm=dr_grpo", "algorithm.surrogate.clip_high=0.25"]) == 0
    file = tmp_path / "grpo_config.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["import", "dialect=trl", f"file={file}", "repetition_penalty=1.2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    config = compose_run([line for line in lines if not line.startswith("#")])
    assert config.algorithm.aggregation.kind == "constant_sum"
    assert config.algorithm.surrogate.clip_high == 0.25
    assert "#   repetition_penalty=1.2: not read" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "algorithm=dapo"], "name one dialect"),
        (["export", "dialect=tlr", "algorithm=dapo"], "did you mean 'trl'?"),
        (["import", "dialect=trl", "file=nowhere.yaml"], "no file nowhere.yaml"),
        (["import", "dialect=trl", "epsilon=high"], "epsilon=high is not a number"),
        (["import", "dialect=verl", f"{ACTOR}.clip_ratio_low=low"], "clip_ratio_low=low is not a number"),
        (["import", "dialect=verl", f"{ACTOR}.optim.betas=[0.9"], "is not YAML"),
        (["import", "dialect=trl", "beta=0", "num_generatons=8"], "trl has no setting 'num_generatons'; did you mean num_generations=?"),
        (["import", "dialect=trl", "beta=0", "verison=0.18"], "did you mean version=?"),
        (["import", "dialect=trl", "beta=0", "zzz=1"], "say +zzz= if your copy of the trainer does"),
        (["import", "dialect=verl", "beta=0", "num_generations=8"], "dialect=verl knows 0 of these settings, trl 2: give dialect=trl"),
        (["import", "dialect=open_instruct", "beta=0", "num_generations=8", "epsilon=0.2"], "give dialect=trl"),
        (["import", "dialect=trl", "beta=0", "out=x.yaml", "overwrite=yes"], "overwrite='yes' is not known"),
    ],
)  # fmt: skip
def test_mistakes_are_named(arguments: list[str], message: str, said: Said) -> None:
    assert message in said(*arguments, code=2)


def test_an_imported_file_that_was_edited_is_written_over_only_when_that_is_said(
    said: Said, tmp_path: Path
) -> None:
    out = tmp_path / "mine.yaml"
    command = ["import", "dialect=trl", "beta=0.1", "+copy_of_mine=1", f"out={out}"]
    for _ in "again":
        said(*command)
    assert "copy_of_mine=1: not read" in out.read_text()
    for other in (out.read_text().replace("seeds: [0]", "seeds: [0, 1]"), "name: by hand\n", ""):
        out.write_text(other)
        assert f"out={out} was edited since" in said(*command, code=2)
        assert out.read_text() == other
    said(*command, "overwrite=true")
    assert yaml.safe_load(out.read_text())["seeds"] == [0]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["dialect=trl", "epsilon=3e-4", "epsilon_high=4E-4"],
            ["algorithm.surrogate.clip_low=0.0003", "algorithm.surrogate.clip_high=0.0004"],
        ),
        (
            ["dialect=verl", f"{ACTOR}.clip_ratio_low=3e-4", f"{ACTOR}.optim.lr=1e-6"],
            ["algorithm.surrogate.clip_low=0.0003", "optimizer.learning_rate=1e-06"],
        ),
    ],
)
def test_numbers_in_exponent_notation_are_numbers(
    arguments: list[str], lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", *arguments]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())
    file = tmp_path / "settings.yaml"
    file.write_text("\n".join(item.replace("=", ": ") for item in arguments[1:]))
    assert main(["import", arguments[0], f"file={file}"]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


def test_what_names_things_keeps_its_spelling() -> None:
    given = key_values(["arm=1e-4", "run=010", "cap=1e3"], ("arm", "run", "cap"), "x", texts=("arm", "run"))
    assert given == {"arm": "1e-4", "run": "010", "cap": 1000.0}
    assert key_values(["regrade=1234567e12345678"], ("regrade",), "x") == {"regrade": "1234567e12345678"}
    assert key_values(["out=my results #2"], ("out",), "x") == {"out": "my results #2"}


SCRIPT = """
cap=$((8 * 2))
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=32 data.max_response_length=$cap \\
    actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.rollout.n=4 actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B data.train_files=$HOME/gsm8k/train.parquet trainer.logger=console $@
"""


def test_a_script_becomes_an_experiment_that_plan_takes(said: Said, tmp_path: Path) -> None:
    script, out = tmp_path / "run.sh", tmp_path / "questions" / "experiment" / "mine.yaml"
    script.write_text(SCRIPT)
    out.parent.mkdir(parents=True)
    text = said("import", "dialect=verl", f"file={script}", "rows=320", "version=0.9", f"out={out}")
    assert "# verl 0.9, as given" in text.splitlines()
    planned = said(
        "plan", f"config_dir={out.parent.parent}", "experiment=mine", f"runtime.results={tmp_path}"
    )
    assert "1 run, 0 finished" in planned
    arm = yaml.safe_load(out.read_text())["arms"][0]["overrides"]
    config = compose_run(arm)
    assert (
        config.training.steps,
        config.algorithm.updates_per_step,
        config.sampling.max_response_tokens,
    ) == (300, 4, 16)
    assert (config.model.path, config.task.fields.answer) == (
        "Qwen/Qwen2.5-0.5B",
        "reward_model.ground_truth",
    )


def test_a_large_models_lengths_and_rate_on_the_testbed_are_said_before_training(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["max_completion_length=1024", "learning_rate=1e-6", "max_steps=3"]
    shown = said("import", "dialect=trl", *settings, "out=mine.yaml")
    assert shown.startswith(
        "wrote mine.yaml; move it to FOLDER/experiment/mine.yaml, then harness plan config_dir=FOLDER"
    )
    Path("own/experiment").mkdir(parents=True)
    shown = said("import", "dialect=trl", *settings, "out=own/experiment/mine.yaml")
    assert "; harness plan config_dir=own experiment=mine\n" in shown
    planned = said("plan", "config_dir=own", "experiment=mine", code=1)
    assert (
        "refused mine: responses of up to 2048 tokens and their prompts exceed the 256 positions of testbed"
        in planned
    )
    assert "[learning rate] mine: optimizer.learning_rate=1e-06" in planned
    refused = said("run", "config_dir=own", "experiment=mine", code=2)
    assert "to 242 or less (harness import ... for=testbed" in refused
    assert not Path("results").exists()


def test_the_method_alone_goes_to_the_testbed(said: Said, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SCRIPT)
    text = said(
        "import",
        "dialect=verl",
        f"file={script}",
        "for=testbed",
        "actor_rollout_ref.actor.clip_ratio_high=0.3",
    )
    config = compose_run([line for line in text.splitlines() if line and not line.startswith("#")])
    assert (config.model.kind, config.optimizer, config.sampling) == (
        "testbed", compose_run([]).optimizer, compose_run([]).sampling,
    )  # fmt: skip
    assert (config.algorithm.surrogate.clip_high, config.algorithm.responses_per_prompt) == (0.3, 4)


def test_a_value_stands_on_one_line_and_a_shell_reads_it(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    prompt = 'First \\boxed{}:\nit\'s "so".'
    file.write_text(
        yaml.safe_dump(
            {"max_steps": 9, "model_name_or_path": "Q/q", "dataset_name": "a/b", "system_prompt": prompt}
        )
    )
    text = said("import", "dialect=trl", f"file={file}")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {' '.join(lines)}"], capture_output=True, text=True, check=True
    ).stdout
    assert compose_run(words.split("\0")[:-1]).task.system == prompt


def test_a_file_that_only_running_tells_is_an_error(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("args = GRPOConfig(beta=cli.beta, epsilon=cli.epsilon, num_generations=8)\n")
    assert "only running the file tells beta, epsilon: give" in said(
        "import", "dialect=trl", f"file={file}", code=2
    )
    assert (
        "algorithm.kl.coefficient=0.1"
        in said("import", "dialect=trl", f"file={file}", "beta=0.1").splitlines()
    )
    file.write_text("args = GRPOConfig(**more)\n")
    assert "only running the file tells **more: give" in said("import", "dialect=trl", f"file={file}", code=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lora: {lora_r: 2, use_peft: 1}\ngrpo: {beta: 0.1, epsilon: 0.2, top_p: 1}\nlearning_rate: 1",
            "most settings of trl stand under grpo: give section=grpo",
        ),
        ("alpha: 1\ngamma: 2", "nothing of trl was read: its keys are alpha, gamma"),
    ],
)
def test_a_file_of_which_nothing_is_read_is_an_error(
    said: Said, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert message in said("import", "dialect=trl", f"file={file}", code=2)
    if "section" in message:
        lines = said("import", "dialect=trl", f"file={file}", "section=grpo").splitlines()
        assert "algorithm.kl.coefficient=0.1" in lines
        assert "#   lora, learning_rate: stand outside section=grpo and are not read" in lines
