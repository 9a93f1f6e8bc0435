"""The reference policy becomes the current one after so many steps, and the optimiser starts afresh (ProRL)."""

from __future__ import annotations

import pytest
import torch
from small_runs import Bench, small_config

from harness.configuration.registry import member
from harness.training.loop import train


@pytest.mark.parametrize(("every", "equal_after"), [(None, []), (1, [1, 2, 3]), (2, [2])])
def test_the_reference_is_the_policy_right_after_a_reset(
    bench: Bench, every: int | None, equal_after: list[int]
) -> None:
    kl = member("harness.objective.kl", "k3").Config(coefficient=0.1, reset_every_steps=every)
    config = small_config(training__steps=3, algorithm__kl=kl)
    # always something to learn
    config.algorithm.advantage.baseline = config.algorithm.advantage.scale = "none"
    trainer = bench.trainer(config)
    equal, fresh = [], []

    def look() -> bool:
        reference = trainer.updater.reference
        assert reference is not None
        pairs = zip(trainer.policy.parameters(), reference.parameters(), strict=True)
        equal.append(all(torch.equal(a, b) for a, b in pairs))
        fresh.append(not trainer.updater.optimizer.state)
        return False

    assert train(trainer, look, attempt=0)
    assert [step for step, same in enumerate(equal, 1) if same] == equal_after
    assert fresh == equal
