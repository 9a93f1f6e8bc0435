"""Every verb stands on one page, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from harness.commands._arguments import FAMILY
from harness.configuration.registry import kinds

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_page_of_commands_lists_every_verb_once() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(kinds(FAMILY))
    assert len(listed) == 19
