"""Composing with Hydra: what `plain_compose` leaves to it, and what is wrong with overrides that do not compose.

Imported where it is needed: the import alone takes longer than composing a plan does without it.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.defaults_list import Overrides
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten
from harness.configuration.folder import config_directory, no_option
from harness.configuration.registry import nearest

OmegaConf.register_new_resolver("twice", lambda number: 2 * number, replace=True)


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """`config.yaml` with overrides as a plain mapping, interpolations resolved.

    Raises:
        ConfigError: Hydra cannot compose it; for a mistyped key or option the message names the nearest valid one.
    """
    with _initialised():
        try:
            values = OmegaConf.to_container(_composed(overrides), resolve=True)
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(_explain(str(error), error.__cause__)) from error
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Hydra's multirun expansion: choices, ranges and globs to one list of overrides a job, in Hydra's order.

    Raises:
        ConfigError: an override that Hydra cannot parse.
    """
    with _initialised():
        loader = GlobalHydra.instance().config_loader()
        try:
            parsed = OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
            batches = BasicSweeper.split_arguments(parsed, max_batch_size=None)
        except HydraException as error:
            raise ConfigError(_explain(str(error))) from error
    return [list(job) for batch in batches for job in batch]


def _composed(overrides: Sequence[str]) -> DictConfig:
    """What `hydra.compose` returns, with the part that depends on chosen groups only composed once a process.

    Hydra applies value overrides (`optimizer.learning_rate=1e-4`) last, on top of the composed groups, so a grid of thousands of
    value overrides reads each YAML file once instead of once an arm (130 ms).
    """
    loader = GlobalHydra.instance().config_loader()
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
    if any(item.is_sweep_override() or item.is_hydra_override() for item in parsed):
        return hydra_compose("config", list(overrides))
    split = Overrides(loader.repository, parsed)
    values = {item.input_line for item in split.config_overrides}
    groups = tuple(item for item in overrides if item not in values)
    config = copy.deepcopy(_composed_groups(str(config_directory()), groups))
    ConfigLoaderImpl._apply_overrides_to_config(split.config_overrides, config)
    return config


@functools.lru_cache(maxsize=1024)
def _composed_groups(directory: str, groups: tuple[str, ...]) -> DictConfig:
    return hydra_compose("config", list(groups))


@contextmanager
def _initialised() -> Iterator[None]:
    """Hydra initialised on our configuration directory; kept between calls, unless someone else initialised it meanwhile."""
    global _ours
    hydra = GlobalHydra.instance()
    if _ours is None or hydra.hydra is not _ours[0] or _ours[1] != config_directory():
        hydra.clear()
        initialize_config_dir(str(config_directory()), version_base="1.3", job_name="harness")
        _ours = (hydra.hydra, config_directory())
    yield


_ours: tuple[Any, Path] | None = None


@functools.cache
def _base_keys() -> list[str]:
    keys = set(flatten(compose([])))
    return sorted(keys | {".".join(key.split(".")[:n]) for key in keys for n in range(1, key.count(".") + 1)})


def _explain(message: str, cause: BaseException | None = None) -> str:
    """Hydra's message, with the nearest valid key, option or group appended where one was mistyped, else with its cause."""
    first = message.strip().splitlines()[0] if message.strip() else "the configuration cannot be composed"
    if first.startswith("Error merging override") and cause is not None:
        first = f"{first}: {str(cause).strip().splitlines()[0]}"
    key = re.search(r"Could not override '([^']+)'", message)
    if key and "No match in the defaults list" not in message:
        return f"unknown key {key[1]!r}{_nearest_key(key[1])}"
    if key:
        groups = sorted(
            str(path.relative_to(config_directory()))
            for path in config_directory().rglob("*")
            if path.is_dir()
        )
        return f"unknown group {key[1]!r}{nearest(key[1], groups)}"
    option = re.search(r"(?:Could not find|Could not load) '([^']+)/([^'/]+)'", message)
    if option:
        return no_option(option[1], option[2])
    return first


def _nearest_key(key: str) -> str:
    """The nearest key: the nearest last part under the longest prefix that exists, else over all keys."""
    keys = _base_keys()
    parent, _, leaf = key.rpartition(".")
    siblings = [k.rpartition(".")[2] for k in keys if k.rpartition(".")[0] == parent]
    if leaf in siblings:
        return f": it belongs to another choice of {key.partition('.')[0]}= than the one that is made"
    if siblings:
        hint = nearest(leaf, siblings)
        return hint.replace("'", f"'{parent}.", 1) if parent and "did you mean" in hint else hint
    return nearest(key, keys)
