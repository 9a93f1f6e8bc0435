"""Other trainers' names for the algorithm part of a configuration. A member defines

`export(config: RunConfig) -> Translation`: its names and units, and what it cannot express;
`overrides(values: Mapping[str, Any]) -> Translation`: the way back, as Hydra overrides of ours (`settings` maps our dotted keys; the
key `algorithm/aggregation` and its like choose group members).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.error import ConfigError


@dataclass
class Translation:
    """Settings in the target's names, what cannot be said there (one line each), and how units or defaults differ.

    `deviations`: name → what the target does a little differently from what the settings say here; a backend refuses it unless its
    configuration lists the name.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    inexpressible: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    deviations: dict[str, str] = field(default_factory=dict)

    def cannot(self, key: str, value: Any, reason: str) -> None:
        """Record that one of our settings has no counterpart."""
        self.inexpressible.append(f"{key}={value}: {reason}")


def require_numbers(values: Mapping[str, Any], keys: Collection[str], texts: Collection[str]) -> None:
    """Refuse a text for one of `keys`, all of which take numbers or truth values but for those in `texts`.

    Raises:
        ConfigError: naming the key.
    """
    for key, value in values.items():
        if key in keys and key not in texts and isinstance(value, str):
            raise ConfigError(f"{key}={value} is not a number")
