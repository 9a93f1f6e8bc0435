"""open-instruct, SkyRL, prime-rl and NeMo-RL: what their settings mean here, release by release, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from imported import compose_once
from verbs import Said

from harness.commands._arguments import read_yaml
from harness.configuration.error import ConfigError
from harness.configuration.registry import member
from harness.exchange import handed
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects._release import releases
from harness.exchange.dialects._sayable import changes, says, table

S, N, O = "trainer.algorithm", "loss_fn", "orchestrator"  # noqa: E741
OFF = f"{S}.off_policy_correction"


def translated(dialect: str, values: dict[str, Any], **beside: Any) -> Translation:
    return member("harness.exchange.dialects", dialect).overrides(values, Beside(**beside))


@pytest.mark.parametrize(
    ("dialect", "key", "by_release"),
    [
        ("open_instruct", "advantage_normalization_type", {"0.1": "standard", "0.3": "centered"}),
        ("open_instruct", "clip_higher", {"0.2": 0.2, "0.3": 0.272}),
        ("open_instruct", "warmup_ratio", {"0.1": 0.0, "0.3": 0.0, "0.4": 0.0}),  # 0.1 in the class, 0 by the program
        ("open_instruct", "temperature", {"0.3": 0.7, "0.4": 1.0}),
        ("open_instruct", "verification_reward", {"0.1": 10.0, "0.4": 10.0}),
        ("skyrl", f"{S}.cispo.cispo_eps_clip_high", {"train-0.3": 5, "0.4": 4.0}),
        ("skyrl", "token_mean_over", {"train-0.1": "micro-batch", "0.1": "micro-batch", "0.2": "update", "0.4": "update"}),
        ("prime_rl", "trainer.loss.kl_tau", {"0.6": 1e-3, "0.9": 1e-3}),
        ("nemo_rl", "std_ddof", {"0.3": 0, "0.4": 1, "0.8": 1}),
        ("nemo_rl", "kl_weight", {"0.6": "none", "0.7": "score"}),
        ("nemo_rl", "grpo.use_leave_one_out_baseline", {"0.3": True, "0.8": True}),
    ],
)  # fmt: skip
def test_releases_have_their_own_defaults(dialect: str, key: str, by_release: dict[str, Any]) -> None:
    found = releases(dialect)
    assert {name: found[name].defaults[key] for name in by_release} == by_release


def ours(**sections: dict[str, Any]) -> dict[str, Any]:
    return {
        f"algorithm.{section}.{name}": value
        for section, fields in sections.items()
        for name, value in fields.items()
    }


@pytest.mark.parametrize(
    ("dialect", "given", "version", "wanted"),
    [
        # rewards 10 and 0; 16 prompts x 4 responses in 100,000 episodes; the constant divides the update's sum: 6400 / 64 responses
        (
            "open_instruct", {"loss_denominator": "6400", "beta": 0.0}, "0.4",
            {"algorithm.reward.correct": 10.0, "training.steps": 1562, "algorithm.aggregation.constant_tokens": 100.0,
             "algorithm.dead_groups.policy": "keep", "sampling.lag_steps": 8},
        ),
        ("open_instruct", {"loss_denominator": "1"}, "0.4", {"algorithm/aggregation": "token_sum"}),
        # older releases divide by the population's deviation and correct nothing
        ("open_instruct", {}, "0.2",
         ours(advantage={"scale": "group_std", "ddof": 0, "epsilon": 1e-8}, engine_correction={"kind": "none"})),
        ("open_instruct", {"truncated_importance_sampling_ratio_cap": 2.0}, "0.1", ours(engine_correction={"kind": "token", "cap": 2.0})),
        ("open_instruct", {"rho_clamp_upper_bound": 0.0, "rho_mask_upper_bound": 3.0}, "0.4",
         ours(engine_correction={"kind": "token_mask", "cap": 3.0})),
        ("open_instruct", {"no_resampling_pass_rate": 0.9}, "0.4",
         {"algorithm/curriculum": "retire", "algorithm.curriculum.pass_rate": 0.9}),
        ("open_instruct", {"kl_estimator": "kl3", "beta": 0.01}, "0.1", {"algorithm/kl": "k3"}),
        # warm-up is a share of the optimiser updates: 0.1 of 1562 x 2, in rollout steps of 2
        ("open_instruct", {"warmup_ratio": 0.1, "num_mini_batches": 2}, "0.4",
         {"optimizer.warmup_steps": 156, "algorithm.updates_per_step": 2}),
        ("skyrl", {}, "0.4", {"algorithm.prompts_per_step": 1024, "algorithm.updates_per_step": 4, "algorithm.responses_per_prompt": 5}),
        ("skyrl", {f"{S}.policy_loss_type": "regular"}, "0.4", {"algorithm.surrogate.dual_clip": None}),
        ("skyrl", {f"{S}.policy_loss_type": "dual_clip"}, "0.4", {"algorithm.surrogate.dual_clip": 3.0}),
        ("skyrl", {"trainer.micro_train_batch_size_per_gpu": 2}, "0.1",
         {"algorithm/aggregation": "microbatch_token_mean", "algorithm.aggregation.micro_batch_responses": 2}),
        ("skyrl", {f"{S}.policy_loss_type": "cispo", f"{S}.cispo.cispo_anchor": "rollout"}, "0.4",
         ours(engine_correction={"old_log_probs": "sampler"}, surrogate={"cap_min": 0.0, "cap_max": 5.0})),
        ("skyrl", {f"{OFF}.sequence_mask_metric": "geometric"}, "0.4",
         ours(engine_correction={"kind": "geometric_mask", "cap": 1.01, "floor": 0.99})),
        ("skyrl", {"environment.env_class": "aime", f"{S}.overlong_buffer_len": 256, "generator.apply_overlong_filtering": True}, "0.4",
         {"algorithm.reward.wrong": -1.0, "algorithm.overlong.policy": "mask_and_soft", "algorithm.overlong.buffer_fraction": 0.25}),
        ("skyrl", {f"{S}.use_tis": True, f"{S}.tis_imp_ratio_cap": 2.0}, "train-0.2",
         ours(engine_correction={"kind": "token", "cap": 2.0})),
        ("skyrl", {f"{S}.advantage_estimator": "maxrl"}, "0.4", ours(advantage={"scale": "group_mean", "epsilon": 1e-6})),
        # warm-up counts updates: 160 of 16 a step
        ("skyrl",
         {"trainer.train_batch_size": 512, "trainer.policy_mini_batch_size": 32, "trainer.policy.optimizer_config.num_warmup_steps": 160},
         "0.4", {"optimizer.warmup_steps": 10}),
        ("prime_rl", {f"{O}.batch_size": 128, f"{O}.rollouts_per_example": 16, "max_steps": 20}, "0.9",
         {"algorithm.prompts_per_step": 8, "algorithm.updates_per_step": 1, "training.steps": 20, "sampling.lag_steps": 8}),
        ("prime_rl", {f"{O}.algo.type": "max_rl"}, "0.9", ours(advantage={"scale": "group_mean", "epsilon": 0.0})),
        ("nemo_rl", {}, "0.8", ours(advantage={"baseline": "leave_one_out", "scale": "others_std", "ddof": 1})),
        ("nemo_rl", {}, "0.3", ours(advantage={"ddof": 0})),
        ("nemo_rl", {}, "0.6", {"algorithm/kl": "k3"}),
        ("nemo_rl", {}, "0.8", {"algorithm/kl": "k3_ratio", "algorithm.kl.coefficient": 0.01}),
        ("nemo_rl", {"policy.train_global_batch_size": "${mul:${grpo.num_prompts_per_step}, ${grpo.num_generations_per_prompt}}"}, "0.8",
         {"algorithm.updates_per_step": 1}),
        ("nemo_rl", {"policy.generation.max_new_tokens": "${policy.max_total_sequence_length}"}, "0.8",
         {"sampling.max_response_tokens": 512}),
        ("nemo_rl", {"policy.megatron_cfg.enabled": True, "policy.megatron_cfg.optimizer.lr": 1e-6}, "0.8",
         {"optimizer.learning_rate": 1e-6, "optimizer.warmup_steps": 13}),
        # a right answer of 1 becomes 2, a wrong one of 0 becomes -1
        ("nemo_rl",
         {f"grpo.reward_scaling.{name}": value for name, value in (("enabled", True), ("target_min", -1.0), ("target_max", 2.0))}, "0.8",
         {"algorithm.reward.correct": 2.0, "algorithm.reward.wrong": -1.0}),
    ],
)  # fmt: skip
def test_settings_are_read_as_their_release_means_them(
    dialect: str, given: dict[str, Any], version: str, wanted: dict[str, Any]
) -> None:
    found = translated(dialect, given, version=version).settings
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("dialect", "given", "said"),
    [
        ("open_instruct", {}, "async_steps=8: responses are up to 8 steps old there"),
        ("open_instruct", {"beta": 0.1, "kl_estimator": 3}, "kl_estimator=3: the log-ratio weighted by the importance ratio"),
        ("open_instruct", {"mask_truncated_completions": True}, "truncated responses leave the batch there before groups are formed"),
        ("open_instruct", {"dataset_mixer_list": ["a/b", 1.0, "c/d", 0.5]}, "dataset_mixer_list=2 data sets"),
        ("open_instruct", {"rho_mask_sequence_level": True, "rho_mask_upper_bound": 2.0},
         "use_rho_correction=True: tokens' weights are cut and masked"),
        ("skyrl", {}, f"{S}.use_kl_loss=True: the KL term is a mean of responses' means there"),
        ("skyrl", {f"{S}.policy_loss_type": "rollout_is"}, f"{S}.policy_loss_type=rollout_is: tokens whose ratio"),
        ("skyrl", {f"{S}.policy_loss_type": "mine"}, f"{S}.policy_loss_type=mine"),
        ("skyrl", {f"{S}.advantage_batch_normalize": True}, "its deviation over tokens"),
        ("skyrl", {f"{S}.dynamic_sampling.type": "replace"}, "dead groups are replaced by copies"),
        ("skyrl", {"generator.max_turns": 3}, "generator.max_turns=3: responses here have one turn"),
        ("skyrl", {"environment.env_class": "text2sql"}, "environment.env_class=text2sql"),
        ("prime_rl", {}, "trainer.loss.type=default: kl_tau times the squared log-ratio"),
        ("prime_rl", {"trainer.loss.type": "ipo"}, "tokens are masked whatever the advantage's sign"),
        ("prime_rl", {f"{O}.train.source": [{"env": {"taskset": {"id": "math-env"}}}]}, "math-env: environments of verifiers"),
        ("prime_rl", {"trainer.optim.type": "muon"}, "trainer.optim.type=muon: AdamW trains here"),
        ("nemo_rl", {"policy.train_global_batch_size": 128}, "the score function's gradient is added"),
        ("nemo_rl", {f"{N}.use_kl_in_reward": True}, "changes the tokens' advantages"),
        ("nemo_rl", {"grpo.adv_estimator.name": "gae"}, "grpo.adv_estimator.name=gae"),
        ("nemo_rl", {"grpo.advantage_clip_high": 5.0}, "grpo.advantage_clip_high=5.0: advantages are not clipped here"),
        ("nemo_rl", {"grpo.async_grpo.enabled": True, "grpo.async_grpo.max_trajectory_age_steps": 2}, "up to 2 steps old there"),
    ],
)  # fmt: skip
def test_what_changes_the_method_is_named(dialect: str, given: dict[str, Any], said: str) -> None:
    lines = translated(dialect, given).inexpressible
    assert any(said in line for line in lines), lines


@pytest.mark.parametrize(
    ("dialect", "given", "said"),
    [
        ("skyrl", {"trainer.train_batch_size": 100}, r"train_batch_size=100 prompts are no multiple of trainer.policy_mini_batch_size=256"),
        ("prime_rl", {f"{O}.group_size": 7}, r"batch_size=128 responses are no multiple of group_size=7"),
        ("nemo_rl", {"policy.train_global_batch_size": 100}, r"of grpo.num_generations_per_prompt=16 responses are no multiple"),
        ("open_instruct", {"beta": "high"}, r"beta=high is not a number"),
        ("open_instruct", {"num_epochs": 0}, r"num_epochs=0 is no count"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(dialect: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        translated(dialect, given)


def test_toml_and_files_that_build_on_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text(
        'max_steps = 20\n[[orchestrator.train.source]]\nname = "math"\n[trainer.optim]\nlr = 1e-6\n'
    )
    found = handed.read(tmp_path / "rl.toml", read_yaml).values
    assert found == {"max_steps": 20, f"{O}.train.source": [{"name": "math"}], "trainer.optim.lr": 1e-6}
    (tmp_path / "bad.toml").write_text("max_steps = = 3")
    with pytest.raises(ConfigError, match=r"bad.toml is no TOML: .*line 1"):
        handed.read(tmp_path / "bad.toml", read_yaml)
    (tmp_path / "base.yaml").write_text(
        "grpo: {seed: 1, async_grpo: {enabled: false}}\nloss_fn: {ratio_clip_min: 0.2}\n"
    )
    (tmp_path / "mine.yaml").write_text("defaults: base.yaml\ngrpo: {seed: 2, async_grpo: null}\n")
    found = handed.read(tmp_path / "mine.yaml", read_yaml).values
    assert found == {"loss_fn.ratio_clip_min": 0.2, "grpo.seed": 2, "grpo.async_grpo": None}
    (tmp_path / "alone.yaml").write_text("defaults: ../base.yaml\ngrpo: {seed: 2}\n")
    alone = handed.read(tmp_path / "alone.yaml", read_yaml)
    assert alone.values == {"grpo.seed": 2}
    assert alone.notes == [
        "../base.yaml, which alone.yaml builds on, is not here: the release's defaults stand for it"
    ]


def test_a_launcher_before_two_dashes_is_not_read_and_arguments_have_numbers(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "image=${1:?Usage: run.sh IMAGE}\npython mason.py --image $image --budget x -- uv run open_instruct/grpo_fast.py --beta 0.0\n"
    )
    with pytest.raises(ConfigError, match="Usage"):
        handed.read(script, read_yaml)
    (tmp_path / "more.sh").write_text("bash run.sh trainer.seed=2\n")
    with pytest.raises(ConfigError, match=r"hands its settings on to run.sh: give file=run.sh"):
        handed.read(tmp_path / "more.sh", read_yaml)
    found = handed.read(script, read_yaml, variables={"1": "mine"})
    assert (found.values, found.program) == ({"beta": 0.0}, "open_instruct/grpo_fast.py")


def test_the_table_of_what_can_be_said_is_current() -> None:
    """Every row is exported and read back; the page has the command's table."""
    assert table(compose_once("algorithm=grpo")) in Path("docs/import.md").read_text(encoding="utf-8")


def test_what_the_table_says_by_hand() -> None:
    base, tried = compose_once("algorithm=grpo"), dict(changes())
    known = {
        "`advantage.scale=others_std`, baseline leave_one_out": ["nemo_rl"],
        "`surrogate=divergence_mask`": ["prime_rl", "skyrl", "verl"],
        "`aggregation=group_token_mean`": ["skyrl"],
    }
    dialects = ("nemo_rl", "open_instruct", "prime_rl", "skyrl", "trl", "verl")
    for name, having in known.items():
        assert [dialect for dialect in dialects if says(dialect, base, tried[name])] == having


@pytest.mark.parametrize(
    ("dialect", "settings"),
    [
        ("open_instruct", ["beta=0.0", "async_steps=1"]),
        ("skyrl", [f"{S}.use_kl_loss=false", "trainer.max_training_steps=40"]),
        ("prime_rl", ["trainer.loss.kl_tau=0.0", f"{O}.group_size=8", "max_steps=20"]),
        ("nemo_rl", [f"{N}.reference_policy_kl_penalty=0.0", "grpo.max_num_steps=40"]),
    ],
)  # fmt: skip
def test_an_import_for_the_testbed_is_an_experiment_that_can_be_planned(
    dialect: str, settings: list[str], tmp_path: Path, said: Said
) -> None:
    out = tmp_path / "questions" / "experiment" / f"{dialect}.yaml"
    out.parent.mkdir(parents=True)
    said("import", f"dialect={dialect}", *settings, "for=testbed", f"out={out}")
    assert dialect in said("plan", f"config_dir={tmp_path / 'questions'}", f"experiment={dialect}")
