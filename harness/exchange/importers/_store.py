"""A foreign log as a run of the store and an arm of an experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.identity import content_hash
from harness.configuration.registry import member, nearest
from harness.exchange.importers._log import EVALUATION, ForeignLogError, Logged, Score, store_rows
from harness.store import ResultStore

IMPORT_VERSION = 1
SCORE_UNITS = {"fraction": 1.0, "percent": 0.01, "reward": 1.0}


@dataclass(frozen=True)
class Import:
    """What to read and where it belongs.

    Attributes:
        format: a module of this package.
        path: the log.
        experiment: the experiment's name; made where absent.
        arm: the arm's name.
        seed: the training seed of the run, as its trainer had it.
        label: for tables; the arm's name where empty.
        score: the evaluation that the answer is about: `benchmark/metric`, or a training metric such as `reward_mean`;
            None where the log has one only.
        unit: how the log writes scores: fraction (of 1), percent, or reward (shown as it is).
        run: which run of an export that holds several.
        responses_per_step: responses sampled per logged step; makes generated tokens known where the log lacks them.
        cap: response token cap of the evaluation, 0 where unknown.
        parent: the arm to compare with; the experiment's first arm where None.
        paired: whether runs of equal seed share prompts and sampling seeds across arms.
        title: of the experiment.
    """

    format: str
    path: Path
    experiment: str
    arm: str
    seed: int
    label: str = ""
    score: str | None = None
    unit: str = "fraction"
    run: str | None = None
    responses_per_step: int | None = None
    cap: int = 0
    parent: str | None = None
    paired: bool = False
    title: str = ""


@dataclass(frozen=True)
class Imported:
    """The run it became, the steps it has and the score that stands for it."""

    run_id: str
    steps: int
    score: str
    scores: tuple[str, ...]
    new: bool


def import_run(store: ResultStore, request: Import) -> Imported:
    """Write the run and its place in the plan; a log that is in the store already is not written again.

    Raises:
        ForeignLogError: the log cannot be read, has no such score, or contradicts what the store holds.
        StoreError: the store cannot be written.
    """
    if request.unit not in SCORE_UNITS:
        raise ForeignLogError(f"unit={request.unit} is unknown{nearest(request.unit, list(SCORE_UNITS))}")
    module = member("harness.exchange.importers", request.format)
    logged: list[Logged] = module.read(request.path, request.run)
    rows = store_rows(
        logged,
        module.METRICS,
        module.SCORES,
        score_factor=SCORE_UNITS[request.unit],
        responses_per_step=request.responses_per_step,
    )
    scores = tuple(sorted({name for row in rows for name in row if name.startswith(f"{EVALUATION}/")}))
    score = _chosen_score(request, scores, {name for row in rows for name in row}, module.SCORES)
    content = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    arm_id = content_hash("foreign arm", request.format, request.experiment, request.arm)
    run_id = content_hash("foreign run", IMPORT_VERSION, request.format, content)
    plan = _plan(store, request, score, arm_id, run_id)
    new = _write_run(store, request, rows, run_id, arm_id, list(module.REMARKS), content)
    store.write_plan(request.experiment, plan)
    return Imported(run_id, len(rows), score, scores, new)


def _chosen_score(
    request: Import, scores: tuple[str, ...], columns: set[str], patterns: Sequence[Score]
) -> str:
    """`evaluation/<benchmark>/<metric>`, by our name or the log's own, or a training metric where the caller names one."""
    if request.score is None:
        plain = [name for name in scores if "/verl_" not in name]
        if len(plain) == 1:
            return plain[0]
        found = ", ".join(name.removeprefix(f"{EVALUATION}/") for name in plain) or "none"
        hint = (
            "choose one with score="
            if plain
            else "take a training metric, such as score=reward_mean unit=reward"
        )
        raise ForeignLogError(f"{request.path}: evaluation scores found: {found}; {hint}")
    full = f"{EVALUATION}/{request.score}"
    if full in scores:
        return full
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


def _plan(store: ResultStore, request: Import, score: str, arm_id: str, run_id: str) -> dict[str, Any]:
    """The experiment's plan with this run in it.

    Raises:
        ForeignLogError: the experiment is planned by `harness run`, or is about another score.
    """
    benchmark, metric = score.split("/")[1:] if score.startswith(f"{EVALUATION}/") else ("training", score)
    fresh: dict[str, Any] = {
        "name": request.experiment,
        "title": request.title or request.experiment,
        "question": "",
        "design": "arms",
        "benchmark": benchmark,
        "primary_cap": request.cap,
        "caps": [request.cap],
        "metric": metric,
        "score_unit": "reward" if request.unit == "reward" else "fraction",
        "checkpoint_rule": "mean_last_10" if benchmark == "training" else "last",
        "seeds": [],
        "paired": request.paired,
        "foreign": True,
        "arms": [],
        "command": "harness import_runs",
    }
    known = store.plan(request.experiment) if request.experiment in store.plans() else fresh
    if not known.get("foreign"):
        raise ForeignLogError(
            f"experiment {request.experiment!r} is planned by `harness run`, which would drop the import; take another name"
        )
    if (known["benchmark"], known["metric"]) != (benchmark, metric):
        raise ForeignLogError(
            f"experiment {request.experiment!r} is about {known['benchmark']}/{known['metric']}, this import about "
            f"{benchmark}/{metric}; name the same score= or another experiment"
        )
    unit = known.get("score_unit", "fraction")
    if unit != fresh["score_unit"]:
        raise ForeignLogError(
            f"experiment {request.experiment!r} has scores of unit {unit}, this import of unit {fresh['score_unit']} (percent is read "
            "as a fraction); give the same unit= or name another experiment"
        )
    arms = [{**arm, "runs": dict(arm["runs"])} for arm in known["arms"]]
    arm = next((arm for arm in arms if arm["name"] == request.arm), None)
    if arm is None:
        names = [str(other["name"]) for other in arms]
        if request.parent is not None and request.parent not in names:
            raise ForeignLogError(f"parent={request.parent} is no arm yet{nearest(request.parent, names)}")
        arm = _arm(request, arm_id, request.parent or (names[0] if names else None))
        arms.append(arm)
    _refuse_reuse(arms, request, run_id)
    arm["runs"][str(request.seed)] = run_id
    seeds = sorted({int(seed) for each in arms for seed in each["runs"]})
    return {**known, "arms": arms, "seeds": seeds}


def _arm(request: Import, arm_id: str, parent: str | None) -> dict[str, Any]:
    return {
        "name": request.arm,
        "label": request.label or request.arm,
        "parent": parent,
        "patch": None,
        "patches": [],
        "arm_id": arm_id,
        "runs": {},
        "published": None,
        "changes": {},
        "group": None,
        "overrides": [],
        "foreign": request.format,
    }


def _refuse_reuse(arms: list[dict[str, Any]], request: Import, run_id: str) -> None:
    """One log counts once: the same run under two arms or two seeds would be a replicate that is none."""
    for arm in arms:
        runs: Mapping[str, str] = arm["runs"]
        for seed, other in runs.items():
            same_place = arm["name"] == request.arm and seed == str(request.seed)
            if other == run_id and not same_place:
                raise ForeignLogError(
                    f"{request.path} is already here as arm {arm['name']}, seed {seed}; a copy is no replicate"
                )
