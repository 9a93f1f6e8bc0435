"""From overrides to run configurations, in Hydra's syntax and with Hydra's meaning; directories, status and processes are ours."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.configuration import plain_compose, plain_overrides
from harness.configuration.error import ConfigError, UnknownKeyError
from harness.configuration.flat import flatten
from harness.configuration.folder import config_directory, options
from harness.configuration.own_folder import searched
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig, load
from harness.configuration.yaml_files import NotPlainError

__all__ = ["compose_run", "compose_values", "config_directory", "expand", "options", "patch_values"]

_MAPPING = re.compile(r"[A-Za-z_][\w.]*=\{")


def compose_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Compose `config.yaml` with overrides into a plain mapping, interpolations resolved (`experiment` included).

    Raises:
        ConfigError: Hydra cannot compose it; for a mistyped key or option the message names the nearest valid one.
    """
    # `checks=` is said so often that it may stand without its section.
    overrides = [f"runtime.{item}" if item.startswith("checks=") else item for item in overrides]
    # Hydra adds no key to a mapping that is given whole (`model.overrides={num_layers: 2}`); what is unknown is refused when it is loaded.
    overrides = [f"++{item}" if _MAPPING.match(item) else item for item in overrides]
    overrides = searched(overrides, config_directory())
    try:
        return plain_compose.compose(str(config_directory()), overrides)
    except NotPlainError:
        from harness.configuration.hydra_compose import compose
    try:
        return compose(overrides)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_broken(error)) from error


def compose_run(overrides: Sequence[str]) -> RunConfig:
    """The run configuration that overrides describe; composed once a process, every caller gets a copy. Raises `ConfigError`."""
    return copy.deepcopy(_run_of(str(config_directory()), tuple(overrides)))


@functools.lru_cache(maxsize=4096)
def _run_of(directory: str, overrides: tuple[str, ...]) -> RunConfig:
    values = compose_values(overrides)
    values.pop("experiment", None)
    try:
        return load(values)
    except UnknownKeyError as error:
        raise ConfigError(f"{error}{_set_by(error.key, overrides)}") from error


def _set_by(key: str, overrides: Sequence[str]) -> str:
    """Which patch of the command line wrote a key that its configuration does not have; empty where none did."""
    chosen = [item.partition("=")[2].strip("[]") for item in overrides if item.startswith("patch=")]
    shipped = set(options("patch"))
    for name in (part.strip() for item in chosen for part in item.split(",")):
        if name in shipped and any(f"{one}.".startswith(f"{key}.") for one in patch_values(name) or {}):
            return f" (patch={name} sets it; the members chosen here do not have it)"
    return ""


def patch_values(patch: str, folders: Sequence[Path] = ()) -> dict[str, Any] | None:
    """Dotted key → value of a patch that only sets values; None of one that chooses members of groups or interpolates.

    `folders`: those of `config_dir=`, where it may stand as well.

    Raises:
        ConfigError: no such patch.
    """
    places = [folder / "patch" / f"{patch}.yaml" for folder in (config_directory(), *folders)]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise ConfigError(f"there is no patch {patch!r}{nearest(patch, options('patch'))}")
    text = path.read_text()
    try:
        values = yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_broken(error, str(path))) from error
    return None if "defaults" in values or "${" in text else flatten(values)


def _broken(error: yaml.MarkedYAMLError, path: str = "") -> str:
    """Where a file stops being YAML, and why."""
    mark, reason = error.problem_mark, error.problem or "cannot be read"
    if mark is None:
        return f"{path or 'a configuration file'} is no YAML: {reason}"
    return f"{path or mark.name}, line {mark.line + 1}, column {mark.column + 1}: {reason}; mend the YAML there or just above"


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Hydra's multirun expansion: choices, ranges and globs to one list of overrides a job, in Hydra's order.

    Raises:
        ConfigError: an override that Hydra cannot parse.
    """
    try:
        return plain_overrides.expand(overrides)
    except NotPlainError:
        from harness.configuration.hydra_compose import expand as hydra_expand

        return hydra_expand(overrides)
