"""docs/tutorial.md and docs/your_experiment.md, read as their reader does: files are written, commands and Python run, with small runs."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from verbs import ROOT, harness_here, python_here

from analysis import load
from analysis.answer import answer_sentences

PAGE = "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("tutorial", "your_experiment"))
SMALL = (
    "training.steps=2",
    "training.evaluate_every=2",
    "evaluation.samples_per_problem=4",
    "evaluation.benchmarks.arithmetic_heldout.problems=24",
    "task.problems=64",
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
    return [shlex.split(line.removeprefix("$ harness ")) for line in lines if not line.startswith("$ harness view")]


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
    for name, text in re.findall(r"^`([\w/.]+)`:\n\n```yaml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    said = {}
    for arguments in commands():
        said[shlex.join(arguments)] = harness_here(path, *small(arguments))
    return path, said


def test_the_page_leads_to_tables_and_figures_of_both_metrics(folder):
    path, said = folder
    out = path / "results" / "experiments" / "lengths"
    answer = (out / "tables" / "answer.md").read_text()
    assert re.search(r"^\*\*Length of wrong answers: at equal steps Dr.GRPO", answer, flags=re.MULTILINE)
    assert re.search(r"^\*\*avg@4: at equal steps Dr.GRPO", answer, flags=re.MULTILINE)
    assert re.search(r"\| Dr\.GRPO \| [+−][\d.]+ \|", answer)
    for name in ("differences.pdf", "differences-avg.pdf", "metric.pdf", "differences.png", "differences.svg"):
        assert (out / "figures" / name).stat().st_size > 1000
    plan = next(text for command, text in said.items() if command.startswith("plan"))
    assert "length of wrong answers (tokens, margin 0.5); avg@n (points, higher is better, margin 3)" in plan


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
    # Arms of a multirun have no labels, only their names.
    named = answer_sentences(first)[0].replace("Dr.GRPO", "dr_grpo").replace("GRPO", "grpo")
    assert named == answer_sentences(again)[0]
    deltas = [list(results.declared.values()) for results in (first, again)]
    assert deltas[0] == deltas[1]


def test_the_python_of_the_page_and_the_example_run(folder):
    path, _ = folder
    (block,) = blocks("python")
    said = python_here(path, block)
    assert re.match(r"[+-]\d+\.\d\d tokens \[[+-]\d+\.\d\d, [+-]\d+\.\d\d\], ", said)
    assert (path / "figures" / "lengths.png").exists()
    said = python_here(path, (ROOT / "examples" / "lengths.py").read_text(), "results", "lengths")
    assert "dr_grpo - grpo, length_wrong: " in said
    assert (path / "figures" / "lengths-lengths.png").exists()


def test_the_lines_that_tune_make_a_plan_of_both_parts_and_a_comparison(folder):
    path, _ = folder
    text = (path / "questions" / "experiment" / "lengths.yaml").read_text().replace("name: lengths", "name: tuned")
    text = text.replace("[length_wrong, avg]", "[avg, length_wrong]")
    tune = next(block for block in blocks("yaml") if block.startswith("  tune:"))
    (path / "questions" / "experiment" / "tuned.yaml").write_text(text + tune)
    plan = json.loads(harness_here(path, "plan", "--config-dir", "questions", "experiment=tuned", "--json"))
    assert plan["totals"]["runs"] == 2 * 4 * 8
    assert any("10 runs follow" in note for note in plan["notes"])
    few = [
        "experiment.seeds=[0]",
        "experiment.tune.seeds=[904]",
        "experiment.tune.over={optimizer.learning_rate: [1e-4, 2e-4]}",
    ]
    harness_here(path, "run", "--config-dir", "questions", "experiment=tuned", *SMALL, *few)
    methods = (path / "results" / "experiments" / "tuned" / "methods" / "methods.md").read_text()
    assert "Each arm is at its best of 2 values of learning_rate, chosen on 1 other seed." in methods
