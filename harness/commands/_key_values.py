"""Plain `key=value` arguments of the verbs that need no Hydra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from harness.config_error import ConfigError
from harness.registry import nearest


def key_values(items: Sequence[str], keys: Sequence[str], verb: str) -> dict[str, Any]:
    """Arguments as a mapping, values read as YAML.

    Raises:
        ConfigError: an unknown or repeated key, or a value that is not YAML.
    """
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or key not in keys:
            raise ConfigError(f"{verb} has no argument {item!r}{nearest(key, list(keys))}")
        if key in values:
            raise ConfigError(f"{verb}: {key}= is given twice")
        try:
            values[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"{verb}: {item} is not YAML; quote the value") from error
    return values
