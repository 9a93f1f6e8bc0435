"""docs/own_members.md, read as its reader does, from top to bottom: files, commands and Python in their order, with small runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from verbs import ROOT, harness_here, python_here

PAGE = (ROOT / "docs" / "own_members.md").read_text()
SMALL = (
    "experiment.seeds=[0,1]",
    "training.steps=1",
    "evaluation.samples_per_problem=8",
    "evaluation.benchmarks.arithmetic_heldout.problems=12",
    "task.problems=64",
    "algorithm.prompts_per_step=8",
    "algorithm.updates_per_step=2",
    "runtime.workers=1",
)
STEP = re.compile(r"(?:^`([\w/.]+)`:\n\n)?^```(console|python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder in which the page was followed, and what each command and the Python said."""
    where, said, anew = tmp_path_factory.mktemp("own"), [], list[str]()
    for name, language, text in STEP.findall(PAGE):
        if name:
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            # A process composes the same words once; other words, as of an edited file, it composes anew.
            anew = ["runtime.threads=1"] if (where / name).exists() else anew
            (where / name).write_text(text)
        elif language == "python":
            said.append(python_here(where, text))
        else:
            for line in text.splitlines():
                verb, *rest = shlex.split(line.removeprefix("$ harness "))
                small = [*SMALL, *anew] if verb in ("plan", "run") else []
                quick = ["--no-answer"] if verb == "run" and "experiment=groups" not in rest else []
                said.append(harness_here(where, verb, *rest, *small, *quick))
    return where, said


def arm_runs(where: Path, experiment: str) -> dict[str, set[str]]:
    plan = json.loads((where / f"results/experiments/{experiment}/plan.json").read_text())
    return {arm["name"]: set(arm["runs"].values()) for arm in plan["arms"]}


def test_the_page_leads_to_an_interaction_that_is_said_and_drawn(page: tuple[Path, list[str]]) -> None:
    where, (planned, answered, *_) = page
    assert "12 runs, 0 finished, 12 to run" in planned
    assert re.search(r"^group_16 × bonus +[+−]\d", answered, flags=re.MULTILINE)
    assert re.search(r"^Entropy per token: ", answered, flags=re.MULTILINE)
    assert (where / "results/experiments/groups/figures/interactions.pdf").stat().st_size > 1000
    assert "group_16 × bonus" in (where / "results/experiments/groups/report.html").read_text()


def test_an_edited_estimator_is_compared_in_other_runs(page: tuple[Path, list[str]]) -> None:
    where, (*_, planned, _, reported) = page
    assert "4 runs, 2 finished, 2 to run" in planned
    before, after = arm_runs(where, "median"), arm_runs(where, "median_again")
    assert before["mean"] == after["mean"]
    assert not before["median"] & after["median"]
    assert "median is not shown to do better or worse than mean" in reported


CENTRED = "defaults:\n  - grpo\n  - override advantage: median\n  - _self_\n"
# Verb to what it is given beside `--config-dir tricks`, and a word of its answer. RUN: a run of the member.
VERBS = {
    "explain": (["rewards=[1,0,0,0]", "lengths=[4,8,12,16]", "systems=[grpo,centred]"], r"centred \D+100\.0 %"),
    "evaluate": (["model=RUN"], r" 32 +12 +8 +\d+\.\d+ \["),
    "status": (["experiment=median_again"], r"\b4 finished"),
    "doctor": ([], r"ok +store"),
    "run": (
        [
            "experiment=clip_lr_search", "experiment.name=scales", "experiment.search.trials=1", "experiment.seeds=[0]",
            'experiment.base=["algorithm=centred", "algorithm/surrogate=soft_clip"]',
            'experiment.search.space=["algorithm.advantage.scale=choice(0.5)"]',
            "experiment.search.objectives=[avg]", *SMALL[1:],
        ],
        r"trial 0: avg \d+\.\d %: algorithm\.advantage\.scale=0\.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_other_verbs_and_a_search_take_the_folder(verb: str, page: tuple[Path, list[str]]) -> None:
    where, _ = page
    (where / "tricks/algorithm/centred.yaml").write_text(CENTRED)
    given, says = VERBS[verb]
    member = sorted(arm_runs(where, "median_again")["median"])[0]
    told = harness_here(where, verb, "--config-dir", "tricks", *(item.replace("RUN", member) for item in given))
    assert re.search(says, told), told
