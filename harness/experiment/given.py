"""Overrides that a command gives beside `experiment=NAME`: short forms spelled out, and what would say another thing than it means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.configuration.compose import choices
from harness.configuration.error import ConfigError
from harness.experiment.plan import Arm


def spelled_out(item: str) -> str:
    """`match=tokens` as `++experiment.match=tokens`, `experiment.seeds=0,1` as a list.

    Raises:
        ConfigError: `experiment.seeds=3`, which may mean three seeds or the seed 3.
    """
    if item.startswith("match="):
        return f"++experiment.{item}"
    if alone := re.fullmatch(r"\+*experiment\.seeds=(\d+)", item):
        raise ConfigError(
            f"{item}: say which seeds, 'experiment.seeds=[{alone[1]}]' for the seed {alone[1]} alone, 'experiment.seeds=[0,1,2]' for three"
        )
    item = re.sub(r"^(experiment\.seeds=)(\d+(?:,\d+)*)$", r"\1[\2]", item)
    # A documented field may be missing from the experiment's file: adding it is what the user means; typos are caught afterwards.
    return f"++{item}" if item.startswith("experiment.") else item


def refuse_seed(overrides: Sequence[str], instead: str) -> None:
    """Raises `ConfigError` for `seed=`, which each run gets from its experiment."""
    given = [item for item in overrides if item.lstrip("+").startswith("seed=")]
    if given:
        raise ConfigError(f"{given[0]} would be overridden: the seeds of an experiment are {instead}")


def refuse_replaced(arms: Sequence[Arm], common: Sequence[str]) -> None:
    """Refuse overrides of all arms that choose a group in which the arms differ: all would be one under names that say otherwise.

    Raises:
        ConfigError: naming the override, what it would replace, and the fix.
    """
    for group, item in choices(common):
        own = {
            next((one for one in arm.overrides if one.startswith(f"{group}=")), f"no {group}="): arm.name
            for arm in arms
        }
        if len(own) > 1:
            differ = ", ".join(f"{choice} ({name})" for choice, name in list(own.items())[:3])
            raise ConfigError(
                f"{item.input_line} would replace what the arms differ in under their names: {differ}; leave it out, set single "
                f"values as KEY=VALUE, or compare others: harness run -m {group}=A,B seed=0,1"
            )
