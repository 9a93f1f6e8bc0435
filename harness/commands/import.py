"""Read another trainer's settings as overrides of ours: harness import dialect=trl file=grpo_config.yaml.

Settings may stand on the command line, too: harness import dialect=verl actor_rollout_ref.actor.clip_ratio_high=0.28. The printed overrides
go to `harness run` as they are; settings without a counterpart follow as comments.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness.commands._arguments import read_yaml
from harness.commands.export import dialect, print_remarks
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten

ARGUMENTS = {
    "settings": {"nargs": "+", "help": "dialect=trl|verl, then file=FILE.yaml and key=value settings"}
}


def run(options: argparse.Namespace) -> int:
    _, module, rest = dialect(options.settings)
    translation = module.overrides(read(rest))
    words = {None: "null", True: "true", False: "false"}
    overrides = [
        f"{key}={words[value] if value is None or isinstance(value, bool) else value}"
        for key, value in translation.settings.items()
    ]
    compose_run(overrides)  # what is printed can be run
    print("\n".join(overrides))
    print_remarks(translation, "this harness")
    return 0


def read(items: list[str]) -> dict[str, Any]:
    """Return settings of files and `key=value` items, nested mappings flattened to dotted keys.

    Raises:
        ConfigError: a file that cannot be read as a YAML mapping, or an argument that is no `key=value`.
    """
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"{item!r} is no key=value")
        if key != "file":
            values[key] = read_yaml(text, item)
            continue
        path = Path(text)
        if not path.is_file():
            raise ConfigError(f"no file {text}")
        content = read_yaml(path.read_text(encoding="utf-8"), text)
        if not isinstance(content, dict):
            raise ConfigError(f"{text} holds no mapping of settings")
        values |= flatten(content)
    return values
