"""Every system trains on a small testbed from its one YAML, and a critic learns and survives a resume."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from objective_support import SYSTEMS, algorithm
from small_runs import small_config

from harness.configuration.schema import RunConfig
from harness.reward.grading import Grader
from harness.store import ResultStore, RunDir
from harness.training.loop import train
from harness.training.trainer import Trainer


def small(name: str) -> RunConfig:
    config = small_config()
    config.algorithm = copy.deepcopy(algorithm(name))
    config.algorithm.prompts_per_step = 8
    config.algorithm.responses_per_prompt = min(4, config.algorithm.responses_per_prompt)
    config.algorithm.updates_per_step = 2
    if hasattr(config.algorithm.advantage, "critic"):
        config.algorithm.advantage.critic.warmup_steps = min(
            1, config.algorithm.advantage.critic.warmup_steps
        )
    config.training.steps = 2
    return config


def trainer(config: RunConfig, run: RunDir, folder: Path) -> Trainer:
    return Trainer(config, run, folder, "torch", Grader(config.verifier, config.runtime))


def new_run(path: Path, config: RunConfig) -> RunDir:
    run = ResultStore(path).run("0" * 16)
    record = {"status": "running", "arm_id": "a", "seed": 0, "labels": {}, "attempts": []}
    run.create("", {"schema_version": 1, "run_id": "0" * 16, **record})
    return run


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_trains(name: str, base_policy: Path, tmp_path: Path) -> None:
    config = small(name)
    run = new_run(tmp_path, config)
    subject = trainer(config, run, base_policy)
    before = torch.cat([p.detach().reshape(-1).clone() for p in subject.policy.parameters()])
    assert train(subject, lambda: False, attempt=0)
    after = torch.cat([p.detach().reshape(-1) for p in subject.policy.parameters()])
    assert after.isfinite().all()
    # A barely warmed-up policy may have no right response, and then some systems have nothing to learn from.
    learned = run.steps().query("updates > 0")["gradient_groups"].sum() > 0
    assert learned or name in ("rft", "online_rft", "olmo3_success_bands", "scale_rl")
    assert not learned or not torch.equal(before, after)


@pytest.mark.parametrize("name", ["vapo", "ppo", "olmo3_success_bands", "best_worst_dpo"])
def test_a_resume_changes_nothing(name: str, base_policy: Path, tmp_path: Path) -> None:
    config = small(name)
    config.training.steps, config.runtime.checkpoint_every = 4, 2
    whole = trainer(config, new_run(tmp_path / "whole", config), base_policy)
    train(whole, lambda: False, attempt=0)
    run = new_run(tmp_path / "parted", config)
    first = trainer(config, run, base_policy)
    assert not train(first, lambda: first.step >= 2, attempt=0)
    second = trainer(config, run, base_policy)
    assert train(second, lambda: False, attempt=1)
    for mine, other in zip(second.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_the_value_warm_up_leaves_the_policy_alone_and_teaches_the_critic(
    base_policy: Path, tmp_path: Path
) -> None:
    config = small("vapo")
    config.algorithm.advantage.critic.warmup_steps = 12
    config.training.steps = 12
    config.training.evaluate_every = 50
    run = new_run(tmp_path, config)
    subject = trainer(config, run, base_policy)
    before = [p.detach().clone() for p in subject.policy.parameters()]
    train(subject, lambda: False, attempt=0)
    assert all(torch.equal(a, b) for a, b in zip(before, subject.policy.parameters(), strict=True))
    losses = run.steps()["value_loss"]
    assert losses.tail(3).mean() < 0.6 * losses.iloc[0]
