"""Claims are declared whole; every experiment is remembered as first declared; `claim=all` runs every claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from stored_runs import about, created

from harness import train
from harness.configuration.compose import options
from harness.evaluation.metrics.names import metric
from harness.experiment.as_declared import changes, declaration, declared_line, remember
from harness.experiment.plan import Plan
from harness.experiment.planning import make_plan
from harness.store import ResultStore, StoreError
from harness.store.layout import declarations_file

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
    claim = make_plan(["claim=dapo_dynamic_sampling", "experiment.tune=null", "experiment.seeds=[0,7]"])
    assert {spec.run_id for spec in claim.specs} < ladder


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(["claim=gspo", "experiment.tune=null", "experiment.seeds=[0,1,2,3]"])


def renamed(plan: Plan) -> Plan:
    first, second = plan.arms
    return replace(plan, arms=(first, replace(second, name="other")))


CHANGES: list[tuple[Callable[[Plan], Plan], str]] = [
    (lambda plan: replace(plan, margins={"avg": 2.0}), "the margin was changed from 3 to 2 after the scores"),
    (lambda plan: replace(plan, seeds=tuple(range(8))), "seeds grew from 4 to 8 after a look"),
    (lambda plan: replace(plan, seeds=(4, 5, 6, 7)), "seeds were exchanged after a look"),
    (lambda plan: replace(plan, looks=(4, 8)), "4 seeds became looks at 4, 8 seeds after a look"),
    (lambda plan: replace(plan, metrics=(metric("pass@8"),), margins={}), "another metric was declared (avg)"),
    (lambda plan: replace(plan, match="tokens"), "another match was declared (steps)"),
    (lambda plan: replace(plan, benchmark="other"), "another benchmark was declared (arithmetic_heldout)"),
    (renamed, "arms were left out after a look (gspo); arms were added after a look (other)"),
]


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


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_what_changes_after_a_look_is_told_for_good(
    plan: Plan, tmp_path: Path, change: Callable[[Plan], Plan], words: str
) -> None:
    store = ResultStore(tmp_path)
    remember(store, plan, ())
    assert declared_line(store, plan.name).endswith(", before its first run")
    assert remember(store, change(plan), ["a finished run"]).startswith(
        f"{plan.name}: {words}: the answer says so for good"
    )
    assert "; ".join(changes(store, plan.name)) == words
    remember(store, plan, ["a finished run"])  # taking it back hides nothing
    assert "; ".join(changes(store, plan.name)).startswith(words)
    assert declared_line(store, plan.name).endswith(", before its first run, and changed since")


def test_where_a_first_part_chooses_what_runs_the_date_stands_alone(plan: Plan, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    remember(store, replace(plan, arms=tuple(replace(arm, runs={}) for arm in plan.arms)), ())
    assert declared_line(store, plan.name) == f"declared {datetime.now(UTC):%Y-%m-%d}"


def test_before_anything_has_finished_a_declaration_may_change(plan: Plan, tmp_path: Path) -> None:
    store, other = ResultStore(tmp_path), replace(plan, margins={})
    remember(store, other, ())
    remember(store, plan, ())
    assert changes(store, plan.name) == []
    for spec in plan.specs[:2]:
        created(store.run(spec.run_id), "", about(spec))
    remember(store, other, ())
    assert changes(store, plan.name) == ["the margin was changed from 3 to none after the scores"]
    remember(store, plan, ())  # what stood between was never answered
    assert changes(store, plan.name) == []
    again = replace(plan, name="again")  # another name for runs that are there
    remember(store, again, ())
    assert declared_line(store, "again").endswith(f"when 2 of its {len(plan.specs)} runs had finished")


def test_a_budget_that_results_set_and_the_machine_s_keys_are_no_change_of_a_declaration(tmp_path: Path) -> None:
    def declared(*overrides: str) -> dict[str, Any]:
        return declaration(make_plan(["claim=gspo", "experiment.tune=null", *overrides, f"runtime.results={tmp_path}"]))

    first = make_plan(["claim=gspo", "experiment.tune=null", "match=tokens", f"runtime.results={tmp_path}"])
    assert first.first is not None
    budget = {first.arms[1].name: ["++training.generated_tokens=9", "++training.steps=1200"]}
    settled = first.first.then(replace(first.first.part, settings=budget))
    assert declaration(settled) == declaration(first)
    assert declared("optimizer.learning_rate=1e-3") != declared() == declared("runtime.workers=1")


def test_a_damaged_file_of_declarations_is_named(plan: Plan, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    remember(store, plan, ())
    path = declarations_file(store.root, plan.name)
    for damaged in (path.read_text() + '{"at": 3}\n', '{"at": 3, "finished": 0, "runs": 0, "declared": null}\n'):
        path.write_text(damaged)
        with pytest.raises(StoreError, match=r"declared.jsonl is damaged"):
            changes(store, plan.name)
