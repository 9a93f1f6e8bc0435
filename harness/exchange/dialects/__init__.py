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
from harness.configuration.schema import RunConfig


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


def refuse_studies(config: RunConfig, out: Translation) -> None:
    """What is here for studies of what a signal does, and in no trainer: verdicts that err at given rates, advantages of one sign."""
    algorithm = config.algorithm
    for name, exact in (("true_positive", 1.0), ("false_positive", 0.0)):
        rate = getattr(algorithm.reward, name)
        if rate != exact:
            out.cannot(
                f"algorithm.reward.{name}", rate, "the reward function there takes verdicts as they are"
            )
    if algorithm.advantage_sign != "both":
        out.cannot(
            "algorithm.advantage_sign", algorithm.advantage_sign, "advantages of both signs train there"
        )


def require_numbers(values: Mapping[str, Any], keys: Collection[str], texts: Collection[str]) -> None:
    """Refuse a text for one of `keys`, all of which take numbers or truth values but for those in `texts`.

    Raises:
        ConfigError: naming the key.
    """
    for key, value in values.items():
        if key in keys and key not in texts and isinstance(value, str):
            raise ConfigError(f"{key}={value} is not a number")
