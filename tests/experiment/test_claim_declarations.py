"""Claims are declared whole, by one comparison in one metric; the first declaration is kept; `claim=all` runs every one."""

from __future__ import annotations

import json

import pytest

from harness import train
from harness.configuration.compose import options
from harness.experiment.claim import fingerprint, remember
from harness.experiment.planning import declared_experiment, make_plan
from harness.store import ResultStore

CLAIMS = options("claim")


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_plans_and_is_named_by_its_file(name: str) -> None:
    plan = make_plan([f"claim={name}"])
    assert plan.name == f"claim_{name}"
    assert plan.looks
    assert plan.record()["claim"]["statement"]
    assert len(plan.arms) == 2


def test_a_claim_of_a_rung_shares_the_runs_of_the_ladder() -> None:
    ladder = {spec.run_id for spec in make_plan(["experiment=dapo_ladder"]).specs}
    claim = make_plan(["claim=dapo_dynamic_sampling"])
    assert {arm.runs[seed] for arm in claim.arms for seed in range(8)} <= ladder


def test_the_first_declaration_is_kept(tmp_path: object) -> None:
    store = ResultStore(str(tmp_path))
    declared, other = (declared_experiment(["claim=gspo", *more]) for more in ([], ["experiment.margin=2"]))
    assert fingerprint(declared) != fingerprint(other)
    assert fingerprint(declared) == make_plan(["claim=gspo"]).record()["declaration"]
    for one in (declared, other):
        remember(store, "claim_gspo", fingerprint(one))
    kept = json.loads((store.root / "experiments" / "claim_gspo" / "claim.json").read_text())
    assert kept["declaration"] == fingerprint(declared)


def test_experiments_without_a_claim_record_none() -> None:
    record = make_plan(["experiment=dapo_ladder"]).record()
    assert "claim" not in record
    assert "declaration" not in record


def test_an_override_on_the_command_line_is_another_declaration_but_not_the_machine_s() -> None:
    def declared(*overrides: str) -> str:
        return str(make_plan(["claim=gspo", *overrides]).record()["declaration"])

    assert declared("optimizer.learning_rate=1e-3") != declared()
    assert declared("runtime.workers=1", "runtime.results=elsewhere") == declared()


@pytest.mark.parametrize(("codes", "runs", "code"), [([0, 1, 0], 3, 1), ([0, 75, 0], 2, 75)])
def test_every_claim_runs_until_one_is_stopped(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], runs: int, code: int
) -> None:
    ran: list[list[str]] = []
    whole = train.main

    def one(arguments: list[str]) -> int:
        ran.append(list(arguments))
        return codes[len(ran) - 1]

    names = options("claim")[:3]
    monkeypatch.setattr(train, "options", lambda group: names)
    monkeypatch.setattr(train, "main", one)
    assert whole(["claim=all", "training.steps=5"]) == code
    assert ran == [[f"claim={name}", "training.steps=5"] for name in names[:runs]]
