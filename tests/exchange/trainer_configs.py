"""Configurations as TRL 1.16 and verl 0.9.1 resolve them, with every part that has a counterpart here switched on."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.exchange import trl, verl

DIALECTS = {"trl": trl, "verl": verl}
ACTOR = "actor_rollout_ref.actor"

RESOLVED: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
TRL, VERL = RESOLVED["trl"], RESOLVED["verl"]


@functools.cache
def compose_once(*overrides: str) -> RunConfig:
    """Return a composed configuration, the same object for the same overrides: leave it as it is."""
    return compose_run([*overrides])


def read(dialect: str, values: dict[str, Any], devices: int | None = None) -> RunConfig:
    """Return the configuration that a trainer's settings become."""
    return compose_once(*DIALECTS[dialect].translate(values, devices).overrides())


def lines(dialect: str, values: dict[str, Any], devices: int | None = None) -> list[str]:
    """Return what is listed of a trainer's settings: what differs, and the notes."""
    found = DIALECTS[dialect].translate(values, devices)
    return [*found.inexpressible, *found.notes]
