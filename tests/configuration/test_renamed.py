"""Systems that have another name now: the old one is refused with the new one."""

from __future__ import annotations

import pytest

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.folder import RENAMED, options


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_is_answered_with_the_new_one(old: str, new: str) -> None:
    group, _, name = old.partition("/")
    assert new in options(group)
    assert name not in options(group)
    with pytest.raises(ConfigError, match=f"it is called '{new}' now"):
        compose_run([f"{group}={name}"])
