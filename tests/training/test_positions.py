"""A training prompt that does not fit is found before the first step, not at the step that draws it."""

from __future__ import annotations

import pytest
from small_runs import Bench, small_config

from harness.configuration.error import ConfigError
from harness.model.policy import NativePolicy
from harness.rollout.engine import native, transformers


@pytest.mark.parametrize("engine", [native.Config(), transformers.Config()])
def test_the_longest_prompt_and_the_cap_must_fit(bench: Bench, engine: object) -> None:
    positions = NativePolicy.load(bench.base, "torch").decoder.shape.max_positions
    config = small_config(engine=engine, sampling__max_response_tokens=positions - 3)
    said = rf"the prompt of training problem \S+ has \d+ tokens.* {positions} positions"
    with pytest.raises(ConfigError, match=said):
        bench.trainer(config)
