"""Other trainers' names for the algorithm part of a configuration. A member defines

`export(config: RunConfig) -> Translation`: its names and units, and what it cannot express;
`overrides(values: Mapping[str, Any]) -> Translation`: the way back, as Hydra overrides of ours (`settings` maps our dotted keys; the
key `algorithm/aggregation` and its like choose group members).

A dialect is tables, each read in both directions, and functions for what the two trainers count or decide differently. Members of the
objective's families name themselves: `NAMES = {dialect: their name}`, or `{dialect: {their name: {field: value that it implies}}}`, and
`KEYS = {dialect: {their key: field}}`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig

Same = Mapping[str, str]
"""Their key → our dotted key; the values are equal."""
Only = Mapping[str, tuple[Any, str]]
"""Our dotted key → the one value that a trainer has, and what to say of another."""


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
        """Record that a setting has no counterpart."""
        self.inexpressible.append(f"{key}={value}: {reason}")

    def write(self, config: RunConfig, same: Same) -> None:
        """Take the values of `config` over under their keys."""
        self.settings |= {theirs: attrgetter(ours)(config) for theirs, ours in same.items()}

    def read(self, values: Mapping[str, Any], same: Same) -> None:
        """Take their `values` over under our keys."""
        self.settings |= {ours: values[theirs] for theirs, ours in same.items() if theirs in values}

    def refuse_others(self, config: RunConfig, only: Only) -> None:
        """Record every setting of `config` that differs from the one value there is."""
        for key, (value, reason) in only.items():
            ours = attrgetter(key)(config)
            if ours != value:
                self.cannot(key, ours, reason)

    def imply(self, only: Only) -> None:
        """Set, on the way back, what the trainer always does."""
        self.settings |= {key: value for key, (value, _) in only.items()}

    def choose(self, dialect: str, family: str, name: Any) -> str | None:
        """Choose the member of a family that a dialect calls `name`; returns its kind, None where there is none."""
        group = family.rpartition(".")[2]
        for kind in kinds(family):
            implied = _names(family, kind, dialect).get(name)
            if implied is not None:
                self.settings[f"algorithm/{group}"] = kind
                self.settings |= {f"algorithm.{group}.{key}": value for key, value in implied.items()}
                return kind
        return None


def their_name(dialect: str, family: str, config: Any) -> str | None:
    """Return what a dialect calls a member with these settings, None where it has no such thing."""
    for name, implied in _names(family, config.kind, dialect).items():
        if all(getattr(config, key) == value for key, value in implied.items()):
            return name
    return None


def their_keys(dialect: str, family: str, kind: str, prefix: str = "") -> dict[str, str]:
    """Return a dialect's keys (behind `prefix`) for a member's fields, and our dotted keys."""
    group = family.rpartition(".")[2]
    found = getattr(member(family, kind), "KEYS", {}).get(dialect, {})
    return {f"{prefix}{theirs}": f"algorithm.{group}.{ours}" for theirs, ours in found.items()}


def _names(family: str, kind: str, dialect: str) -> Mapping[str, Mapping[str, Any]]:
    """Return a member's names in a dialect, each with the values that it implies."""
    names = getattr(member(family, kind), "NAMES", {}).get(dialect, {})
    return {names: {}} if isinstance(names, str) else names


IN_NO_TRAINER: Only = {
    "algorithm.reward.true_positive": (1.0, "the reward function there takes verdicts as they are"),
    "algorithm.reward.false_positive": (0.0, "the reward function there takes verdicts as they are"),
    "algorithm.reward.function": ("", "give the function to the trainer itself, as its reward function"),
    "algorithm.advantage_sign": ("both", "advantages of both signs train there"),
    "training.generated_tokens": (None, "the trainer ends after a number of steps only"),
    "training.seconds": (None, "the trainer ends after a number of steps only"),
}


def note_rewards(config: RunConfig, out: Translation) -> None:
    """Note which values the reward function has to give: in a trainer they are no settings."""
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
