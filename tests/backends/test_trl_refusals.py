"""No choice is dropped on the way to TRL: changing any key changes GRPOConfig, is read by code of ours, or refuses the run."""

from __future__ import annotations

import dataclasses

import pytest
from every_key import lost_changes
from tables import tables

from harness.backends.trl.settings import refusals, reward_scale, settings
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError

COMMON = ["backend=trl"]
VLLM = ["backend.sampler=vllm_colocate", "algorithm.engine_correction.old_log_probs=recomputed"]
# Configurations that TRL trains; between them every part of the algorithm that TRL has is switched on somewhere.
BASES = {
    **{
        name: [f"algorithm={name}"]
        for name in (
            "grpo", "dr_grpo", "cispo", "gspo", "grpo_kl", "gdpo", "lite_ppo", "luspo", "off_policy_mask", "high_entropy_tokens", "sapo",
            "vespo",
        )
    },
    "dapo": ["algorithm=dapo", "optimizer.decay=cosine", "optimizer.warmup_steps=5"],
    "vLLM": ["algorithm=grpo", *VLLM, "algorithm.engine_correction.kind=token", "algorithm.surrogate.dual_clip=3.0"],
    "entropy bonus": ["algorithm=dapo", "algorithm.dead_groups.policy=keep", "algorithm.entropy_coefficient=0.01"],
    "adapters": ["model=qwen25_0_5b", "algorithm=grpo", "model.lora.rank=4"],
}  # fmt: skip


def passed_over(key: str) -> bool:
    """Whether a key need not change what TRL is told."""
    ours = key.startswith(tuple(tables(__file__)["ours"])) and key not in tables(__file__)["words"]
    return key in ("backend", "task", "model", "engine") or key.startswith("runtime") or ours


@pytest.mark.parametrize("name", BASES)
def test_every_change_reaches_trl_or_is_refused(name: str) -> None:
    config = compose_run([*COMMON, *BASES[name]])
    assert refusals(config) == []
    lost, tried = lost_changes(config, settings, refusals, passed_over)
    assert lost == []
    assert {"seed", "algorithm.aggregation", "optimizer.beta2", "training.steps", "sampling.temperature"} <= tried


def test_a_number_in_exponent_notation_is_one_and_what_is_no_yaml_is_named() -> None:
    assert settings(compose_run([*COMMON, "backend.overrides=['min_p=5e-2']"]))["min_p"] == 0.05
    given = compose_run([*COMMON, "backend.overrides=['generation_kwargs={no_repeat_ngram_size: 3}']"])
    assert settings(given)["generation_kwargs"] == {"no_repeat_ngram_size": 3}
    with pytest.raises(ConfigError, match=r"backend\.overrides: 'top_k=\[1' is not YAML"):
        refusals(compose_run([*COMMON, "backend.overrides=['top_k=[1']"]))


def test_all_rungs_of_the_ladder_can_be_said() -> None:
    assert [name for name in options("rung") if refusals(compose_run([*COMMON, f"rung={name}"]))] == []


def test_rewards_are_scaled_so_that_trls_epsilon_is_ours() -> None:
    config = compose_run(COMMON)
    assert reward_scale(config) == pytest.approx(100)
    assert settings(config)["reward_weights"] == pytest.approx([100])
    # (100 r - 100 m) / (100 s + 1e-4) = (r - m) / (s + 1e-6)
    mean, std, reward = 0.25, 0.4330127, 1.0
    ours = (reward - mean) / (std + config.algorithm.advantage.epsilon)
    assert (100 * reward - 100 * mean) / (100 * std + 1e-4) == pytest.approx(ours, rel=1e-12)
    assert reward_scale(compose_run([*COMMON, "algorithm=dr_grpo"])) == 1


def test_micro_batches_are_equal_parts_of_an_update_and_fit() -> None:
    config = compose_run([*COMMON, "algorithm=grpo", "runtime.micro_batch_tokens=200"])
    found = settings(config, longest_prompt=18)  # 50 tokens a row at most
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (4, 4)
    assert found["max_steps"] == config.training.steps * 16
    # A loss that depends on the cut is not cut.
    bonus = dataclasses.replace(config.algorithm, entropy_coefficient=0.01)
    assert settings(dataclasses.replace(config, algorithm=bonus), 18)["per_device_train_batch_size"] == 16


def test_processes_share_an_update_equally() -> None:
    config = compose_run([*COMMON, "algorithm=grpo", "runtime.micro_batch_tokens=200", "runtime.ranks=4"])
    found = settings(config, longest_prompt=86)  # 118 tokens a row: one fits
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (1, 4)
    bnpo = ["algorithm/aggregation=microbatch_token_mean", "algorithm.aggregation.micro_batch_responses=2"]
    found = settings(compose_run([*COMMON, *bnpo, "runtime.ranks=4"]), longest_prompt=86)
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (2, 2)


def test_no_two_seeds_share_a_stream_of_random_numbers() -> None:
    settings_of = [
        settings(compose_run([*COMMON, f"runtime.ranks={ranks}", f"seed={seed}"]))
        for ranks in (1, 2)
        for seed in range(3)
    ]
    assert [each["seed"] for each in settings_of] == [0, 1, 2, 0, 2, 4]
