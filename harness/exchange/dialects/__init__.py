"""Other trainers' names for the algorithm part of a configuration. A member defines

`export(config: RunConfig) -> Translation`: its names and units, and what it cannot express;
`overrides(values: Mapping[str, Any], beside: Beside | None) -> Translation`: the way back, as Hydra overrides of ours (`settings` maps our
dotted keys; the key `algorithm/aggregation` and its like choose group members);
`ALSO`: keys of theirs beside those of the trainer's configuration (a script's);
a table `<dialect>_releases.yaml` with its defaults release by release, and rows of `infrastructure.yaml` (`_release`).

A dialect is tables, each read in both directions, and functions for what the two trainers count or decide differently. `_declared.Dialect`
is one whose settings together mean one of ours. For TRL and verl, whose names stand for members, members of the objective's families name
themselves: `NAMES = {dialect: their name}`, or `{dialect: {their name: {field: value that it implies}}}`, and `KEYS = {dialect: {their key:
field}}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig
from harness.exchange.dialects._release import Values, varying

Same = Mapping[str, str]
"""Their key → our dotted key; the values are equal."""
Only = Mapping[str, tuple[Any, str]]
"""Our dotted key → the one value that a trainer has, and what to say of another."""


@dataclass(frozen=True)
class Beside:
    """Facts about a foreign configuration beside its settings.

    Attributes:
        version: the trainer's release, None: guessed.
        pinned: the release that a file beside the settings names.
        own: the trainer's configuration in the checkout that the settings stand in: a fork's defaults.
        devices: processes that train, None: not known.
        rows: problems of the data set, None: not known.
        program: the module or file that a script runs, None: not known.
    """

    version: str | None = None
    pinned: str | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    devices: int | None = None
    rows: int | None = None
    program: str | None = None


@dataclass
class Translation:
    """Settings in the target's names, what cannot be said there (one line each), and how units or defaults differ.

    `deviations`: name → what the target does a little differently from what the settings say here; a backend refuses it unless its
    configuration lists the name. Of an import also `release` (which one, and how that is known), `assumed` (defaults of that release, in
    their names), and `infrastructure` (their keys that are not about what is computed).
    """

    settings: dict[str, Any] = field(default_factory=dict)
    inexpressible: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    deviations: dict[str, str] = field(default_factory=dict)
    release: str = ""
    assumed: dict[str, Any] = field(default_factory=dict)
    infrastructure: list[str] = field(default_factory=list)

    def cannot(self, key: str, value: Any, reason: str) -> None:
        """Record that a setting has no counterpart."""
        self.inexpressible.append(f"{key}={value}: {reason}")

    def write(self, config: RunConfig, same: Same) -> None:
        """Take the values of `config` over under their keys."""
        self.settings |= {theirs: attrgetter(ours)(config) for theirs, ours in same.items()}

    def read(self, values: Values, same: Same) -> None:
        """Take their numbers over under our keys."""
        found = {ours: values.number(theirs) for theirs, ours in same.items()}
        self.settings |= {ours: value for ours, value in found.items() if value is not None}

    def overrides(self) -> list[str]:
        """Return the settings as Hydra overrides; groups are chosen before their members' values are set."""
        items = sorted(self.settings.items(), key=lambda item: "." in item[0])
        return [f"{key}={spelled(value)}" for key, value in items]

    def close(self, values: Values, dialect: str) -> None:
        """Say what was assumed and what nobody read."""
        unread, self.infrastructure = values.unread(dialect)
        for key, value in unread.items():
            self.cannot(key, value, "not read")
        if values.strange:
            more = ", ..." if len(values.strange) > 4 else ""
            named = ", ".join(values.strange[:4]) + more
            self.inexpressible.append(
                f"the checkout is a fork with settings of its own ({named}): what its code changes is not known here"
            )
        self.release, self.assumed = values.found, values.assumed
        for key, said in varying(values, dialect).items():
            self.notes.append(f"{key} depends on the release: {said}")

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


def spelled(value: Any) -> str:
    """Return a value as Hydra's grammar reads it; texts with more than names and numbers in quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(spelled, value))}]"
    text = str(value)
    if not isinstance(value, str) or re.fullmatch(r"[\w./-]+", text):
        return text
    escaped = re.sub(r'(\\*)"', r"\1\1\"", text)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped).replace("${", r"\${") + '"'


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
