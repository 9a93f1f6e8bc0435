"""A lag of k: the responses of a step come from the policy of k steps before, whatever stops and resumes in between."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import Bench, small_config

from harness.configuration.compose import compose_run
from harness.exchange import trl, verl
from harness.experiment.checks import inert
from harness.rollout.engine.native import Config as Native
from harness.rollout.engine.transformers import Config as Transformers
from harness.sampling.selection import Selection
from harness.training.grading import Tally
from harness.training.loop import collect
from harness.training.run_parts import RunParts


@pytest.mark.parametrize(("lag", "engine"), [(0, Native()), (1, Native()), (3, Native()), (2, Transformers())])
def test_the_policy_of_a_steps_responses_is_so_many_steps_old(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lag: int, engine: Any
) -> None:
    trained_steps = {}  # of the policy that a step's responses came from

    def watched(trainer: RunParts, step: int, tally: Tally) -> Selection:
        trained_steps[step] = trainer.progress.step
        return collect(trainer, step, tally)

    monkeypatch.setattr("harness.training.loop.collect", watched)
    bench.trained(small_config(training__steps=5, sampling__lag_steps=lag, engine=engine))
    assert trained_steps == {step: max(0, step - 1 - lag) for step in range(1, 6)}


def test_what_cannot_lag_says_so() -> None:
    lagging = compose_run(["algorithm=dapo", "sampling.lag_steps=2", "algorithm.updates_per_step=1"])
    for dialect in (trl, verl):
        assert any("sampling.lag_steps=2" in line for line in dialect.export(lagging).inexpressible)
    assert not inert("algorithm.surrogate.clip_high", lagging)
    assert inert("algorithm.surrogate.clip_high", compose_run(["algorithm=dapo", "algorithm.updates_per_step=1"]))
