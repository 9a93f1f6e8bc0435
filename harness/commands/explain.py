"""What each system does with one group of rollouts: advantage, per-token coefficient and share of the gradient.

harness explain 'rewards=[1.1,0.1,0,1.1]' 'lengths=[220,950,1100,180]'
harness explain 'rewards=[1,0]' 'lengths=[2,3]' 'old_log_probs=[-1,-2]' 'new_log_probs=[[-0.5,-1],[-2,-2,-2]]' format=json
harness explain 'rewards=[1,0]' 'lengths=[10,40]' systems=[grpo,dapo] format=html output=page.html

Further arguments: correct=[1,0], cap=TOKENS, value=NUMBER (the critic's prediction). Log-probabilities: one number a rollout, or one a
token; the old ones are also the reference policy's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from harness.commands._key_values import read_yaml
from harness.configuration.compose import options as config_options
from harness.configuration.error import ConfigError, require
from harness.configuration.registry import nearest

if TYPE_CHECKING:
    from harness.explain.shares import Rollout

_GROUP = ("rewards", "lengths", "old_log_probs", "new_log_probs", "correct", "cap", "value")
_KEYS = (*_GROUP, "systems", "format", "output")
_FORMATS = ("table", "json", "html")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("values", nargs="+", metavar="key=value", help=f"one of {', '.join(_KEYS)}")


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    values = parse(options.values)
    shape = str(values.pop("format", "table"))
    require("format", shape, _FORMATS)
    output, names = values.pop("output", None), _names(values.pop("systems", None))
    for key in ("rewards", "lengths"):
        if key not in values:
            raise ConfigError(f"explain needs {key}=[...], one number a rollout")
    from harness.explain.page import html
    from harness.explain.shares import as_json, explain, make_group, systems

    group = make_group(**values)
    algorithms = systems(group.cap, names)
    if shape == "html":
        text = html(group, algorithms)
    elif shape == "json":
        text = json.dumps(as_json(explain(group, algorithms)), indent=1)
    else:
        Console().print(table(explain(group, algorithms)))
        return 0
    if output is None:
        print(text)
    else:
        Path(str(output)).write_text(text, encoding="utf-8")
    return 0


def parse(items: Sequence[str]) -> dict[str, Any]:
    """`key=value` arguments, values in YAML.

    Raises:
        ConfigError: an unknown key, a value that is not YAML or not of the right shape.
    """
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or key not in _KEYS:
            raise ConfigError(f"explain has no argument {item!r}{nearest(key, list(_KEYS))}")
        values[key] = read_yaml(text, item)
        listed = key in ("rewards", "lengths", "old_log_probs", "new_log_probs", "correct")
        if listed and not _numbers(values[key], nested=key.endswith("log_probs")):
            raise ConfigError(f"{key}={text} must be a list of numbers such as [1.1,0.1]")
        if key in ("cap", "value") and not _number(values[key]):
            raise ConfigError(f"{key}={text} must be a number")
    return values


def table(explained: Mapping[str, Sequence[Rollout]]) -> Table:
    """One row a system, one column a rollout."""
    first = next(iter(explained.values()))
    heads = [f"{i + 1}: reward {r.reward:g}, {r.length} tokens" for i, r in enumerate(first)]
    result = Table("system", *heads, caption="share of the gradient | advantage | coefficient of a token")
    for name, rollouts in explained.items():
        cells = [f"{100 * r.share:5.1f} % | {r.advantage:+.3f} | {r.coefficient:+.2e}" for r in rollouts]
        result.add_row(name, *cells)
    return result


def _names(value: Any) -> list[str] | None:
    if value is None:
        return None
    names = value if isinstance(value, list) else str(value).split(",")
    for name in names:
        if name not in config_options("algorithm"):
            raise ConfigError(f"systems has no {name!r}{nearest(str(name), config_options('algorithm'))}")
    return [str(name) for name in names]


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def _numbers(value: Any, nested: bool) -> bool:
    if not isinstance(value, list):
        return False
    return all(_number(item) or (nested and _numbers(item, False)) for item in value)
