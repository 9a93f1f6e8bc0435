"""The verifier's settings as arguments of a verb: `verifier=NAME` and `verifier.KEY=VALUE`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import yaml

from harness.configuration.compose import file_of, options
from harness.configuration.error import ConfigError, require
from harness.configuration.schema import load_dataclass
from harness.verify import VerifierConfig

RULES = ("verifier", *(f"verifier.{item.name}" for item in dataclasses.fields(VerifierConfig)))


def verifier_config(values: Mapping[str, object]) -> VerifierConfig:
    """Return the verifier's settings: those of the member `verifier`, then `verifier.KEY`. Raises `ConfigError`."""
    settings: dict[str, object] = {}
    if "verifier" in values:
        require("verifier", values["verifier"], options("verifier"))
        settings = yaml.safe_load(file_of("verifier", str(values["verifier"])).read_text())
    settings |= {key.removeprefix("verifier."): value for key, value in values.items() if key != "verifier"}
    try:
        return load_dataclass(VerifierConfig, settings, "verifier")
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error
