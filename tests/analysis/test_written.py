"""A report removes what it wrote and no longer makes, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_store import build_store

from harness.cli import main
from harness.store import ResultStore

RUNGS = [("a_0_x", "a", 0.5, 30.0), ("a_1_y", "b", 0.6, 40.0)]


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return build_store(tmp_path / "results", rungs=RUNGS, seeds=(0, 1, 2), n=4, problems=6)


def report(store: ResultStore, name: str = "ladder", *options: str) -> Path:
    assert (
        main(["report", f"experiment={name}", f"runtime.results={store.root}", "only=tables", *options]) == 0
    )
    return store.root / "experiments" / name / "tables"


def change(store: ResultStore, **new: object) -> None:
    store.write_plan("ladder", {**store.plan("ladder"), **new})


def looks_tables(tables: Path) -> list[str]:
    return sorted(path.name for path in tables.glob("*-looks*"))


def test_tables_of_an_earlier_design_go(store):
    change(store, looks=[2, 3])
    tables = report(store)
    assert looks_tables(tables) == ["ladder-looks.csv", "ladder-looks.md", "ladder-looks.tex"]
    change(store, looks=[])
    fixed = {path.name for path in report(store).iterdir()}
    assert looks_tables(tables) == []
    noted = json.loads((tables.parent / "written.json").read_text())["ladder"]
    assert {f"tables/{name}" for name in fixed} == noted.keys()


def test_files_of_somebody_else_stay(store):
    change(store, looks=[2, 3])
    tables = report(store)
    (tables / "mine-looks.md").write_text("mine")
    (tables / "ladder-looks.md").write_text("written by a report, and then mine")
    change(store, looks=[])
    report(store)
    assert looks_tables(tables) == ["ladder-looks.md", "mine-looks.md"]
    report(store)  # the changed file was forgotten, and is not noted as the report's again
    assert looks_tables(tables) == ["ladder-looks.md", "mine-looks.md"]


@pytest.mark.parametrize("note", ["", "{", "[]", '{"ladder": 3}', '{"ladder": {"../plan.json": "0"}}'])
def test_a_note_that_cannot_be_read_removes_nothing(store, note):
    change(store, looks=[2, 3])
    tables = report(store)
    (tables.parent / "written.json").write_text(note)
    change(store, looks=[])
    report(store)
    assert len(looks_tables(tables)) == 3
    assert store.plan("ladder")["looks"] == []


def test_two_experiments_in_one_folder_keep_theirs(store, tmp_path):
    store.write_plan("other", {**store.plan("ladder"), "name": "other"})
    for name in ("ladder", "other"):
        report(store, name, f"out={tmp_path / 'out'}")
    names = {path.name for path in (tmp_path / "out" / "tables").iterdir()}
    assert {"ladder.md", "other.md"} <= names


def test_an_unknown_format_is_named_with_those_that_are(store, capsys):
    figures = ["report", "experiment=ladder", f"runtime.results={store.root}", "only=figures"]
    assert main([*figures, "formats=pdf,jpg"]) == 2
    assert "formats: no jpg; choose from pdf,svg,png" in capsys.readouterr().err


def test_another_part_or_format_leaves_figures_alone(store, two_training_figures):
    folder = store.root / "experiments" / "ladder"
    figures = ["report", "experiment=ladder", f"runtime.results={store.root}", "only=figures"]
    assert main([*figures, "formats=svg"]) == 0
    drawn = set(folder.rglob("*.svg"))
    report(store)
    assert main([*figures, "formats=png"]) == 0
    assert drawn
    assert drawn == set(folder.rglob("*.svg"))
    assert len(list(folder.rglob("*.png"))) == len(drawn)
