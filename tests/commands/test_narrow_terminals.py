"""What a person reads fits a terminal of 80 columns and of 60."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli import main
from harness.configuration.numbers import format_seconds
from harness.execution.progress import status_table
from harness.store.reader import RunState


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


@pytest.mark.parametrize("width", [80, 60])
def test_status_cuts_no_column_where_names_are_long(width: int) -> None:
    arms = [f"+ clip-higher and more of the same {number} seed {number}" for number in range(2)]
    states = [RunState("0" * 16, "running", name, 1, 12, 60, "", -0.493, 99.0) for name in arms]
    stream = io.StringIO()
    Console(file=stream, width=width).print(status_table(states))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert all(word in stream.getvalue() for word in ("left", "running", "12/60", "-0.493", "0" * 16, states[0].where))
    assert format_seconds(states[0].seconds_left) in stream.getvalue()
    assert "".join(arms[1].split()) in "".join("".join(line[18:].partition("running")[0].split()) for line in lines)
