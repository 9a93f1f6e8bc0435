"""Keys that would do nothing together, or not what they say, are refused with the fix."""

from __future__ import annotations

import pytest

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import run_id

KL_IN_REWARD = ["algorithm/kl=k1", "algorithm.kl.coefficient=0.05", "algorithm.kl.placement=reward"]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["algorithm=gdpo", *KL_IN_REWARD], "placement=loss"),
        (["algorithm=online_rft", *KL_IN_REWARD], "imitation"),
        (["algorithm=best_worst_dpo", "algorithm.advantage_sign=positive"], "set it to both"),
        (["algorithm=best_worst_dpo", "algorithm.off_policy_mask_nats=0.1"], "choose tokens"),
        (["algorithm=high_entropy_tokens", "engine=vllm"], "engine=vllm reports none"),
        (["algorithm.overlong.policy=wrong", "patch=dynamic_sampling"], "dead_groups.metric=reward"),
    ],
)
def test_a_combination_that_would_do_nothing_is_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        compose_run(overrides)


def test_what_repairs_it_composes() -> None:
    config = compose_run(
        ["algorithm.overlong.policy=wrong", "patch=dynamic_sampling", "algorithm.dead_groups.metric=reward"]
    )
    assert (config.algorithm.overlong.policy, config.algorithm.dead_groups.policy) == ("wrong", "refill")
    config = compose_run(["algorithm=high_entropy_tokens", "engine=transformers"])
    assert config.algorithm.top_entropy_fraction < 1


def test_memory_settings_of_an_engine_are_no_part_of_a_run_s_id() -> None:
    ids = {
        run_id(compose_run(["engine=vllm", *more]))
        for more in ([], ["engine.gpu_memory_utilization=0.3"], ["engine.sleep_level=1"])
    }
    assert len(ids) == 1
    assert ids != {run_id(compose_run(["engine=transformers"]))}
