"""docs/your_experiment.md, read as its reader does: its files are written, its commands and its Python run, with small runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from analysis import load
from analysis.answer import answer_sentences
from analysis.tables.differences import differences_to_reference

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your_experiment.md").read_text()
SMALL = (
    "training.steps=2",
    "training.evaluate_every=1",
    "evaluation.samples_per_problem=4",
    "evaluation.benchmarks.arithmetic_heldout.problems=24",
    "algorithm.prompts_per_step=8",
    "algorithm.updates_per_step=2",
    "runtime.workers=1",
    "runtime.threads=1",
)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def commands():
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ harness ") for line in lines), lines
    return [shlex.split(line.removeprefix("$ harness ")) for line in lines]


def small(arguments):
    """The command with runs of two steps and two seeds, and figures of the first answer only; those that train nothing as they are."""
    if arguments[0] not in ("plan", "run"):
        return arguments
    fewer = [re.sub(r"^seed=.*", "seed=0,1", item) for item in arguments]
    seeds = [] if "-m" in arguments else ["experiment.seeds=[0,1]"]
    again = any(item.startswith("experiment.name=") for item in arguments)
    return [*fewer, *seeds, *SMALL, *["--no-answer"] * again]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page's files are written and its commands run, one after the other."""
    path = tmp_path_factory.mktemp("tutorial")
    for name, text in re.findall(
        r"^`([\w/.]+)`:\n\n```yaml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    said = {}
    for arguments in commands():
        done = run([sys.executable, "-m", "harness", *small(arguments)], path)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        said[shlex.join(arguments)] = done.stdout
    return path, said


def run(command, where):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    return subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


def test_the_page_leads_to_tables_and_figures_of_both_metrics(folder):
    path, said = folder
    out = path / "results" / "experiments" / "lengths"
    answer = (out / "tables" / "answer.md").read_text()
    assert re.search(r"^Length of wrong answers: 1 difference to the reference", answer, flags=re.MULTILINE)
    assert re.search(r"^avg@4: 1 difference to the reference", answer, flags=re.MULTILINE)
    assert re.search(r"Dr\.GRPO against GRPO: [+−][\d.]+ tokens", answer)
    for name in (
        "differences.pdf",
        "differences-avg.pdf",
        "metric.pdf",
        "differences.png",
        "differences.svg",
    ):
        assert (out / "figures" / name).stat().st_size > 1000
    plan = next(text for command, text in said.items() if command.startswith("plan"))
    assert (
        "asks about: length of wrong answers (tokens, margin 0.5); avg@n (points, higher is better, margin 3)"
        in plan
    )


def test_another_question_and_the_multirun_find_the_same_runs(folder):
    path, _ = folder
    runs = list((path / "results" / "runs").iterdir())
    assert len(runs) == 4
    plans = {name: json.loads((path / f"results/experiments/{name}/plan.json").read_text()) for name in
             ("lengths", "truncation", "lengths_again")}  # fmt: skip
    ids = [{i for arm in plan["arms"] for i in arm["runs"].values()} for plan in plans.values()]
    assert ids[0] == ids[1] == ids[2]
    assert [plan["metric"] for plan in plans.values()] == [
        ["length_wrong", "avg"],
        "truncated",
        ["length_wrong", "avg"],
    ]
    first, again = (load(path / "results", name) for name in ("lengths", "lengths_again"))
    assert answer_sentences(first)[0] == answer_sentences(again)[0]
    deltas = [list(differences_to_reference(results).values()) for results in (first, again)]
    assert deltas[0] == deltas[1]


def test_the_python_of_the_page_and_the_example_run(folder):
    path, _ = folder
    (block,) = blocks("python")
    done = run([sys.executable, "-c", block], path)
    assert done.returncode == 0, done.stderr
    assert re.match(r"[+-]\d+\.\d\d tokens \[[+-]\d+\.\d\d, [+-]\d+\.\d\d\], ", done.stdout)
    assert (path / "figures" / "lengths.png").exists()
    done = run([sys.executable, str(ROOT / "examples" / "lengths.py"), "results", "lengths"], path)
    assert done.returncode == 0, done.stderr
    assert "dr_grpo - grpo, length_wrong: " in done.stdout
    assert (path / "figures" / "lengths-lengths.png").exists()
