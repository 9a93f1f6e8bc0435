"""Logs of other trainers, as rows of the store's metrics.

A log is TRL's `trainer_state.json`, the JSON lines of verl's file logger, or a table with named
columns: CSV, JSON or JSON lines, wandb's exports among them. Whose names the metrics have is said by the caller.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.exchange.dialect import load_table

EVALUATION = "evaluation"  # columns `evaluation/<benchmark>/<metric>` are scores; values are fractions of 1
_STEPS = ("_step", "Step", "step")  # of exports and of wandb's history
_MEAN_OF_STEPS = "seconds_total"  # of TRL: a line has the mean of the steps since the last line
_REGENERATED = ("training/filter_groups/evicted_samples", "training/filter_groups/discarded_surplus_samples")


class ForeignLogError(ConfigError):
    """A log that cannot be read, or that lacks what was asked for; the message names the file and the fix."""


@dataclass(frozen=True)
class Names:
    """What a trainer calls its metrics, scores and steps; of several names of one column, or of the step, the first counts."""

    trainer: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[str] = _STEPS
    remarks: Sequence[str] = ()

    def score(self, name: str) -> str | None:
        """Return `evaluation/aime24/avg@32` for `val-core/aime24/acc/mean@32`; None for what is no score."""
        if name.startswith(f"{EVALUATION}/"):
            return name
        for pattern, metric in self.scores.items():
            if match := re.fullmatch(pattern, name):
                parts = match.groupdict()
                count = f"@{parts['n']}" if parts.get("n") else ""
                benchmark = (
                    re.sub(r"[^A-Za-z0-9._=+-]+", "-", parts.get("benchmark") or "eval").strip("-.") or "eval"
                )
                return f"{EVALUATION}/{benchmark}/{metric}{count}"
        return None


def names_of(trainer: str) -> Names:
    """Return the names of `trl` or `verl`, from its table; of an empty name those of a plain table."""
    if not trainer:
        return Names()
    log = load_table(trainer).log
    return Names(trainer, log["metrics"], log["scores"], (*log["step"], *_STEPS), log["remarks"])


def read_log(
    path: Path, names: Names, run: str | None = None, step: str | None = None
) -> list[dict[str, float]]:
    """Return a log's entries in order: the step as `step`, and every number under the trainer's own name. Raises `ForeignLogError`.

    `run` names one of an export with columns `run - metric`; `step` the column of the step, None: one of the usual names.
    """
    rows = _table_rows(path, run) if path.suffix.lower() in (".csv", ".tsv") else _json_rows(path)
    steps = (step,) if step else tuple(dict.fromkeys(names.steps))
    merged: dict[int, dict[str, float]] = {}
    for row in rows:
        values = {_trainer_name(name, names): value for name, value in numbers(row).items()}
        number = next((values[name] for name in steps if name in values), None)
        own = {
            name: value for name, value in values.items() if name not in steps and not name.startswith("_")
        }
        if number is not None and own:  # trainers log training and evaluation of a step apart
            merged.setdefault(int(number), {}).update(own)
    if not merged:
        raise ForeignLogError(
            f"{path} has no row with a metric and a step; the step is one of: {', '.join(steps)}"
        )
    return [{**values, "step": number} for number, values in sorted(merged.items())]


def shared_scores(entries: Sequence[Mapping[str, float]], names: Names) -> dict[str, list[str]]:
    """Return score columns that several of a log's names mean, such as two reward functions with `accuracy` in their names."""
    columns: dict[str, list[str]] = {}
    for name in sorted({name for entry in entries for name in entry}):
        if (column := names.score(name)) is not None:
            columns.setdefault(column, []).append(name)
    return {column: shared for column, shared in columns.items() if len(shared) > 1}


def store_rows(
    entries: Sequence[Mapping[str, float]],
    names: Names,
    factor: float = 1.0,
    responses_per_step: int | None = None,
    score: str | None = None,
) -> list[dict[str, float | int | None]]:
    """Return rows of `metrics.jsonl`: known metrics in our columns and units, scores as evaluation columns, the rest as named.

    `factor` makes the scores fractions of 1. `responses_per_step` tells the generated tokens where the log does not. Of names that share a
    score column `score` has it; the others keep their own.
    """
    apart = {name for shared in shared_scores(entries, names).values() for name in shared} - {score}
    rows: list[dict[str, float | int | None]] = []
    previous, total = 0, 0.0  # the total is no number once a step's tokens are unknown
    for entry in entries:
        step = int(entry["step"])
        steps = max(step - previous, 1) if names.trainer == "trl" else 1
        values = with_tokens(entry) if names.trainer == "verl" else entry
        row: dict[str, float | int | None] = {"step": step, "attempt": 0}
        first = {names.metrics[name]: name for name in reversed(list(names.metrics)) if name in values}
        for name in values.keys() - {"step"}:
            column, score_column = names.metrics.get(name), None if name in apart else names.score(name)
            if score_column is not None:
                row[score_column] = values[name] * factor
            elif column is not None and first[column] == name:
                row[column] = values[name] * (steps if column == _MEAN_OF_STEPS else 1)
            else:
                row.setdefault(name, values[name])
        if names.trainer == "trl":
            row["updates"] = step
        length, again = (
            row.get("response_tokens_mean"),
            names.trainer == "verl" and "generated_tokens" not in values,
        )
        if responses_per_step and length is not None and not (again and "trained_tokens" in values):
            row.setdefault("generated_tokens", float(length) * responses_per_step * steps)
        if any(name in names.metrics for name in values) or "generated_tokens" in row:
            tokens = row.get("generated_tokens")
            total = math.nan if tokens is None else total + float(tokens)
            previous = step
            if tokens is not None:
                row["generated_tokens"] = round(float(tokens))
            if math.isfinite(total):
                row["generated_tokens_total"] = round(total)
        rows.append(row)
    return rows


def with_tokens(values: Mapping[str, float]) -> dict[str, float]:
    """Add the response tokens of a step of verl: the batch's tokens times the share of responses in a mean sequence.

    Both means are of one batch. verl does not log the tokens of discarded groups, so the generated tokens are known only where nothing
    was regenerated.
    """
    response, prompt = values.get("response_length/mean"), values.get("prompt_length/mean")
    total = values.get("perf/total_num_tokens")
    if total is None or response is None or prompt is None or response + prompt <= 0:
        return dict(values)
    tokens = total * response / (response + prompt)
    whole = values.get("train/num_gen_batches", 1.0) <= 1.0 and not any(key in values for key in _REGENERATED)
    return {**values, "trained_tokens": tokens, **({"generated_tokens": tokens} if whole else {})}


def verl_row(item: Mapping[str, Any]) -> dict[str, float | int | None] | None:
    """Return the store's columns of one line of verl's file logger, scores under verl's names; None for a line of another kind."""
    data, step = item.get("data"), item.get("step")
    if not isinstance(data, dict) or not isinstance(step, int):
        return None
    names = names_of("verl")
    values = {name: value for name, value in numbers(data).items() if name not in names.steps}
    (row,) = store_rows([{**values, "step": step}], Names("verl", names.metrics))
    return row


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a logged mapping, also those written as text; booleans, lists and other texts are left out."""
    plain = {}
    for name, value in values.items():
        if not name or isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number):
            plain[str(name)] = number
    return plain


def _trainer_name(name: str, names: Names) -> str:
    """Return `train/reward` and `eval/reward` as TRL's trainer calls them before it hands them to a tracker."""
    if names.trainer != "trl" or name in names.steps:
        return name
    return f"eval_{name.removeprefix('eval/')}" if name.startswith("eval/") else name.removeprefix("train/")


# ---- files ----


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ForeignLogError(f"cannot read {path}: {error}") from error


def _table_rows(path: Path, run: str | None) -> list[dict[str, Any]]:
    """Rows of a table; with headers `run - metric` those of one run, without the chart's envelope (`__MIN`, `__MAX`)."""
    reader = csv.DictReader(
        io.StringIO(_text(path)), delimiter="\t" if path.suffix.lower() == ".tsv" else ","
    )
    headers = [name for name in reader.fieldnames or [] if name and not re.search(r"__(MIN|MAX)$", name)]
    runs = list(dict.fromkeys(name.partition(" - ")[0] for name in headers if " - " in name))
    if run is None and len(runs) > 1:
        raise ForeignLogError(f"{path} holds {len(runs)} runs; name one in a column `run`: {', '.join(runs)}")
    if run is not None and run not in runs:
        raise ForeignLogError(f"{path} has no run {run!r}; runs: {', '.join(runs) or 'one, without a name'}")
    prefix = f"{run if run is not None else runs[0]} - " if runs else ""
    columns = {
        name: name.removeprefix(prefix) for name in headers if " - " not in name or name.startswith(prefix)
    }
    return [{column: row[name] for name, column in columns.items() if row.get(name)} for row in reader]


def _json_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of JSON: a list, lines, `log_history` of TRL's state, or `data` of verl's lines."""
    text = _text(path)
    try:
        content = json.loads(text)
        items = content if isinstance(content, list) else [content]
    except ValueError:
        items = _lines(text, path)
    rows: list[dict[str, Any]] = []
    for item in items:
        if not isinstance(item, dict):
            continue
        history, data = item.get("log_history"), item.get("data")
        if isinstance(history, list):
            rows += [entry for entry in history if isinstance(entry, dict)]
        else:
            rows.append({**data, "step": item.get("step")} if isinstance(data, dict) else item)
    # The last line of a run of TRL is a summary of all of it.
    return [row for row in rows if "train_runtime" not in row and "train/train_runtime" not in row]


def _lines(text: str, path: Path) -> list[Any]:
    """Objects line by line; a torn last line of a run that was killed is left out."""
    lines, items = [line for line in text.splitlines() if line.strip()], []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(json.loads(line))
        except ValueError as error:
            if number < len(lines) or not items:
                raise ForeignLogError(
                    f"{path}: line {number} is not JSON; a log is TRL's trainer_state.json, verl's file logger, or a table as CSV or JSON"
                ) from error
    return items
