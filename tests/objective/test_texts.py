"""Every system that the five texts name is a configuration here, or a sentence says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from objective_support import SYSTEMS

DOCS = Path(__file__).parents[2] / "docs" / "objective"


def rows() -> list[tuple[str, str, str, str]]:
    """Text, system, here, remark of each row of the table."""
    found = []
    for line in (DOCS / "texts.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] in "ABCDE":
            found.append((cells[0], cells[1], cells[2], cells[3]))
    return found


@pytest.mark.parametrize(("text", "system", "here", "remark"), rows())
def test_a_named_system_resolves_to_a_configuration_or_to_a_reason(
    text: str, system: str, here: str, remark: str
) -> None:
    names = re.findall(r"`([a-z0-9_]+)`", here)
    assert set(names) <= set(SYSTEMS)
    if not names:
        assert here == "–"
        assert remark.endswith(".")  # a whole sentence
        assert len(remark.split()) >= 8


def test_the_table_holds_all_texts_and_the_systems_of_each() -> None:
    named = {text: {system for t, system, _, _ in rows() if t == text} for text in "ABCDE"}
    assert {"GRPO", "DAPO", "Dr.GRPO", "Olmo 3"} <= named["A"]
    assert {"REINFORCE", "PPO", "GRPO", "RLOO", "DAPO", "Dr.GRPO"} <= named["B"]
    assert {"GRPO", "DAPO", "Dr.GRPO", "VAPO", "RLOO", "REINFORCE++"} <= named["C"]
    assert {"GRPO", "REINFORCE++", "DAPO", "Dr.GRPO", "CISCO", "GDPO", "CLIP-DAPO"} <= named["D"]
    assert {"SFT", "RFT", "DPO", "PPO", "GSPO", "VAPO"} <= named["E"]


def test_every_reading_of_a_text_is_in_the_table() -> None:
    page = (DOCS / "texts.md").read_text(encoding="utf-8")
    told = [
        name for name in SYSTEMS if name in ("clip_dapo", "dapo_sum", "rloo_clip_kl", "olmo3_success_bands")
    ]
    assert [name for name in told if f"`{name}`" not in page] == []
