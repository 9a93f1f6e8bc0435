"""Composing is Hydra's: what comes out, what is refused, and which jobs a grid has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
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
from harness.configuration.identity import flatten


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
        ConfigError, match=r"an interval is for a search: add hydra/sweeper=search, or give range\(\) or choice\(\)"
    ):
        expand(["optimizer.learning_rate=interval(1e-5,1e-3)"])


def test_a_glob_finds_members_in_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "rung").mkdir()
    for name in ("mine_0", "mine_1"):
        (tmp_path / "rung" / f"{name}.yaml").write_text("# @package _global_\n")
    with config_dir(str(tmp_path)):
        assert expand(["rung=glob(mine_*)"]) == [["rung=mine_0"], ["rung=mine_1"]]
