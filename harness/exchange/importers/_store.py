"""A foreign log as a run of the store and an arm of an experiment."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.error import require
from harness.configuration.identity import content_hash
from harness.configuration.registry import kinds, member, nearest
from harness.exchange.importers._format import format_of
from harness.exchange.importers._log import ForeignLogError, Log, same_run
from harness.exchange.importers._trainer import EVALUATION, FAMILY
from harness.store import ResultStore, layout, lease

IMPORT_VERSION = 1
SCORE_UNITS = {"fraction": 1.0, "percent": 0.01, "reward": 1.0}
PATIENCE_SECONDS = 60.0  # for other imports into the experiment; one takes about a second


@dataclass(frozen=True)
class Import:
    """A log to read, and where it belongs.

    Attributes:
        format: a module of this package; None: told by the file.
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
        cap: response token cap of the evaluation, 0 where unknown or as in the plan.
        parent: the arm to compare with; where None the experiment's first arm, or what the plan says.
        paired: whether runs of equal seed share prompts and sampling seeds across arms; where None as in the plan, no in a new one.
        title: of the experiment; as in the plan, or its name, where empty.
        trainer: whose names the metrics of wandb and TensorBoard have; None: that of the trainer that knows most of them.
        replace: take the place of another run of this arm and seed, and change what the plan says of label, cap, paired and title.
    """

    path: Path
    experiment: str
    arm: str
    seed: int
    format: str | None = None
    label: str = ""
    score: str | None = None
    unit: str = "fraction"
    run: str | None = None
    responses_per_step: int | None = None
    cap: int = 0
    parent: str | None = None
    paired: bool | None = None
    title: str = ""
    trainer: str | None = None
    replace: bool = False


@dataclass(frozen=True)
class Imported:
    """The run it became, its steps and score, the run whose place it took, if responses_per_step told its tokens, how it was read."""

    run_id: str
    steps: int
    score: str
    scores: tuple[str, ...]
    new: bool
    replaced: str | None = None
    responses_used: bool = True
    said: tuple[str, ...] = ()


def import_run(store: ResultStore, request: Import) -> Imported:
    """Read a log, and write the run and its place in the plan; a log that is in the store already is not written again.

    Raises:
        ConfigError: no such unit, format or trainer.
        ForeignLogError: the log cannot be read, has no such score, or contradicts what the store holds.
        StoreError: the store cannot be written, or another import into the experiment does not end.
    """
    require("unit", request.unit, list(SCORE_UNITS))
    kind = request.format or format_of(request.path)
    log = read_log(request, kind)
    found = import_log(store, dataclasses.replace(request, format=kind), log)
    return dataclasses.replace(found, said=(*log.said, *found.said))


def read_log(request: Import, kind: str) -> Log:
    """Read the request's log in a format. Raises `ConfigError` and `ForeignLogError`."""
    require("format", kind, list(kinds(FAMILY)))
    module = member(FAMILY, kind)
    if not hasattr(module, "TRAINER"):
        found: Log = module.read(request.path, request.run, trainer=request.trainer)
        return found
    if request.trainer not in (None, kind):
        raise ForeignLogError(
            f"trainer={request.trainer}: format={kind} has names of its own; leave one of them out"
        )
    own: Log = module.read(request.path, request.run)
    return own


def import_log(
    store: ResultStore, request: Import, log: Log, changes: Mapping[str, Any] | None = None
) -> Imported:
    """Write a run that was read, and its place in the plan; `changes` says how its arm differs from the first: key -> [before, after]."""
    rows = log.rows(
        score_factor=SCORE_UNITS[request.unit],
        responses_per_step=request.responses_per_step,
        chosen=request.score,
    )
    scores = tuple(sorted({name for row in rows for name in row if name.startswith(f"{EVALUATION}/")}))
    score = _chosen_score(request, scores, {name for row in rows for name in row}, log)
    content = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    arm_id = content_hash("foreign arm", request.format, request.experiment, request.arm)
    run_id = content_hash("foreign run", IMPORT_VERSION, request.format, content)
    claim = layout.plan_file(store.root, request.experiment).with_name(layout.CLAIM_LOCK)
    with lease.acquire(claim, wait_seconds=PATIENCE_SECONDS):  # imports beside it change the same plan
        plan, replaced = _planned(store, request, score, arm_id, run_id, changes or {})
        _refuse_twin(store, request, rows, plan, run_id)
        new = _write_run(store, request, rows, run_id, arm_id, log, content)
        store.write_plan(request.experiment, plan)
    logged = any("generated_tokens" in entry.values for entry in log.steps)
    used = not logged and any("generated_tokens" in row for row in rows)
    return Imported(run_id, len(rows), score, scores, new, replaced, used, (log.account(),))


def _chosen_score(
    request: Import,
    scores: tuple[str, ...],
    columns: set[str],
    log: Log,
) -> str:
    """`evaluation/<benchmark>/<metric>`, by our name or the log's own, or a training metric where the caller names one."""
    shared = log.shared()
    if request.score is None:
        plain = [name for name in scores if "/verl_" not in name]
        apart = [name for names in shared.values() for name in names]
        if len(plain) == 1 and not apart:
            return plain[0]
        found = ", ".join([*(name.removeprefix(f"{EVALUATION}/") for name in plain), *apart]) or "none"
        training = "take a training metric, such as score=reward_mean unit=reward"
        hint = "choose one with score=" if plain or apart else training
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
    theirs = log.trainer.score(request.score)
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
    log: Log,
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
        "trainer": log.trainer.name,
        "file": request.path.name,
        "run": request.run,
        "content_sha256": content,
        "unit": request.unit,
        "responses_per_step": request.responses_per_step,
        "import_version": IMPORT_VERSION,
        "remarks": " ".join([*log.trainer.remarks, *log.said]),
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
        settings = yaml.safe_dump({"foreign": source, **({"config": dict(log.config)} if log.config else {})})
        run.create(settings, {**manifest, "status": "claimed"})
        (run.path / "metrics.jsonl").unlink(missing_ok=True)  # of an import that was killed
        for row in rows:
            run.append_step(row)
        run.write_manifest({**manifest, "status": "finished"})
    return True


def _planned(
    store: ResultStore,
    request: Import,
    score: str,
    arm_id: str,
    run_id: str,
    changes: Mapping[str, Any],
) -> tuple[dict[str, Any], str | None]:
    """Return the experiment's plan with this run in it, and the run whose place it takes. The caller holds the experiment's claim.

    Raises:
        ForeignLogError: the experiment is planned by `harness run`, is about another score, or says otherwise.
    """
    fresh = _fresh(request, score)
    known = store.plan(request.experiment) if request.experiment in store.plans() else fresh
    _refuse_another_question(known, fresh, request)
    known = {**known, **_told(known, request)}
    arms = [{**arm, "runs": dict(arm["runs"])} for arm in known["arms"]]
    names = [str(arm["name"]) for arm in arms]
    if request.parent is not None and request.parent not in names:
        raise ForeignLogError(f"parent={request.parent} is no arm yet{nearest(request.parent, names)}")
    arm = next((arm for arm in arms if arm["name"] == request.arm), None)
    if arm is None:
        arm = {
            "name": request.arm,
            "label": request.label or request.arm,
            "parent": request.parent or (names[0] if names else None),
            **{
                "patch": None,
                "patches": [],
                "published": None,
                "changes": dict(changes),
                "group": None,
                "overrides": [],
            },
            "arm_id": arm_id,
            "runs": {},
            "foreign": request.format,
        }
        arms.append(arm)
    else:
        _retold(arm, request)
    _refuse_reuse(arms, request, run_id)
    held: str | None = arm["runs"].get(str(request.seed))
    replaced = None if held == run_id else held
    if replaced is not None and not request.replace:
        raise ForeignLogError(
            f"arm {request.arm}, seed {request.seed} of experiment {request.experiment!r} is run {held}, another log than "
            f"{request.path}; give this log's own seed=, or replace=true to put it in that run's place"
        )
    arm["runs"][str(request.seed)] = run_id
    seeds = sorted({int(seed) for each in arms for seed in each["runs"]})
    return {**known, "arms": arms, "seeds": seeds}, replaced


def _fresh(request: Import, score: str) -> dict[str, Any]:
    benchmark, metric = score.split("/")[1:] if score.startswith(f"{EVALUATION}/") else ("training", score)
    return {
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
        "paired": bool(request.paired),
        "foreign": True,
        "arms": [],
        "command": "harness import_runs",
    }


def _refuse_another_question(known: Mapping[str, Any], fresh: Mapping[str, Any], request: Import) -> None:
    if not known.get("foreign"):
        raise ForeignLogError(
            f"experiment {request.experiment!r} is planned by `harness run`, which would drop the import; take another name"
        )
    if (known["benchmark"], known["metric"]) != (fresh["benchmark"], fresh["metric"]):
        raise ForeignLogError(
            f"experiment {request.experiment!r} is about {known['benchmark']}/{known['metric']}, this import about "
            f"{fresh['benchmark']}/{fresh['metric']}; name the same score= or another experiment"
        )
    unit = known.get("score_unit", "fraction")
    if unit != fresh["score_unit"]:
        raise ForeignLogError(
            f"experiment {request.experiment!r} has scores of unit {unit}, this import of unit {fresh['score_unit']} (percent is read "
            "as a fraction); give the same unit= or name another experiment"
        )


def _told(known: Mapping[str, Any], request: Import) -> dict[str, Any]:
    """Return what the request says of the whole experiment; a title or a cap that was not given before is taken over.

    Raises:
        ForeignLogError: the plan says otherwise.
    """
    told: dict[str, Any] = {}
    for key, field, value, unsaid in (
        ("title", "title", request.title or None, request.experiment),
        ("cap", "primary_cap", request.cap or None, 0),
        ("paired", "paired", request.paired, None),
    ):
        if value is None or value == known[field]:
            continue
        if known[field] != unsaid and not request.replace:
            raise _contradiction(f"experiment {request.experiment!r}", key, known[field], value)
        told[field] = value
    if "primary_cap" in told:
        told["caps"] = [told["primary_cap"]]
    return told


def _retold(arm: dict[str, Any], request: Import) -> None:
    """Take over the label of an arm that had none; refuse what its plan says otherwise."""
    if request.parent is not None and request.parent != arm["parent"]:
        says = (
            f"is compared with {arm['parent']}"
            if arm["parent"]
            else "is the one that others are compared with"
        )
        raise ForeignLogError(
            f"arm {request.arm} of experiment {request.experiment!r} {says}, this import says parent={request.parent}; leave "
            "parent= out or name another experiment"
        )
    if request.label and request.label != arm["label"]:
        if arm["label"] != request.arm and not request.replace:
            raise _contradiction(f"arm {request.arm}", "label", arm["label"], request.label)
        arm["label"] = request.label


def _contradiction(what: str, key: str, known: Any, value: Any) -> ForeignLogError:
    before, after = (str(each).lower() if isinstance(each, bool) else each for each in (known, value))
    return ForeignLogError(
        f"{what} has {key}={before}, this import says {key}={after}; leave {key}= out, or change it with replace=true"
    )


def _refuse_reuse(arms: list[dict[str, Any]], request: Import, run_id: str) -> None:
    """One log counts once: the same run under two arms or two seeds would be a replicate that is none."""
    for name, seed in [
        (arm["name"], seed) for arm in arms for seed, other in arm["runs"].items() if other == run_id
    ]:
        if (name, seed) != (request.arm, str(request.seed)):
            raise ForeignLogError(
                f"{request.path} is already here as arm {name}, seed {seed}; a copy is no replicate"
            )


def _refuse_twin(
    store: ResultStore, request: Import, rows: list[dict[str, Any]], plan: Mapping[str, Any], run_id: str
) -> None:
    """Two trackers' logs of one run are one run: counted under two seeds they would be a replicate that is none."""
    for arm in plan["arms"]:
        for seed, other in arm["runs"].items():
            steps: list[dict[Any, Any]] = store.run(other).steps().to_dict("records")
            if other != run_id and same_run(rows, steps):
                raise ForeignLogError(
                    f"{request.path} has the numbers of arm {arm['name']}, seed {seed}: it is another log of that run, no replicate; "
                    "to take its place, import it under that arm and seed with replace=true"
                )
