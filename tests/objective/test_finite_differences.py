"""Gradients of every term and of every system against central differences in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from objective_support import SYSTEMS, Sample, algorithm, gradient, loss, sample

from harness.objective.kl import KlConfig
from harness.objective.objective import Objective


def differences(objective: Objective, data: Sample, step: float = 1e-6) -> torch.Tensor:
    """Central differences of the update's loss; advantages are constants of the update, as in training."""
    advantages = objective.advantages(data.batch(objective), torch.float64)
    slope = torch.zeros_like(data.table)
    for index in range(data.table.numel()):
        shift = torch.zeros_like(data.table)
        shift.view(-1)[index] = step
        up, down = (loss(objective, data, data.table + s, advantages_N=advantages) for s in (shift, -shift))
        slope.view(-1)[index] = (up - down) / (2 * step)
    return slope


# A stop-gradient is no derivative: detached importance weights are checked by hand in test_worked_surrogates.
DETACHED = ("clipped_is", "divergence_mask", "gamma_weight")


def test_every_systems_gradient() -> None:
    data = sample(groups=2, seed=9)
    for name in SYSTEMS:
        if algorithm(name).surrogate.kind not in DETACHED:
            objective = Objective(algorithm(name))
            expected = differences(objective, data)
            torch.testing.assert_close(
                gradient(objective, data),
                expected,
                rtol=1e-6,
                atol=1e-9,
                msg=lambda said, at=name: f"{at}: {said}",
            )


@pytest.mark.parametrize(
    "change",
    [
        {"entropy_coefficient": 0.3},
        {"positive_nll_coefficient": 0.5},
        {"importance_ratio": "sequence"},
        {"kl.kind": "k1"},
        {"kl.kind": "k2"},
        {"kl.kind": "k3"},
        {"kl.kind": "k3_ratio"},
        {"surrogate.dual_clip": 1.5},
        {"surrogate.clip_low": 0.05, "surrogate.clip_high": 0.05},
    ],
    ids=str,
)
def test_every_terms_gradient(change: dict[str, object]) -> None:

    config = copy.deepcopy(algorithm("grpo"))
    for key, value in change.items():
        if key == "kl.kind":
            config.kl = KlConfig(kind=str(value), coefficient=0.7)
        else:
            owner, _, name = key.rpartition(".")
            setattr(getattr(config, owner) if owner else config, name, value)
    objective, data = Objective(config), sample(groups=2, seed=10)
    torch.testing.assert_close(gradient(objective, data), differences(objective, data), rtol=1e-6, atol=1e-9)


def test_the_value_loss_gradient() -> None:
    from harness.training.critic import CriticBatch, value_loss

    torch.manual_seed(0)
    values = torch.randn(6, dtype=torch.float64, requires_grad=True)
    batch = CriticBatch([], torch.empty(0), torch.empty(0), torch.randn(6).double(), torch.randn(6).double())
    for clip in (None, 0.2):
        assert torch.autograd.gradcheck(lambda v, c=clip: value_loss(v, batch, c).sum(), values)
