"""Write the algorithm part of a configuration in another trainer's names and units: harness export dialect=trl algorithm=dapo.

What the target cannot express, and how units or defaults differ, follow as comments. The way back is `harness import`.
"""

from __future__ import annotations

import argparse

import yaml

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member, nearest
from harness.exchange.dialects import Translation

FAMILY = "harness.exchange.dialects"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "overrides", nargs="+", help="dialect=trl|verl and Hydra overrides such as algorithm=dapo"
    )


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    name, rest = take(options.overrides, "dialect")
    translation = dialect(name).export(compose_run(rest))
    print(yaml.safe_dump(translation.settings, sort_keys=False), end="")
    print_remarks(translation, name)
    return 0


def take(items: list[str], key: str) -> tuple[str, list[str]]:
    """The value of the one `key=value` among arguments, and the others.

    Raises:
        ConfigError: there is none, or more than one.
    """
    values = [item.partition("=")[2] for item in items if item.startswith(f"{key}=")]
    if len(values) != 1:
        raise ConfigError(f"name one {key}, for example dialect=trl ({', '.join(sorted(kinds(FAMILY)))})")
    return values[0], [item for item in items if not item.startswith(f"{key}=")]


def dialect(name: str):  # type: ignore[no-untyped-def]
    """The dialect's module. Raises `ConfigError` naming the nearest one."""
    if name not in kinds(FAMILY):
        raise ConfigError(f"no dialect {name!r}{nearest(name, list(kinds(FAMILY)))}")
    return member(FAMILY, name)


def print_remarks(translation: Translation, target: str) -> None:
    """What has no counterpart in the target, and differences of units and defaults, as YAML comments."""
    if translation.inexpressible:
        print(f"# {target} cannot express:")
        for line in translation.inexpressible:
            print(f"#   {line}")
    for note in (*translation.notes, *translation.deviations.values()):
        print(f"# note: {note}")
