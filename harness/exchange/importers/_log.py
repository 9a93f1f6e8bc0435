"""The common form of every format's log, and its rows in the store."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.exchange.importers._trainer import EVALUATION, Trainer, trainer_of

_BAR = re.compile(r"^\s*\d+%\|[^|]*\|\s*(\d+)/(\d+) \[", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MEAN_OF_STEPS = "step_time"  # of TRL: a line has the mean of the steps since the last line
_STEPS = (
    "train/global_step",
    "global_step",
    "trainer/global_step",
    "_step",
    "Step",
    "step",
)  # of exports and of wandb's history
_SHOWN = 4  # names of metrics in a line
_COMPARED = ("gradient_norm", "loss", "reward_mean", "response_tokens_mean", "entropy_nats")
_ENOUGH = 3  # distinct values that agree between two logs of one run
_ONE_PART_IN = 1000.0  # a console prints fewer digits than a file
REGENERATED = "regenerated"  # a reader's mark of a step that generated more than its batch


class ForeignLogError(ConfigError):
    """A log that cannot be read, or that lacks what was asked for; the message names the file and the fix."""


@dataclass(frozen=True)
class Logged:
    """One logged step: the trainer's own step number and its metrics under the trainer's own names."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Log:
    """One run's log.

    Attributes:
        steps: sorted, one entry a step.
        trainer: whose names they have.
        said: what a reader of the numbers should know of how they were read, one line each.
        config: the run's configuration, where the log has it.
    """

    steps: Sequence[Logged]
    trainer: Trainer
    said: Sequence[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return all metric names in the log, sorted."""
        return sorted({name for entry in self.steps for name in entry.values})

    def account(self) -> str:
        """Say whose names were read, and which of them mean nothing here."""
        read = [name for name in self.names() if name in self.trainer.metrics or self.trainer.score(name)]
        kept = [name for name in self.names() if name not in read]
        shown = ", ".join(kept[:_SHOWN]) + (", ..." if len(kept) > _SHOWN else "")
        whose = (
            f"read as {self.trainer.name}'s names"
            if read
            else "no name in it is one of a trainer that is known here"
        )
        return f"{whose}: {len(read)} metrics are known, {len(kept)} keep their names{f' ({shown})' if kept else ''}"

    def shared(self) -> dict[str, list[str]]:
        """Return evaluation columns that several names mean, such as two reward functions with `accuracy` in their names."""
        found: dict[str, list[str]] = {}
        for name in self.names():
            if (column := self.trainer.score(name)) is not None:
                found.setdefault(column, []).append(name)
        return {column: names for column, names in found.items() if len(names) > 1}

    def rows(
        self, *, score_factor: float = 1.0, responses_per_step: int | None = None, chosen: str | None = None
    ) -> list[dict[str, float | int | None]]:
        """Return rows of `metrics.jsonl`: known metrics in our units, scores as evaluation columns, the rest under its own name.

        With `responses_per_step` the generated tokens are mean response length x responses x the steps of the line, but unknown
        where the log says that groups were refilled; without it they are unknown, unless the trainer logs them. Names that would share
        an evaluation column keep their own, but for the `chosen` one; of metrics that would, the first of the table has the column.
        """
        apart = {name for names in self.shared().values() for name in names} - {chosen}
        metrics = self.trainer.metrics
        rows: list[dict[str, float | int | None]] = []
        previous, total = 0, 0.0  # the total is no number once a step's tokens are unknown
        for entry in self.steps:
            row: dict[str, float | int | None] = {"step": entry.step, "attempt": 0}
            steps = max(entry.step - previous, 1) if self.trainer.means else 1
            first = {metrics[name]: name for name in reversed(list(metrics)) if name in entry.values}
            for name, value in entry.values.items():
                column, score = metrics.get(name), None if name in apart else self.trainer.score(name)
                if column is not None and first[column] == name:
                    row[column] = value * (steps if name == _MEAN_OF_STEPS else 1)
                elif score is not None:
                    row[score] = value * score_factor
                else:
                    row.setdefault(name, value)
            length = row.get("response_tokens_mean")
            if row.pop(REGENERATED, None) is None and responses_per_step and length is not None:
                row.setdefault("generated_tokens", float(length) * responses_per_step * steps)
            training = any(name in metrics for name in entry.values)
            if row.get("generated_tokens") is not None:
                total += float(row["generated_tokens"] or 0.0)
                row["generated_tokens"] = round(float(row["generated_tokens"] or 0.0))
                if math.isfinite(total):
                    row["generated_tokens_total"] = round(total)
            elif training:
                total = math.nan
            if training:
                previous = entry.step
            rows.append(row)
        return rows


def log_of(
    rows: Iterable[Mapping[str, Any]],
    where: object,
    *,
    named: str | None = None,
    said: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> Log:
    """Return the log that rows of one run make, read by the names of the trainer that knows most of them.

    Args:
        rows: each with its step under a name of the trainer's, or `_step`, `Step`, `step`.
        where: the file, for errors.
        named: the trainer, None to tell it by the names.
        said: lines to hand on.
        config: the run's configuration.

    Raises:
        ForeignLogError: no row has a step and a metric.
    """
    plain = [numbers(row) for row in rows]
    trainer = trainer_of(plain, named)
    entries = []
    for values in plain:
        step = next((values[name] for name in (*trainer.steps, *_STEPS) if name in values), None)
        known = {name: value for name, value in values.items() if name[0] != "_" and name not in _STEPS}
        own = {name: value for name, value in trainer.own(known).items() if name not in trainer.steps}
        if step is not None and own:  # runs of one export end at different steps
            entries.append(Logged(int(step), own))
    if not entries:
        expected = ", ".join(dict.fromkeys((*trainer.steps, *_STEPS)))
        raise ForeignLogError(f"{where} has no row with a metric and a step; the step is one of: {expected}")
    return Log(merge(entries), trainer, said, config or {})


def same_run(one: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]]) -> bool:
    """Return True where two logs' scores, rewards, lengths, losses, entropies and gradient norms agree, and are enough."""
    first, second = ({int(row["step"]): row for row in rows} for rows in (one, other))
    pairs = [
        (float(first[step][name]), float(second[step][name]))
        for step in first.keys() & second.keys()
        for name in first[step].keys() & second[step].keys()
        if name in _COMPARED or name.startswith(f"{EVALUATION}/")
        if first[step][name] is not None and second[step][name] is not None
    ]
    pairs = [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    close = all(math.isclose(a, b, rel_tol=1 / _ONE_PART_IN, abs_tol=1e-6) for a, b in pairs)
    return close and len({round(a, 6) for a, _ in pairs if a}) >= _ENOUGH


def merge(entries: Iterable[Logged]) -> list[Logged]:
    """Return one entry per step: trainers log training and evaluation of a step apart; a later value replaces an earlier one."""
    by_step: dict[int, dict[str, float]] = {}
    for entry in entries:
        by_step.setdefault(entry.step, {}).update(entry.values)
    return [Logged(step, values) for step, values in sorted(by_step.items())]


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a logged dict, also those written as text (`'0.061'`); booleans, lists and texts are left out."""
    found = {}
    for name, value in values.items():
        if not name or isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number):
            found[str(name)] = number
    return found


def json_lines(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the objects of a file and a line on what is torn: a JSON list, JSON lines, or printed Python dicts (a console log).

    Raises:
        ForeignLogError: the file cannot be read or holds none.
    """
    text = read_text(path)
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, list | dict):
        return [
            item for item in (whole if isinstance(whole, list) else [whole]) if isinstance(item, dict)
        ], []
    found, torn = _printed(text)
    if not found and text.lstrip()[:1] in ("{", "["):
        raise ForeignLogError(
            f"{path} is torn: it begins as JSON and does not end; give another copy or an older checkpoint's"
        )
    if not found:
        raise ForeignLogError(f"{path} holds no JSON objects, neither as a list nor line by line")
    return found, [f"{path.name}: {torn} torn line{'s' * (torn > 1)} left out"] if torn else []


def _printed(text: str) -> tuple[list[dict[str, Any]], int]:
    """Objects line by line, and the count of torn ones; an object without a step has that of the longest progress bar before it.

    A bar is tqdm's `5%|...| 5/100 [`.
    """
    longest = max((int(bar[2]) for bar in _BAR.finditer(text)), default=0)
    found, step, torn = [], 0, 0
    for line in text.splitlines():
        bar = _BAR.match(line)
        if bar is not None and int(bar[2]) == longest:
            step = int(bar[1])
        elif line.lstrip().startswith("{"):
            item = _object(line.strip())
            torn += item is None
            if item is not None:
                found.append({"step": step, **item} if step else item)
    return found, torn


def read_text(path: Path) -> str:
    """Return the text of a file, less a byte order mark and terminal colours. Raises `ForeignLogError` where there is none."""
    try:
        return _COLOUR.sub("", path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ForeignLogError(f"cannot read {path}: {error}") from error


def _object(line: str) -> dict[str, Any] | None:
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(line)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None
