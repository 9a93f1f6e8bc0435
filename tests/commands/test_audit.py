"""`harness audit`: which claims it runs, and what it judges them by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from verbs import Said

from analysis import claims
from analysis.claims import JudgedClaim, Look
from analysis.effects import REFERENCE, Effect
from harness import train
from harness.cli import main
from harness.commands import audit
from harness.evaluation.metrics.names import metric
from harness.experiment.declaration import as_file
from harness.experiment.planning import make_plan
from harness.statistics.intervals import Estimate, Finding

OWN = as_file("""\
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
""")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """What was run and judged, in place of doing so; a run of dapo_clip_higher fails."""
    found: dict[str, list[list[str]]] = {"ran": [], "judged": []}

    def ran(arguments: list[str]) -> int:
        found["ran"].append([item for item in arguments if item != "--no-answer"])
        return int("claim=dapo_clip_higher" in arguments)

    def judged(root: Path, names: list[str], code: int) -> audit.Answer:
        found["judged"].append([str(root), *names])
        return audit.Answer([], [], "", None, code)

    monkeypatch.setattr(train, "main", ran)
    monkeypatch.setattr(audit, "judge", judged)
    return found


def test_keys_of_a_chosen_launcher_and_tracker_are_known(called: dict[str, list[list[str]]], tmp_path: Path) -> None:
    cluster = ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu"]
    rest = [
        "tracker=wandb",
        "runtime.trackers.wandb.mode=offline",
        "training.steps=5",
        f"runtime.results={tmp_path}",
    ]
    assert main(["audit", "claim=gspo", *cluster, *rest]) == 0
    assert called["ran"] == [["claim=gspo", *rest, *cluster]]
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


def test_a_claim_of_ones_own_is_run_and_judged(called: dict[str, list[list[str]]], tmp_path: Path, said: Said) -> None:
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / "shorter.yaml").write_text(OWN)
    own, here = ("--config-dir", str(tmp_path)), f"runtime.results={tmp_path / 'results'}"
    assert "claim_shorter" in said("plan", *own, "claim=shorter", here, "--json")
    assert main(["audit", *own, "claim=shorter", here]) == 0
    assert called["ran"] == [["claim=shorter", here]]
    assert called["judged"] == [[str(tmp_path / "results"), "shorter"]]


def test_a_name_that_the_audit_would_not_find_is_refused_before_the_first_run(
    called: dict[str, list[list[str]]], said: Said
) -> None:
    words = said("audit", "claim=gspo", "experiment.name=mine", code=2)
    assert "named 'mine'" in words
    assert "write `name: claim_gspo`" in words
    assert called["ran"] == []


@pytest.mark.parametrize("override", ["experiment.margin=9", "replicate=true", "hydra/launcher=ray"])
def test_what_would_change_a_stored_claim_is_refused_where_it_is_only_judged(
    called: dict[str, list[list[str]]], said: Said, override: str
) -> None:
    assert f"{override} changes nothing with --judge" in said("audit", "claim=gspo", "--judge", override, code=2)
    assert called["judged"] == []


@pytest.fixture
def first_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say that the first look at cispo has found +2.0 on so many seeds, from 0 on."""

    def judged(seeds: int) -> None:
        plan = make_plan(["claim=cispo"])
        policies = {seed: f"arithmetic-1/{seed}" for seed in range(seeds)}
        estimate = Estimate(0.02, 0.004, 0.036, seeds=seeds, standard_error=0.006, degrees=seeds - 1, margin=0.03)
        effect = Effect(REFERENCE, metric("avg"), estimate, plan.arms[1].name, plan.arms[0].name)
        look = Look(replace(plan, seeds=tuple(policies)), effect, Finding.HOLDS, policies=policies)
        monkeypatch.setattr(claims, "judged_claims", lambda root, names: ([JudgedClaim(look)], []))

    return judged


def test_a_decided_claim_is_looked_at_again_on_fresh_seeds_and_base_policies(
    called: dict[str, list[list[str]]], first_look: Callable[[int], None], tmp_path: Path, said: Said
) -> None:
    first_look(8)
    here = f"runtime.results={tmp_path / 'results'}"
    told = said("audit", "claim=cispo", "replicate=true", here)
    assert "1 of 1 claims are decided and looked at again" in told
    assert "second look at cispo (holds here, 8 seeds), on seeds 16 to 31" in told
    first, second = called["ran"]
    assert first == ["claim=cispo", here]
    plan = make_plan(second)
    assert (plan.name, plan.second_look_of) == ("claim_cispo_second", "claim_cispo")
    assert (list(plan.seeds), list(plan.looks)) == ([*range(16, 32)], [8, 12, 16])
    assert plan.record()["protocol"] == make_plan(["claim=cispo"]).record()["protocol"]


def test_seeds_of_the_command_line_are_those_of_the_second_look(
    called: dict[str, list[list[str]]], first_look: Callable[[int], None], tmp_path: Path
) -> None:
    first_look(8)
    here, seeds = f"runtime.results={tmp_path}", "experiment.seeds={first: 20, start: 8, step: 4, most: 8}"
    assert main(["audit", "claim=cispo", "replicate=true", here, seeds]) == 0
    first, second = called["ran"]
    assert first == ["claim=cispo", here]
    assert list(make_plan(second).seeds) == [*range(20, 28)]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("experiment.seeds={first: 4, start: 8, step: 4, most: 8}", "they share the seeds 4, 5, 6, 7"),
        (
            "experiment.seeds={first: 32, start: 8, step: 4, most: 8}",
            "they share the base policies arithmetic-1/0",
        ),
    ],
)
def test_a_second_look_at_used_seeds_or_base_policies_is_refused(
    called: dict[str, list[list[str]]],
    first_look: Callable[[int], None],
    tmp_path: Path,
    said: Said,
    override: str,
    words: str,
) -> None:
    first_look(8)
    here = f"runtime.results={tmp_path / 'results'}"
    assert words in said("audit", "claim=cispo", "replicate=true", override, here, code=2)
    assert len(called["ran"]) == 1


@pytest.mark.usefixtures("called")
def test_a_first_look_that_used_all_base_policies_leaves_none(
    first_look: Callable[[int], None], tmp_path: Path, said: Said
) -> None:
    first_look(28)
    told = said("audit", "claim=cispo", "replicate=true", f"runtime.results={tmp_path}", code=2)
    assert "used seeds up to 27 of 32 base policies; 4 are left" in told


@pytest.mark.parametrize("name", ["cispo", "batch_against_rate", "ds_budget"])
def test_declarations_have_the_fingerprints_that_were_published_with_their_runs(name: str) -> None:
    """Another one would call a claim whose runs are stored *declared after the fact*, and its looks could not be pooled."""
    effects = pd.read_csv(Path(__file__).parents[2] / "experiments" / "claims" / "effects.csv")
    published = effects[(effects.experiment == f"claim_{name}") & (effects.look == "first")].iloc[0]
    plan = make_plan([f"claim={name}"]).record()
    assert (plan["declaration"], plan["protocol"]) == (published.declaration, published.protocol)
