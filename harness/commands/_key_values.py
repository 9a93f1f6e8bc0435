"""Plain `key=value` arguments of the verbs that need no Hydra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest

# PyYAML follows YAML 1.1, where 3e-4 is text for want of a point. Sixteen hexadecimal digits are a run's id, never a number.
_EXPONENT = re.compile(r"(?![0-9a-f]{16}$)[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
_PATHS = frozenset({"cases", "file", "out", "path", "results", "runtime.results", "samples"})


class _Loader(yaml.SafeLoader):
    """Safe YAML in which numbers in exponent notation are numbers."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def read_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `3e-4` is a number.

    Args:
        text: YAML.
        where: what the text is, for the error.

    Raises:
        ConfigError: the text is not YAML.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML; quote the value") from error


def key_values(
    items: Sequence[str], keys: Sequence[str], verb: str, texts: Sequence[str] = ()
) -> dict[str, Any]:
    """Arguments as a mapping, values read as YAML.

    Args:
        items: `key=value`, each.
        keys: the keys there are.
        verb: for the errors.
        texts: those of the keys whose values are names: `arm=1e-4` stays as it is spelled (null is None all the same).

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
        if key in _PATHS and text:
            values[key] = text  # as it stands: `out=res #2` is a folder with a space, not YAML with a comment
            continue
        value = read_yaml(text, f"{verb}: {item}")
        values[key] = text if key in texts and value is not None and not isinstance(value, str) else value
    return values
