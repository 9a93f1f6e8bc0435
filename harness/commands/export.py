"""Write the algorithm part of a configuration in another trainer's names and units: harness export dialect=trl algorithm=dapo.

harness export dialect=verl experiment=dapo_ladder arm=dapo_5_dynamic_sampling    an arm of an experiment
harness export dialect=all                  a table of what each dialect can say, one setting at a time beside algorithm=grpo

What the target cannot express, and how units or defaults differ, follow as comments. The way back is `harness import`.
"""

from __future__ import annotations

import argparse
from types import ModuleType

import yaml

from harness.configuration.compose import compose_run, refuse_second_choice
from harness.configuration.error import ConfigError, require
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Translation
from harness.exchange.dialects._sayable import table
from harness.experiment.planning import plan_experiment

FAMILY = "harness.exchange.dialects"


ARGUMENTS = {
    "overrides": {
        "nargs": "+",
        "help": "dialect=NAME (trl, verl, ...; all: a table) and Hydra overrides such as algorithm=dapo",
    }
}


def run(options: argparse.Namespace) -> int:
    if "dialect=all" in options.overrides:
        print(
            table(
                _configuration(
                    [item for item in options.overrides if item != "dialect=all"] or ["algorithm=grpo"]
                )
            )
        )
        return 0
    name, module, rest = dialect(options.overrides)
    translation = module.export(_configuration(rest))
    chosen = {item.partition("=")[0] for item in rest}
    if not {"algorithm", "rung", "patch", "experiment"} & chosen:
        translation.notes.insert(
            0,
            "this is naive GRPO (algorithm=grpo): nothing given chooses another; add algorithm=NAME or rung=NAME",
        )
    print(yaml.safe_dump(translation.settings, sort_keys=False), end="")
    print_remarks(translation, name)
    return 0


def _configuration(items: list[str]) -> RunConfig:
    """Return the configuration that overrides describe, or the arm that `experiment=` and `arm=` name.

    Raises:
        ConfigError: an experiment without an arm, an arm without an experiment, or one that it does not have.
    """
    arms = [item.partition("=")[2] for item in items if item.startswith("arm=")]
    rest = [item for item in items if not item.startswith("arm=")]
    if not any(item.startswith("experiment=") for item in rest):
        if arms:
            raise ConfigError(f"arm={arms[0]} needs experiment=NAME")
        refuse_second_choice(rest)
        return compose_run(rest)
    planned = {one.name: one.config for one in plan_experiment(rest).arms}
    if len(arms) != 1 and len(planned) > 1:
        raise ConfigError(f"an experiment has several arms; name one with arm=: {', '.join(planned)}")
    chosen = arms[0] if arms else next(iter(planned))
    require("arm", chosen, list(planned))
    return planned[chosen]


def dialect(items: list[str]) -> tuple[str, ModuleType, list[str]]:
    """Return the name and the module that `dialect=` chooses, and the other arguments.

    Raises:
        ConfigError: there is no such dialect, or not one choice.
    """
    values = [item.partition("=")[2] for item in items if item.startswith("dialect=")]
    if len(values) != 1:
        raise ConfigError(f"name one dialect, for example dialect=trl ({', '.join(sorted(kinds(FAMILY)))})")
    require("dialect", values[0], list(kinds(FAMILY)))
    return values[0], member(FAMILY, values[0]), [item for item in items if not item.startswith("dialect=")]


def print_remarks(translation: Translation, target: str) -> None:
    """Print what has no counterpart in the target, and differences of units and defaults, as YAML comments."""
    if translation.inexpressible:
        print(f"# {target} cannot express:")
        for line in translation.inexpressible:
            print(f"#   {line}")
    for note in (*translation.notes, *translation.deviations.values()):
        print(f"# note: {note}")
