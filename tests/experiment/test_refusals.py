"""Declarations that are refused: every row of refused.yaml, by the words that name what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.configuration.error import ConfigError
from harness.experiment.planning import plan_experiment

ROWS = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())


@pytest.mark.parametrize(("experiment", "changed", "says"), ROWS, ids=[str(row[1]) for row in ROWS])
def test_a_declaration_that_cannot_be_or_would_be_ignored_is_refused(
    experiment: str, changed: str | list[str], says: str
) -> None:
    name, *others = experiment.split()
    changes = [changed] if isinstance(changed, str) else changed
    with pytest.raises(ConfigError, match=says):
        plan_experiment([f"experiment={name}", *others, *changes])
