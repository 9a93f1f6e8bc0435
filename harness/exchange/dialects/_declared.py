"""A dialect written down as tables, each read in both directions.

A trainer's switches rarely answer to ours one by one: CISPO is a surrogate here and a flag beside three others there. A `Case` says which
settings of theirs together mean the same as which of ours. The first case that fits counts, on the way here and on the way there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from harness.configuration.algorithm import EntropyControl
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import IN_NO_TRAINER, Beside, Only, Translation, note_rewards
from harness.exchange.dialects._release import Values, settle

NO_CLIP = 1e9  # a bound that no ratio reaches
_GROUPS = {
    f"algorithm.{name}.kind": f"algorithm/{name}" for name in ("advantage", "surrogate", "aggregation", "kl")
}


@dataclass(frozen=True)
class Unit:
    """How a number of ours becomes one of theirs (`there`), and back (`here`)."""

    there: Callable[[Any], Any]
    here: Callable[[Any], Any]


EQUAL = Unit(lambda value: value, lambda value: value)
OVER_ONE = Unit(lambda cap: round(cap - 1, 12), lambda offset: round(1 + offset, 12))
UNDER_ONE = Unit(lambda floor: round(1 - floor, 12), lambda offset: max(0.0, round(1 - offset, 12)))
BOUND = Unit(lambda low: low, lambda low: min(low, 1.0))  # from 1 on no lower bound of a ratio binds
NULL_OFF = Unit(lambda number: number or None, lambda number: number or 0)
MINUS_OFF = Unit(lambda number: number or -1, lambda number: max(0, number or 0))
UNCAPPED = Unit(lambda cap: None if cap >= NO_CLIP else cap, lambda cap: cap or NO_CLIP)
Row = tuple[str, str] | tuple[str, str, Unit]


@dataclass(frozen=True)
class Case:
    """Settings of theirs that mean the same as settings of ours.

    Attributes:
        theirs: keys and values; null is a value.
        ours: dotted keys and values, the `kind` of a section first.
        rows: numbers that stand under both in this case: their key, ours, and a unit where they differ.
        lost: why the two are not quite the same; then it is the nearest that there is, and nothing of ours becomes it.
    """

    theirs: Mapping[str, Any]
    ours: Mapping[str, Any]
    rows: Sequence[Row] = ()
    lost: str = ""


def of(section: str, **fields: Any) -> dict[str, Any]:
    """Return fields of a section of ours under their dotted keys, the `kind` first."""
    return {
        f"{section}.{name}": value
        for name, value in sorted(fields.items(), key=lambda item: item[0] != "kind")
    }


_NEUTRAL: dict[str, Any] = {
    "sampling.lag_steps": 0,
    "sampling.stop_strings": [],
    "algorithm.curriculum.kind": "uniform",
    "algorithm.source.kind": "policy",
    "algorithm.top_entropy_fraction": 1.0,
    "algorithm.entropy_coefficient": 0.0,
    "algorithm.entropy_control": EntropyControl(),
    "algorithm.off_policy_mask_nats": None,
    "algorithm.positive_nll_coefficient": 0.0,
    "algorithm.reward.format_credit": 0.0,
}


def lacking(title: str, has: Sequence[str] = (), **why: str) -> Only:
    """Return what a trainer has no setting for: all but `has`, at values that change nothing; `why` by a key's last name."""
    rows = {
        key: (value, why.get(key.rpartition(".")[2], f"{title} has no such setting"))
        for key, value in _NEUTRAL.items()
    }
    return {key: row for key, row in rows.items() if key.rpartition(".")[2] not in has and key not in has}


There = Callable[[RunConfig, Translation], None]
Here = Callable[[Values, Beside, Translation], None]


@dataclass(frozen=True)
class Dialect:
    """A trainer's names for the algorithm.

    Attributes:
        name: of the module and of its tables.
        title: of the trainer.
        rows: numbers that stand under both.
        choices: our section → its cases.
        fixed: what the trainer always does.
        without: what it has no setting for, at the value that changes nothing.
        there: what else is decided on the way there.
        here: what else is decided on the way here, after all tables.
        renamed: a key → its older names.
    """

    name: str
    title: str
    rows: Sequence[Row]
    choices: Mapping[str, Sequence[Case]]
    fixed: Only
    without: Only = field(default_factory=dict)
    there: Sequence[There] = ()
    here: Sequence[Here] = ()
    renamed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def export(self, config: RunConfig) -> Translation:
        """See the family's contract."""
        out = Translation()
        out.refuse_others(config, {**IN_NO_TRAINER, **self.without, **self.fixed})
        _write(self.rows, config, out)
        for section, cases in self.choices.items():
            near = [
                case
                for case in cases
                if not case.lost and case.ours and next(iter(case.ours)) not in _others(config, case.ours)
            ]
            if not near:
                found = attrgetter(section)(config)
                out.cannot(section, getattr(found, "kind", found), f"{self.title} has no such setting")
                continue
            case = min(near, key=lambda one: _distance(config, one.ours))
            for key in _others(config, case.ours):
                out.cannot(key, attrgetter(key)(config), f"{self.title} has {case.ours[key]} there")
            out.settings |= case.theirs
            _write(case.rows, config, out)
        for part in (*self.there, note_rewards):
            part(config, out)
        return out

    def overrides(self, values: Mapping[str, Any], beside: Beside | None = None) -> Translation:
        """See the family's contract.

        Raises:
            ConfigError: a value that the trainer would not take either, or numbers that do not divide.
        """
        beside = beside or Beside()
        given = settle(self.name, self._current(values), beside.version, beside.pinned)
        given.nulls = True
        out = Translation({"algorithm": "grpo"})
        for key, (value, _) in self.fixed.items():
            _set(out, key, value)
        _read(self.rows, given, out)
        for cases in self.choices.values():
            self._choose(cases, given, out)
        for part in self.here:
            part(given, beside, out)
        out.close(given, self.name)
        return out

    def _current(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings under the newest names of their keys."""
        older = {old: new for new, names in self.renamed.items() for old in names}
        return {older.get(key, key): value for key, value in values.items()}

    def _choose(self, cases: Sequence[Case], given: Values, out: Translation) -> None:
        keys = {key: None for case in cases for key in case.theirs}
        found = {key: given.get(key) for key in keys}
        case = next((one for one in cases if one.theirs.items() <= found.items()), None)
        if case is None:
            said = " ".join(f"{key}={value}" for key, value in found.items())
            out.inexpressible.append(f"{said}: no counterpart")
            return
        for key, value in case.ours.items():
            _set(out, key, value)
        _read(case.rows, given, out)
        if case.lost:
            key, value = next(iter(case.theirs.items()))
            out.cannot(key, value, case.lost)


def _others(config: RunConfig, wanted: Mapping[str, Any]) -> list[str]:
    """Keys at other values; where the first one, a `kind`, is another, that alone: the fields are others, too."""
    first = next(iter(wanted))
    if attrgetter(first)(config) != wanted[first]:
        return [first]
    return [key for key, value in wanted.items() if attrgetter(key)(config) != value]


def _distance(config: RunConfig, wanted: Mapping[str, Any]) -> tuple[int, int]:
    """Count the names that are others, and then all values: a nearby number is nearer than another way of doing it."""
    others = _others(config, wanted)
    return sum(isinstance(wanted[key], str) for key in others), len(others)


def _set(out: Translation, key: str, value: Any) -> None:
    out.settings[_GROUPS.get(key, key)] = value


def _unit(row: Row) -> tuple[str, str, Unit]:
    return row if len(row) == 3 else (*row, EQUAL)


def _write(rows: Sequence[Row], config: RunConfig, out: Translation) -> None:
    for theirs, ours, unit in map(_unit, rows):
        out.settings[theirs] = unit.there(attrgetter(ours)(config))


def _read(rows: Sequence[Row], given: Values, out: Translation) -> None:
    for theirs, ours, unit in map(_unit, rows):
        value = unit.here(given.number(theirs))
        if value is not None:
            _set(out, ours, value)
        elif theirs in given.given:
            out.settings[ours] = None


def updates(batch: str, mini: str, group: str | None = None) -> tuple[There, Here]:
    """Updates of a step: `batch` prompts in mini-batches of `mini` prompts; of `mini` responses where `group` names those to a prompt."""

    def there(config: RunConfig, out: Translation) -> None:
        algorithm = config.algorithm
        size = algorithm.prompts_per_step // algorithm.updates_per_step
        out.settings[mini] = size * (algorithm.responses_per_prompt if group else 1)

    def here(given: Values, _: Beside, out: Translation) -> None:
        whole, size = given.count(batch) * (given.count(group) if group else 1), given.count(mini)
        if whole % size:
            responses = f" of {group}={given.count(group)} responses" if group else ""
            raise ConfigError(
                f"{batch}={given.count(batch)} prompts{responses} are no multiple of {mini}={size}; mend one of them"
            )
        out.settings["algorithm.updates_per_step"] = whole // size

    return there, here


def length(given: Values, beside: Beside, out: Translation, steps: int, epochs: str, batch: int) -> int:
    """Set and return the steps: as given, or `epochs` of the data set's rows in batches; 0 where nothing tells them."""
    passes = given.number(epochs)
    if not steps and beside.rows is not None:
        steps = int(passes * (beside.rows // batch))
        out.notes.append(f"{epochs}={passes:g} of {beside.rows} rows are {steps} steps")
    if steps:
        out.settings["training.steps"] = steps
    else:
        out.cannot(epochs, passes, "the length in steps follows from the data set's size; give rows=N")
    return steps


def stale(key: str, bound: int, out: Translation) -> None:
    """Set by how many steps responses are old, where a trainer only bounds it."""
    out.settings["sampling.lag_steps"] = bound
    if bound > 1:
        out.cannot(key, bound, f"responses are up to {bound} steps old there, all of them {bound} here")


def soft_overlong(tokens: Any, penalty: Any, cap: int, out: Translation) -> None:
    """Set the soft length penalty over the last tokens before the cap, beside a mask that is set already."""
    masked = out.settings.get("algorithm.overlong.policy") == "mask"
    out.settings |= {
        "algorithm.overlong.policy": "mask_and_soft" if masked else "soft",
        "algorithm.overlong.buffer_fraction": tokens / cap,
        "algorithm.overlong.penalty": float(penalty),
    }


def refuse(given: Values, out: Translation, reasons: Mapping[str, tuple[Any, str]]) -> None:
    """Name each of their settings that is not at the one value that has a counterpart: key → (value, why)."""
    for key, (value, reason) in reasons.items():
        found = given.get(key, value)
        if found != value:
            out.cannot(key, found, reason)
