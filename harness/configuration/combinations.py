"""Combinations of keys that cannot run or cannot mean what they say. Each check names the keys and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from harness.configuration.algorithm import AlgorithmConfig
from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation
from harness.configuration.sections import EvaluationConfig, SamplingConfig


class Sections(Protocol):
    """The sections of a `RunConfig` that the checks read."""

    algorithm: AlgorithmConfig
    sampling: SamplingConfig
    evaluation: EvaluationConfig
    task: Any
    model: Any
    engine: Any


def check_combinations(config: Sections) -> None:
    """Run every check. Raises `ConfigError`."""
    for check in _CHECKS:
        check(config)


def _dead_groups(config: Sections) -> None:
    algorithm = config.algorithm
    if algorithm.dead_groups.policy != "refill":
        return
    if algorithm.responses_per_prompt < 2:
        raise ConfigError(
            "algorithm.dead_groups.policy=refill needs algorithm.responses_per_prompt >= 2: a group of one is always dead"
        )
    if algorithm.source.kind != "policy":
        raise ConfigError(
            f"algorithm.source={algorithm.source.kind} is no sampling to refill; set algorithm.dead_groups.policy=keep or drop"
        )


def _dead_by_reward(config: Sections) -> None:
    algorithm = config.algorithm
    dead = algorithm.dead_groups
    if algorithm.overlong.policy == "wrong" and dead.policy != "keep" and dead.metric == "accuracy":
        raise ConfigError(
            "algorithm.overlong.policy=wrong changes rewards but not verdicts, so algorithm.dead_groups.metric=accuracy would keep groups "
            "without contrast and drop others; set algorithm.dead_groups.metric=reward"
        )


def _overlong_shape(config: Sections) -> None:
    algorithm = config.algorithm
    if not algorithm.overlong.punishes or algorithm.overlong.shape == "additive":
        return
    if algorithm.reward.wrong < 0:
        raise ConfigError(
            "algorithm.overlong.shape=multiplicative with a negative algorithm.reward.wrong would *raise* the reward of long "
            "wrong answers; use shape=additive or reward.wrong=0"
        )
    if algorithm.advantage.kind == "decoupled":
        raise ConfigError(
            "algorithm.advantage=decoupled normalises the addends of the reward; use algorithm.overlong.shape=additive"
        )


def _lag(config: Sections) -> None:
    if config.sampling.lag_steps and config.algorithm.source.kind != "policy":
        raise ConfigError(
            f"sampling.lag_steps={config.sampling.lag_steps} lets the sampling policy lag; algorithm.source="
            f"{config.algorithm.source.kind} does not sample from it: set it to 0"
        )


def _pairs(config: Sections) -> None:
    algorithm = config.algorithm
    fits = algorithm.advantage.kind == "best_worst" and algorithm.aggregation.kind == "response_mean"
    if algorithm.surrogate.kind == "best_worst_dpo" and not fits:
        raise ConfigError(
            "algorithm.surrogate=best_worst_dpo has one loss a pair: it needs algorithm.advantage=best_worst and "
            "algorithm.aggregation=response_mean"
        )
    if algorithm.surrogate.kind != "best_worst_dpo":
        return
    if algorithm.advantage_sign != "both":
        raise ConfigError(
            f"algorithm.advantage_sign={algorithm.advantage_sign} takes one response out of every pair of best_worst_dpo, which leaves "
            "nothing to train on; set it to both"
        )
    if algorithm.off_policy_mask_nats is not None or algorithm.top_entropy_fraction < 1:
        raise ConfigError(
            "algorithm.surrogate=best_worst_dpo has one loss a pair, of whole responses: algorithm.off_policy_mask_nats and "
            "top_entropy_fraction choose tokens; set them to null and 1"
        )


def _reward_kl(config: Sections) -> None:
    algorithm = config.algorithm
    in_reward = algorithm.kl.coefficient > 0 and algorithm.kl.placement == "reward"
    if in_reward and algorithm.advantage.kind in ("decoupled", "imitation"):
        raise ConfigError(
            f"algorithm.advantage={algorithm.advantage.kind} does not read the rewards that algorithm.kl.placement=reward lowers; set "
            "algorithm.kl.placement=loss"
        )


def _chosen_by_entropy(config: Sections) -> None:
    chooses = config.algorithm.top_entropy_fraction < 1
    if chooses and not getattr(
        implementation("harness.rollout.engine", config.engine), "EXACT_ENTROPY", True
    ):
        raise ConfigError(
            f"algorithm.top_entropy_fraction={config.algorithm.top_entropy_fraction} chooses tokens by their entropy, and "
            f"engine={config.engine.kind} reports none (minus the log-probability of the sampled token stands for it); use engine=native "
            "or engine=transformers"
        )


def _covariance(config: Sections) -> None:
    algorithm = config.algorithm
    if algorithm.surrogate.kind in ("clip_cov", "kl_cov") and algorithm.importance_ratio != "token":
        raise ConfigError(
            f"algorithm.surrogate={algorithm.surrogate.kind} chooses tokens by their own ratio and covariance; set "
            "algorithm.importance_ratio=token"
        )


def _mean_scale(config: Sections) -> None:
    algorithm = config.algorithm
    if getattr(algorithm.advantage, "scale", "") != "group_mean":
        return
    subtracts = algorithm.overlong.punishes and algorithm.overlong.shape == "additive"
    in_reward = algorithm.kl.coefficient > 0 and algorithm.kl.placement == "reward"
    if algorithm.reward.wrong < 0 or subtracts or in_reward:
        raise ConfigError(
            "algorithm.advantage.scale=group_mean divides by the group's mean reward, which must not be negative: set "
            "algorithm.reward.wrong=0, no additive length penalty and no KL in the reward"
        )


def _task(config: Sections) -> None:
    problems, wanted = getattr(config.task, "problems", None), config.algorithm.prompts_per_step
    if isinstance(problems, int) and problems < wanted:
        raise ConfigError(
            f"task.problems={problems} is less than algorithm.prompts_per_step={wanted}: a step draws distinct problems; raise the "
            "one or lower the other"
        )


def _base_policy(config: Sections) -> None:
    check = getattr(implementation("harness.base_policy", config.model), "check", None)
    if check is not None:
        check(config.model, config.task)


def _old_log_probs(config: Sections) -> None:
    correction = config.algorithm.engine_correction
    if correction.old_log_probs != "sampler":
        return
    if correction.kind != "none":
        raise ConfigError(
            f"algorithm.engine_correction.kind={correction.kind} needs algorithm.engine_correction.old_log_probs=recomputed: with "
            "the sampler's log-probs the ratio corrects for the engine already, and the weight would correct it twice"
        )
    if config.sampling.top_p < 1 or config.sampling.top_k > 0:
        raise ConfigError(
            "sampling.top_p < 1 or top_k > 0 needs algorithm.engine_correction.old_log_probs=recomputed: the sampler's log-probs are "
            "those of the filtered distribution, so the importance ratio would not start at 1"
        )


def _caps(config: Sections) -> None:
    if max(config.evaluation.caps) < config.sampling.max_response_tokens:
        raise ConfigError(
            f"evaluation.caps={config.evaluation.caps} are all below sampling.max_response_tokens="
            f"{config.sampling.max_response_tokens}; add the training cap"
        )


_CHECKS: tuple[Callable[[Sections], None], ...] = (
    _dead_groups,
    _lag,
    _dead_by_reward,
    _overlong_shape,
    _pairs,
    _reward_kl,
    _chosen_by_entropy,
    _covariance,
    _mean_scale,
    _task,
    _base_policy,
    _old_log_probs,
    _caps,
)
