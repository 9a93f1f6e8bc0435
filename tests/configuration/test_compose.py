"""Composing is Hydra's: what is kept between calls never changes what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from harness.configuration import kept
from harness.configuration.compose import compose_run, compose_values, expand
from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten
from harness.configuration.folder import config_directory, options


def by_hydra(overrides: list[str]) -> Any:
    """What Hydra composes by itself, nothing kept between calls; None where it refuses."""
    with initialize_config_dir(str(config_directory()), version_base="1.3", job_name="test"):
        try:
            return OmegaConf.to_container(hydra_compose("config", overrides), resolve=True)
        except Exception:  # whatever it says; ours is a ConfigError then
            return None


def ours(overrides: list[str]) -> Any:
    try:
        return compose_values(overrides)
    except ConfigError:
        return None


VALUES = st.sampled_from(
    ["0", "-3", "1e-4", "true", "null", "abc", "'1'", "[1,a]", "{a: 1}", "${seed}", "1x", ""]
)
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


@settings(max_examples=10, deadline=None)
@given(st.lists(st.one_of(CHOICES, SET), max_size=4))
def test_what_is_kept_between_calls_changes_nothing(overrides: list[str]) -> None:
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
    with pytest.raises(ConfigError, match="harness sweep"):
        expand(["optimizer.learning_rate=interval(1e-5,1e-3)"])


def test_what_was_merged_is_taken_from_the_cache_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "_folder", kept._folder.__wrapped__)
    conf, merged = tmp_path / "conf", 0
    conf.mkdir()

    def steps(content: str, *overrides: str) -> object:
        (conf / "config.yaml").write_text(content)
        return kept.kept(str(conf), overrides, merge).steps

    def merge() -> DictConfig:
        nonlocal merged
        merged += 1
        return DictConfig(OmegaConf.load(conf / "config.yaml"), flags={"struct": True})

    assert [steps(text) for text in ("steps: ${n}\nn: 1", "steps: 2", "steps: ${n}\nn: 1")] == [1, 2, 1]
    assert merged == 2
    assert [steps("steps: 2", "hydra.searchpath=[a]") for _ in "ab"] == [2, 2]  # other folders: not kept
    assert merged == 4
    (entry,) = kept._folder(str(conf)).iterdir()
    entry.write_text("{torn")
    assert steps("steps: 2") == 2
    (conf / "config.yaml").write_text("1: one")  # no key of JSON
    assert [kept.kept(str(conf), (), merge)[1] for _ in "ab"] == ["one", "one"]
    assert merged == 7
    monkeypatch.setenv("XDG_CACHE_HOME", str(conf / "config.yaml"))  # no folder can be made there
    assert steps("steps: 3") == 3


def test_a_file_edited_during_a_process_is_not_kept_as_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "config.yaml").write_text("steps: 1")
    folder = kept._folder.__wrapped__(str(conf))
    monkeypatch.setattr(kept, "_folder", lambda directory: folder)
    (conf / "config.yaml").write_text("steps: 2")
    assert kept.kept(str(conf), (), lambda: OmegaConf.create({"steps": 2})).steps == 2
    assert list(folder.iterdir()) == []
