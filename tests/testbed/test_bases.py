"""Shipped base policies: which one a seed starts from, what a run's id holds of it, checked files, made by one command."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from make_bases import make_set
from safetensors.torch import load_file
from small_runs import claimed

from harness.base_policy import testbed
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id, identity, run_id
from harness.configuration.schema import RunConfig
from harness.evaluation.named_models import resolve
from harness.model.checkpoint import count_parameters
from harness.problems.benchmarks.arithmetic import Config as ArithmeticConfig
from harness.store import ResultStore
from harness.testbed import recipe as shipped
from harness.testbed.recipe import Bases, Config

SET = shipped.base_set("arithmetic-2")


def prepared(seed: int, cache: Path, first: int = 0, count: int = 8) -> Path:
    config = RunConfig()
    config.model.bases = dataclasses.replace(config.model.bases, first=first, count=count)
    return testbed.prepare(config.model, config.task, seed, cache, "torch")


def test_every_file_is_what_the_manifest_says() -> None:
    assert len(SET.weights) == 16
    assert [shipped.file_hash(SET.weights_file(index)) for index in range(16)] == list(SET.weights)
    assert {name: shipped.file_hash(SET.folder / name) for name in SET.files} == SET.files
    assert all(SET.weights_file(index).stat().st_size < 350_000 for index in range(16))


def test_a_seed_starts_from_its_policy_and_nothing_is_warmed_up(tmp_path: Path) -> None:
    folders = {seed: prepared(seed, tmp_path) for seed in (0, 1, 8, 9)}
    assert folders[0] == folders[8]
    assert folders[1] == folders[9] != folders[0]
    assert prepared(6, tmp_path, first=1, count=1) == folders[1]
    assert count_parameters(folders[1]) == 153_792
    weights = load_file(folders[1] / "model.safetensors")
    assert weights.keys() == load_file(SET.weights_file(1)).keys()
    for name, tensor in load_file(SET.weights_file(1)).items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(weights[name], tensor)
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == {*folders.values()}


def test_a_damaged_package_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(SET.folder, tmp_path / "sets" / SET.name)
    monkeypatch.setattr(shipped, "SETS", tmp_path / "sets")
    path = tmp_path / "sets" / SET.name / "03.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0\1")
    with pytest.raises(ConfigError, match=r"03\.safetensors is not the file"):
        prepared(3, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_run_before_rl_is_its_own_seeds_policy(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    names = []
    for seed in (1, 33, 2):
        config = RunConfig(seed=seed)
        names.append(f"{claimed(config, tmp_path, 'finished').run_id}@0")
    models = [resolve(name, store, "torch") for name in names]
    assert models[0].fingerprint == models[1].fingerprint != models[2].fingerprint
    for model, index in zip(models, (1, 1, 2), strict=True):
        assert shipped.file_hash(model.folder / "model.safetensors") == SET.weights[index]


def test_the_command_makes_and_continues_a_set_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_model: Config
) -> None:
    tiny_model = dataclasses.replace(tiny_model, warmup=dataclasses.replace(tiny_model.warmup, steps=3))
    whole, parted = (tmp_path / root / "mini" for root in ("whole", "parted"))
    make_set(whole, [4, 7], tmp_path / "cache_whole", "torch", tiny_model)
    for seeds in ([4], [4, 7]):
        make_set(parted, seeds, tmp_path / "cache_parted", "torch", tiny_model)
    contents = [{path.name: path.read_bytes() for path in root.iterdir()} for root in (whole, parted)]
    assert contents[0] == contents[1], "the same machine makes the same bits"
    other = dataclasses.replace(tiny_model, warmup=dataclasses.replace(tiny_model.warmup, batch=3))
    with pytest.raises(ConfigError, match="another recipe"):
        make_set(parted, [8], tmp_path / "cache_parted", "torch", other)
    monkeypatch.setattr(shipped, "SETS", tmp_path / "whole")
    made = shipped.base_set("mini")
    assert made.recipe["warmup"]["steps"] == 3
    weights = load_file(made.checkpoint(1, tmp_path) / "model.safetensors")
    warm_ups = [load_file(path) for path in (tmp_path / "cache_whole").glob("*/model.safetensors")]
    assert len(warm_ups) == 2
    assert any(
        all(torch.equal(weights[name], tensor.to(torch.bfloat16)) for name, tensor in warm_up.items())
        for warm_up in warm_ups
    )


def test_without_a_seed_of_the_warm_up_every_training_seed_has_its_own_policy(
    tmp_path: Path, tiny_model: Config
) -> None:
    warmup = dataclasses.replace(tiny_model.warmup, steps=1, seed=None)
    own = dataclasses.replace(tiny_model, bases=Bases(set=None), warmup=warmup)
    fixed = dataclasses.replace(own, warmup=dataclasses.replace(warmup, seed=4))
    folders = [testbed.prepare(own, ArithmeticConfig(), seed, tmp_path, "torch") for seed in (4, 5)]
    assert folders[0] == testbed.prepare(fixed, ArithmeticConfig(), 9, tmp_path, "torch") != folders[1]


def test_shipped_policies_are_the_default_of_python_and_yaml() -> None:
    assert RunConfig().model.bases == compose_run([]).model.bases == Bases("arithmetic-2", 0, 16)


def test_seeds_take_the_policies_in_turn() -> None:
    assert [Bases().index(seed) for seed in (0, 1, 15, 16, 31)] == [0, 1, 15, 0, 15]
    assert [Bases(first=3, count=2).index(seed) for seed in range(4)] == [3, 4, 3, 4]
    assert {Bases(first=5, count=1).index(seed) for seed in range(9)} == {5}


def test_the_id_holds_the_content_of_the_policies_that_take_turns() -> None:
    chosen = shipped.base_set("arithmetic-2")
    config = compose_run(["model.bases.first=2", "model.bases.count=3"])
    assert identity(config)["model"]["bases"] == [chosen.content(index) for index in (2, 3, 4)]
    assert len({chosen.content(index) for index in range(len(chosen.weights))}) == len(chosen.weights)
    ids = {arm_id(compose_run([f"model.bases.first={a}", f"model.bases.count={n}"])) for a in (0, 1) for n in (1, 2)}
    assert len(ids) == 4


@pytest.mark.parametrize("changed", ["weights", "files"])
def test_a_changed_set_changes_ids_and_only_where_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    shutil.copytree(shipped.SETS / "arithmetic-2", tmp_path / "arithmetic-2")
    path = tmp_path / "arithmetic-2" / shipped.MANIFEST
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
    config, recipe = RunConfig(), shipped.base_set("arithmetic-2").recipe
    sections = ("architecture", "demonstrator", "warmup")
    wanted = {name: dataclasses.asdict(getattr(config.model, name)) for name in sections}
    assert wanted.pop("warmup") == {"seed": 0, **recipe["warmup"]}
    assert wanted == {name: recipe[name] for name in wanted}
    assert recipe["operations"] == [config.task.min_operations, config.task.max_operations]
