"""What TRL and verl log: four curves of a file, to be drawn, and one step of verl as a row of the store's metrics.

A log is TRL's `trainer_state.json`, the JSON lines of verl's file logger, or wandb's export of a history or a chart (CSV, JSON).
"""

import csv
import functools
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.exchange.dialect import load_table, read_text

ACCURACY = "accuracy"
QUANTITIES = ("reward_mean", ACCURACY, "response_tokens_mean", "entropy_nats")
Points = list[tuple[float, float]]  # step, value
Curves = dict[str, Points]  # by quantity
_TRAINERS = ("trl", "verl")
_STEPS = ("_step", "Step")  # of exports and of wandb's history


def read_curves(path: Path) -> dict[str, Curves]:
    """Return the curves of each run in a log, by the run's name; of names of one quantity the first counts. Raises `ConfigError`."""
    runs = _table_rows(path) if path.suffix.lower() in (".csv", ".tsv") else {path.stem: _json_rows(path)}
    curves = {run: found for run, rows in runs.items() if (found := _curves(rows))}
    if not curves:
        raise ConfigError(
            f"{path} has none of the metrics that are drawn (reward, accuracy, response length, entropy) beside a step; a log is TRL's "
            "trainer_state.json, verl's file logger, or wandb's export of a run"
        )
    return curves


def _curves(rows: Sequence[Mapping[str, Any]]) -> Curves:
    values: dict[str, dict[str, Points]] = {}
    for row in rows:
        logged = {name.removeprefix("train/"): value for name, value in numbers(row).items()}
        step = next((logged[name] for name in _step_names() if name in logged), None)
        for name, value in logged.items():
            if step is not None and (quantity := _quantity(name)) is not None:
                values.setdefault(quantity, {}).setdefault(name, []).append((step, value))
    return {quantity: sorted(next(iter(names.values()))) for quantity, names in values.items()}


@functools.cache
def _step_names() -> tuple[str, ...]:
    names = (name for trainer in _TRAINERS for name in load_table(trainer).log["step"])
    return tuple(dict.fromkeys([*(name.removeprefix("train/") for name in names), *_STEPS]))


@functools.cache
def _quantity(name: str) -> str | None:
    """Which of `QUANTITIES` a logged name is of, if any."""
    if name in QUANTITIES:
        return name
    for trainer in _TRAINERS:
        log = load_table(trainer).log
        if log["metrics"].get(name) in QUANTITIES:
            return str(log["metrics"][name])
        if any(re.fullmatch(pattern, name) for pattern in log[ACCURACY]):
            return ACCURACY
    return None


def verl_row(item: Mapping[str, Any]) -> dict[str, float | int | None] | None:
    """Return the store's columns of one line of verl's file logger, scores under verl's names; None for a line of another kind."""
    data, step = item.get("data"), item.get("step")
    if not isinstance(data, dict) or not isinstance(step, int):
        return None
    log = load_table("verl").log
    values = {name: value for name, value in numbers(data).items() if name not in log["step"]}
    row: dict[str, float | int | None] = {"step": step, "attempt": 0}
    for name, value in values.items():
        column = log["metrics"].get(name)
        newest = next((key for key, own in log["metrics"].items() if own == column and key in values), None)
        row[column if name == newest else name] = value
    response, prompt = values.get("response_length/mean"), values.get("prompt_length/mean")
    total = values.get("perf/total_num_tokens")
    if total is not None and response is not None and prompt is not None and response + prompt > 0:
        row["trained_tokens"] = total * response / (response + prompt)  # both means are of the trained batch
    return row


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a logged mapping, also those written as text; booleans, lists and other texts are left out."""
    finite_numbers = {}
    for name, value in values.items():
        if not name or isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number):
            finite_numbers[str(name)] = number
    return finite_numbers


def _table_rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows of a table by run; headers ``RUN - METRIC`` are of several, without the chart's envelope (`__MIN`, `__MAX`)."""
    reader = csv.DictReader(io.StringIO(read_text(path)), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    headers = [name for name in reader.fieldnames or [] if name and not name.endswith(("__MIN", "__MAX"))]
    if not (runs := list(dict.fromkeys(name.rpartition(" - ")[0] for name in headers if " - " in name))):
        return {path.stem: rows}
    shared = [name for name in headers if " - " not in name]
    names = {run: [name for name in headers if name.rpartition(" - ")[0] == run] for run in runs}
    return {
        run: [{key.rpartition(" - ")[2]: row[key] for key in (*shared, *own) if row.get(key)} for row in rows]
        for run, own in names.items()
    }


def _json_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of JSON: a list, lines, `log_history` of TRL's state, or `data` of verl's lines."""
    text = read_text(path)
    try:
        content = json.loads(text)
        items = content if isinstance(content, list) else [content]
    except (ValueError, RecursionError):
        items = _parse_lines(text, path)
    rows: list[dict[str, Any]] = []
    for item in filter(lambda one: isinstance(one, dict), items):
        history, data = item.get("log_history"), item.get("data")
        if isinstance(history, list):
            rows += [entry for entry in history if isinstance(entry, dict)]
        else:
            rows.append({**data, "step": item.get("step")} if isinstance(data, dict) else item)
    return rows


def _parse_lines(text: str, path: Path) -> list[Any]:
    """Objects line by line; a torn last line of a run that was killed is left out."""
    lines, items = [line for line in text.split("\n") if line.strip()], []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number < len(lines) or not items:
                raise ConfigError(f"{path}: line {number} is not JSON") from error
    return items
