"""Explain what each system does with one group of rollouts: advantage, per-token coefficient and share of the gradient.

harness explain 'rewards=[1.1,0.1,0,1.1]' 'lengths=[220,950,1100,180]'
harness explain 'rewards=[1,0]' 'lengths=[2,3]' 'old_log_probs=[-1,-2]' 'new_log_probs=[[-0.5,-1],[-2,-2,-2]]' format=json
harness explain 'rewards=[1,0]' 'lengths=[10,40]' systems=[grpo,dapo] format=json > shares.json

systems: grpo, dr_grpo, dapo, gspo, cispo and rloo in a table, else all; systems=all takes all.
systems of your own: --config-dir FOLDER systems=NAME.
Further arguments: correct=[1,0], cap=TOKENS, value=NUMBER (the critic's prediction). Log-probabilities: one number a rollout, or one a
token; the old ones are also the reference policy's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from harness.commands._arguments import key_values, listed_names
from harness.configuration.compose import no_option
from harness.configuration.compose import options as config_options
from harness.configuration.error import ConfigError, require
from harness.execution.progress import Terminal

if TYPE_CHECKING:
    from harness.explain.shares import ExplainedRollout

_LISTS = ("rewards", "lengths", "old_log_probs", "new_log_probs", "correct")
_KEYS = (*_LISTS, "cap", "value", "systems", "format")
_FORMATS = ("table", "json")
_DEFAULT_SYSTEMS = ("grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo")  # all of them fill several screens
_EDGES = 3  # of a column, in characters


ARGUMENTS = {"values": {"nargs": "+", "metavar": "key=value", "help": f"one of {', '.join(_KEYS)}"}}


def run(options: argparse.Namespace) -> int:
    values = parse(options.values)
    shape = str(values.pop("format", "table"))
    require("format", shape, _FORMATS)
    selection = values.pop("systems", None)
    for key in ("rewards", "lengths"):
        if key not in values:
            raise ConfigError(f"explain needs {key}=[...], one number a rollout")
    from harness.explain.shares import explain_one, make_group, systems  # torch

    group = make_group(**values)
    brief = selection is None and shape == "table"
    names = list(_DEFAULT_SYSTEMS) if brief else None if selection == "all" else _names(selection)
    explanations = {name: explain_one(group, system) for name, system in systems(group.cap, names).items()}
    if shape == "json":
        rows = {name: [asdict(rollout) for rollout in rollouts] for name, rollouts in explanations.items()}
        print(json.dumps(rows, indent=1))
        return 0
    console = Terminal(markup=False)
    for part in tables(explanations, console.width):
        console.print(part)
    if brief:
        print(f"{len(explanations)} systems are shown; systems=all shows all, systems=[dapo,vapo] those")
    return 0


def parse(items: Sequence[str]) -> dict[str, Any]:
    """Return `key=value` arguments, values in YAML. Raises `ConfigError`."""
    values = key_values(items, _KEYS, "explain")
    for key, value in values.items():
        if key in _LISTS and not _numbers(value, nested=key.endswith("log_probs")):
            raise ConfigError(f"{key}={value} must be a list of numbers such as [1.1,0.1]")
        if key in ("cap", "value") and not isinstance(value, int | float):
            raise ConfigError(f"{key}={value} must be a number")
    return values


def tables(explanations: Mapping[str, Sequence[ExplainedRollout]], width: int) -> list[Table]:
    """Return one row a system, one column a rollout; as many tables as `width` characters make necessary, so that no number is cut."""
    first = next(iter(explanations.values()))
    heads = [f"{i + 1}\nreward {r.reward:g}\n{r.length} tokens" for i, r in enumerate(first)]
    cells = {
        name: [f"{100 * r.share:.1f} %\n{r.advantage:+.3f}\n{r.coefficient:+.2e}" for r in rollouts]
        for name, rollouts in explanations.items()
    }
    lines = [line for column in (heads, *cells.values()) for text in column for line in text.split("\n")]
    widest, names = max(map(len, lines)), max(map(len, [*explanations, "system"]))
    fit = max(1, (width - names - _EDGES - 1) // (widest + _EDGES))
    drawings = []
    for start in range(0, len(heads), fit):
        part = slice(start, start + fit)
        drawing = Table(caption="share of the gradient, advantage, coefficient of a token", show_lines=True)
        drawing.add_column("system", no_wrap=True)
        for head in heads[part]:
            drawing.add_column(head, justify="right", no_wrap=True)
        for name in explanations:
            drawing.add_row(name, *cells[name][part])
        drawings.append(drawing)
    return drawings


def _names(value: Any) -> list[str] | None:
    names = listed_names(value)
    for name in names:
        if name not in config_options("algorithm"):
            raise ConfigError(f"systems: {no_option('algorithm', name)}")
    return names or None


def _numbers(value: Any, nested: bool) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, int | float) or (nested and _numbers(item, False)) for item in value)
