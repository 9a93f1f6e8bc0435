"""Which base policy a seed starts from, what a run's id holds of it, and that stored runs keep their ids."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import yaml

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id, identity, run_id
from harness.configuration.schema import RunConfig, dump, load
from harness.testbed import recipe as shipped
from harness.testbed.recipe import Bases

STORED = Path(__file__).with_name("stored_run_config.yaml")
STORED_ID = "b508b21169645880"  # seed 3 of algorithm=dapo, computed before the key existed


def test_a_configuration_stored_before_sets_shipped_keeps_its_id() -> None:
    values = yaml.safe_load(STORED.read_text())
    assert "bases" not in values["model"]
    config = load(values)
    assert config.model.bases == Bases(set=None)
    assert run_id(config) == STORED_ID
    assert run_id(load(dump(config))) == STORED_ID, "and keeps it once the key is written down"


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


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.warmup.steps=9", ["model.warmup.steps=9", "3200", "model.bases.set=null"]),
        ("model.warmup.seed=3", ["model.warmup.seed=3", "0", "model.bases.set=null"]),
        ("model.demonstrator.slip=0.5", ["model.demonstrator.slip=0.5", "0.05", "model.bases.set=null"]),
        ("model.architecture.layers=2", ["model.architecture.layers=2", "3", "model.bases.set=null"]),
        ("task.max_operations=4", ["task.max_operations=4", "6", "model.bases.set=null"]),
        ("model.bases.set=arithmetic-2", ["model.bases.set", "'arithmetic-1'"]),
        ("model.bases.count=33", ["model.bases.count=33", "32"]),
        ("model.bases.count=0", ["model.bases.count=0", "between 1"]),
        ("model.bases.first=12", ["model.bases.count=32", "between 1 and 20"]),
    ],
)
def test_what_the_shipped_policies_are_not_is_refused_with_the_fix(override: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        compose_run([override])
    message = str(error.value)
    assert all(word in message for word in words), message
    if override.startswith(("model.warmup", "model.demo", "model.arch", "task")):
        compose_run([override, "model.bases.set=null"])


def test_a_choice_without_a_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave them out"):
        compose_run(["model.bases.set=null", "model.bases.count=2"])


def test_the_manifest_tells_the_recipe_that_the_configuration_defaults_to() -> None:
    config, recipe = RunConfig(), shipped.base_set("arithmetic-1").recipe
    sections = ("architecture", "demonstrator", "warmup")
    wanted = {name: dataclasses.asdict(getattr(config.model, name)) for name in sections}
    assert wanted.pop("warmup") == {"seed": 0, **recipe["warmup"]}
    assert wanted == {name: recipe[name] for name in wanted}
    assert recipe["operations"] == [config.task.min_operations, config.task.max_operations]
