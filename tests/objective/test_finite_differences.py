"""Gradients of every term and of every system against central differences in float64."""

from __future__ import annotations

import copy

import torch
from objective_support import SYSTEMS, Sample, algorithm, gradient, loss, sample
from tables import table

from harness.configuration.registry import KL, member
from harness.objective.objective import Objective


def assert_is_the_slope(objective: Objective, data: Sample, name: str = "", step: float = 1e-6) -> None:
    """The gradient along random directions (an error is orthogonal to none) is the central difference of the update's loss.

    Advantages are constants of the update, as in training.
    """
    advantages = objective.advantages(data.batch(objective), torch.float64)
    generator = torch.Generator().manual_seed(0)
    directions_DSV = torch.randn(8, *data.table.shape, generator=generator, dtype=torch.float64)
    slopes_D = torch.zeros(len(directions_DSV), dtype=torch.float64)
    for index, shift in enumerate(directions_DSV * step):
        up, down = (loss(objective, data, data.table + s, advantages_N=advantages) for s in (shift, -shift))
        slopes_D[index] = (up - down) / (2 * step)
    found_D = (directions_DSV * gradient(objective, data)).sum((1, 2))
    torch.testing.assert_close(found_D, slopes_D, rtol=1e-6, atol=1e-9, msg=lambda said: f"{name}: {said}")


# A stop-gradient is no derivative: detached importance weights are checked by hand in test_worked_surrogates.
DETACHED = ("clipped_is", "divergence_mask", "gamma_weight", "score_centering")


def test_every_systems_gradient() -> None:
    data = sample(groups=2, seed=9)
    for name in SYSTEMS:
        if algorithm(name).surrogate.kind not in DETACHED:
            assert_is_the_slope(Objective(algorithm(name)), data, name)


@table(__file__, "changes", "change")
def test_every_terms_gradient_that_no_system_has(change: dict[str, object]) -> None:
    config = copy.deepcopy(algorithm("grpo"))
    for key, value in change.items():
        if key == "kl.kind":
            config.kl = member(KL, str(value)).Config(coefficient=0.7)
        else:
            owner, _, name = key.rpartition(".")
            setattr(getattr(config, owner) if owner else config, name, value)
    assert_is_the_slope(Objective(config), sample(groups=2, seed=10))


def test_the_value_loss_gradient() -> None:
    from harness.rollout.types import Completions
    from harness.training.step_data import StepData
    from harness.training.update import value_loss

    torch.manual_seed(0)
    values = torch.randn(6, dtype=torch.float64, requires_grad=True)
    tokens_N, whole_R = torch.arange(6), torch.tensor([True])
    completions = Completions(tokens_N, tokens_N.double(), tokens_N.double(), torch.tensor([6]), whole_R)
    batch = StepData.of_responses([[1]], completions, 1, whole_R, ~whole_R)
    batch.values_N, batch.value_targets_N = torch.randn(6).double(), torch.randn(6).double()
    for clip in (None, 0.2):
        assert torch.autograd.gradcheck(lambda v, c=clip: value_loss(v, batch, c).sum(), values)
