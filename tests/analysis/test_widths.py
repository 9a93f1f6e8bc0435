"""Width is a law: 80 columns in a terminal, 3.25 or 6.75 inches in a paper, two pages for the example paper; the page has its own test."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.cells import cell_len
from verbs import jsonl

from analysis.answer import Answer
from analysis.figures.drawing import figure_style
from analysis.line import Line, axis_ticks, interval_limits
from analysis.report import figure_makers
from analysis.terminal import answer_text
from harness.cli import main
from harness.commands._arguments import FAMILY
from harness.configuration.compose import options
from harness.configuration.registry import kinds
from harness.evaluation.metrics.names import metric
from harness.statistics.intervals import Estimate
from harness.store import ResultStore

ROOT = Path(__file__).parents[2]
SCORES = "arm,seed,score\n" + "".join(
    f"an_arm_with_a_name_of_somebody_{arm},{s},{60 + 3 * arm + s}\n" for arm in (0, 1) for s in (0, 1, 2)
)


@pytest.mark.parametrize("verb", sorted(kinds(FAMILY)))
def test_help_has_80_columns(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert len(line := max(capsys.readouterr().out.splitlines(), key=len)) <= 80, line


def test_every_table_has_80_columns(
    ladder_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "scores.csv").write_text(SCORES)
    for name, answer in (("a.jsonl", 1), ("b.jsonl", 2)):
        jsonl(
            tmp_path / name,
            [{"id": i, "answer": "1", "samples": [f"\\boxed{{{answer * i}}}"] * 2} for i in range(1, 5)],
        )
    monkeypatch.chdir(tmp_path)
    here, runs = f"runtime.results={ladder_root}", ResultStore(ladder_root).run_ids()
    commands = [
        f"report experiment=ladder only=table {here}", f"status {here}", f"status --runs {here}", f"status {runs[0]} {runs[1]} {here}",
        "plan experiment=dapo_ladder", "keys algorithm", "keys experiment", "judge scores.csv margin=1 out=judged",
        "compare a.jsonl b.jsonl out=compared",
        f"explain rewards=[1,0] lengths=[20,1000] systems=[{max(options('algorithm'), key=len)}]",
    ]  # fmt: skip
    for command in commands:
        assert main(command.split()) == 0, capsys.readouterr().err
        shown, others = capsys.readouterr().out.splitlines(), ("written: ", "where they differ")
        line = max((one for one in shown if not one.startswith(others)), key=len)
        assert len(line) <= 80, f"{command}: {line}"


def test_the_forest_has_a_line_an_arm_on_one_axis_with_zero_and_margin() -> None:
    ends = {"b": (0.06, 0.04, 0.08), "c": (0.0, -0.02, 0.02), "d": (-0.01, -0.05, 0.03)}
    lines = [Line(name, Estimate(*three, 8, degrees=7, margin=0.03), metric("avg")) for name, three in ends.items()]
    text = answer_text(Answer(["It helps."], [], [], "added", lines, ""), 80)
    rows = [line for line in text.splitlines() if re.search("[▶▷◀◁■□●○]", line)]
    assert [line.split()[0] for line in rows] == [*ends]
    assert [re.search("[▶▷◀◁■□●○]", line)[0] for line in rows] == ["▶", "■", "○"]
    axis = text.splitlines()[text.splitlines().index(rows[-1]) + 1]
    zero = axis.index(" 0 ") + 1
    assert [row[zero] for row in rows] == ["│", "■", "┼"]
    assert axis.index("+3") > zero > axis.index("−3")
    assert max(map(len, text.splitlines())) <= 80
    wide, endless = Estimate(0.06, 0.04, 0.08, 8, degrees=7), Estimate(0.0, -math.inf, math.inf, 8, degrees=7)
    lines = [Line("消融" * 12, wide, metric("avg")), Line("endless", endless, metric("avg"))]
    text = answer_text(Answer(["It helps."], [], [], "added", lines, ""), 20)
    assert [line.strip()[:2] for line in text.split("\n\n")[1].splitlines()[:2]] == ["消融", "po"]
    assert max(map(cell_len, text.splitlines())) <= 40


def test_equal_arms_have_an_axis_that_can_be_read() -> None:
    limits = interval_limits([Estimate(1e-16, -1e-16, 3e-16, 4, degrees=3)])
    assert limits[1] - limits[0] >= 1
    assert [text for _, text in axis_ticks(limits, 0.0)] == ["0", "−0.8", "+0.9"]


@pytest.mark.parametrize("style", ["paper", "icml"])
def test_figures_are_a_column_or_a_page_wide(results, style: str) -> None:
    with figure_style(style):
        widths = {
            round(figure.get_size_inches()[0], 3)
            for _, make in figure_makers(results)
            if (figure := make()) is not None
        }
    assert widths == {3.25, 6.75}


@pytest.mark.optional
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_example_paper_has_two_pages(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "examples" / "paper", tmp_path / "paper")
    command = ["make", "-s", f"PUBLISHED={ROOT / 'results' / 'published'}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    log = (folder / "paper.log").read_text(errors="replace")
    assert "(2 pages" in log
    assert not re.findall(r"Overfull \\hbox|undefined", log)
