"""What a file says reaches no terminal, spreadsheet, Markdown or page as anything but text."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_store import SHORT, build_store
from tables import table
from verbs import Said

from harness.execution.progress import PlainProgress, Terminal, progress_on
from harness.store import ResultStore, layout
from harness.store.foreign_text import VisibleStream, csv_text, escape_json, markdown, visible

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x00\u202egnp <script>alert(1)</script> ![x](http://example.org/x.png)"
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
RISKY = re.compile(r"<(?=[a-zA-Z/!])|\]\(http")


@given(st.text(st.characters(codec=None)))
def test_a_visible_text_has_no_control_characters_and_the_same_length(text: str) -> None:
    assert not HIDDEN.search(visible(text))
    assert (len(visible(text)), visible(visible(text))) == (len(text), visible(text))
    assert json.loads(escape_json(json.dumps(text, ensure_ascii=False))) == text
    assert not HIDDEN.search(escape_json(json.dumps(text, ensure_ascii=False)))


def test_our_own_words_stay() -> None:
    for text in ("+3.4 [−10.2, +17.1] p < 0.05, ± 2\u2009000 → Šidák", "a\tb\nc", "[1, 2] (of 3)"):
        assert (visible(text), markdown(text)) == (text, text)


@pytest.mark.parametrize(
    "cell", ['=HYPERLINK("http://x")', "@SUM(1)", "+1+cmd|' /C calc'!A0", "-2-f(1)", " =1", "\t=1", "+(1)"]
)
def test_a_formula_is_no_cell(cell: str) -> None:
    (head,), (value,) = csv.reader(io.StringIO(csv_text(pd.DataFrame({cell: [cell]}))))
    assert head[0] == value[0] == "'"


def test_cells_that_are_no_formulas_stay() -> None:
    frame = pd.DataFrame(
        {"label": ["+ clip-higher", "-5", "a=b", None, "grpo+"], "value": [-1.5, 2.0, float("nan"), 0.1, 3.0]}
    )
    assert csv_text(frame) == frame.to_csv(index=False, lineterminator="\n")


def test_a_stream_shows_control_characters_and_a_console_sends_its_own() -> None:
    below = io.StringIO()
    stream = VisibleStream(below)
    stream.write(f"\r{EVIL}")
    stream.writelines([EVIL])
    assert below.getvalue()[0] == "\r"
    assert not HIDDEN.search(below.getvalue()[1:])
    shown = io.StringIO()
    console = Terminal(shown, force_terminal=True, color_system="standard", width=200)
    console.print(f"[red]a[/red]{EVIL}", highlight=False)
    assert not HIDDEN.search(re.sub(r"\x1b\[(31|0)m", "", shown.getvalue()))
    assert "\x1b[31ma" in shown.getvalue()


def test_progress_goes_to_the_stream_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    progress = progress_on()
    assert isinstance(progress, PlainProgress)
    progress.show("x")
    assert sys.stderr.getvalue() == "x"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """An experiment whose plan and manifests are a stranger's."""
    rungs = [
        ("arm_0", '=HYPERLINK("http://example.org")', 0.5, 1.0),
        ("arm_1", f"b{EVIL}", 0.6, 2.0),
        ("arm_2", "+(1)", 0.6, 2.0),
    ]
    store = build_store(tmp_path / "results", rungs=rungs, missing={(1, 2): "failed"}, design="arms", **SHORT)
    path = layout.plan_file(store.root, "ladder")
    plan = json.loads(path.read_text())
    plan.pop("sha256")
    plan |= {"title": f"t{EVIL}", "question": f"q{EVIL}", "notes": [f"n{EVIL}"]}
    path.write_text(json.dumps(plan))
    run = ResultStore(store.root).run(plan["arms"][1]["runs"]["2"])
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest |= {"error": EVIL, "labels": {"arm": EVIL, "experiment": EVIL}}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    return store.root


def test_a_report_of_a_strangers_experiment_is_text(hostile: Path, tmp_path: Path, said: Said) -> None:
    out = tmp_path / "out"
    words = said("report", "experiment=ladder", f"out={out}", "formats=svg", "tables=all", f"runtime.results={hostile}")
    assert "␛]0;owned" in words
    assert not HIDDEN.search(words)
    files = [path for path in out.rglob("*") if path.suffix in (".md", ".csv", ".tex", ".html", ".svg", ".bib")]
    assert len({path.suffix for path in files}) >= 5
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not HIDDEN.search(text), path
        if path.suffix == ".csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert not [cell for cell in cells if re.match(r"\s*[=@]|[+-].*\(", cell)], path
        if path.suffix == ".md":
            assert not RISKY.search(re.sub(r"\\[<(]", "", text)), path


@table(__file__, "verbs", "verb")
def test_no_verb_sends_what_a_stranger_wrote(hostile: Path, said: Said, verb: list[str]) -> None:
    words = said(*verb, f"runtime.results={hostile}")
    assert "owned" in words
    assert not HIDDEN.search(words)


def test_the_words_of_a_refusal_are_text(hostile: Path, said: Said) -> None:
    layout.plan_file(hostile, "ladder").write_text(json.dumps({"schema_version": EVIL}))
    for run in (hostile / "runs").iterdir():
        (run / "manifest.json").write_text(json.dumps({"schema_version": 1, "run_id": EVIL}))
    assert not HIDDEN.search(said("report", "experiment=ladder", f"runtime.results={hostile}", code=2))
    assert not HIDDEN.search(said("merge", str(hostile), f"runtime.results={hostile.parent / 'new'}", code=1))
