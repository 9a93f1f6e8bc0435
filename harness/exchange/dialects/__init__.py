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


def say_run(config: RunConfig, out: Translation, trainer: str, *, ends: str) -> None:
    """What is a setting here and none in a trainer: budgets beside steps, text that ends a response, values of the reward.

    `ends`: why `trainer` does not end responses at a text.
    """
    for key in ("generated_tokens", "seconds"):
        if getattr(config.training, key) is not None:
            reason = f"{trainer} ends after a number of steps only"
            out.cannot(f"training.{key}", getattr(config.training, key), reason)
    if config.sampling.stop_strings:
        out.cannot("sampling.stop_strings", config.sampling.stop_strings, ends)
    reward = config.algorithm.reward
    credit = (
        f", {reward.format_credit:g} more where an answer can be extracted" if reward.format_credit else ""
    )
    out.notes.append(
        f"rewards are the reward function's: give {reward.correct:g} for a right answer and {reward.wrong:g} for a wrong one{credit}"
    )


def require_numbers(values: Mapping[str, Any], keys: Collection[str], texts: Collection[str]) -> None:
    """Refuse a text for one of `keys`, all of which take numbers or truth values but for those in `texts`.

    Raises:
        ConfigError: naming the key.
    """
    for key, value in values.items():
        if key in keys and key not in texts and isinstance(value, str):
            raise ConfigError(f"{key}={value} is not a number")
