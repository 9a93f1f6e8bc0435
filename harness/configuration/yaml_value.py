"""Values that a person types, read as YAML."""

import re
from typing import Any

import yaml

from harness.configuration.error import ConfigError

# PyYAML follows YAML 1.1, where 3e-4 is text for want of a point. Sixteen hexadecimal digits are a run's id, never a number.
_EXPONENT = re.compile(r"(?![0-9a-f]{16}$)[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")


class _Loader(yaml.SafeLoader):
    """Safe YAML in which numbers in exponent notation are numbers."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def read_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `3e-4` is a number. Raises `ConfigError` that calls the text `where`."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a day that no calendar has
        raise ConfigError(f"{where} is not YAML; quote the value") from error
