"""Defaults by release, which release a configuration was written for, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.commands._arguments import read_yaml
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten
from harness.configuration.registry import member
from harness.configuration.schema import dump
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects._release import releases, settle
from harness.exchange.handed import own_defaults, pinned

ACTOR, OPTIM = "actor_rollout_ref.actor", "actor_rollout_ref.actor.optim"
CORRECTION = "algorithm.rollout_correction"
STEPS = {"max_steps": 100}
BATCH = {"per_device_train_batch_size": 4, "num_generations": 8, "gradient_accumulation_steps": 2}


def translated(dialect: str, values: dict[str, Any], **beside: Any) -> Translation:
    return member("harness.exchange.dialects", dialect).overrides(values, Beside(**beside))


@pytest.mark.parametrize(
    ("dialect", "key", "by_release"),
    [
        ("trl", "beta", {"0.14": 0.04, "0.18": 0.04, "0.19": 0.0, "1.16": 0.0}),
        ("trl", "temperature", {"0.17": 0.9, "0.18": 1.0}),
        (
            "trl",
            "loss_type",
            {"0.14": "grpo", "0.15": "grpo", "0.16": "bnpo", "0.21": "bnpo", "0.22": "dapo"},
        ),
        ("trl", "max_completion_length", {"0.14": 256, "1.9": 256, "1.10": 512}),
        ("trl", "use_bias_correction_kl", {"0.14": False, "1.9": False, "1.10": True}),
        ("trl", "vllm_importance_sampling_correction", {"0.22": False, "0.23": True}),
        ("trl", "per_device_train_batch_size", {"0.14": 1, "0.15": 8, "1.16": 8}),
        ("verl", f"{ACTOR}.clip_ratio_c", {"0.3": 1e9, "0.4": 3.0, "0.10": 3.0}),
        ("verl", f"{ACTOR}.entropy_coeff", {"0.3": 0.001, "0.4": 0}),
        ("verl", f"{OPTIM}.betas", {"0.3": [0.9, 0.999], "0.10": [0.9, 0.999]}),
        ("verl", f"{OPTIM}.weight_decay", {"0.3": 0.01, "0.10": 0.01}),
    ],
)
def test_releases_have_their_own_defaults(dialect: str, key: str, by_release: dict[str, Any]) -> None:
    table = releases(dialect)
    assert {name: table[name].defaults[key] for name in by_release} == by_release


@pytest.mark.parametrize(
    ("given", "version", "pin", "release", "said"),
    [
        ({"vllm_mode": "colocate"}, "0.18.2", None, "0.18", "as given"),
        ({"vllm_mode": "colocate"}, None, "0.20", "0.20", "pinned"),
        ({"vllm_device": "auto"}, None, None, "0.17", "releases 0.14 to 0.17 have vllm_device"),
        ({"vllm_device": "auto", "epsilon": 0.2}, None, None, "0.17", "releases 0.16 to 0.17 have vllm_device, epsilon"),
        ({"learning_rate": 1e-6, "bf16": True}, None, None, "1.16", "no key tells the release"),
    ],
)  # fmt: skip
def test_a_release_is_given_pinned_or_guessed(
    given: dict[str, Any], version: str | None, pin: str | None, release: str, said: str
) -> None:
    values = settle("trl", given, version, pin)
    assert values.release.name == release
    assert said in values.found


def test_a_forks_configuration_has_the_defaults() -> None:
    keys = {
        key: value
        for key, value in releases("verl")["0.4"].keys.items()
        if not key.startswith("algorithm.pf_ppo")
    }
    own = keys | {"actor_rollout_ref.rollout.top_p": 0.95, "actor_rollout_ref.actor.use_think": False}
    values = settle("verl", {}, pinned="0.2", own=own)
    assert values.release.name == "0.4"
    assert values.get("actor_rollout_ref.rollout.top_p") == 0.95
    assert values.strange == ["actor_rollout_ref.actor.use_think"]
    assert (
        "the checkout is a fork"
        in translated("verl", {"algorithm.adv_estimator": "grpo"}, own=own).inexpressible[-1]
    )


def test_a_checkouts_own_configuration_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "verl" / "trainer" / "config"
    folder.mkdir(parents=True)
    (folder / "ppo_trainer.yaml").write_text("a: {b: 1, c: '${a.b}'}")
    script = tmp_path / "examples" / "run.sh"
    assert own_defaults(script, "verl", read_yaml) == {"a.b": 1}
    assert own_defaults(script, "trl", read_yaml) == {}


def test_unknown_releases_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"version=0.9: the releases of trl known here are 0.14 to 1.16"):
        settle("trl", {}, "0.9")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("setup.py", 'deps = ["trl[vllm]==0.18.0"]', "0.18"),
        ("requirements.txt", "torch==2.6\ntrl == 0.16.1\n", "0.16"),
        ("pyproject.toml", 'dependencies = ["trl>=0.14"]', None),  # no one release
        ("verl/version/version", "0.8.0.dev\n", None),
    ],
)
def test_pins_stand_in_the_folders_above(tmp_path: Path, name: str, text: str, found: str | None) -> None:
    for path, content in ((tmp_path / name, text), (tmp_path / "recipes" / "x" / "config.yaml", "beta: 0.0")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / ".git").touch()
    assert pinned(tmp_path / "recipes" / "x" / "config.yaml", "trl") == found
    if name.startswith("verl"):
        assert pinned(tmp_path / "recipes" / "x" / "config.yaml", "verl") == "0.8"


def ours(dialect: str, values: dict[str, Any], version: str, **beside: Any) -> dict[str, Any]:
    found = translated(dialect, values, version=version, **beside)
    return flatten(dump(compose_run(found.overrides())))


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        # open-r1's demo, for the release that its setup pins
        (
            {"use_vllm": True, "num_generations": 16, "per_device_train_batch_size": 16}, "0.18",
            {"algorithm.kl.coefficient": 0.04, "algorithm.kl.kind": "k3", "algorithm.aggregation.kind": "microbatch_token_mean",
             "algorithm.aggregation.micro_batch_responses": 16, "algorithm.engine_correction.kind": "none"},
        ),
        ({"use_vllm": False}, "1.16", {"algorithm.engine_correction.kind": "none"}),
        ({"use_vllm": True}, "0.23", {"algorithm.engine_correction.kind": "token", "algorithm.engine_correction.cap": 2.0}),
        ({"use_vllm": True}, "0.26", {"algorithm.engine_correction.kind": "sequence_mask", "algorithm.engine_correction.cap": 3.0}),
        ({"beta": 0.02}, "1.9", {"algorithm.kl.kind": "k3"}),
        ({"beta": 0.02}, "1.16", {"algorithm.kl.kind": "k3_ratio"}),
        ({"epsilon": 10.0}, "1.16", {"algorithm.surrogate.clip_low": 1.0, "algorithm.surrogate.clip_high": 10.0}),
        ({"warmup_ratio": 0.1}, "0.18", {"optimizer.warmup_steps": 10, "optimizer.decay": "linear", "optimizer.final_share": 0.0}),
        (
            {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.1}}, "0.18",
            {"optimizer.decay": "cosine", "optimizer.final_share": 0.1},
        ),
        # 0.14 counts prompts on a device, later releases responses
        (BATCH, "0.14", {"algorithm.prompts_per_step": 8}),
        (BATCH, "0.17", {"algorithm.prompts_per_step": 1}),
        # 8192 responses of which 4 x 16 on each of 16 devices make an update: 8 updates of 64 prompts
        (
            {"generation_batch_size": 8192, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 16, "num_generations": 16,
             "num_processes": 16}, "0.18",
            {"algorithm.prompts_per_step": 512, "algorithm.updates_per_step": 8, "training.steps": 12},
        ),
        (
            {"reward_funcs": ["accuracy"], "reward_weights": [2.0]}, "0.18",
            {"algorithm.reward.correct": 2.0, "algorithm.reward.wrong": 0.0},
        ),
        (
            {"reward_funcs": ["accuracy", "soft_overlong_punishment"], "max_completion_len": 1000, "soft_punish_cache": 200,
             "max_completion_length": 1000}, "0.18",
            {"algorithm.overlong.policy": "soft", "algorithm.overlong.buffer_fraction": 0.2},
        ),
    ],
)  # fmt: skip
def test_trl_is_read_as_its_release_means_it(
    values: dict[str, Any], version: str, wanted: dict[str, Any]
) -> None:
    found = ours("trl", STEPS | values, version)
    assert {key: found[key] for key in wanted} == wanted


GSPO = {
    f"{ACTOR}.policy_loss.loss_mode": "gspo",
    f"{ACTOR}.loss_agg_mode": "token-mean",
    "algorithm.adv_estimator": "grpo",
}
OVERLONG = "reward_model.reward_kwargs.overlong_buffer_cfg"
BYPASS = {f"{CORRECTION}.bypass_mode": True, f"{CORRECTION}.loss_type": "reinforce"}


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        (
            {"algorithm.adv_estimator": "grpo"}, "0.5",
            {"optimizer.beta2": 0.999, "optimizer.weight_decay": 0.01, "algorithm.responses_per_prompt": 1,
             "algorithm.engine_correction.old_log_probs": "recomputed", "algorithm.surrogate.dual_clip": 3.0},
        ),
        ({f"{ACTOR}.grad_clip": 0.5, f"{OPTIM}.clip_grad": 0.3}, "0.7", {"optimizer.max_gradient_norm": 0.5}),
        ({f"{ACTOR}.grad_clip": 0.5, f"{OPTIM}.clip_grad": 0.3}, "0.8", {"optimizer.max_gradient_norm": 0.3}),
        (GSPO, "0.6", {"algorithm.aggregation.kind": "response_mean", "algorithm.importance_ratio": "sequence"}),
        (
            {f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4}, "0.5",
            {"algorithm.aggregation.kind": "microbatch_token_mean", "algorithm.aggregation.micro_batch_responses": 4},
        ),
        ({f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4}, "0.9", {"algorithm.aggregation.kind": "batch_token_mean"}),
        (
            {f"{OVERLONG}.enable": True, f"{OVERLONG}.len": 128, "data.max_response_length": 512}, "0.5",
            {"algorithm.overlong.policy": "soft", "algorithm.overlong.buffer_fraction": 0.25},
        ),
        (
            {f"{ACTOR}.policy_loss.loss_mode": "cispo", f"{ACTOR}.clip_ratio_low": 10, f"{ACTOR}.clip_ratio_high": 0.2}, "0.9",
            {"algorithm.surrogate.cap_min": 0.0, "algorithm.surrogate.cap_max": 1.2},
        ),
        (
            {f"{ACTOR}.use_kl_loss": True, f"{ACTOR}.kl_loss_type": "k3+"}, "0.9",
            {"algorithm.kl.kind": "k3_k2", "algorithm.kl.coefficient": 0.001},
        ),
        ({"algorithm.adv_estimator": "grpo_vectorized"}, "0.9", {"algorithm.advantage.baseline": "group_mean"}),
        ({f"{ACTOR}.clip_ratio": 0.3}, "0.3", {"algorithm.surrogate.clip_low": 0.3, "algorithm.surrogate.clip_high": 0.3}),
        (
            {f"{ACTOR}.clip_ratio": 0.3, f"{ACTOR}.clip_ratio_low": -1, f"{ACTOR}.clip_ratio_high": 0.5}, "0.4",
            {"algorithm.surrogate.clip_low": 0.3, "algorithm.surrogate.clip_high": 0.5},
        ),
        (
            {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 256, f"{ACTOR}.ppo_epochs": 2}, "0.2",
            {"algorithm.prompts_per_step": 8, "algorithm.updates_per_step": 1, "algorithm.epochs_per_step": 1},
        ),
        ({f"{ACTOR}.clip_ratio": 0.3}, "0.4", {"algorithm.surrogate.clip_low": 0.2, "algorithm.surrogate.clip_high": 0.2}),
        # without a clip the weight to the sampler is cut and stopped
        (
            {**BYPASS, f"{CORRECTION}.rollout_is": "token", f"{CORRECTION}.rollout_is_threshold": 2.0}, "0.9",
            {"algorithm.engine_correction.old_log_probs": "sampler", "algorithm.surrogate.kind": "clipped_is",
             "algorithm.surrogate.cap_max": 2.0},
        ),
        (BYPASS, "0.9", {"algorithm.surrogate.kind": "policy_gradient", "algorithm.surrogate.importance_weighted": False}),
        ({f"{OPTIM}.lr_warmup_steps_ratio": 0.1, "trainer.total_training_steps": 200}, "0.9", {"optimizer.warmup_steps": 20}),
    ],
)  # fmt: skip
def test_verl_is_read_as_its_release_means_it(
    values: dict[str, Any], version: str, wanted: dict[str, Any]
) -> None:
    found = ours("verl", values, version)
    assert {key: found[key] for key in wanted} == wanted


def test_rows_give_the_steps() -> None:
    # 7473 rows in steps of 8 prompts: 934 steps an epoch, the rest is dropped
    values = {
        "num_train_epochs": 2.0,
        "num_generations": 8,
        "per_device_train_batch_size": 64,
        "warmup_ratio": 0.1,
    }
    found = ours("trl", values, "0.18", rows=7473)
    assert (found["training.steps"], found["optimizer.warmup_steps"]) == (1868, 187)
    epochs = {"trainer.total_epochs": 3, "data.train_batch_size": 256}
    assert ours("verl", epochs, "0.9", rows=7473)["training.steps"] == 87


def test_devices_multiply_the_batch_and_what_does_not_divide_is_refused() -> None:
    values = STEPS | {
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 4,
        "num_generations": 14,
    }
    assert ours("trl", values, "0.18", devices=7)["algorithm.prompts_per_step"] == 32
    with pytest.raises(
        ConfigError, match=r"64 responses a generation in groups of num_generations=14.*give devices=N"
    ):
        translated("trl", values, version="0.18")
    with pytest.raises(ConfigError, match="4 responses a generation in groups of num_generations=8"):
        translated("trl", STEPS | BATCH, version="0.16")  # to 0.16 a group stands in one micro-batch


def test_what_is_assumed_and_what_depends_on_the_release_is_said() -> None:
    found = translated("trl", {"vllm_device": "auto", "use_vllm": True})
    assert found.assumed["beta"] == 0.04
    assert "loss_type depends on the release: grpo in 0.14 to 0.15, bnpo in 0.16 to 0.17" in found.notes
    given = translated(
        "trl", {"beta": 0.01, "report_to": "wandb", "min_p": 0.1, "repetition_penalty": 1.0}, version="0.18"
    )
    assert "beta" not in given.assumed
    assert given.infrastructure == ["report_to"]
    assert [line for line in given.inexpressible if "not read" in line] == ["min_p=0.1: not read"]


def test_the_model_and_its_data_are_the_experiment() -> None:
    values = STEPS | {
        "model_name_or_path": "Qwen/Qwen2.5-1.5B-Instruct", "dataset_name": "open-r1/MATH", "dataset_prompt_column": "problem",
        "system_prompt": 'Think first.\nThen say "so".', "max_completion_length": 1024, "use_vllm": True, "seed": 42,
    }  # fmt: skip
    config = compose_run(translated("trl", values, version="0.18").overrides())
    assert (config.model.path, config.engine.kind, config.seed) == ("Qwen/Qwen2.5-1.5B-Instruct", "vllm", 42)
    assert (config.task.source, config.task.fields.answer, config.task.system) == (
        "open-r1/MATH", "solution", 'Think first.\nThen say "so".',
    )  # fmt: skip
    assert config.evaluation.caps == [1024]


def test_verls_adapters_have_two_spellings() -> None:
    model = {
        "actor_rollout_ref.model.path": "Q/q",
        "actor_rollout_ref.model.target_modules": ["q_proj", "v_proj"],
    }
    for names in (("lora_rank", "lora_alpha"), ("lora.rank", "lora.alpha")):
        given = dict(zip((f"actor_rollout_ref.model.{name}" for name in names), (8, 64), strict=True))
        lora = compose_run(translated("verl", model | given, version="0.9").overrides()).model.lora
        assert (lora.rank, lora.alpha, lora.targets) == (8, 64.0, "q_proj,v_proj")
