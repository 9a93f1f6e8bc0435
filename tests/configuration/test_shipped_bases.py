"""Which base policy a seed starts from, what a run's id holds of it, and that stored runs keep their ids."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id, identity, run_id
from harness.configuration.schema import RunConfig
from harness.testbed import recipe as shipped
from harness.testbed.recipe import Bases

STORED_ID = "b508b21169645880"  # seed 3 of algorithm=dapo, computed before the key existed


def test_a_warm_up_of_ones_own_and_the_old_protocol_find_that_run_again() -> None:
    old = ["model.bases.set=null", "evaluation.samples_between=null"]
    assert run_id(compose_run(["seed=3", "algorithm=dapo", *old])) == STORED_ID
    assert run_id(compose_run(["seed=3", "algorithm=dapo"])) != STORED_ID


def test_shipped_policies_are_the_default_of_python_and_yaml() -> None:
    assert RunConfig().model.bases == compose_run([]).model.bases == Bases("arithmetic-1", 0, 32)


def test_seeds_take_the_policies_in_turn() -> None:
    assert [Bases().index(seed) for seed in (0, 1, 31, 32, 63)] == [0, 1, 31, 0, 31]
    assert [Bases(first=3, count=2).index(seed) for seed in range(4)] == [3, 4, 3, 4]
    assert {Bases(first=5, count=1).index(seed) for seed in range(9)} == {5}


def test_the_id_holds_the_content_of_the_policies_that_take_turns() -> None:
    chosen = shipped.base_set("arithmetic-1")
    config = compose_run(["model.bases.first=2", "model.bases.count=3"])
    assert identity(config)["model"]["bases"] == [chosen.content(index) for index in (2, 3, 4)]
    assert len({chosen.content(index) for index in range(len(chosen.weights))}) == len(chosen.weights)
    ids = {arm_id(compose_run([f"model.bases.first={a}", f"model.bases.count={n}"])) for a in (0, 1) for n in (1, 2)}
    assert len(ids) == 4


@pytest.mark.parametrize("changed", ["weights", "files"])
def test_a_changed_set_changes_ids_and_only_where_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    shutil.copytree(shipped.SETS / "arithmetic-1", tmp_path / "arithmetic-1")
    path = tmp_path / "arithmetic-1" / shipped.MANIFEST
    manifest = json.loads(path.read_text())
    if changed == "weights":
        manifest["bases"][9]["sha256"] = "0" * 64
    else:
        manifest["files"]["tokenizer.json"] = "0" * 64
    path.write_text(json.dumps(manifest))
    uses, does_not = ["model.bases.first=8", "model.bases.count=2"], ["model.bases.count=8"]
    before = run_id(compose_run(uses)), run_id(compose_run(does_not))
    monkeypatch.setattr(shipped, "SETS", tmp_path)
    assert run_id(compose_run(uses)) != before[0]
    assert (run_id(compose_run(does_not)) != before[1]) == (changed == "files")


def test_the_manifest_tells_the_recipe_that_the_configuration_defaults_to() -> None:
    config, recipe = RunConfig(), shipped.base_set("arithmetic-1").recipe
    sections = ("architecture", "demonstrator", "warmup")
    wanted = {name: dataclasses.asdict(getattr(config.model, name)) for name in sections}
    assert wanted.pop("warmup") == {"seed": 0, **recipe["warmup"]}
    assert wanted == {name: recipe[name] for name in wanted}
    assert recipe["operations"] == [config.task.min_operations, config.task.max_operations]
