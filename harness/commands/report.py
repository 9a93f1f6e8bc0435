"""Write the tables and figures of an experiment again, from the store alone: harness report experiment=NAME."""

from __future__ import annotations

import argparse

from harness.answer import write_answer
from harness.compose import compose_run
from harness.config_error import ConfigError
from harness.registry import nearest
from harness.store import ResultStore


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("overrides", nargs="+", help="experiment=NAME [runtime.results=DIR]")


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    names = [item.partition("=")[2] for item in options.overrides if item.startswith("experiment=")]
    if len(names) != 1:
        raise ConfigError("name one experiment: harness report experiment=NAME")
    rest = [item for item in options.overrides if not item.startswith("experiment=")]
    store = ResultStore(compose_run(rest).runtime.results)
    if names[0] not in store.plans():
        raise ConfigError(f"{store.root} holds no experiment {names[0]!r}{nearest(names[0], store.plans())}")
    write_answer(store, names[0])
    return 0
