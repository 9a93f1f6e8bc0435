"""float16 products: scaling keeps small gradients, an overflow costs an update and halves the scale, resume is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_runs import small_config
from test_ranks import start, train, weights
from test_update import random_groups

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.runtime import RuntimeConfig
from harness.configuration.schema import RunConfig
from harness.model.transformers_policy import TransformersPolicy
from harness.objective.objective import Objective
from harness.training.fault import NumericalFault
from harness.training.loss_scale import GROWTH_UPDATES, SMALLEST, START, LossScale
from harness.training.update import Updater

INFINITE = float("inf")


def test_the_scale_by_hand() -> None:
    scale = LossScale(active=True)
    assert [scale.accepts(norm) for norm in (1.0, INFINITE, float("nan"), 2.0)] == [True, False, False, True]
    assert (scale.value, scale.since_overflow) == (START / 4, 1)
    later = LossScale(active=True)
    later.value, later.since_overflow = START / 4, GROWTH_UPDATES - 1
    assert later.accepts(1.0)
    assert (later.value, later.since_overflow) == (START / 2, 0)
    later.value = SMALLEST
    with pytest.raises(NumericalFault, match=r"model\.precision"):
        later.accepts(INFINITE)


def test_other_precisions_are_not_scaled() -> None:
    scale = LossScale(active=False)
    assert scale.value == 1.0
    assert scale.accepts(INFINITE)  # the updater itself refuses it
    assert scale.value == 1.0


@pytest.fixture
def config(base_policy: Path) -> RunConfig:
    """Four steps of two updates in float16."""
    model = Pretrained(path=str(base_policy), precision="float16")
    return small_config(model=model, training__steps=4, training__evaluate_every=4)


def updater(config: RunConfig, folder: Path, precision: str) -> Updater:
    policy = TransformersPolicy.load(folder, Pretrained(precision=precision), RuntimeConfig(device="cpu"))
    return Updater(config, policy, Objective(config.algorithm))


def first_gradient(config: RunConfig, folder: Path, precision: str, scaled: bool = True) -> torch.Tensor:
    """The unscaled gradient of one update whose loss is a millionth of the usual, flat."""
    groups, prompts = random_groups(4, 4)
    config.optimizer.learning_rate = 0.0
    config.algorithm.updates_per_step = 1
    one = updater(config, folder, precision)
    if not scaled:
        one.loss_scale = LossScale(active=False)
    weigh = one.objective.weights
    one.objective.weights = lambda *given: weigh(*given) * 1e-6  # type: ignore[method-assign]
    one.train(1, groups, prompts)
    return torch.cat([p.grad.full_tensor().flatten() for p in one.policy.parameters() if p.grad is not None])  # type: ignore[attr-defined]


def test_gradients_below_float16s_range_survive_by_scaling(config: RunConfig, base_policy: Path) -> None:
    exact = first_gradient(config, base_policy, "float32")
    scaled = first_gradient(config, base_policy, "float16")
    lost = first_gradient(config, base_policy, "float16", scaled=False)
    cosine = torch.nn.functional.cosine_similarity
    assert float(cosine(scaled, exact, dim=0)) > 0.999
    assert 0.99 < float(scaled.norm() / exact.norm()) < 1.01
    assert float((lost - exact).norm() / exact.norm()) > 5 * float((scaled - exact).norm() / exact.norm())


def test_an_overflow_leaves_the_weights_and_halves_the_scale(config: RunConfig, base_policy: Path) -> None:
    groups, prompts = random_groups(4, 4)
    config.algorithm.updates_per_step = 1
    one = updater(config, base_policy, "float16")
    one.loss_scale.value = 2.0**40
    before = [p.detach().full_tensor().clone() for p in one.policy.parameters()]  # type: ignore[attr-defined]
    stats = one.train(1, groups, prompts)
    assert (stats.updates, stats.skipped_updates) == (0, 1)
    assert one.loss_scale.value == 2.0**39
    after = [p.detach().full_tensor() for p in one.policy.parameters()]  # type: ignore[attr-defined]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_run_records_its_scale_and_resumes_to_the_same_weights(config: RunConfig, tmp_path: Path) -> None:
    straight, parted = (start(config, tmp_path / name, 1) for name in ("straight", "parted"))
    assert train(config, straight)
    assert not train(config, parted, stop=lambda: bool(parted.last_step()))
    assert train(config, parted)
    rows = straight.steps()
    assert (rows["loss_scale"] <= START).all()
    assert rows["skipped_updates"].tolist() == parted.steps()["skipped_updates"].tolist()
    a, b = weights(straight), weights(parted)
    assert all(torch.equal(a[name], b[name]) for name in a)
