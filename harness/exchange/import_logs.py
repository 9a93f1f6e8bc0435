"""Runs that other trainers logged, as runs of the store and arms of an experiment, declared in one file `arm,seed,log`.

The file says the whole experiment: what it lists is the plan, and the first arm is the one that the others are compared with. All logs are
read before anything is written. A run's id is the hash of what it logged.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.error import ConfigError, nearest, require
from harness.configuration.identity import content_hash
from harness.exchange.logs import (
    EVALUATION,
    ForeignLogError,
    Names,
    names_of,
    read_log,
    shared_scores,
    store_rows,
)
from harness.store import ResultStore, atomic, layout, lease

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
class Imported:
    """What an import did: its runs, the ids that are new, and a line for each run whose place another one took."""

    runs: Sequence[ForeignRun]
    new: frozenset[str]
    replaced: Sequence[str]

    @property
    def score(self) -> str:
        """The column that the answer is about."""
        return self.runs[0].score

    @property
    def columns(self) -> list[str]:
        """All columns that the logs have."""
        return sorted({name for run in self.runs for row in run.rows for name in row})


def import_logs(store: ResultStore, request: Import) -> Imported:
    """Read all logs, then write the runs and the experiment's plan; a run that is stored already is not written again.

    Raises `ConfigError`, `ForeignLogError` for a log that cannot be read or has no such score, and `StoreError`.
    """
    require("unit", request.unit, list(SCORE_UNITS))
    require("dialect", request.dialect, ["", "trl", "verl"])
    names = names_of(request.dialect)
    runs = [_read(request, names, line) for line in _lines(request.logs)]
    _refuse_copies(runs)
    scores = {run.score: run.path for run in runs}
    if len(scores) > 1:
        columns = "; ".join(f"{path} has {score}" for score, path in scores.items())
        raise ForeignLogError(f"the logs have no score in common: {columns}; choose one with score=")
    claim = layout.plan_file(store.root, request.experiment).with_name(layout.CLAIM_LOCK)
    with lease.acquire(claim, wait_seconds=PATIENCE_SECONDS):  # imports beside it change the same plan
        known = request.experiment in store.plans()
        plan = store.plan(request.experiment) if known else {"foreign": True, "arms": []}
        if not plan.get("foreign"):
            raise ForeignLogError(
                f"experiment {request.experiment!r} is planned by `harness run`, which would drop the import; take another name"
            )
        new = frozenset(run.run_id for run in runs if _write(store, request, names, run))
        store.write_plan(request.experiment, _plan(request, runs))
    return Imported(runs, new, list(_replaced(plan, runs)))


def _lines(path: Path) -> list[dict[str, str]]:
    """Return the lines of the file. Raises `ConfigError` for a file without the columns, or with a bad or repeated line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows, columns = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    unknown = [name for name in columns if name not in (*_COLUMNS, *_MORE)]
    if unknown or not set(_COLUMNS) <= set(columns):
        raise ConfigError(
            f"{path} needs the columns arm,seed,log in its first line, and may have run,label; it has {','.join(columns)}"
        )
    places: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows, start=2):
        faults = [f"{name} is empty" for name in _COLUMNS if not row[name]]
        faults += ["more values than columns"] if None in row else []
        if not faults and not row["seed"].isdigit():
            faults = [f"seed {row['seed']!r} is no integer from 0 on"]
        if faults:
            raise ConfigError(f"{path}, line {number}: {faults[0]}")
        place = row["arm"], str(int(row["seed"]))
        if place in places:
            raise ConfigError(
                f"{path}: lines {places[place]} and {number} are both arm {place[0]}, seed {place[1]}"
            )
        places[place] = number
    if not rows:
        raise ConfigError(f"{path} lists no runs; write a line arm,seed,log for each")
    return rows


def _read(request: Import, names: Names, line: Mapping[str, str]) -> ForeignRun:
    path, run = request.logs.parent / line["log"], line.get("run") or None
    entries = read_log(path, names, run, request.step)
    rows = store_rows(entries, names, SCORE_UNITS[request.unit], request.responses_per_step, request.score)
    score = _score(request, path, rows, names, shared_scores(entries, names))
    content = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    run_id = content_hash("foreign run", IMPORT_VERSION, request.dialect or "table", content)
    label = line.get("label") or line["arm"]
    return ForeignRun(line["arm"], label, int(line["seed"]), path, run, rows, score, content, run_id)


def _score(
    request: Import,
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    names: Names,
    shared: Mapping[str, list[str]],
) -> str:
    """Return the column that the answer is about: `evaluation/<benchmark>/<metric>`, or the training metric that the caller names."""
    columns = sorted({name for row in rows for name in row} - {"step", "attempt", "updates"})
    scores = [name for name in columns if name.startswith(f"{EVALUATION}/")]
    if request.score is None:
        plain = [name.removeprefix(f"{EVALUATION}/") for name in scores if "/verl_" not in name]
        candidates = [*plain, *(name for each in shared.values() for name in each)]
        if len(candidates) == 1 and plain:
            return f"{EVALUATION}/{plain[0]}"
        hint = "take a training metric, such as score=reward_mean unit=reward"
        hint = "choose one with score=" if candidates else hint
        raise ForeignLogError(f"{path}: evaluation scores found: {', '.join(candidates) or 'none'}; {hint}")
    column = f"{EVALUATION}/{request.score}"
    if column in shared and request.score not in columns:
        raise ForeignLogError(
            f"{path}: score={request.score} is {' or '.join(shared[column])}; choose one with score="
        )
    for name in (column, names.metrics.get(request.score), names.score(request.score), request.score):
        if name in columns:
            return str(name)
    choices = [name.removeprefix(f"{EVALUATION}/") for name in scores]
    if not request.score.startswith(("eval", "val")):  # who asks for an evaluation wants no training metric
        choices += columns
    raise ForeignLogError(f"{path} has no score {request.score!r}{nearest(request.score, choices)}")


def _refuse_copies(runs: Sequence[ForeignRun]) -> None:
    """One log counts once: the same numbers under two arms or two seeds would be a replicate that is none."""
    seen: dict[str, ForeignRun] = {}
    for run in runs:
        if run.run_id in seen:
            other = seen[run.run_id]
            raise ForeignLogError(
                f"{run.path} has the same numbers as {other.path} (arm {other.arm}, seed {other.seed}); a copy is no replicate"
            )
        seen[run.run_id] = run


def _write(store: ResultStore, request: Import, names: Names, foreign: ForeignRun) -> bool:
    """Write a run unless it is there; its rows are on the disk before it is marked as finished."""
    run = store.run(foreign.run_id)
    stored = run.manifest()
    if stored is not None and stored["status"] == "finished":
        if stored["seed"] != foreign.seed:
            raise ForeignLogError(
                f"{foreign.path} has the content of run {foreign.run_id}, which is here as seed {stored['seed']}; two seeds cannot log the "
                "same numbers: name the other run's file"
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
        atomic.sync_file(metrics)
        run.write_manifest({**manifest, "status": "finished"})
    return True


def _arm_id(request: Import, arm: str) -> str:
    return content_hash("foreign arm", request.dialect or "table", request.experiment, arm)


def _plan(request: Import, runs: Sequence[ForeignRun]) -> dict[str, Any]:
    """Return the experiment's plan, which is what the file says."""
    score = runs[0].score
    benchmark, metric = score.split("/")[1:] if score.startswith(f"{EVALUATION}/") else ("training", score)
    labels = {run.arm: run.label for run in reversed(runs)}
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
        "checkpoint_rule": "mean_last_10" if benchmark == "training" else "last",
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


def _replaced(plan: Mapping[str, Any], runs: Sequence[ForeignRun]) -> list[str]:
    """Return a line for each run that the experiment had before and has no more."""
    listed = {(run.arm, str(run.seed)): run.run_id for run in runs}
    lines = []
    for arm in plan["arms"]:
        for seed, run_id in arm["runs"].items():
            after = listed.get((arm["name"], seed))
            if after != run_id:
                lines.append(
                    f"arm {arm['name']}, seed {seed} was run {run_id}, {f'now {after}' if after else 'now not listed'}"
                )
    return lines
