"""Explain what each system does with one group of rollouts: advantage, per-token coefficient and share of the gradient.

harness explain 'rewards=[1.1,0.1,0,1.1]' 'lengths=[220,950,1100,180]'
harness explain 'rewards=[1,0]' 'lengths=[2,3]' 'old_log_probs=[-1,-2]' 'new_log_probs=[[-0.5,-1],[-2,-2,-2]]' systems=[grpo,dapo]
harness explain 'rewards=[1,0]' 'lengths=[10,40]' systems=all --json > shares.json

systems: grpo, dr_grpo, dapo, gspo, cispo and rloo unless others are named; systems=all takes all.
systems of your own: --config-dir FOLDER systems=NAME.
Further arguments: correct=[1,0], cap=TOKENS, value=NUMBER (the critic's prediction). Log-probabilities: one number a rollout, or one a
token; the old ones are also the reference policy's.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from harness.commands._arguments import VerbAnswer, key_values, listed_names
from harness.configuration.compose import no_option
from harness.configuration.compose import options as config_options
from harness.configuration.error import ConfigError
from harness.execution.progress import Terminal

_LISTS = ("rewards", "lengths", "old_log_probs", "new_log_probs", "correct")
_KEYS = (*_LISTS, "cap", "value", "systems")
_DEFAULT_SYSTEMS = ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]  # all of them fill several screens


ARGUMENTS = {"values": {"nargs": "+", "metavar": "key=value", "help": f"one of {', '.join(_KEYS)}"}}


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """System → its rollouts: reward, length, advantage, coefficient and share (`harness.explain.shares.ExplainedRollout`)."""

    systems: dict[str, list[dict[str, float]]]


def answer(options: argparse.Namespace) -> Answer:
    values = key_values(options.values, _KEYS, "explain")
    for key, value in values.items():
        if key in _LISTS and not _numbers(value, nested=key.endswith("log_probs")):
            raise ConfigError(f"{key}={value} must be a list of numbers such as [1.1,0.1]")
        if key in ("cap", "value") and not isinstance(value, int | float):
            raise ConfigError(f"{key}={value} must be a number")
    names = listed_names(values.pop("systems", _DEFAULT_SYSTEMS))
    for key in ("rewards", "lengths"):
        if key not in values:
            raise ConfigError(f"explain needs {key}=[...], one number a rollout")
    for name in names if names != ["all"] else ():
        if name not in config_options("algorithm"):
            raise ConfigError(f"systems: {no_option('algorithm', name)}")
    from harness.explain.shares import explain_one, make_group, systems  # torch

    group = make_group(**values)
    chosen = systems(group.cap, None if names == ["all"] else names)
    return Answer({name: list(map(asdict, explain_one(group, system))) for name, system in chosen.items()})


def show(result: Answer, options: argparse.Namespace) -> None:
    """Print a row a system and rollout."""
    heads = (
        Column(head, justify="right", no_wrap=True) for head in ("share", "advantage", "a token", "reward", "tokens")
    )
    caption = "share of the gradient, advantage, coefficient of a token"
    table = Table(
        Column("system", overflow="fold"), *heads, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, caption=caption
    )
    for name, rollouts in result.systems.items():
        for one in rollouts:
            numbers = f"{100 * one['share']:.1f} %", f"{one['advantage']:+.3f}", f"{one['coefficient']:+.2e}"
            table.add_row(name, *numbers, f"{one['reward']:g}", f"{one['length']}")
        table.add_section()
    Terminal(markup=False).print(table)


def _numbers(value: Any, nested: bool) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, int | float) or (nested and _numbers(item, False)) for item in value)
