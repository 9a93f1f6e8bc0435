"""`harness audit`: which claims it runs, and what it judges them by."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from verbs import Said

from harness.cli import main
from harness.commands import audit
from harness.experiment.planning import make_plan

OWN = """# @package experiment
name: claim_shorter
title: A claim of one's own
question: Is it shorter?
claim: {statement: It is shorter., source: ours, setting: here, expects: lower, differs: Nothing.}
design: arms
seeds: {start: 2, step: 1, most: 3}
margin: 1.0
arms:
  - {name: grpo, label: GRPO, overrides: [algorithm=grpo]}
  - {name: dr_grpo, label: Dr.GRPO, parent: grpo, overrides: [algorithm=dr_grpo]}
"""


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """What was run and judged, in place of doing so; a run of dapo_clip_higher fails."""
    found: dict[str, list[list[str]]] = {"ran": [], "judged": []}

    def ran(options: SimpleNamespace) -> int:
        found["ran"].append(options.overrides)
        return int("claim=dapo_clip_higher" in options.overrides)

    def judged(root: Path, names: list[str]) -> None:
        found["judged"].append([str(root), *names])

    monkeypatch.setattr(audit.run_verb, "run", ran)
    monkeypatch.setattr(audit, "judge", judged)
    return found


def test_keys_of_a_chosen_launcher_and_tracker_are_known(
    called: dict[str, list[list[str]]], tmp_path: Path
) -> None:
    there = [
        "launcher=slurm",
        "runtime.launcher.partition=gpu",
        "tracker=wandb",
        "runtime.trackers.wandb.mode=offline",
    ]
    assert main(["audit", "claim=gspo", *there, "training.steps=5", f"runtime.results={tmp_path}"]) == 0
    assert called["ran"] == [["claim=gspo", *there, "training.steps=5", f"runtime.results={tmp_path}"]]
    assert called["judged"] == [[str(tmp_path), "gspo"]]


def test_each_claim_is_run_though_one_fails_and_all_are_judged(
    called: dict[str, list[list[str]]], tmp_path: Path
) -> None:
    names, here = ["dapo_clip_higher", "gspo", "cispo"], f"runtime.results={tmp_path}"
    assert main(["audit", f"claim={','.join(names)}", "training.steps=2", here]) == 1
    assert called["ran"] == [[f"claim={name}", "training.steps=2", here] for name in names]
    assert called["judged"] == [[str(tmp_path), *names]]
    assert main(["audit", "--judge", "claim=all", here]) == 0
    assert (len(called["ran"]), called["judged"][-1]) == (3, [str(tmp_path)])


def test_a_mistyped_key_of_the_machine_is_said_before_anything_runs(
    called: dict[str, list[list[str]]], said: Said
) -> None:
    assert "runtime.wokers" in said("audit", "claim=gspo,cispo", "runtime.wokers=2", code=2)
    assert called == {"ran": [], "judged": []}


def test_a_claim_of_ones_own_is_run_and_judged(called: dict[str, list[list[str]]], tmp_path: Path) -> None:
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / "shorter.yaml").write_text(OWN)
    own = f"config_dir={tmp_path}"
    assert make_plan([own, "claim=shorter"]).experiment.name == "claim_shorter"
    assert main(["audit", own, "claim=shorter", f"runtime.results={tmp_path / 'results'}"]) == 0
    assert called["ran"] == [["claim=shorter", own, f"runtime.results={tmp_path / 'results'}"]]
    assert called["judged"] == [[str(tmp_path / "results"), "shorter"]]


def test_a_claim_that_is_not_there_names_the_nearest(said: Said) -> None:
    assert "there is no claim 'gsop'; did you mean 'gspo'?" in said("audit", "claim=gsop", code=2)
