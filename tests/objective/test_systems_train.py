"""Every system trains on a small testbed from its one YAML, and a critic learns."""

from __future__ import annotations

import copy

import pytest
import torch
from objective_support import SYSTEMS, algorithm
from small_runs import Bench, small_config

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.schema import RunConfig
from harness.model.policy import NativePolicy
from harness.training.loop import train


def small(name: str) -> RunConfig:
    config = small_config()
    config.algorithm = copy.deepcopy(algorithm(name))
    config.algorithm.prompts_per_step = 8
    config.algorithm.responses_per_prompt = min(4, config.algorithm.responses_per_prompt)
    config.algorithm.updates_per_step = 2
    if hasattr(config.algorithm.advantage, "critic"):
        critic = config.algorithm.advantage.critic
        critic.warmup_steps = min(1, critic.warmup_steps)
    config.training.steps = 2
    return config


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_trains(name: str, bench: Bench) -> None:
    trainer = bench.trainer(small(name))
    before = torch.cat([p.detach().reshape(-1).clone() for p in trainer.policy.parameters()])
    assert train(trainer, lambda: False, attempt=0)
    after = torch.cat([p.detach().reshape(-1) for p in trainer.policy.parameters()])
    assert after.isfinite().all()
    # A barely warmed-up policy may have no right response, and then some systems have nothing to learn from.
    learned = (
        trainer.run.steps()["gradient_norm"].max() > 1e-9
    )  # where all but equal responses are dropped it is rounding
    assert learned or name in ("rft", "online_rft", "olmo3_success_bands", "scale_rl", "grpo_dropout")
    assert not learned or not torch.equal(before, after)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_pretrained_model_trains_on_the_samplers_head(sharded: bool, bench: Bench) -> None:
    config = small("score_centering_truncated")
    config.model, config.runtime.gradient_checkpointing = Pretrained(path=str(bench.base), precision="float32"), sharded
    config.algorithm.surrogate.head, config.sampling.lag_steps = 6, 1
    config.training.steps, config.runtime.checkpoint_every = 4, 2
    whole = bench.trained(config, "a")
    assert isinstance(whole.policy, NativePolicy) != sharded
    assert whole.run.steps()["gradient_norm"].max() > 0
    bench.trained(config, "b", stop_after=2)  # the batch that waits has heads
    torch.testing.assert_close(bench.trained(config, "b").policy.state(), whole.policy.state(), rtol=0, atol=0)


def test_the_value_warm_up_leaves_the_policy_alone_and_teaches_the_critic(bench: Bench) -> None:
    config = small("vapo")
    config.algorithm.advantage.critic.warmup_steps = 12
    config.training.steps = 12
    config.training.evaluate_every = 50
    trainer = bench.trainer(config)
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    assert train(trainer, lambda: False, attempt=0)
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))
    losses = trainer.run.steps()["value_loss"]
    assert losses.tail(3).mean() < 0.6 * losses.iloc[0]
