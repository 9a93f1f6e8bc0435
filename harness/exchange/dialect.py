"""A trainer's table of settings, applied both ways.

The rows are data (`trl.yaml`, `verl.yaml`); the head of `trl.yaml` says how to read them.

A trainer's module (`trl`, `verl`) adds what no row can say and defines

`export(config) -> Translation`: our configuration in the trainer's names and units;
`translate(values, devices) -> Translation`: a configuration that the trainer resolved, as overrides of ours.
"""

import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.compose import quoted
from harness.configuration.error import ConfigError
from harness.configuration.identity import flatten
from harness.configuration.schema import RunConfig
from harness.configuration.yaml_value import read_yaml

NO_CLIP = 1e9  # a bound that no ratio reaches
COMPONENTS = ("outcome", "format", "length")  # rewards that the decoupled estimator weighs
_ABSENT = object()
_NO_WORDS = ("null", "true", "false", "nan", "inf")
# Sections of ours whose `kind` is chosen as a group of the configuration.
_GROUPS = {f"algorithm.{name}.kind": f"algorithm/{name}" for name in ("advantage", "surrogate", "aggregation", "kl")}
_GROUPS |= {"model.kind": "model"}
Row = str | Mapping[Any, str | Mapping[str, Any]]


@dataclass(frozen=True)
class Block:
    """Rows that count beside their values of `condition`; `always`: our key → what the trainer does there whatever is set, and why."""

    condition: Mapping[str, Sequence[Any]]
    rows: Mapping[str, Row]
    always: Mapping[str, Sequence[Any]]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether these settings of theirs meet the condition."""
        pairs = ((values.get(key, _ABSENT), options) for key, options in self.condition.items())
        return all(any(_same(value, option) for option in options) for value, options in pairs)


@dataclass(frozen=True)
class Table:
    """What a trainer's settings are called here; the fields are the sections of its YAML file."""

    trainer: str
    release: str
    rows: Mapping[str, Row]
    optional: Sequence[str]
    beside: Sequence[Block]
    absent: Mapping[str, Sequence[Any]]
    nothing: Sequence[str]
    log: Mapping[str, Any]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def active(self, values: Mapping[str, Any]) -> dict[str, Row]:
        """Return the rows that count beside these settings of theirs, in the order of the table."""
        rows = dict(self.rows)
        for block in self.beside:
            if block.holds(values):
                rows |= block.rows
        return rows

    def missing_condition(self, key: str, values: Mapping[str, Any]) -> str | None:
        """Return a setting that these lack and that decides whether this one counts, None where all are known."""
        for block in self.beside:
            known = {name: options for name, options in block.condition.items() if name in values}
            if (
                key in block.rows
                and len(known) < len(block.condition)
                and replace(block, condition=known).holds(values)
            ):
                return next(name for name in block.condition if name not in values)
        return None

    def knows(self, key: str) -> bool:
        """Return whether a key changes nothing, or has a row that has no effect beside the other settings."""
        return any(key in block.rows for block in self.beside) or any(fnmatchcase(key, name) for name in self.nothing)


@functools.cache
def load_table(name: str) -> Table:
    """Return the table of a trainer, `trl` or `verl`."""
    in_both, content = (
        yaml.safe_load((files("harness.exchange") / f"{each}.yaml").read_text(encoding="utf-8"))
        for each in ("absent", name)
    )
    blocks = [
        Block(
            {key: value if isinstance(value, list) else [value] for key, value in each["if"].items()},
            each.get("rows", {}),
            each.get("always", {}),
        )
        for each in content.pop("beside")
    ]
    return Table(beside=blocks, absent={**in_both, **content.pop("absent")}, **content)


@dataclass
class Translation:
    """Settings in the target's names, and what differs.

    `deviations`: name → what the target does a little differently, which plan and answer say.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    inexpressible: list[str] = field(default_factory=list)  # a line for each setting without a counterpart
    notes: list[str] = field(default_factory=list)  # how units or defaults differ
    deviations: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # of an import, keys that the file lacks: our values stand
    origins: dict[str, str] = field(default_factory=dict)  # of an import, our key → the setting of theirs

    def cannot(self, key: str, value: Any, reason: str) -> None:
        self.inexpressible.append(f"{key}={value}: {reason}")

    def set(self, ours: str, value: Any, origin: str = "") -> None:
        """Set a value of ours; another `kind` drops the fields of the kind before it."""
        section = ours.removesuffix("kind")
        if ours in _GROUPS and self.settings.get(ours, value) != value:
            for key in [key for key in self.settings if key.startswith(section)]:
                del self.settings[key]
        self.settings[ours] = value
        if origin:
            self.origins[ours] = origin

    def overrides(self) -> list[str]:
        """Return the settings as Hydra overrides; groups are chosen before their members' values are set."""
        items = [(_GROUPS.get(key, key), value) for key, value in self.settings.items()]
        return [f"{key}={hydra_value(value)}" for key, value in sorted(items, key=lambda item: "." in item[0])]


def hydra_value(value: Any) -> str:
    """Write a value as Hydra's command line reads it back: words as they are, other texts in quotes.

    Raises `ConfigError` for a text that Hydra would resolve: no quotes keep it from that.
    """
    if _has_reference(value):
        raise ConfigError(f"{value!r} refers to another setting or to this machine; give the value itself")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(hydra_value, value))}]"
    text = str(value)
    if re.fullmatch(r"[A-Za-z_/][\w./-]*", text) and text.lower() not in _NO_WORDS:
        return text
    return quoted(text)


class Settings:
    """A trainer's resolved settings. A key that is absent or null is `default` (no number, no names, an off switch, an empty text).

    Raises `ConfigError` that names the key of a value of another type, or of one that refers to another setting.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key, default)
        if _has_reference(value):
            raise ConfigError(f"{key}={value} refers to another setting; give the resolved configuration")
        return value

    def _get_valid(self, key: str, is_valid: Callable[[Any], bool], fault: str) -> Any:
        value = self.get(key)
        if value is not None and not is_valid(value):
            raise ConfigError(f"{key}={value} {fault}")
        return value

    def number(self, key: str, default: float | None = None) -> Any:
        value = self._get_valid(key, _is_number, "is not a number")
        return default if value is None else value

    def count(self, key: str) -> int | None:
        """Return an integer from 1 on."""
        self.number(key)
        value = self._get_valid(
            key, lambda value: value >= 1 and value == int(value), "is no count; give an integer from 1 on"
        )
        return None if value is None else int(value)

    def flag(self, key: str) -> bool:
        return bool(self._get_valid(key, lambda value: isinstance(value, bool), "is neither true nor false"))

    def text(self, key: str, default: str = "") -> str:
        value = self._get_valid(key, lambda value: isinstance(value, str), "is not a text")
        return default if value is None else str(value)

    def names(self, key: str) -> list[str]:
        """Return a list of names; one name is a list of it."""
        value = self.get(key)
        names = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{key}={value} is neither a name nor a list of names")
        return names

    def numbers(self, key: str) -> list[float] | None:
        value = self.get(key)
        if value is not None and not (isinstance(value, list) and all(map(_is_number, value))):
            raise ConfigError(f"{key}={value} is no list of numbers")
        return value


def translate_config(
    trainer: str,
    values: Mapping[str, Any],
    parts: Sequence[Callable[[Settings, Translation], None]],
    defaults: Mapping[str, Any],
) -> Translation:
    """Return what the rows of a trainer's table and its own parts make of settings. Raises `ConfigError`.

    `defaults`: values of ours that count where neither has others.
    """
    out, source = _translate_rows(load_table(trainer), values), Settings(values)
    out.settings = {"algorithm": "grpo", **defaults, **out.settings}
    for part in parts:
        part(source, out)
    _refuse_filtered_correction(out)
    return out


def _translate_rows(table: Table, values: Mapping[str, Any]) -> Translation:
    """Return what the rows of a table make of settings: each key is translated, without effect, left to code, or listed."""
    out = Translation()
    rows = table.active(values)
    patterns = {key: row for key, row in rows.items() if "*" in key}
    order = {key: place for place, key in enumerate(rows)}
    for key in sorted(values, key=lambda key: order.get(key, len(order))):
        row = rows.get(key) or next((row for name, row in patterns.items() if fnmatchcase(key, name)), None)
        if row is not None:
            _translate_row(row, key, values[key], out)
        elif condition := table.missing_condition(key, values):
            out.cannot(key, values[key], f"counts beside some values of {condition}, which is not in the file")
        elif not table.knows(key):
            out.cannot(key, values[key], "no row in the table")
    for block in table.beside:
        if block.holds(values):
            for ours, (value, _) in block.always.items():
                out.set(ours, value)
    out.missing = [
        key
        for key in rows
        if key not in values and not any(fnmatchcase(key, name) for name in [*table.optional, *patterns])
    ]
    return out


def _translate_row(row: Row, key: str, value: Any, out: Translation) -> None:
    if row == "code":
        return
    if _has_reference(value):
        out.cannot(key, value, "refers to another setting; give the configuration that the trainer resolved")
        return
    choices = {"number": row} if isinstance(row, str) else row
    for choice, meaning in choices.items():
        if (choice not in ("number", "empty") and _same(value, choice)) or (choice == "empty" and value in ({}, [])):
            if isinstance(meaning, Mapping):
                for ours, ours_value in meaning.items():
                    out.set(ours, ours_value, f"{key}={value}")
            return
    if "number" in choices and _is_number(value):
        out.set(str(choices["number"]), value, f"{key}={value}")
        return
    others = ", ".join("null" if choice is None else str(choice) for choice in choices if choice != "number")
    out.cannot(key, value, f"no counterpart here{f', only for {others}' if others else ': it is no number'}")


def export_config(
    trainer: str,
    config: RunConfig,
    parts: Sequence[Callable[[RunConfig, Translation], None]],
    without_clip: Mapping[str, Any],
) -> Translation:
    """Return our configuration by the rows of a trainer's table, by the trainer's own parts, and with what rewards it needs.

    What has a counterpart is set, what has none is listed. `without_clip`: values of ours as they count for the rows where the policy
    gradient has no clip.
    """
    table, surrogate, out = load_table(trainer), config.algorithm.surrogate, Translation()
    unclipped = surrogate.kind == "policy_gradient" and surrogate.importance_weighted
    changes = without_clip if unclipped else {}
    _refuse_others(config, table.absent, out)
    for key, row in table.rows.items():
        _set_row(table, key, row, config, changes, out)
    for block in table.beside:
        if block.holds(out.settings):
            for key, row in block.rows.items():
                _set_row(table, key, row, config, changes, out)
            _refuse_others(config, block.always, out)
    for part in parts:
        part(config, out)
    reward = config.algorithm.reward  # in a trainer it is no setting
    credit = f", {reward.format_credit:g} more where an answer can be extracted" if reward.format_credit else ""
    out.notes.append(
        f"rewards are the reward function's: give {reward.correct:g} for a right answer and {reward.wrong:g} for a wrong one{credit}"
    )
    return out


def _refuse_others(config: RunConfig, fixed_values: Mapping[str, Sequence[Any]], out: Translation) -> None:
    """Record every setting of ours that differs from the one value that the trainer has."""
    for key, (value, reason) in fixed_values.items():
        ours = value_of(config, key)
        if ours is not _ABSENT and ours != value:
            out.cannot(key, ours, reason)


def _set_row(table: Table, key: str, row: Row, config: RunConfig, changes: Mapping[str, Any], out: Translation) -> None:
    if row == "code" or "*" in key:
        return
    choices = {"number": row} if isinstance(row, str) else row
    meanings = {choice: meaning for choice, meaning in choices.items() if isinstance(meaning, Mapping)}
    current = {ours: changes.get(ours, value_of(config, ours)) for each in meanings.values() for ours in each}
    exact = [choice for choice, each in meanings.items() if all(_same(current[ours], each[ours]) for ours in each)]
    number = value_of(config, str(choices["number"])) if "number" in choices else None
    if not exact and _is_number(number):
        out.settings[key] = number
        return
    if not meanings:
        return
    length = max(map(len, meanings.values()))

    def distance(choice: Any) -> tuple[list[bool], int]:
        each = meanings[choice]
        mismatches = [not _same(current[ours], value) for ours, value in each.items()]
        return [*mismatches, *[False] * (length - len(mismatches))], -len(each)

    # The nearest choice, the most specific of several; an earlier key of ours matters more than a later one.
    choice = min(exact or meanings, key=distance)
    out.settings[key] = choice
    first = next(iter(meanings[choice]), None)
    for ours, value in meanings[choice].items():
        if not _same(current[ours], value) and current[ours] is not _ABSENT:
            reason = f"{table.trainer} has {value} with {key}={choice}"
            out.cannot(ours, current[ours], f"{table.trainer} has no such setting" if ours == first else reason)
            break


def value_of(config: RunConfig, key: str) -> Any:
    """Return the value of a dotted key of ours, `_ABSENT` where the chosen member has no such field."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name, _ABSENT)
    return value


def buffer_tokens(config: RunConfig, out: Translation) -> int:
    """Return the tokens before the cap over which the length penalty ramps; record a fraction that makes no whole number."""
    overlong, cap = config.algorithm.overlong, config.sampling.max_response_tokens
    buffer = cap * overlong.buffer_fraction
    if abs(buffer - round(buffer)) > 1e-6 or round(buffer) < 1:
        out.cannot("algorithm.overlong.buffer_fraction", overlong.buffer_fraction, f"{buffer:g} tokens of {cap}")
    return round(buffer)


def set_model(path: str, rank: int, alpha: float, targets: Sequence[str], out: Translation) -> None:
    """Choose the model that a trainer names, with its adapter."""
    out.set("model.kind", "pretrained")
    out.set("model.path", path)
    out.notes.append(f"a run of {path} needs model.revision=COMMIT unless a folder, and task= and evaluation= for it")
    if rank:
        out.set("model.lora.rank", rank)
        out.set("model.lora.alpha", alpha)
        out.set("model.lora.targets", ",".join(targets) or "all-linear")


def _refuse_filtered_correction(out: Translation) -> None:
    """Take an engine correction out of a configuration that samples from a filtered distribution: its weights would be biased."""
    kind, settings = "algorithm.engine_correction.kind", out.settings
    filtered = settings.get("sampling.top_p", 1.0) < 1 or settings.get("sampling.top_k", 0) > 0
    if filtered and settings.get(kind, "none") != "none":
        out.cannot(
            kind,
            settings[kind],
            "top_p or top_k filters what is sampled, so that the weight is biased by the mass that the filter leaves; written as none",
        )
        out.settings[kind] = "none"
        for name in ("cap", "floor"):
            settings.pop(f"algorithm.engine_correction.{name}", None)


def reward_weights(advantage: Any) -> list[float]:
    """Return the decoupled estimator's weights in the order of `COMPONENTS`."""
    return [getattr(advantage, f"{name}_weight") for name in COMPONENTS]


def set_reward_weights(names: Sequence[str], weights: Sequence[float], out: Translation) -> None:
    """Set the decoupled estimator's weights; a reward that is not among the names weighs nothing."""
    given = dict(zip(names, weights, strict=True))
    out.settings |= {f"algorithm.advantage.{name}_weight": given.get(name, 0.0) for name in COMPONENTS}
    if given.get("format"):  # any size will do: each reward is divided by its deviation
        out.settings["algorithm.reward.format_credit"] = 1.0


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _has_reference(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_reference, value))
    return isinstance(value, str) and ("${" in value or value == "???")


_ASSIGNMENT = re.compile(r"[+~]{0,2}[\w./@-]+=.*", re.DOTALL)


def read_text(path: Path) -> str:
    """Return the text of a file from elsewhere. Raises `ConfigError`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings of one file as dotted keys. Raises `ConfigError`."""
    text = read_text(path)
    try:
        content = json.loads(text)  # tabs are no YAML
    except (ValueError, RecursionError):
        shown = (line.strip().removesuffix("\\").strip() for line in text.splitlines())  # of a shell's list
        lines = [line for line in shown if line and not line.startswith("#")]
        content = lines if lines and all(map(_ASSIGNMENT.fullmatch, lines)) else read_yaml(text, str(path))
    if (
        isinstance(content, list)
        and content
        and all(isinstance(item, str) and ("=" in item or item.startswith("~")) for item in content)
    ):
        return read_assignments(content)
    if isinstance(content, dict) and ("_wandb" in content or "wandb_version" in content):
        rows = {key: row for key, row in content.items() if key not in ("_wandb", "wandb_version")}
        content = {key: row.get("value") if isinstance(row, dict) else row for key, row in rows.items()}
    if not isinstance(content, dict) or not content:
        raise ConfigError(
            f"{path} holds neither settings nor key=value lines; give the configuration that the trainer resolved: verl's "
            ".hydra/config.yaml, wandb's config.yaml, or TRL's training arguments as JSON"
        )
    return _follow_references(flatten({str(key): value for key, value in content.items()}))


def read_assignments(items: Sequence[str]) -> dict[str, Any]:
    """Return `key=value` items as settings; Hydra's `+` adds, `~` takes away. Raises `ConfigError` for a value that is not YAML."""
    values: dict[str, Any] = {}
    for item in items:
        key, _, text = item.partition("=")
        if key.startswith("~"):
            values.pop(key.lstrip("~"), None)
        else:
            values |= flatten({key.lstrip("+"): read_yaml(text, item)})
    return values


# A value that is a reference and nothing else: `${KEY}`, or `${oc.select:KEY,DEFAULT}`, whose key may be absent.
_REFERENCE = re.compile(r"\$\{(?:oc\.select:(?P<select>[\w./@-]+)(?:, *(?P<default>[\w.-]+))?|(?P<key>[\w./@-]+))\}")
_MOST_REFERENCES = 10  # in a row; a circle ends here
_MOST_SETTINGS = 100_000


def _follow_references(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with references among them followed, which Hydra writes as they stand. What else refers stays the text that it is.

    OmegaConf would also run the resolvers that a file names, which read this machine's environment.
    """
    settings: dict[str, Any] = {}
    for key, value in values.items():
        settings |= {f"{key}{rest}": part for rest, part in _resolve(value, values, _MOST_REFERENCES).items()}
        if len(settings) > _MOST_SETTINGS:
            raise ConfigError(f"{key}={value}: with what it refers to there are more than {_MOST_SETTINGS} settings")
    return settings


def _resolve(value: Any, values: Mapping[str, Any], remaining_references: int) -> dict[str, Any]:
    """Return what a value stands for by the rest of its key: one value, or those of a section."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not remaining_references:
        return {"": value}
    key = match["key"] or match["select"]
    if key in values:
        return _resolve(values[key], values, remaining_references - 1)
    section = {name.removeprefix(key): part for name, part in values.items() if name.startswith(f"{key}.")}
    return section or {"": read_yaml(match["default"], value) if match["default"] else value}
