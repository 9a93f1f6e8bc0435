"""Write the algorithm part of a configuration in another trainer's names and units: harness export dialect=trl algorithm=dapo.

harness export dialect=verl experiment=dapo_ladder arm=dapo_5_dynamic_sampling    an arm of an experiment

What the target cannot express, and how units or defaults differ, follow as comments. The way back is `harness import`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import yaml

from harness.commands._arguments import split
from harness.configuration.compose import compose_run, refuse_second_choice
from harness.configuration.error import ConfigError, require
from harness.configuration.schema import RunConfig
from harness.exchange import trl, verl
from harness.experiment.planning import plan_experiment

DIALECTS = {"trl": trl, "verl": verl}
ARGUMENTS = {"overrides": {"nargs": "+", "help": "dialect=trl|verl, and Hydra overrides such as algorithm=dapo"}}


def run(options: argparse.Namespace) -> int:
    name, rest = split_dialect(options.overrides)
    translation = DIALECTS[name].export(_configuration(rest))
    if not {"algorithm", "rung", "patch", "experiment", "claim"} & {item.partition("=")[0] for item in rest}:
        note = "this is naive GRPO (algorithm=grpo): nothing given chooses another; add algorithm=NAME or rung=NAME"
        translation.notes.insert(0, note)
    print(yaml.safe_dump(translation.settings, sort_keys=False), end="")
    if translation.inexpressible:
        print(f"# {name} cannot express:")
        for line in translation.inexpressible:
            print(f"#   {line}")
    for note in (*translation.notes, *translation.deviations.values()):
        print(f"# note: {note}")
    return 0


def split_dialect(items: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name that `dialect=` chooses, and the other arguments. Raises `ConfigError` where it does not choose one."""
    names, rest = split(items, "dialect")
    if len(names) != 1:
        raise ConfigError(f"name one dialect, for example dialect=trl ({', '.join(DIALECTS)})")
    require("dialect", names[0], list(DIALECTS))
    return names[0], rest


def _configuration(items: Sequence[str]) -> RunConfig:
    """Return the configuration that overrides describe, or the arm of `experiment=` or `claim=` that `arm=` names. Raises `ConfigError`."""
    arms, rest = split(items, "arm")
    if not any(item.startswith(("experiment=", "claim=")) for item in rest):
        if arms:
            raise ConfigError(f"arm={arms[0]} needs experiment=NAME or claim=NAME")
        refuse_second_choice(rest)
        return compose_run(rest)
    configs = {arm.name: arm.config for arm in plan_experiment(rest).arms}
    if len(arms) != 1 and len(configs) > 1:
        raise ConfigError(f"an experiment has several arms; name one with arm=: {', '.join(configs)}")
    name = arms[0] if arms else next(iter(configs))
    require("arm", name, list(configs))
    return configs[name]
