"""Configurations that several tests compose."""

from __future__ import annotations

import functools

from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig


@functools.cache
def compose_once(*overrides: str) -> RunConfig:
    """Return a composed configuration, the same object for the same overrides: leave it as it is."""
    return compose_run([*overrides])
