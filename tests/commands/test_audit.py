"""`harness audit`: which claims it runs, and what it judges them by."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from verbs import Said

from analysis.claims.load import all_judged
from analysis.claims.pages import page
from analysis.claims.record import Effect, joined, write_effects
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

    def judged(root: Path, names: list[str], code: int, record: Path | None = None) -> audit.Answer:
        found["judged"].append([str(root), *names])
        return audit.Answer([], [], [], "", str(root), not names, code)

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


def record_of(tmp_path: Path, **changes: object) -> Path:
    """A record with the first look of cispo, seeds 0 to 7."""
    plan = make_plan(["claim=cispo"]).record()
    first = {seed: plan["starts"][str(seed)] for seed in range(8)}
    row = Effect(
        experiment="claim_cispo", look="first", title="CISPO", unit="points", words="holds here", expects="higher",
        seeds=joined(first), starts=joined(first.values()), looks="8 12 16", effect=2.0, low=0.4, high=3.6, level=0.98,
        standard_error=0.6, degrees=7, margin=3.0, hours=0.16, statement="s", source="s", setting="s", differs="s",
        declaration=plan["declaration"], protocol=plan["protocol"],
    )  # fmt: skip
    path = tmp_path / "first.csv"
    write_effects([dataclasses.replace(row, **changes)], path)
    return path


def test_both_looks_at_a_claim_are_written_from_a_record(tmp_path: Path) -> None:
    published = Path(__file__).parents[2] / "experiments" / "claims"
    found, unread = all_judged(tmp_path, ["claim_cispo", "claim_one_deviation"], published / "effects.csv")
    assert unread == []
    for one in found:
        assert one.second is not None
        assert page(one) == (published / f"{one.name}.md").read_text()


def test_a_decided_claim_is_looked_at_again_on_fresh_seeds_and_base_policies(
    called: dict[str, list[list[str]]], tmp_path: Path, said: Said
) -> None:
    record, here = record_of(tmp_path), f"runtime.results={tmp_path / 'results'}"
    again = ["audit", "claim=cispo", "replicate=true", f"first={record}", here]
    listed = said(*again, "--list")
    assert "again on seeds 16 to 31" in listed
    assert "1 of 1 claims are decided" in listed
    assert called == {"ran": [], "judged": []}
    assert main(again) == 0
    (ran,) = called["ran"]
    plan = make_plan(ran)
    assert (plan.experiment.name, plan.experiment.replicates) == ("claim_cispo_second", "claim_cispo")
    assert (plan.experiment.seeds, plan.experiment.looks) == ([*range(16, 32)], [8, 12, 16])
    assert plan.record()["protocol"] == make_plan(["claim=cispo"]).record()["protocol"]
    kept = json.loads(
        (tmp_path / "results" / "experiments" / "claim_cispo_second" / "claim.json").read_text()
    )
    assert kept["declaration"] == plan.record()["declaration"]
    assert (kept["first"]["effect"], kept["changed"]) == (2.0, False)
    assert 0.5 < kept["chance"] < 1


def test_a_store_without_first_looks_points_to_the_published_record(tmp_path: Path, said: Said) -> None:
    here = f"runtime.results={tmp_path}"
    asked = ("audit", "claim=cispo,gspo", "replicate=true", "--list", here)
    listed = said(*asked)
    assert f"2 of 2 claims have no first look in {tmp_path}: " in listed
    assert "first=experiments/claims/effects.csv are the published ones" in listed
    assert (Path(__file__).parents[2] / "experiments/claims/effects.csv").is_file()
    told = said(*asked, f"first={record_of(tmp_path)}")
    assert f"1 of 2 claims have no first look in {tmp_path} or " in told
    assert "published ones" not in told


def test_a_claim_that_was_changed_since_its_first_look_is_kept_as_such(
    called: dict[str, list[list[str]]], tmp_path: Path, said: Said
) -> None:
    record = record_of(tmp_path, declaration="another")
    here = f"runtime.results={tmp_path / 'results'}"
    assert "changed after its first run" in said(
        "audit", "claim=cispo", "replicate=true", f"first={record}", here
    )
    kept = json.loads(
        (tmp_path / "results" / "experiments" / "claim_cispo_second" / "claim.json").read_text()
    )
    assert kept["changed"] is True


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("experiment.seeds={first: 4, start: 8, step: 4, most: 8}", "they share the seeds 4, 5, 6, 7"),
        (
            "experiment.seeds={first: 32, start: 8, step: 4, most: 8}",
            "they share the base policies arithmetic-1/0",
        ),
        ("replicate=maybe", "choose true or false"),
    ],
)
def test_a_second_look_at_used_seeds_or_base_policies_is_refused(
    called: dict[str, list[list[str]]], tmp_path: Path, said: Said, given: str, words: str
) -> None:
    here = f"runtime.results={tmp_path / 'results'}"
    assert words in said(
        "audit", "claim=cispo", "replicate=true", f"first={record_of(tmp_path)}", given, here, code=2
    )
    assert called["ran"] == []


def test_a_first_look_that_used_all_base_policies_leaves_none(tmp_path: Path, said: Said) -> None:
    seeds = range(28)
    all_used = {"seeds": joined(seeds), "starts": joined(f"arithmetic-1/{seed}" for seed in seeds)}
    record, here = record_of(tmp_path, **all_used), f"runtime.results={tmp_path / 'results'}"
    told = said("audit", "claim=cispo", "replicate=true", f"first={record}", here, code=2)
    assert "used seeds up to 27 of 32 base policies; 4 are left" in told


def test_a_record_without_second_looks_is_refused(said: Said, tmp_path: Path) -> None:
    assert "add replicate=true" in said("audit", "claim=cispo", f"first={record_of(tmp_path)}", code=2)
