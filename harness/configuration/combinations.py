"""Combinations of keys that cannot run or cannot mean what they say. Each refusal names the keys and the fix."""

from __future__ import annotations

from collections.abc import Iterator
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
    """Raise `ConfigError` with the first refusal."""
    for refusals in (_groups, _rewards, _advantages, _tokens, _weights, _sampling, _problems):
        for refusal in refusals(config):
            raise ConfigError(refusal)


def _groups(config: Sections) -> Iterator[str]:
    algorithm, dead = config.algorithm, config.algorithm.dead_groups
    refills = dead.policy == "refill"
    if refills and algorithm.responses_per_prompt < 2:
        yield "algorithm.dead_groups.policy=refill needs algorithm.responses_per_prompt >= 2: a group of one is always dead"
    if refills and algorithm.source.kind != "policy":
        yield (
            f"algorithm.source={algorithm.source.kind} is no sampling to refill; set algorithm.dead_groups.policy=keep or drop"
        )
    if algorithm.overlong.policy == "wrong" and dead.policy != "keep" and dead.metric == "accuracy":
        yield (
            "algorithm.overlong.policy=wrong changes rewards but not verdicts, so algorithm.dead_groups.metric=accuracy would keep groups "
            "without contrast and drop others; set algorithm.dead_groups.metric=reward"
        )


def _rewards(config: Sections) -> Iterator[str]:
    algorithm, overlong = config.algorithm, config.algorithm.overlong
    in_reward = algorithm.kl.coefficient > 0 and algorithm.kl.placement == "reward"
    multiplies = overlong.punishes and overlong.shape == "multiplicative"
    if multiplies and algorithm.reward.wrong < 0:
        yield (
            "algorithm.overlong.shape=multiplicative with a negative algorithm.reward.wrong would *raise* the reward of long "
            "wrong answers; use shape=additive or reward.wrong=0"
        )
    if multiplies and algorithm.advantage.kind == "decoupled":
        yield "algorithm.advantage=decoupled normalises the addends of the reward; use algorithm.overlong.shape=additive"
    if algorithm.reward.function and algorithm.advantage.kind == "decoupled":
        yield (
            "algorithm.advantage=decoupled normalises the addends of the reward, and algorithm.reward.function gives a sum; "
            "choose another advantage"
        )
    if in_reward and algorithm.advantage.kind in ("decoupled", "imitation"):
        yield (
            f"algorithm.advantage={algorithm.advantage.kind} does not read the rewards that algorithm.kl.placement=reward lowers; set "
            "algorithm.kl.placement=loss"
        )
    lowered = algorithm.reward.wrong < 0 or (overlong.punishes and overlong.shape == "additive") or in_reward
    if getattr(algorithm.advantage, "scale", "") == "group_mean" and lowered:
        yield (
            "algorithm.advantage.scale=group_mean divides by the group's mean reward, which must not be negative: set "
            "algorithm.reward.wrong=0, no additive length penalty and no KL in the reward"
        )


def _advantages(config: Sections) -> Iterator[str]:
    algorithm = config.algorithm
    if algorithm.surrogate.kind != "best_worst_dpo":
        return
    if algorithm.advantage.kind != "best_worst" or algorithm.aggregation.kind != "response_mean":
        yield (
            "algorithm.surrogate=best_worst_dpo has one loss a pair: it needs algorithm.advantage=best_worst and "
            "algorithm.aggregation=response_mean"
        )
    if algorithm.advantage_sign != "both":
        yield (
            f"algorithm.advantage_sign={algorithm.advantage_sign} takes one response out of every pair of best_worst_dpo, which leaves "
            "nothing to train on; set it to both"
        )
    if algorithm.off_policy_mask_nats is not None or algorithm.top_entropy_fraction < 1:
        yield (
            "algorithm.surrogate=best_worst_dpo has one loss a pair, of whole responses: algorithm.off_policy_mask_nats and "
            "top_entropy_fraction choose tokens; set them to null and 1"
        )


def _tokens(config: Sections) -> Iterator[str]:
    algorithm = config.algorithm
    engine = implementation("harness.rollout.engine", config.engine)
    if algorithm.top_entropy_fraction < 1 and not getattr(engine, "EXACT_ENTROPY", True):
        yield (
            f"algorithm.top_entropy_fraction={algorithm.top_entropy_fraction} chooses tokens by their entropy, and "
            f"engine={config.engine.kind} reports none (minus the log-probability of the sampled token stands for it); use engine=native "
            "or engine=transformers"
        )
    if algorithm.surrogate.selects and algorithm.importance_ratio != "token":
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} chooses tokens by their own ratio and covariance; set "
            "algorithm.importance_ratio=token"
        )


def _weights(config: Sections) -> Iterator[str]:
    algorithm, kind = config.algorithm, config.algorithm.engine_correction.kind
    of_tokens = kind in ("token", "token_mask")
    if kind != "none" and algorithm.surrogate.folds_correction and not of_tokens:
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} takes the weights of tokens into its own weight of the response; "
            f"algorithm.engine_correction.kind={kind} weighs responses: set it to token or token_mask"
        )
    if algorithm.top_entropy_fraction < 1 and algorithm.surrogate.folds_correction:
        yield (
            f"algorithm.surrogate={algorithm.surrogate.kind} takes the weights of tokens into its own weight of the response, where "
            f"algorithm.top_entropy_fraction={algorithm.top_entropy_fraction} would be one: set it to 1"
        )
    one_loss = algorithm.importance_ratio == "sequence" or algorithm.surrogate.kind == "geometric_mean"
    if of_tokens and one_loss:
        yield (
            f"algorithm.engine_correction.kind={kind} weighs tokens, and this algorithm has one loss a response "
            "(algorithm.importance_ratio=sequence or surrogate=geometric_mean): set it to sequence or sequence_mask"
        )


def _sampling(config: Sections) -> Iterator[str]:
    sampling, source = config.sampling, config.algorithm.source.kind
    correction = config.algorithm.engine_correction
    sampler_is_old = correction.old_log_probs == "sampler"
    if sampling.lag_steps and source != "policy":
        yield (
            f"sampling.lag_steps={sampling.lag_steps} lets the sampling policy lag; algorithm.source={source} does not sample from it: "
            "set it to 0"
        )
    if sampler_is_old and correction.kind != "none":
        yield (
            f"algorithm.engine_correction.kind={correction.kind} needs algorithm.engine_correction.old_log_probs=recomputed: with "
            "the sampler's log-probs the ratio corrects for the engine already, and the weight would correct it twice"
        )
    if sampler_is_old and (sampling.top_p < 1 or sampling.top_k > 0):
        yield (
            "sampling.top_p < 1 or top_k > 0 needs algorithm.engine_correction.old_log_probs=recomputed: the sampler's log-probs are "
            "those of the filtered distribution, so the importance ratio would not start at 1"
        )
    if max(config.evaluation.caps) < sampling.max_response_tokens:
        yield (
            f"evaluation.caps={config.evaluation.caps} are all below sampling.max_response_tokens="
            f"{sampling.max_response_tokens}; add the training cap"
        )


def _problems(config: Sections) -> Iterator[str]:
    problems, wanted = getattr(config.task, "problems", None), config.algorithm.prompts_per_step
    if isinstance(problems, int) and problems < wanted:
        yield (
            f"task.problems={problems} is less than algorithm.prompts_per_step={wanted}: a step draws distinct problems; raise the "
            "one or lower the other"
        )
    check = getattr(implementation("harness.base_policy", config.model), "check", None)
    if check is not None:
        check(config.model, config.task)
