"""A training prompt that does not fit is found before the first step, not at the step that draws it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import small_config

from harness.configuration.error import ConfigError
from harness.model.policy import NativePolicy
from harness.reward.grading import Grader
from harness.rollout.engine import native, transformers
from harness.store import ResultStore
from harness.training.trainer import Trainer


@pytest.mark.parametrize("engine", [native.Config(), transformers.Config()])
def test_the_longest_prompt_and_the_cap_must_fit(base_policy: Path, tmp_path: Path, engine: object) -> None:
    positions = NativePolicy.load(base_policy, "torch").decoder.shape.max_positions
    config = small_config(engine=engine, sampling__max_response_tokens=positions - 3)
    grader = Grader(config.verifier, config.runtime)
    run = ResultStore(tmp_path).run("0123456789abcdef")
    try:
        with pytest.raises(
            ConfigError, match=rf"the prompt of training problem \S+ has \d+ tokens.* {positions} positions"
        ):
            Trainer(config, run, base_policy, "torch", grader)
    finally:
        grader.close()
