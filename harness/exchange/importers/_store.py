"""A foreign log as a run of the store and an arm of an experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.configuration.error import require
from harness.configuration.identity import content_hash
from harness.configuration.registry import kinds, member, nearest
from harness.exchange.importers._log import (
    EVALUATION,
    ForeignLogError,
    Logged,
    Score,
    shared_columns,
    store_rows,
)
from harness.exchange.importers._plan import Import, planned
from harness.store import ResultStore, layout, lease

__all__ = ["Import", "Imported", "import_run"]

IMPORT_VERSION = 1
_FAMILY = "harness.exchange.importers"
SCORE_UNITS = {"fraction": 1.0, "percent": 0.01, "reward": 1.0}
PATIENCE_SECONDS = 60.0  # for other imports into the experiment; one takes about a second


@dataclass(frozen=True)
class Imported:
    """The run it became, the steps it has, the score that stands for it, and the run whose place it took."""

    run_id: str
    steps: int
    score: str
    scores: tuple[str, ...]
    new: bool
    replaced: str | None = None


def import_run(store: ResultStore, request: Import) -> Imported:
    """Write the run and its place in the plan; a log that is in the store already is not written again.

    Raises:
        ConfigError: no such unit or format.
        ForeignLogError: the log cannot be read, has no such score, or contradicts what the store holds.
        StoreError: the store cannot be written, or another import into the experiment does not end.
    """
    require("unit", request.unit, list(SCORE_UNITS))
    require("format", request.format, list(kinds(_FAMILY)))
    module = member(_FAMILY, request.format)
    logged: list[Logged] = module.read(request.path, request.run)
    rows = store_rows(
        logged,
        module.METRICS,
        module.SCORES,
        score_factor=SCORE_UNITS[request.unit],
        responses_per_step=request.responses_per_step,
        chosen=request.score,
    )
    scores = tuple(sorted({name for row in rows for name in row if name.startswith(f"{EVALUATION}/")}))
    shared = shared_columns(logged, module.SCORES)
    score = _chosen_score(request, scores, {name for row in rows for name in row}, module.SCORES, shared)
    content = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    arm_id = content_hash("foreign arm", request.format, request.experiment, request.arm)
    run_id = content_hash("foreign run", IMPORT_VERSION, request.format, content)
    claim = layout.plan_file(store.root, request.experiment).with_name(layout.CLAIM_LOCK)
    with lease.acquire(claim, wait_seconds=PATIENCE_SECONDS):  # imports beside it change the same plan
        plan, replaced = planned(store, request, score, arm_id, run_id)
        new = _write_run(store, request, rows, run_id, arm_id, list(module.REMARKS), content)
        store.write_plan(request.experiment, plan)
    return Imported(run_id, len(rows), score, scores, new, replaced)


def _chosen_score(
    request: Import,
    scores: tuple[str, ...],
    columns: set[str],
    patterns: Sequence[Score],
    shared: Mapping[str, Sequence[str]],
) -> str:
    """`evaluation/<benchmark>/<metric>`, by our name or the log's own, or a training metric where the caller names one."""
    if request.score is None:
        plain = [name for name in scores if "/verl_" not in name]
        apart = [name for names in shared.values() for name in names]
        if len(plain) == 1 and not apart:
            return plain[0]
        found = ", ".join([*(name.removeprefix(f"{EVALUATION}/") for name in plain), *apart]) or "none"
        hint = (
            "choose one with score="
            if plain or apart
            else "take a training metric, such as score=reward_mean unit=reward"
        )
        raise ForeignLogError(f"{request.path}: evaluation scores found: {found}; {hint}")
    full = f"{EVALUATION}/{request.score}"
    if full in scores:
        return full
    if full in shared:
        raise ForeignLogError(
            f"{request.path}: score={request.score} is {' or '.join(shared[full])}; choose one with score="
        )
    if request.score in columns:
        return request.score
    for theirs in filter(None, (pattern.column(request.score) for pattern in patterns)):
        if theirs in scores:
            return theirs
    choices = [name.removeprefix(f"{EVALUATION}/") for name in scores]
    if not request.score.startswith(("eval", "val")):  # who asks for an evaluation wants no training metric
        choices += sorted(columns)
    raise ForeignLogError(f"{request.path} has no score {request.score!r}{nearest(request.score, choices)}")


def _write_run(
    store: ResultStore,
    request: Import,
    rows: list[dict[str, float | int | None]],
    run_id: str,
    arm_id: str,
    remarks: list[str],
    content: str,
) -> bool:
    run = store.run(run_id)
    known = run.manifest()
    if known is not None and known["status"] == "finished":
        if known["seed"] != request.seed:
            raise ForeignLogError(
                f"{request.path} has the content of run {run_id}, which is here as seed {known['seed']}; two seeds "
                "cannot log the same numbers: name the other run's file"
            )
        return False
    source = {
        "format": request.format,
        "file": request.path.name,
        "run": request.run,
        "content_sha256": content,
        "unit": request.unit,
        "responses_per_step": request.responses_per_step,
        "import_version": IMPORT_VERSION,
        "remarks": " ".join(remarks),
    }
    with run.lock():
        manifest = {
            "identity_version": 0,  # not a configuration of ours: its id is the hash of what it logged
            "arm_id": arm_id,
            "seed": request.seed,
            "labels": {"experiment": request.experiment, "arm": request.arm, "foreign": request.format},
            "attempts": [],
            "provenance": {"foreign": source},
            "error": None,
        }
        run.create(f"foreign: {json.dumps(source)}\n", {**manifest, "status": "claimed"})
        (run.path / "metrics.jsonl").unlink(missing_ok=True)  # of an import that was killed
        for row in rows:
            run.append_step(row)
        run.write_manifest({**manifest, "status": "finished"})
    return True
