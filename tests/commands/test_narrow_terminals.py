"""What a person reads fits a terminal of 80 columns and of 60."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main


@pytest.mark.parametrize("width", [80, 60])
def test_plan_has_a_block_an_arm_by_labels_and_short_keys(
    width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["plan", "experiment=dapo_ladder", f"runtime.results={tmp_path}"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "\n+ clip-higher  8 new\n" in text
    assert "\n  clip_high: 0.2 → 0.28\n" in text
    assert "against the base" not in text


@pytest.mark.parametrize("width", [80, 60])
def test_help_groups_every_verb(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    groups = [text.index(f"\n{name}:\n") for name in ("Begin", "Look", "Share", "Your own results and models")]
    assert groups == sorted(groups)
    assert groups[0] < text.index("\n  run ") < groups[1] < text.index("\n  status ") < groups[2]
