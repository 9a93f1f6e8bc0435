"""docs/own_members.md, read as its reader does, from top to bottom: files, commands and Python in their order, with small runs."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from scipy import stats

from harness.store import ResultStore

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own_members.md").read_text()
SMALL = (
    "experiment.seeds=[0,1]",
    "training.steps=1",
    "evaluation.samples_per_problem=8",
    "evaluation.benchmarks.arithmetic_heldout.problems=12",
    "algorithm.prompts_per_step=8",
    "algorithm.updates_per_step=2",
    "runtime.workers=1",
)
STEP = re.compile(r"(?:^`([\w/.]+)`:\n\n)?^```(console|python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RAISES = "    raise RuntimeError('no luck')\n"


def run(where: Path, *command: str, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, *command], cwd=where, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )  # fmt: skip
    assert done.returncode == code, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder in which the page was followed, and what each command and the Python said."""
    where, said = tmp_path_factory.mktemp("own"), []
    for name, language, text in STEP.findall(PAGE):
        if name:
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            (where / name).write_text(text)
        elif language == "python":
            said.append(run(where, "-c", text))
        else:
            for line in text.splitlines():
                verb, *rest = shlex.split(line.removeprefix("$ harness "))
                small = SMALL if verb in ("plan", "run") else ()
                quick = ["--no-answer"] if verb == "run" and "experiment=groups" not in rest else []
                said.append(run(where, "-m", "harness", verb, *rest, *small, *quick))
    return where, said


def arm_runs(where: Path, experiment: str) -> dict[str, set[str]]:
    plan = json.loads((where / f"results/experiments/{experiment}/plan.json").read_text())
    return {arm["name"]: set(arm["runs"].values()) for arm in plan["arms"]}


def test_the_page_leads_to_an_interaction_that_is_said_and_drawn(page: tuple[Path, list[str]]) -> None:
    where, (planned, answered, contrasted, *_) = page
    assert "12 runs, 0 finished, 12 to run" in planned
    assert re.search(r"^- Interaction group_16 × bonus: [+−]\d", answered, flags=re.MULTILINE)
    assert re.search(
        r"^Entropy per token: 4 main effects: .*\. 2 interactions: ", answered, flags=re.MULTILINE
    )
    assert re.match(r"[+-]\d+\.\d points \[", contrasted)
    assert (where / "results/experiments/groups/figures/interactions.pdf").stat().st_size > 1000
    assert "Interaction group_16 × bonus" in (where / "results/experiments/groups/report.html").read_text()


def test_an_edited_estimator_is_compared_in_other_runs(page: tuple[Path, list[str]]) -> None:
    where, (*_, tested, _, planned, _, reported) = page
    assert tested.split() == ["ok", str(where / "tricks/objective/advantage/median.py")]
    assert (
        "median: the code of algorithm.advantage=median is not that of the runs stored under median"
        in planned
    )
    assert "4 runs, 2 finished, 2 to run" in planned
    before, after = arm_runs(where, "median"), arm_runs(where, "median_again")
    assert before["mean"] == after["mean"]
    assert not before["median"] & after["median"]
    assert "median against mean" in reported


CENTRED = "defaults:\n  - grpo\n  - override advantage: median\n  - _self_\n"
# Verb to what it is given beside `config_dir=tricks`, and a word of its answer. RUN: a run of the member.
VERBS = {
    "explain": (["rewards=[1,0,0,0]", "lengths=[4,8,12,16]", "systems=[grpo,centred]"], r"centred \D+100\.0 %"),
    "evaluate": (["model=RUN"], r"│ 32 +│ \d+\.\d+ \["),
    "status": (["experiment=median_again"], r"\b4 finished"),
    "doctor": ([], r"ok +store"),
    "sweep": (
        ["algorithm=centred", "algorithm.advantage.scale=choice(0.5)", "--trials", "1", "--seeds", "0", *SMALL[1:]],
        r"trial 0: avg 0\.\d+: algorithm\.advantage\.scale=0\.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_beside_plan_and_run_take_the_folder(verb: str, page: tuple[Path, list[str]]) -> None:
    where, _ = page
    (where / "tricks/algorithm/centred.yaml").write_text(CENTRED)
    given, says = VERBS[verb]
    member = sorted(arm_runs(where, "median_again")["median"])[0]
    told = run(
        where, "-m", "harness", verb, "config_dir=tricks", *(item.replace("RUN", member) for item in given)
    )
    assert re.search(says, told), told


def test_the_page_in_a_browser_takes_the_folder(page: tuple[Path, list[str]]) -> None:
    where, _ = page
    command = [sys.executable, "-m", "harness", "view", "config_dir=tricks", "experiment=median", "port=0"]
    with subprocess.Popen(
        command, cwd=where, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            (url,) = re.findall(r"http://127\.0\.0\.1:\d+/median", process.stdout.readline())
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert "Centred by the median" in answer.read().decode()
        finally:
            process.kill()


HALF = """name: half
seeds: [0, 1]
base: [algorithm=grpo]
factors: {filter: [none, overlong_filtering], sum: [none, constant_sum], scale: [none, batch_std]}
fraction: 2
"""
# The cells that it runs, by their levels of the three factors.
CELLS = {
    "base": (0, 0, 0),
    "overlong_filtering+constant_sum": (1, 1, 0),
    "overlong_filtering+batch_std": (1, 0, 1),
    "constant_sum+batch_std": (0, 1, 1),
}


def test_a_fraction_runs_to_its_effects(tmp_path: Path) -> None:
    """Three factors in four of eight cells; effects and intervals by hand from the samples of the runs."""
    (tmp_path / "own/experiment").mkdir(parents=True)
    (tmp_path / "own/experiment/half.yaml").write_text(HALF)
    half = ("config_dir=own", "experiment=half", *SMALL, "training.steps=2", "--no-answer")
    assert "8 runs: 8 finished" in run(tmp_path, "-m", "harness", "run", *half)
    told = run(tmp_path, "-m", "harness", "report", "experiment=half", "only=tables")
    assert (
        "- A fraction of one in 2 cells; each main effect is mixed with an interaction of two others." in told
    )
    store = ResultStore(tmp_path / "results")
    plan = store.plan("half")
    scores = {
        arm["name"]: [store.run(arm["runs"][seed]).accuracies("arithmetic_heldout", 2)[32] for seed in "01"]
        for arm in plan["arms"]
    }
    assert scores.keys() == CELLS.keys()
    with (tmp_path / "results/experiments/half/tables/half-main-effects.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["patch"] for row in rows] == ["overlong_filtering", "constant_sum", "batch_std"]
    level = 0.95 ** (1 / 3)
    for factor, row in enumerate(rows):
        zero, one = (
            sum((0.5 if levels[factor] else -0.5) * scores[cell][seed] for cell, levels in CELLS.items())
            for seed in (0, 1)
        )
        half = abs(zero - one) / 2 * stats.t.ppf((1 + level) / 2, 1)
        assert float(row["effect"]) == pytest.approx((zero + one) / 2, abs=1e-12)
        if zero != one:  # else there is no spread to make an interval of
            assert float(row["effect_high"]) == pytest.approx((zero + one) / 2 + half)


def test_a_member_that_raises_ends_its_own_runs_and_is_named(page: tuple[Path, list[str]]) -> None:
    where, _ = page
    path = where / "tricks/objective/advantage/median.py"
    head, _, _ = path.read_text().partition("    returns_PG =")
    path.write_text(head + RAISES)
    said = run(
        where, "-m", "harness", "run", "config_dir=tricks", "experiment=median", *SMALL, "--no-answer",
        "experiment.name=broken", "experiment.seeds=[0,2]", code=1,
    )  # fmt: skip
    assert "4 runs: 1 finished, 1 finished before, 2 failed" in said
    line = head.count("\n") + 1
    assert f"{path}, line {line}: RuntimeError: no luck; objective/advantage asks `advantages(batch" in said
