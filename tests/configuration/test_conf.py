"""Every file under `conf/` composes, as Hydra composes it; neighbouring rungs differ by exactly their patch; grids have Hydra's jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from harness.configuration.compose import (
    VERSION_BASE,
    compose_run,
    compose_values,
    config_dir,
    config_directory,
    expand,
    options,
)
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference, flatten, run_id
from harness.configuration.schema import RunConfig, dump, load
from harness.experiment.designs import lower_rungs, patch_changes

CONF = config_directory()
GROUPS = sorted(
    str(folder.relative_to(CONF))
    for folder in CONF.rglob("*")
    if folder.is_dir()
    and any(folder.glob("*.yaml"))
    and folder.parts[-1] not in ("experiment", "patch", "benchmark", "declared", "claim")
)


@pytest.mark.parametrize("group", [group for group in GROUPS if not group.startswith("hydra") and group != "algorithm"])
def test_every_option_of_every_group_composes(group: str) -> None:
    """Systems, of the group `algorithm`: `test_every_system_is_trained_on_the_testbed`."""
    for option in options(group):
        try:
            compose_run([f"{group}={option}"])
        except ConfigError as error:
            if group == "task" and "model=testbed" in str(error):
                continue  # composed and read; only the testbed's policy cannot be warmed up on it
            # A member that needs a companion choice must be part of a system of its own name.
            assert option in options("algorithm"), option
            compose_run([f"algorithm={option}"])


@pytest.mark.parametrize("patch", options("patch"))
def test_every_patch_composes_on_a_base(patch: str) -> None:
    """On naive GRPO, or, for a patch of VAPO's ladder, on PPO."""
    text = (CONF / "patch" / f"{patch}.yaml").read_text()
    critic = "gae" in patch or "value" in patch or "gae" in text or patch == "group_sampling"
    base = ["algorithm=ppo" if critic else "algorithm=grpo"]
    assert difference(compose_run(base), compose_run([*base, f"patch=[{patch}]"]))


@pytest.mark.parametrize("rung", options("rung"))
def test_a_rung_is_the_rung_below_plus_exactly_its_patch(rung: str) -> None:
    for below, patch in list(lower_rungs([f"rung={rung}"]).items())[:1]:
        step = difference(compose_run(below), compose_run([f"rung={rung}"]))
        assert step == patch_changes(patch, below)
        assert step


def test_the_ladder_runs_from_naive_grpo_to_dapo() -> None:
    naive, dapo = compose_run(["rung=dapo_0_naive_grpo"]), compose_run(["rung=dapo_5_dynamic_sampling"])
    assert difference(naive, dapo) == {
        "algorithm.overlong.policy": ("score", "mask_and_soft"),
        "algorithm.surrogate.clip_high": (0.2, 0.28),
        "algorithm.aggregation.kind": ("response_mean", "batch_token_mean"),
        "algorithm.dead_groups.policy": ("keep", "refill"),
    }
    assert run_id(dapo) == run_id(compose_run(["algorithm=dapo"]))
    assert run_id(naive) == run_id(compose_run([]))


def test_any_route_to_the_same_content_gives_the_same_id() -> None:
    routes = [
        ["rung=dapo_2_clip_higher"],
        ["patch=[overlong_filtering,clip_higher]"],
        ["patch=[clip_higher,overlong_filtering]", "runtime.workers=7"],
        ["algorithm.overlong.policy=mask", "algorithm.surrogate.clip_high=0.28"],
        ["rung=dapo_0_naive_grpo", "patch=[clip_higher]", "algorithm.overlong.policy=mask"],
    ]
    assert len({run_id(compose_run(route)) for route in routes}) == 1
    caps = (["evaluation.caps=[64,32]"], ["evaluation.caps=[32,64]"], ["optimizer.weight_decay=-0.0"], [])
    assert len({run_id(compose_run(one)) for one in caps}) == 1
    patches = ["patch=[centred_advantage,constant_sum]"]
    assert run_id(compose_run(patches)) == run_id(compose_run(["algorithm=dr_grpo"]))


def test_what_follows_the_cap_changes_with_it() -> None:
    config = compose_run(["sampling.max_response_tokens=24", "evaluation.caps=[24,48]", "algorithm=dr_grpo"])
    assert config.algorithm.aggregation.constant_tokens == 24


def test_a_configuration_survives_its_file() -> None:
    config = compose_run(["algorithm=olmo3", "seed=7"])
    again = load(yaml.safe_load(yaml.safe_dump(dump(config))))
    assert again == config
    assert isinstance(again, RunConfig)


def test_the_python_defaults_are_the_yaml_defaults() -> None:
    """A key that the YAML leaves out must mean the same as one that it sets."""
    values = compose_values([])
    values.pop("experiment", None)
    composed = load(values)
    plain = load({"evaluation": values["evaluation"]})
    assert difference(plain, composed) == {}
    assert plain.runtime == composed.runtime


def test_memory_settings_of_an_engine_are_no_part_of_a_run_s_id() -> None:
    ids = {
        run_id(compose_run(["engine=vllm", *more]))
        for more in ([], ["engine.gpu_memory_utilization=0.3"], ["engine.sleep_level=1"])
    }
    assert len(ids) == 1
    assert ids != {run_id(compose_run(["engine=transformers"]))}


def by_hydra(overrides: list[str]) -> Any:
    """What Hydra composes by itself; None where it refuses."""
    with initialize_config_dir(str(config_directory()), job_name="test", **VERSION_BASE):
        try:
            return OmegaConf.to_container(hydra_compose("config", overrides), resolve=True)
        except Exception:  # whatever it says; ours is a ConfigError then
            return None


def ours(overrides: list[str]) -> Any:
    try:
        return compose_values(overrides)
    except ConfigError:
        return None


VALUES = st.sampled_from(["0", "-3", "1e-4", "true", "null", "abc", "'1'", "[1,a]", "{a: 1}", "${seed}", "1x", ""])
CHOICES = st.sampled_from(["algorithm", "rung", "experiment", "algorithm/kl", "preset"]).flatmap(
    lambda group: st.sampled_from(options(group)).map(lambda name: f"{group}={name}")
)
KEYS = [*flatten(compose_values([])), "absent", "algorithm.kl", "algorithm.kl.absent", "runtime.trackers"]
SET = st.builds(
    lambda prefix, key, value: f"{prefix}{key}={value}",
    st.sampled_from(["", "", "", "++", "+", "~"]),
    st.sampled_from(KEYS),
    VALUES,
)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(CHOICES, SET), max_size=4))
def test_overrides_compose_as_hydra_composes_them(overrides: list[str]) -> None:
    given_whole = [f"++{item}" if "={" in item and item[0] not in "+~" else item for item in overrides]
    assert json.dumps(ours(overrides)) == json.dumps(by_hydra(given_whole))


def test_a_composed_configuration_belongs_to_its_caller() -> None:
    first = compose_run(["algorithm=grpo"])
    first.optimizer.learning_rate = 1.0
    assert compose_run(["algorithm=grpo"]).optimizer.learning_rate != 1.0


def test_a_multirun_expands_as_hydra_s_own() -> None:
    jobs = expand(["rung=glob(dapo_*)", "seed=0,1,2"])
    assert len(jobs) == 18
    assert jobs[0] == ["rung=dapo_0_naive_grpo", "seed=0"]
    assert expand(["++a=range(1,3)", "b=[1,x]", "c=null"]) == [
        ["++a=1", "b=[1,x]", "c=null"],
        ["++a=2", "b=[1,x]", "c=null"],
    ]
    with pytest.raises(
        ConfigError,
        match=r"an interval is for experiment\.search\.space; give range\(\)",
    ):
        expand(["optimizer.learning_rate=interval(1e-5,1e-3)"])


def test_a_glob_finds_members_in_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "rung").mkdir()
    for name in ("mine_0", "mine_1"):
        (tmp_path / "rung" / f"{name}.yaml").write_text("# @package _global_\n")
    with config_dir(str(tmp_path)):
        assert expand(["rung=glob(mine_*)"]) == [["rung=mine_0"], ["rung=mine_1"]]
