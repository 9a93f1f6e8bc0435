"""The experiments at paper scale plan without network: refused arms shown, and what the weights take said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli import main
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.experiment.checks import refusals
from harness.experiment.planning import plan_experiment, plan_jobs

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")


def planned(capsys: pytest.CaptureFixture[str], tmp_path: Path, *overrides: str, code: int = 0) -> str:
    """What `harness plan` prints, on one line."""
    assert main(["plan", *overrides, f"runtime.results={tmp_path}"]) == code
    return " ".join(capsys.readouterr().out.split())


def test_an_experiment_at_scale_plans_without_network_and_writes_nothing(tmp_path, capsys):
    assert "is unknown until a run like them has finished" in planned(capsys, tmp_path, "experiment=gsm8k_quick_start")
    assert list(tmp_path.iterdir()) == []


def test_what_all_arms_have_alike_is_told_and_a_launcher_changes_nothing(tmp_path, capsys):
    launcher = "hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu"
    text = planned(capsys, tmp_path, *launcher, "experiment=dapo_equal_tokens")
    assert "all arms: model.kind=testbed, task.kind=arithmetic" in text
    assert "training.generated_tokens=480000, algorithm.prompts_per_step=32" in text
    assert f"launched with {' '.join(launcher)}" in text
    assert main(["plan", *launcher, "hydra.launcher.partitoin=gpu", "experiment=aa"]) == 2
    assert "partitoin" in capsys.readouterr().err


def test_what_weights_optimiser_and_cache_take_is_told(tmp_path, capsys):
    """494,032,768 parameters: 4 bytes each, 12 of gradients and moments; 2 x 24 layers x 128 elements a token in bfloat16."""
    one = ["model=qwen25_0_5b", "task=gsm8k_train", "runtime=one_gpu", "sampling.max_response_tokens=2048"]
    text = planned(capsys, tmp_path, *one, "runtime.rollout_rows=1024")
    kept = "weights 1.8 GiB, gradients and moments 5.5 GiB, keys and values of 1024 responses 24.0 GiB"
    assert f"memory: a run of Qwen/Qwen2.5-0.5B keeps {kept};" in text
    assert "weights 0.9 GiB, keys" in planned(capsys, tmp_path, *one, "model.lora.rank=8")
    assert "memory:" not in planned(capsys, tmp_path)


def test_responses_must_have_positions():
    """256 on the testbed; a prompt of up to six operations is a digit, two characters each and a colon: 14."""
    assert refusals(compose_run(["sampling.max_response_tokens=242", "evaluation.caps=[242]"])) == []
    for key in ("sampling.max_response_tokens=243", "sampling.max_response_tokens=32"):
        (reason,) = refusals(compose_run([key, "evaluation.caps=[32,243]"]))
        assert "responses of up to 243 tokens and their prompts exceed the 256 positions of testbed" in reason
        assert "lower sampling.max_response_tokens and evaluation.caps to 242 or less" in reason


def test_keys_of_groups_that_a_preset_chooses_can_be_overridden():
    more = ["engine.gpu_memory_utilization=0.8", "model.lora.rank=32"]
    (arm,) = plan_experiment(["experiment=gsm8k_quick_start", *more]).arms
    assert (arm.config.engine.gpu_memory_utilization, arm.config.model.lora.rank) == (0.8, 32)


def test_model_presets_are_pretrained_models_with_a_commit():
    presets = [name for name in options("model") if name.startswith(("qwen", "olmo"))]
    assert len(presets) == 8
    for name in presets:
        model = compose_run([f"model={name}"]).model
        assert model.kind == "pretrained"
        assert re.fullmatch("[0-9a-f]{40}", model.revision)


@pytest.mark.parametrize(("caps", "read"), [("[16,32]", 32), ("[32,64]", 32), ("[48,64]", 64)])
def test_scores_are_read_at_the_training_cap_or_else_the_largest(caps, read):
    changed = ["sampling.max_response_tokens=32", f"evaluation.caps={caps}"]
    plan = plan_experiment(["experiment=dapo_ladder", "experiment.seeds=[0]", *changed])
    assert plan.record()["primary_cap"] == read


def test_what_a_command_has_one_value_of_does_not_differ_between_arms() -> None:
    with pytest.raises(ConfigError, match=r"runtime\.results differs between arms \(results in grpo, other in dapo\)"):
        plan_jobs([["algorithm=grpo"], ["algorithm=dapo", "runtime.results=other"]], [])
