"""The README's counts and commands are those of the claims and of the Makefile."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_counts_are_those_of_the_claims() -> None:
    claims = pd.concat(pd.read_csv(ROOT / "experiments" / name / "claims.csv") for name in ("claims", "claims_autumn"))
    verdicts = claims["verdict"].value_counts()
    for count in (len(claims), verdicts["holds, replicated"], verdicts["reversed, replicated"]):
        assert re.search(rf"\b{count} (?:claims|hold|are reversed)", TEXT), count


def test_its_commands_are_those_of_the_makefile() -> None:
    targets = re.findall(r"\bmake (\w+)", TEXT)
    assert {"ladder", "test"} <= set(targets)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
