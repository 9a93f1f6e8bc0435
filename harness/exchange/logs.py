"""Logs of other trainers, as rows of the store's metrics, and as runs and arms of an experiment that one file `arm,seed,log` declares.

A log is TRL's `trainer_state.json`, the JSON lines of verl's file logger, or a table with named
columns: CSV, JSON or JSON lines, wandb's exports among them. Whose names the metrics have is said by the caller.
The file says the whole experiment: what it lists is the plan, and the first arm is the one that the others are compared with. All logs are
read before anything is written.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.error import ConfigError, nearest, require
from harness.configuration.identity import content_hash
from harness.exchange.dialect import load_table
from harness.store import ResultStore, layout, lease

EVALUATION = "evaluation"  # columns `evaluation/<benchmark>/<metric>` are scores; values are fractions of 1
_STEPS = ("_step", "Step", "step")  # of exports and of wandb's history
_MEAN_OF_STEPS = "seconds_total"  # of TRL: a line has the mean of the steps since the last line
_REGENERATED = ("training/filter_groups/evicted_samples", "training/filter_groups/discarded_surplus_samples")


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
        if _is_score(name):
            return name
        for pattern, metric in self.scores.items():
            if match := re.fullmatch(pattern, name):
                parts = match.groupdict()
                count = f"@{parts['n']}" if parts.get("n") else ""
                benchmark = re.sub(r"[^A-Za-z0-9._=+-]+", "-", parts.get("benchmark") or "eval").strip("-.") or "eval"
                return f"{EVALUATION}/{benchmark}/{metric}{count}"
        return None


def _is_score(column: str) -> bool:
    return re.fullmatch(rf"{EVALUATION}/[^/]+/[^/]+", column) is not None


def names_of(trainer: str) -> Names:
    """Return the names of `trl` or `verl`, from its table; of an empty name those of a plain table."""
    if not trainer:
        return Names()
    log = load_table(trainer).log
    return Names(trainer, log["metrics"], log["scores"], (*log["step"], *_STEPS), log["remarks"])


def read_log(path: Path, names: Names, run: str | None = None, step: str | None = None) -> list[dict[str, float]]:
    """Return a log's entries in order: the step as `step`, and every number under the trainer's own name. Raises `ConfigError`.

    `run` names one of an export with columns `run - metric`; `step` the column of the step, None: one of the usual names.
    """
    rows = _table_rows(path, run) if path.suffix.lower() in (".csv", ".tsv") else _json_rows(path)
    steps = (step,) if step else tuple(dict.fromkeys(names.steps))
    metrics_by_step: dict[int, dict[str, float]] = {}
    for row in rows:
        values = {_trainer_name(name, names): value for name, value in numbers(row).items()}
        number = next((values[name] for name in steps if name in values), None)
        metrics = {name: value for name, value in values.items() if name not in steps and not name.startswith("_")}
        if number is not None and (number < 0 or number % 1):
            raise ConfigError(f"{path} has step {number:g}; steps count from 0 in whole numbers")
        if number is not None and metrics:  # trainers log training and evaluation of a step apart
            metrics_by_step.setdefault(int(number), {}).update(metrics)
    if not metrics_by_step:
        raise ConfigError(f"{path} has no row with a metric and a step; the step is one of: {', '.join(steps)}")
    return [{**values, "step": number} for number, values in sorted(metrics_by_step.items())]


def shared_scores(entries: Sequence[Mapping[str, float]], names: Names) -> dict[str, list[str]]:
    """Return score columns that several of a log's names mean, such as two reward functions with `accuracy` in their names."""
    columns: dict[str, list[str]] = {}
    for name in sorted({name for entry in entries for name in entry}):
        if (column := names.score(name)) is not None:
            columns.setdefault(column, []).append(name)
    return {column: log_names for column, log_names in columns.items() if len(log_names) > 1}


def store_rows(
    entries: Sequence[Mapping[str, float]],
    names: Names,
    factor: float = 1.0,
    responses_per_step: int | None = None,
    score: str | None = None,
) -> list[dict[str, float | int | None]]:
    """Return rows of `metrics.jsonl`: known metrics in our columns and units, scores as evaluation columns, the rest as named.

    `factor` makes the scores, and the column that `score` names, fractions of 1. `responses_per_step` tells the generated tokens where the
    log does not. Of names that share a score column `score` has it; the others keep their own.
    """
    ambiguous_names = {name for log_names in shared_scores(entries, names).values() for name in log_names} - {score}
    rows: list[dict[str, float | int | None]] = []
    previous, total = 0, 0.0
    for entry in entries:
        step = int(entry["step"])
        steps = max(step - previous, 1) if names.trainer == "trl" else 1
        values = with_tokens(entry) if names.trainer == "verl" else entry
        row: dict[str, float | int | None] = {"step": step, "attempt": 0}
        preferred_names = {names.metrics[name]: name for name in reversed(list(names.metrics)) if name in values}
        for name in values.keys() - {"step"}:
            column, score_column = names.metrics.get(name), None if name in ambiguous_names else names.score(name)
            if score_column is not None:
                row[score_column] = values[name] * factor
            elif column is not None and preferred_names[column] == name:
                row[column] = (
                    values[name]
                    * (steps if column == _MEAN_OF_STEPS else 1)
                    * (factor if score in (name, column) else 1)
                )
            else:
                row.setdefault(name, values[name] * (factor if name in (score, f"{EVALUATION}/{score}") else 1))
        if names.trainer == "trl":
            row["updates"] = step
        length = row.get("response_tokens_mean")
        regenerated = names.trainer == "verl" and "generated_tokens" not in values
        if responses_per_step and length is not None and not (regenerated and "trained_tokens" in values):
            row.setdefault("generated_tokens", float(length) * responses_per_step * steps)
        if any(name in names.metrics for name in values) or row.keys() & {"generated_tokens", "generated_tokens_total"}:
            total, previous = _total_tokens(row, total), step
            if (tokens := row.get("generated_tokens")) is not None:
                row["generated_tokens"] = round(float(tokens))
            if math.isfinite(total):
                row["generated_tokens_total"] = round(total)
        rows.append(row)
    return rows


def _total_tokens(row: Mapping[str, float | int | None], total: float) -> float:
    """The tokens generated up to a row, `total` before it: its own column's, else the sum, which is no number from an unknown step on."""
    known_total, tokens = row.get("generated_tokens_total"), row.get("generated_tokens")
    if known_total is not None:
        return float(known_total)
    return math.nan if tokens is None else total + float(tokens)


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


def _trainer_name(name: str, names: Names) -> str:
    """Return `train/reward` and `eval/reward` as TRL's trainer calls them before it hands them to a tracker."""
    if names.trainer != "trl" or name in names.steps:
        return name
    return f"eval_{name.removeprefix('eval/')}" if name.startswith("eval/") else name.removeprefix("train/")


# ---- files ----


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _table_rows(path: Path, run: str | None) -> list[dict[str, Any]]:
    """Rows of a table; with headers `run - metric` those of one run, without the chart's envelope (`__MIN`, `__MAX`)."""
    reader = csv.DictReader(io.StringIO(_read_text(path)), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    headers = [name for name in reader.fieldnames or [] if name and not re.search(r"__(MIN|MAX)$", name)]
    if copies := [name for name in headers if headers.count(name) > 1]:
        raise ConfigError(f"{path}: two columns are called {copies[0]!r}")
    if long_rows := [number for number, row in enumerate(rows, start=2) if any(row.get(None, ()))]:
        raise ConfigError(f"{path}: row {long_rows[0]} has more cells than the header; numbers take a decimal point")
    runs = list(dict.fromkeys(name.partition(" - ")[0] for name in headers if " - " in name))
    if run is None and len(runs) > 1:
        raise ConfigError(f"{path} holds {len(runs)} runs; name one in a column `run`: {', '.join(runs)}")
    if run is not None and run not in runs:
        raise ConfigError(f"{path} has no run {run!r}; runs: {', '.join(runs) or 'one, without a name'}")
    prefix = f"{run if run is not None else runs[0]} - " if runs else ""
    columns = {name: name.removeprefix(prefix) for name in headers if " - " not in name or name.startswith(prefix)}
    return [{column: row[name] for name, column in columns.items() if row.get(name)} for row in rows]


def _json_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of JSON: a list, lines, `log_history` of TRL's state, or `data` of verl's lines."""
    text = _read_text(path)
    try:
        content = json.loads(text)
        items = content if isinstance(content, list) else [content]
    except (ValueError, RecursionError):
        items = _parse_lines(text, path)
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


def _parse_lines(text: str, path: Path) -> list[Any]:
    """Objects line by line; a torn last line of a run that was killed is left out."""
    lines, items = [line for line in text.split("\n") if line.strip()], []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number < len(lines) or not items:
                raise ConfigError(
                    f"{path}: line {number} is not JSON; a log is TRL's trainer_state.json, verl's file logger, or a table as CSV or JSON"
                ) from error
    return items


IMPORT_VERSION = 1
SCORE_UNITS = {"fraction": 1.0, "percent": 0.01, "reward": 1.0}
PATIENCE_SECONDS = 60.0  # for other imports into the experiment; one takes about a second
_COLUMNS, _MORE = ("arm", "seed", "log"), ("run", "label")


@dataclass(frozen=True)
class Import:
    """What to import, and how to read it.

    Attributes:
        logs: the file with a line `arm,seed,log` a run; paths are relative to it. Columns `run` (of an export that holds several) and
            `label` (for tables) may follow.
        experiment: the experiment's name.
        dialect: whose names the metrics have, trl or verl; empty for a table whose columns have our names, or any.
        score: the evaluation that the answer is about: `benchmark/metric`, their name of it, or a training metric such as `reward_mean`;
            None where the logs have one only.
        unit: how the logs write scores: fraction (of 1), percent, or reward (shown as it is).
        step: the column with the step, None: one of the usual names.
        responses_per_step: responses sampled in a logged step; tells the generated tokens where the log lacks them.
        cap: response token cap of the evaluation, 0 where unknown.
        paired: whether runs of equal seed share prompts and sampling seeds across arms.
        title: of the experiment, its name where empty.
    """

    logs: Path
    experiment: str
    dialect: str = ""
    score: str | None = None
    unit: str = "fraction"
    step: str | None = None
    responses_per_step: int | None = None
    cap: int = 0
    paired: bool = False
    title: str = ""


@dataclass(frozen=True)
class ForeignRun:
    """One line of the file, its log read: rows of the store, and the hash of them that names the run."""

    arm: str
    label: str
    seed: int
    path: Path
    run: str | None
    rows: Sequence[Mapping[str, Any]]
    score: str
    content: str
    run_id: str


@dataclass(frozen=True)
class ImportResult:
    """What an import did: its runs, the ids that are new, and a line for each run whose place another one took."""

    runs: Sequence[ForeignRun]
    new: frozenset[str]
    replacements: Sequence[str]

    @property
    def score(self) -> str:
        """The column that the answer is about."""
        return self.runs[0].score

    @property
    def columns(self) -> list[str]:
        return sorted({name for run in self.runs for row in run.rows for name in row})


def import_logs(store: ResultStore, request: Import) -> ImportResult:
    """Read all logs, then write the runs and the experiment's plan; a run that is stored already is not written again.

    Raises `ConfigError`, which names the log and the fix, and `StoreError`.
    """
    require("unit", request.unit, list(SCORE_UNITS))
    require("dialect", request.dialect, ["", "trl", "verl"])
    names = names_of(request.dialect)
    runs = [_read_run(request, names, line) for line in _read_lines(request.logs)]
    _refuse_copies(runs)
    scores = {run.score: run.path for run in runs}
    if len(scores) > 1:
        columns = "; ".join(f"{path} has {score}" for score, path in scores.items())
        raise ConfigError(f"the logs have no score in common: {columns}; choose one with score=")
    claim = layout.plan_file(store.root, request.experiment).with_name(layout.CLAIM_LOCK)
    with lease.acquire(claim, wait_seconds=PATIENCE_SECONDS):  # imports beside it change the same plan
        is_planned = request.experiment in store.plans()
        plan = store.plan(request.experiment) if is_planned else {"foreign": True, "arms": []}
        if not plan.get("foreign"):
            raise ConfigError(
                f"experiment {request.experiment!r} is planned by `harness run`, which would drop the import; take another name"
            )
        new_plan = _build_plan(request, runs)
        new = frozenset(run.run_id for run in runs if _write_run(store, request, names, run))
        store.write_plan(request.experiment, new_plan)
    return ImportResult(runs, new, list(_list_replacements(plan, runs)))


def _read_lines(path: Path) -> list[dict[str, str]]:
    """Return the lines of the file, each with the label of its arm. Raises `ConfigError`: a column is missing, a line bad or repeated."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows, columns = [(reader.line_num, row) for row in reader], reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not set(_COLUMNS) <= set(columns) <= {*_COLUMNS, *_MORE} or len(set(columns)) < len(columns):
        raise ConfigError(
            f"{path} needs the columns arm,seed,log in its first line, and may have run,label; it has {','.join(columns)}"
        )
    places: dict[tuple[str, str], int] = {}
    labels: dict[str, str] = {}
    lines = []
    for number, row in rows:
        line = _stripped(row, f"{path}, line {number}")
        place = line["arm"], str(int(line["seed"]))
        if place in places:
            raise ConfigError(f"{path}: lines {places[place]} and {number} are both arm {place[0]}, seed {place[1]}")
        places[place] = number
        label = line.get("label")
        if label and labels.setdefault(line["arm"], label) != label:
            raise ConfigError(
                f"{path}, line {number}: arm {line['arm']} is labelled {labels[line['arm']]!r} further up"
            )
        lines.append(line)
    if not lines:
        raise ConfigError(f"{path} lists no runs; write a line arm,seed,log for each")
    return [{**line, "label": labels.get(line["arm"], line["arm"])} for line in lines]


def _stripped(row: Mapping[str | None, Any], where: str) -> dict[str, str]:
    """Return a line of the file without spaces around its values. Raises `ConfigError` for a bad one."""
    if None in row:
        raise ConfigError(f"{where}: more values than columns")
    line = {str(name): (value or "").strip() for name, value in row.items()}
    faults = [f"{name} is empty" for name in _COLUMNS if not line[name]]
    faults += [f"{name} {line[name]!r} has control characters" for name in _COLUMNS if not line[name].isprintable()]
    if not faults and not line["seed"].isdecimal():
        faults = [f"seed {line['seed']!r} is no integer from 0 on"]
    if faults:
        raise ConfigError(f"{where}: {faults[0]}")
    return line


def _read_run(request: Import, names: Names, line: Mapping[str, str]) -> ForeignRun:
    folder, run = request.logs.parent, line.get("run") or None
    path = folder / line["log"]
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{request.logs}: {line['log']!r} lies outside of its folder; keep the list above its logs")
    entries = read_log(path, names, run, request.step)
    rows = store_rows(entries, names, SCORE_UNITS[request.unit], request.responses_per_step, request.score)
    score = _find_score(request, path, rows, names, shared_scores(entries, names))
    values = [float(value) for row in rows if (value := row.get(score)) is not None]
    if request.unit != "reward" and (outliers := [value for value in values if not 0 <= value <= 1]):
        outlier = outliers[0] / SCORE_UNITS[request.unit]
        raise ConfigError(
            f"{path}: {score.removeprefix(f'{EVALUATION}/')} is {outlier:g}, which is no share with unit={request.unit}; say unit=percent "
            "for 0 to 100, or unit=reward for a number that is none"
        )
    content = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    run_id = content_hash("foreign run", IMPORT_VERSION, request.dialect or "table", content)
    return ForeignRun(line["arm"], line["label"], int(line["seed"]), path, run, rows, score, content, run_id)


def _find_score(
    request: Import, path: Path, rows: Sequence[Mapping[str, Any]], names: Names, labels: Mapping[str, list[str]]
) -> str:
    """Return the column that the answer is about: `evaluation/<benchmark>/<metric>`, or the training metric that the caller names."""
    columns = sorted({name for row in rows for name in row} - {"step", "attempt", "updates"})
    scores = [name for name in columns if _is_score(name)]
    if request.score is None:
        score_names = [name.removeprefix(f"{EVALUATION}/") for name in scores if "/verl_" not in name]
        candidates = [*score_names, *(name for log_names in labels.values() for name in log_names)]
        if len(candidates) == 1 and score_names:
            return f"{EVALUATION}/{score_names[0]}"
        hint = f"take a training metric with score= and unit=reward; it has {', '.join(columns[:8])}"
        if any(name.startswith(f"{EVALUATION}/") for name in columns):
            hint = f"call its column {EVALUATION}/BENCHMARK/METRIC, or {hint}"
        if any(name.startswith("val-core/") for name in columns):
            hint = "its columns are verl's: give dialect=verl"
        hint = "choose one with score=" if candidates else hint
        raise ConfigError(f"{path}: evaluation scores found: {', '.join(candidates) or 'none'}; {hint}")
    column = f"{EVALUATION}/{request.score}"
    if column in labels and request.score not in columns:
        raise ConfigError(f"{path}: score={request.score} is {' or '.join(labels[column])}; choose one with score=")
    for name in (column, names.metrics.get(request.score), names.score(request.score), request.score):
        if name in columns:
            return str(name)
    choices = [name.removeprefix(f"{EVALUATION}/") for name in scores]
    if not request.score.startswith(("eval", "val")):  # who asks for an evaluation wants no training metric
        choices += columns
    raise ConfigError(f"{path} has no score {request.score!r}{nearest(request.score, choices)}")


def _refuse_copies(runs: Sequence[ForeignRun]) -> None:
    """One log counts once: the same numbers under two arms or two seeds would be a replicate that is none."""
    runs_by_id: dict[str, ForeignRun] = {}
    for run in runs:
        if run.run_id in runs_by_id:
            other = runs_by_id[run.run_id]
            raise ConfigError(
                f"{run.path} has the same numbers as {other.path} (arm {other.arm}, seed {other.seed}); a copy is no replicate"
            )
        runs_by_id[run.run_id] = run


def _write_run(store: ResultStore, request: Import, names: Names, foreign: ForeignRun) -> bool:
    """Write a run unless it is there; its rows are on the disk before it is marked as finished."""
    run = store.run(foreign.run_id)
    stored_manifest = run.manifest()
    if stored_manifest is not None and stored_manifest["status"] == "finished":
        if stored_manifest["seed"] != foreign.seed:
            raise ConfigError(
                f"{foreign.path} has the content of run {foreign.run_id}, which is here as seed {stored_manifest['seed']}; two seeds "
                "cannot log the same numbers: name the other run's file"
            )
        return False
    source = {
        "format": request.dialect or "table",
        "trainer": names.trainer,
        "file": foreign.path.name,
        "run": foreign.run,
        "content_sha256": foreign.content,
        "unit": request.unit,
        "responses_per_step": request.responses_per_step,
        "import_version": IMPORT_VERSION,
        "remarks": " ".join(names.remarks),
    }
    with run.lock():
        manifest = {
            "identity_version": 0,  # not a configuration of ours: its id is the hash of what it logged
            "arm_id": _arm_id(request, foreign.arm),
            "seed": foreign.seed,
            "labels": {"experiment": request.experiment, "arm": foreign.arm, "foreign": source["format"]},
            "attempts": [],
            "provenance": {"foreign": source},
            "error": None,
        }
        run.create(yaml.safe_dump({"foreign": source}), {**manifest, "status": "running"})
        metrics = run.path / layout.METRICS_FILE
        metrics.unlink(missing_ok=True)  # of an import that was killed
        for row in foreign.rows:
            run.append_step(row)
        run.write_manifest(run.seal_manifest(manifest))
    return True


def _arm_id(request: Import, arm: str) -> str:
    return content_hash("foreign arm", request.dialect or "table", request.experiment, arm)


def _build_plan(request: Import, runs: Sequence[ForeignRun]) -> dict[str, Any]:
    """Return the experiment's plan, which is what the file says."""
    score = runs[0].score
    benchmark, metric = score.split("/")[1:] if _is_score(score) else ("training", score)
    labels = {run.arm: run.label for run in runs}
    arms = list(dict.fromkeys(run.arm for run in runs))
    return {
        "name": request.experiment,
        "title": request.title or request.experiment,
        "design": "arms",
        "benchmark": benchmark,
        "primary_cap": request.cap,
        "caps": [request.cap],
        "metric": metric,
        "score_unit": "reward" if request.unit == "reward" else "fraction",
        "checkpoint_rule": _choose_checkpoint_rule(runs) if benchmark == "training" else "last",
        "seeds": sorted({run.seed for run in runs}),
        "paired": request.paired,
        "foreign": True,
        "command": "harness import",
        "arms": [
            {
                "name": arm,
                "label": labels[arm],
                "parent": None if arm == arms[0] else arms[0],
                "arm_id": _arm_id(request, arm),
                "runs": {str(run.seed): run.run_id for run in runs if run.arm == arm},
                "foreign": request.dialect or "table",
            }
            for arm in arms
        ],
    }


def _choose_checkpoint_rule(runs: Sequence[ForeignRun]) -> str:
    """The last ten values of a training curve, or as many as all whole logs have: no mean of ten is said of a curve of three."""
    steps_by_run = [[int(row["step"]) for row in run.rows if run.score in row] for run in runs]
    count = min(len(steps) for steps in steps_by_run if steps[-1] == max(map(max, steps_by_run)))
    return "last" if count == 1 else f"mean_last_{min(count, 10)}"


def _list_replacements(plan: Mapping[str, Any], runs: Sequence[ForeignRun]) -> list[str]:
    """Return a line for each run that the experiment had before and has no more."""
    run_ids = {(run.arm, str(run.seed)): run.run_id for run in runs}
    lines = []
    for arm in plan["arms"]:
        for seed, run_id in arm["runs"].items():
            new_id = run_ids.get((arm["name"], seed))
            if new_id != run_id:
                lines.append(
                    f"arm {arm['name']}, seed {seed} was run {run_id}, {f'now {new_id}' if new_id else 'now not listed'}"
                )
    return lines
