"""Composing without Hydra gives what Hydra gives, to the byte, or leaves it to Hydra."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration import hydra_compose as fallback
from harness.configuration import plain_compose, plain_overrides
from harness.configuration.compose import compose_values
from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten
from harness.configuration.folder import config_directory, options
from harness.configuration.yaml_files import NotPlainError

CONF = str(config_directory())
GROUPS = sorted(str(path.relative_to(CONF)) for path in Path(CONF).rglob("*") if path.is_dir())
LISTED = ("patch", "tracker")
# Their files write to places of other groups, or change what those hold: each is composed alone. The others have a place of their own.
ALONE = ("algorithm", "claim", "experiment", "model", "patch", "preset", "rung")
TOGETHER = [group for group in GROUPS if group not in (*ALONE, "benchmark")]


def text(values: dict[str, Any]) -> str:
    """Every value, its type and the order of keys."""
    return json.dumps(values)


def by_hydra(overrides: list[str], folder: str = CONF) -> str | None:
    """What Hydra composes by itself, nothing kept between calls; None where it refuses."""
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(folder, version_base="1.3", job_name="test"):
            values = OmegaConf.to_container(hydra_compose("config", overrides), resolve=True)
    except (HydraException, OmegaConfBaseException, ValueError):
        return None
    return text(values)


def plain(overrides: list[str], folder: str = CONF) -> str | None:
    """What is composed without Hydra; None where it is left to Hydra."""
    try:
        return text(plain_compose.compose(folder, overrides))
    except NotPlainError:
        return None


def chosen(group: str, member: str) -> str:
    return f"{group}=[{member}]" if group in LISTED else f"{group}={member}"


def differing(group: str, step: int) -> list[str]:
    """The files of a group, all or every third, that compose to other bytes than Hydra's, or that only one of the two refuses."""
    members = options(group)[::step]
    return [m for m in members if plain([chosen(group, m)]) != by_hydra([chosen(group, m)])]


@pytest.mark.parametrize("group", ALONE)
def test_files_compose_to_the_same_bytes(group: str) -> None:
    assert differing(group, 3) == []


@pytest.mark.parametrize("number", range(max(len(options(group)) for group in TOGETHER)))
def test_files_with_a_place_of_their_own_compose_to_the_same_bytes(number: int) -> None:
    """Every file: the first of all groups at once, then the second; none needs Hydra."""
    overrides = [chosen(group, options(group)[number]) for group in TOGETHER if number < len(options(group))]
    found = plain(overrides)
    assert found is not None
    assert found == by_hydra(overrides)


@pytest.mark.slow
@pytest.mark.parametrize("group", [group for group in GROUPS if group != "benchmark"])
def test_every_file_composes_to_the_same_bytes(group: str) -> None:
    assert differing(group, 1) == []


@functools.cache
def keys() -> list[str]:
    return sorted(flatten(plain_compose.compose(CONF, [])))


NUMBERS = ["0", "1", "-3", "1e-4", "0.5", "2.0", "1E3", "-0.0", "1e400"]
WORDS = ["true", "False", "null", "NULL", "abc", "a-b.c/d", "/a/b/x", "none", "yes", "e5", "x_1"]
ODD = [
    "007",
    "1_000",
    "1.",
    ".5",
    "+7",
    "inf",
    "NaN",
    "'1'",
    "a b",
    "a:b",
    "${seed}",
    "{a: 1}",
    "a=b",
    "",
    "\\n",
    "[1]",
    "c$",
    "1x",
]
SCALARS = st.sampled_from([*NUMBERS * 3, *WORDS * 3, *ODD])
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3).map(lambda items: f"[{','.join(items)}]"))
GROUP_CHOICES = st.sampled_from([group for group in GROUPS if group != "benchmark"]).flatmap(
    lambda group: st.sampled_from(options(group)).map(lambda member: chosen(group, member))
)
PATCHES = st.lists(st.sampled_from(options("patch")), max_size=3, unique=True).map(
    lambda names: f"patch=[{','.join(names)}]"
)
VALUE_OVERRIDES = st.builds(
    lambda prefix, key, value: f"{prefix}{key}={value}",
    st.sampled_from([*[""] * 12, "++", "++", "+", "~"]),
    st.deferred(
        lambda: st.sampled_from(
            [
                *keys() * 2,
                "algorithm.kl.absent",
                "absent",
                "algorithm.kl",
                "seed.x",
                "runtime.trackers",
                "a.b.c",
            ]
        )
    ),
    VALUES,
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(GROUP_CHOICES, PATCHES, VALUE_OVERRIDES), max_size=4))
def test_random_overrides_compose_to_the_same_bytes(overrides: list[str]) -> None:
    found = plain(overrides)
    if found is not None:
        assert found == by_hydra(overrides)


def test_a_list_and_a_mapping_of_one_key_are_left_to_hydra() -> None:
    """Hydra refuses to merge them: both files fill `experiment.seeds`."""
    assert plain(["claim=cispo", "experiment=aa"]) is by_hydra(["claim=cispo", "experiment=aa"]) is None


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUE_OVERRIDES, max_size=5))
def test_random_values_compose_to_the_same_bytes(overrides: list[str]) -> None:
    """The same with the files read once, for many more values."""
    found = plain(overrides)
    if found is not None:
        assert found == text(fallback.compose(overrides))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(VALUE_OVERRIDES, st.lists(VALUES, max_size=2)).map(
            lambda item: ",".join([item[0], *item[1]])
        ),
        max_size=3,
    )
)
def test_random_sweeps_expand_alike(overrides: list[str]) -> None:
    try:
        found = plain_overrides.expand(overrides)
    except NotPlainError:
        return
    assert found == fallback.expand(overrides)


def test_ordinary_overrides_are_not_left_to_hydra() -> None:
    for overrides in (
        [],
        ["experiment=dapo_ladder", "++experiment.seeds=[0,1]", "++experiment.match=tokens"],
        [
            "rung=dapo_5_dynamic_sampling",
            "runtime.results=/a/some-where/x_1.y",
            "optimizer.learning_rate=3e-4",
        ],
        [
            "algorithm=dr_grpo",
            "algorithm/kl=k1",
            "patch=[clip_higher,centred_advantage]",
            "training.seconds=null",
        ],
    ):
        assert plain(overrides) == by_hydra(overrides)
        assert plain(overrides) is not None
    assert plain_overrides.expand(["a=1e-6,2", "++b=x", "c=[1,a]"]) == [
        ["a=1e-06", "++b=x", "c=[1,a]"],
        ["a=2", "++b=x", "c=[1,a]"],
    ]


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed='7'"],
        ["+patch=[]"],
        ["~tracker"],
        ["seed=1,2"],
        ["optimizer={beta1: 0.5}"],
        ["seed=${training.steps}"],
        ["algorithm@x=dapo"],
    ],
)
def test_what_needs_a_grammar_is_left_to_hydra(overrides: list[str]) -> None:
    assert plain(overrides) is None


def test_what_plain_composing_leaves_is_composed_by_hydra() -> None:
    assert compose_values(["task.kind='a b'", "seed=4"])["task"]["kind"] == "a b"
    with pytest.raises(ConfigError, match="did you mean 'dapo'"):
        compose_values(["algorithm=dapoo"])


FILES = {
    "config": "defaults:\n  - g: a\n  - h: null\n  - _self_\nx: ${g.y}\n",
    "g/a": "defaults:\n  - sub: one\n  - _self_\ny: 1\nz: {k: 2, l: [1, 2]}\n",
    "g/b": "defaults:\n  - a\n  - override sub: two\ny: 1e-3\n",
    "g/c": "defaults:\n  - _self_\n  - a\ny: 010\nd: 2020-01-01\nn: {}\n",
    "g/d": "y: 1\ny: 2\n",
    "g/e": "y: ???\n",
    "g/f": "defaults:\n  - a@deeper\n  - _self_\ny: 5\n",
    "g/i": "defaults:\n  - override sub: two\n  - a\n",
    "g/j": "y: ${g.z}\nz: {k: 1}\n",
    "g/k": "y: a${g.z}\nz: 1\n",
    "g/m": "y: ${g.z}\nz: ${g.y}\n",
    "g/sub/one": "v: 1\n",
    "g/sub/two": "v: [2]\n",
    "g/sub/three": "# @package _global_\n\nnew: {v: null}\n",
    "h/a": "# a comment\n# @package other.place\nw: ${twice:${g.y}}\nu: ${oc.select:g.absent,7}\n",
    "h/b": "# @package _global_\n# a comment\ndefaults:\n  - override /g: c\n  - override /g/sub: three\ng: {z: null}\n",
    "h/c": "defaults:\n  - /g/sub@here: two\n  - /g/sub@there: one\nq: yes\n",
    "h/d": "# @package _global_\ng:\n  z: {m: 1}\n  y: {o: {p: 1}}\n",
}  # fmt: skip


def test_the_rules_of_defaults_lists_are_hydras(tmp_path: Path) -> None:
    """Every combination of files that use what the files of this project use, and some things more."""
    for name, content in FILES.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    same = 0
    for g in "abcdefijkm":
        for h in (None, *"abcd"):
            for sub in (None, "two", "three"):
                overrides = [f"g={g}", *([f"h={h}"] if h else []), *([f"g/sub={sub}"] if sub else [])]
                found = plain(overrides, str(tmp_path))
                if found is not None:
                    assert found == by_hydra(overrides, str(tmp_path)), overrides
                    same += 1
    assert same >= 30
