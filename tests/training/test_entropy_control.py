"""The entropy coefficient rises below the target and falls above it, between its bounds."""

from __future__ import annotations

import pytest
from small_runs import Bench, small_config

from harness.configuration.compose import compose_run
from harness.configuration.identity import identity
from harness.configuration.sections import AlgorithmConfig, EntropyControl
from harness.training.update import EntropyController


def test_the_coefficient_by_hand() -> None:
    control = EntropyControl(target_nats=0.2, step=0.1, maximum=0.25)
    controller = EntropyController(AlgorithmConfig(entropy_control=control))
    seen = [controller.observe(entropy) for entropy in (0.1, 0.1, 0.1, 0.3, 0.1, 0.2, 0.3, 0.3)]
    # held: 0.1, 0.2, 0.25 (maximum), 0.15, 0.25, 0.15 (at the target it falls), 0.05, 0 (minimum); used below the target only
    assert seen == pytest.approx([0.1, 0.2, 0.25, 0, 0.25, 0, 0, 0])
    assert controller.value == 0
    later = EntropyController(AlgorithmConfig(entropy_control=control))
    later.value = 0.2
    assert later.observe(0.0) == pytest.approx(0.25)


def test_without_a_target_the_coefficient_is_the_configured_one_and_no_part_of_the_identity() -> None:
    controller = EntropyController(AlgorithmConfig(entropy_coefficient=0.03))
    assert [controller.observe(entropy) for entropy in (0.0, 9.0)] == [0.03, 0.03]
    assert "entropy_control" not in identity(compose_run([]))["algorithm"]
    assert "entropy_control" in identity(compose_run(["algorithm=adaptive_entropy"]))["algorithm"]


def test_the_coefficient_in_use_is_recorded_and_trains(bench: Bench) -> None:
    control = EntropyControl(target_nats=100.0, step=0.01, maximum=0.025)
    moving = small_config(training__steps=3, algorithm__entropy_control=control)
    steps = bench.trained(moving, "a").run.steps()
    assert steps["entropy_coefficient"].tolist() == pytest.approx([0.01, 0.02, 0.025])
    assert (steps["entropy_share"] > 0).all()
    # the first step is that of a constant coefficient of the same size
    constant = small_config(training__steps=1, algorithm__entropy_coefficient=0.01)
    first = bench.trained(constant, "b").run.steps()
    assert first["loss"][0] == steps["loss"][0]
    assert first["gradient_norm"][0] == steps["gradient_norm"][0]
    assert "entropy_coefficient" not in first.columns
