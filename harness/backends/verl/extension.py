"""What `trainer_plugin` adds to verl 0.9.1: which configurations need it, what verl itself is told beside it, its settings, its limits."""

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.configuration.registry import ADVANTAGE, member
from harness.configuration.schema import RunConfig, dump
from harness.configuration.sections import DeadGroupsConfig
from harness.exchange import verl as dialect
from harness.exchange.dialect import Translation

SAMPLER = "trainer.v1.sampler"
SETTINGS = f"{SAMPLER}.sampler_kwargs."
ESTIMATOR = "harness"  # the name that verl's registry has our estimator under
_PLUGIN = Path(__file__).with_name("trainer_plugin.py")
_ESTIMATORS = ("group", "best_worst", "return_to_go")  # one number a response, from rewards alone
_OURS = ("algorithm.advantage.", "algorithm.responses_per_prompt=")
_OVER_TOKENS = ("batch_token_mean", "token_sum")


def needs_plugin(config: RunConfig) -> bool:
    """Return whether verl itself lacks something that the plugin has."""
    dead = config.algorithm.dead_groups.policy
    bounded_refill = dead == "refill" and "unbounded_refill" not in config.backend.accept
    if config.algorithm.overlong.masks or dead == "drop" or bounded_refill:
        return True
    refused = any(line.startswith(_OURS) for line in dialect.export(config).inexpressible)
    return refused and config.algorithm.advantage.kind in _ESTIMATORS


def export(config: RunConfig) -> Translation:
    """Return the algorithm's part in verl's keys: by the dialect alone, or with the plugin beside what is left for verl itself."""
    if not needs_plugin(config):
        return dialect.export(config)
    translation = dialect.export(_verl_config(config))
    if config.algorithm.advantage.kind in _ESTIMATORS:
        # The dialect's own reason, for its own estimators.
        translation.inexpressible = [line for line in translation.inexpressible if not line.startswith(_OURS)]
    translation.inexpressible += _limits(config)
    translation.settings |= {"algorithm.adv_estimator": ESTIMATOR, **_settings(config)}
    return translation


def _verl_config(config: RunConfig) -> RunConfig:
    config = copy.deepcopy(config)
    algorithm, overlong = config.algorithm, config.algorithm.overlong
    overlong.policy = {"mask": "score", "mask_and_soft": "soft"}.get(overlong.policy, overlong.policy)
    if algorithm.dead_groups.policy in ("drop", "refill"):
        algorithm.dead_groups = DeadGroupsConfig()
    if algorithm.advantage.kind in _ESTIMATORS:
        algorithm.advantage = member(ADVANTAGE, "group").Config()
    return config


def _settings(config: RunConfig) -> dict[str, Any]:
    algorithm, dead = config.algorithm, config.algorithm.dead_groups
    most_rounds = sys.maxsize if "unbounded_refill" in config.backend.accept else dead.max_rounds
    settings = {
        "root": str(_PLUGIN.parents[3]),
        "estimator": ESTIMATOR,
        "masks_truncated": algorithm.overlong.masks,
        "counts_masked": algorithm.overlong.statistics == "keep",
        "drops_dead": dead.policy != "keep",
        "metric": dead.metric,
        "max_rounds": most_rounds if dead.policy == "refill" else 1,
        **{f"advantage.{key}": value for key, value in dump(algorithm.advantage).items()},
    }
    return {
        f"{SAMPLER}.custom_sampler.path": str(_PLUGIN),
        f"{SAMPLER}.custom_sampler.name": "Sampler",
        "transfer_queue.backend.SimpleStorage.total_storage_size": 1_000_000_000,  # dead groups wait there
        **{f"{SETTINGS}{key}": value for key, value in settings.items()},
    }


def _limits(config: RunConfig) -> Iterator[str]:
    algorithm, dead, advantage = config.algorithm, config.algorithm.dead_groups, config.algorithm.advantage
    if advantage.kind not in _ESTIMATORS:
        yield f"algorithm.advantage.kind={advantage.kind}: its plugin has {', '.join(_ESTIMATORS)}"
    if algorithm.kl_in_reward and algorithm.overlong.masks:
        yield "algorithm.kl.placement=reward: verl takes no KL penalty off the reward of a response without loss"
    if advantage.kind == "return_to_go" and algorithm.kl_in_reward:
        yield "algorithm.kl.placement=reward: its plugin computes one return a response"
    tokens = advantage.kind == "return_to_go" or getattr(advantage, "whiten_over", "") == "tokens"
    tokens |= getattr(advantage, "baseline", "") == "length_weighted"
    if algorithm.overlong.masks and algorithm.overlong.statistics == "keep" and tokens:
        yield f"algorithm.overlong.policy={algorithm.overlong.policy}: verl counts no tokens without loss"
    if dead.policy == "drop" and algorithm.aggregation.kind not in _OVER_TOKENS:
        yield "algorithm.dead_groups.policy=drop: verl divides by the responses of the whole batch, not of the groups that are left"
