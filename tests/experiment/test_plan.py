"""The experiments at paper scale plan without network: refused arms shown, and what the weights take said."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from harness.cli import main
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.experiment.checks import refusals
from harness.experiment.memory import memory_line
from harness.experiment.planning import plan_experiment, plan_jobs, plan_multirun

ROOT = Path(__file__).parents[2]
AT_SCALE = {
    "verl_dapo_qwen25_32b": "experiments/dapo_qwen25_32b",
    "dapo_qwen25_7b": "experiments/dapo_qwen25_7b",
    "dapo_qwen25_1_5b": "experiments/dapo_one_gpu",
    "dapo_qwen25_0_5b": "experiments/dapo_one_gpu",
    "oat_zero_7b": "experiments/oat_zero",
    "oat_zero_1_5b": "experiments/oat_zero",
    "olmo3_rl_zero_math_7b": "experiments/olmo3_rl_zero_math_7b",
    "gsm8k_quick_start": "experiments/gsm8k_quick_start",
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*args: object) -> None:
        raise AssertionError("harness plan must not need a network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setenv("COLUMNS", "240")


def planned(capsys: pytest.CaptureFixture[str], tmp_path: Path, *overrides: str, code: int = 0) -> str:
    """What `harness plan` prints, on one line."""
    assert main(["plan", *overrides, f"runtime.results={tmp_path}"]) == code
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("name", "folder"), sorted(AT_SCALE.items()))
def test_an_experiment_at_scale_plans_offline_with_what_is_pinned_and_explained(name, folder, tmp_path, capsys):
    """Models and data sets have a commit of 40 digits, or none: then the launch names the key to give."""
    text = planned(capsys, tmp_path, f"experiment={name}")
    assert "no run like them is in the store" in text
    assert list(tmp_path.iterdir()) == []
    for planned_arm in plan_experiment([f"experiment={name}"]).arms:
        config = planned_arm.config
        assert refusals(config) == [], planned_arm.name
        assert re.fullmatch("[0-9a-f]{40}", config.model.revision)
        for source in (config.task, *config.evaluation.benchmarks.values()):
            assert source.revision is None or re.fullmatch("[0-9a-f]{40}", source.revision)
        assert all(benchmark.revision for benchmark in config.evaluation.benchmarks.values())
    page = (ROOT / folder / "README.md").read_text()
    assert [word for word in (f"experiment={name}", "Licence", "arXiv:") if word not in page] == []


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
    with pytest.raises(ConfigError, match=r"engine\.gpu_memory_utilisation"):
        plan_experiment(["experiment=gsm8k_quick_start", "engine.gpu_memory_utilisation=0.8"])


def test_the_paper_scale_presets_keep_the_papers_values():
    """The values that algorithms quote: DAPO section 4.1, Dr. GRPO Table 6, Olmo 3 Table 49."""
    dapo = plan_experiment(["experiment=verl_dapo_qwen25_32b", "preset=dapo_qwen25_32b"]).arms[-1].config
    algorithm = dapo.algorithm
    assert (algorithm.prompts_per_step, algorithm.responses_per_prompt) == (512, 16)
    assert algorithm.updates_per_step == 16
    assert (algorithm.surrogate.clip_low, algorithm.surrogate.clip_high) == (0.2, 0.28)
    assert dapo.sampling.max_response_tokens * algorithm.overlong.buffer_fraction == 4096
    assert (dapo.optimizer.learning_rate, dapo.optimizer.warmup_steps) == (1e-6, 20)
    assert (dapo.evaluation.samples_per_problem, dapo.evaluation.top_p) == (32, 0.7)
    oat = plan_experiment(["experiment=oat_zero_7b"]).arms[-1].config
    assert oat.algorithm.aggregation.constant_tokens == oat.sampling.max_response_tokens == 3000
    assert oat.algorithm.prompts_per_step * 8 / oat.algorithm.updates_per_step == 128
    assert (oat.optimizer.beta1, oat.optimizer.beta2, oat.algorithm.advantage.scale) == (0.9, 0.95, "none")
    olmo = plan_experiment(["experiment=olmo3_rl_zero_math_7b"]).arms[0].config
    assert (olmo.algorithm.prompts_per_step, olmo.algorithm.responses_per_prompt) == (32, 8)
    assert olmo.training.steps == 2000
    assert (olmo.algorithm.surrogate.clip_high, olmo.algorithm.engine_correction.cap) == (0.272, 2.0)
    assert olmo.algorithm.curriculum.pass_rate == 0.875


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


def test_the_likeliest_tokens_of_a_step_are_part_of_the_memory() -> None:
    # 512 x 16 responses of 4096 tokens, 128 tokens and 8 bytes each, in eight processes
    given = [
        "algorithm=score_centering",
        "model=qwen25_0_5b",
        "algorithm.prompts_per_step=512",
        "algorithm.responses_per_prompt=16",
    ]
    given += [
        "sampling.max_response_tokens=4096",
        "evaluation.caps=[4096]",
        "runtime.device=cuda",
        "runtime.gpus_per_run=8",
    ]
    size = 8 * 128 * 4096 * 512 * 16 * 8 / 2**30
    assert f"the likeliest tokens of a step {size:.1f} GiB" in memory_line([compose_run(given)])


def test_what_a_command_has_one_value_of_does_not_differ_between_arms() -> None:
    with pytest.raises(ConfigError, match=r"runtime\.results differs between arms \(results in grpo, other in dapo\)"):
        plan_jobs([["algorithm=grpo"], ["algorithm=dapo", "runtime.results=other"]], [])
    with pytest.raises(ConfigError, match=r"runtime\.threads=2: jobs that differ in runtime\.\* alone are one run"):
        plan_multirun(["algorithm=grpo", "runtime.threads=1,2", "seed=0"])
