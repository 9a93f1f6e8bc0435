"""From overrides to run configurations: Hydra composes; directories, status and processes are ours."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
import re
from collections.abc import Sequence
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.error import ConfigError, UnknownKeyError
from harness.configuration.flat import flatten
from harness.configuration.folder import config_directory, no_option, options, searched
from harness.configuration.kept import kept
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig, load

__all__ = ["compose_run", "compose_values", "config_directory", "expand", "options", "parse_overrides"]

_MAPPING = re.compile(r"[A-Za-z_][\w.]*=\{")

OmegaConf.register_new_resolver("twice", lambda number: 2 * number, replace=True)


def compose_run(overrides: Sequence[str]) -> RunConfig:
    """Return the run configuration that overrides describe; composed once a process, every caller gets a copy. Raises `ConfigError`."""
    return copy.deepcopy(_run_of(str(config_directory()), tuple(overrides)))


@functools.lru_cache(maxsize=4096)
def _run_of(directory: str, overrides: tuple[str, ...]) -> RunConfig:
    values = compose_values(overrides)
    values.pop("experiment", None)
    try:
        return load(values)
    except UnknownKeyError as error:
        raise ConfigError(f"{error}{_set_by(error.key, overrides)}") from error


def compose_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Compose `config.yaml` with overrides into a plain mapping, interpolations resolved (`experiment` included).

    Raises:
        ConfigError: Hydra cannot compose it; for a mistyped key or option the message names the nearest valid one.
    """
    # `checks=` is said so often that it may stand without its section.
    overrides = [f"runtime.{item}" if item.startswith("checks=") else item for item in overrides]
    # Hydra adds no key to a mapping that is given whole (`model.overrides={num_layers: 2}`); what is unknown is refused when it is loaded.
    overrides = [f"++{item}" if _MAPPING.match(item) else item for item in overrides]
    try:
        values = OmegaConf.to_container(_composed(searched(overrides)), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explained(str(error), error.__cause__)) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_broken(error)) from error
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _composed(overrides: Sequence[str]) -> DictConfig:
    """Return what `hydra.compose` returns; chosen files are merged once (120 ms) and kept, values are set on a copy (8 ms).

    Hydra, too, sets values last, so a grid of thousands of them reads and merges the files once.
    """
    values = [item for item in parse_overrides(overrides) if sets_a_value(item)]
    lines = {item.input_line for item in values}
    chosen = tuple(item for item in overrides if item not in lines)
    directory = str(config_directory())
    config: DictConfig = pickle.loads(_merged(directory, chosen))
    try:
        for item in values:
            OmegaConf.update(config, item.key_or_group, item.value(), force_add=item.is_force_add())
    except OmegaConfBaseException:
        config = pickle.loads(_merged(directory, tuple(overrides)))  # Hydra says which override it was
    return config


def sets_a_value(item: Override) -> bool:
    """Say if an override gives a key a value, rather than choosing files, adding, deleting or sweeping."""
    key = item.key_or_group
    chooses = "/" in key or ((config_directory() / key).is_dir() and not isinstance(item.value(), dict))
    plain = item.type in (OverrideType.CHANGE, OverrideType.FORCE_ADD) and item.package is None
    return plain and not (chooses or item.is_hydra_override() or item.is_sweep_override())


@functools.lru_cache(maxsize=1024)
def _merged(directory: str, overrides: tuple[str, ...]) -> bytes:
    """Return a pickled `DictConfig`: loading it is ten times faster than a deep copy."""

    def merge() -> DictConfig:
        with initialize_config_dir(directory, version_base="1.3", job_name="harness"):
            return hydra_compose("config", list(overrides))

    return pickle.dumps(kept(directory, overrides, merge))


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Read overrides by Hydra's grammar. Raises `ConfigError` for one that it cannot read."""
    try:
        return OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(_explained(str(error))) from error


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Expand choices, ranges and globs to one list of overrides a job, in the order of Hydra's multirun.

    Raises:
        ConfigError: an override that Hydra cannot parse, or an interval, which has no end of values.
    """
    jobs: dict[str, list[str]] = {}
    with initialize_config_dir(str(config_directory()), version_base="1.3", job_name="harness"):
        loader = GlobalHydra.instance().config_loader()  # globs ask it for the members of a group
        try:
            for item in OverridesParser.create(config_loader=loader).parse_overrides(list(overrides)):
                key = item.get_key_element()
                if item.is_sweep_override() and not item.is_discrete_sweep():
                    raise ConfigError(
                        f"{item.input_line}: an interval is for `harness sweep`; give range() or choice()"
                    )
                sweeps = item.is_sweep_override()
                values = item.sweep_string_iterator() if sweeps else [item.get_value_element_as_str()]
                jobs[key] = [f"{key}={value}" for value in values]
        except HydraException as error:
            raise ConfigError(_explained(str(error))) from error
    return [list(job) for job in itertools.product(*jobs.values())]


# ---- what is wrong with overrides that do not compose -----------------------------------------------------------------------


def _set_by(key: str, overrides: Sequence[str]) -> str:
    """Name the patch of the command line that wrote a key which its configuration does not have; empty without one."""
    chosen = [item.partition("=")[2].strip("[]") for item in overrides if item.startswith("patch=")]
    for name in (part.strip() for item in chosen for part in item.split(",")):
        path = config_directory() / "patch" / f"{name}.yaml"
        if path.exists() and OmegaConf.select(OmegaConf.load(path), key) is not None:
            return f" (patch={name} sets it; the members chosen here do not have it)"
    return ""


def _broken(error: yaml.MarkedYAMLError) -> str:
    """Say where a file stops being YAML, and why."""
    mark, reason = error.problem_mark, error.problem or "cannot be read"
    if mark is None:
        return f"a configuration file is no YAML: {reason}"
    return f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}: {reason}; mend the YAML there or just above"


def _explained(message: str, cause: BaseException | None = None) -> str:
    """Hydra's message, with the nearest valid key, option or group appended where one was mistyped, else with its cause."""
    first = message.strip().splitlines()[0] if message.strip() else "the configuration cannot be composed"
    if first.startswith("Error merging override") and cause is not None:
        first = f"{first}: {str(cause).strip().splitlines()[0]}"
    key = re.search(r"Could not override '([^']+)'", message)
    if key and "No match in the defaults list" not in message:
        return f"unknown key {key[1]!r}{_nearest_key(key[1])}"
    if key:
        folder = config_directory()
        groups = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir())
        return f"unknown group {key[1]!r}{nearest(key[1], groups)}"
    option = re.search(r"(?:Could not find|Could not load) '([^']+)/([^'/]+)'", message)
    if option:
        return no_option(option[1], option[2])
    return first


def _nearest_key(key: str) -> str:
    """The nearest key: the nearest last part under the longest prefix that exists, else over all keys."""
    leaves = set(flatten(compose_values([])))
    keys = leaves | {".".join(leaf.split(".")[:n]) for leaf in leaves for n in range(1, leaf.count(".") + 1)}
    parent, _, leaf = key.rpartition(".")
    siblings = sorted(k.rpartition(".")[2] for k in keys if k.rpartition(".")[0] == parent)
    if leaf in siblings:
        return (
            f": it belongs to another choice of {key.partition('.')[0]}= than the one that is made, or the YAML of a member of your own "
            "does not list it"
        )
    if siblings:
        hint = nearest(leaf, siblings)
        return hint.replace("'", f"'{parent}.", 1) if parent and "did you mean" in hint else hint
    return nearest(key, sorted(keys))
