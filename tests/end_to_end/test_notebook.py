"""examples/question_to_figure.ipynb, run from top to bottom in a kernel, with runs of one step."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "question_to_figure.ipynb"
SMALL = (
    "task.problems=64 training.steps=1 training.evaluate_every=1 evaluation.samples_per_problem=4 "
    "evaluation.benchmarks.arithmetic_heldout.problems=24 algorithm.prompts_per_step=8 algorithm.updates_per_step=2"
)


def test_the_notebook_goes_from_question_to_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    settings = notebook.cells[1]
    full = "training.steps=20 training.evaluate_every=10"
    assert full in settings.source
    settings.source = settings.source.replace(full, SMALL)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = {
        cell.source.splitlines()[0]: "".join(f"{one.get('text', '')}{one.get('data', '')}" for one in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    assert "6 runs, 0 finished, 6 to run" in shown["!harness plan {QUESTION} {SETTINGS}"]
    assert "6 runs: 6 finished" in shown["!harness run {QUESTION} {SETTINGS} --no-answer"]
    assert "3 seeds" in shown["from analysis import difference, figure_of, load, seed_frame"]
    assert "image/png" in shown["%matplotlib inline"]
