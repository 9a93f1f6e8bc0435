"""The figure of both ladders says what the published tables say."""

from __future__ import annotations

from pathlib import Path

import both


def test_differences_are_those_of_the_published_tables(tmp_path: Path) -> None:
    testbed, language = (both.differences(both.PUBLISHED / name) for name in (both.TESTBED, both.LANGUAGE))
    assert testbed.keys() == language.keys()
    assert {name for name, effect in testbed.items() if effect.words() == "higher"} == {"dynamic sampling"}
    assert {name for name, effect in language.items() if effect.words() != "not resolved"} == {"dynamic sampling"}
    both.main(["--out", str(tmp_path)])
    assert (tmp_path / "ladders.png").stat().st_size > 1000
