"""Every key has a type, a default and a meaning; the page of commands lists every verb."""

from __future__ import annotations

import re
from pathlib import Path

from verbs import Said

from harness.commands._arguments import FAMILY
from harness.commands.keys import all_keys, find_keys
from harness.configuration.compose import compose_run
from harness.configuration.identity import flatten
from harness.configuration.registry import kinds
from harness.configuration.schema import dump

DOCS = Path(__file__).parents[2] / "docs"


def test_every_key_of_a_configuration_is_listed_with_its_meaning() -> None:
    keys = {key.name: key for key in all_keys() if not key.member}
    listed = {key.name.replace(".<name>.", ".*.") for key in all_keys()}
    for name in flatten(dump(compose_run([]))):
        if name.startswith(("runtime.trackers", "evaluation.benchmarks")):
            continue
        assert name in listed, name
    assert [name for name, key in keys.items() if len(key.meaning) < 5] == []


def test_a_key_shows_its_type_default_and_meaning(said: Said) -> None:
    out = said("keys", "optimizer.learning_rate")
    assert all(part in out for part in ("learning_rate", "number", "0.0002", "peak"))
    (surrogate, *_) = find_keys(all_keys(), "algorithm.surrogate")
    assert surrogate.name == "algorithm.surrogate.kind"
    assert "ppo_clip" in surrogate.type


def test_the_page_of_commands_lists_every_verb_once() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(kinds(FAMILY))
    assert len(listed) <= 16
