"""The request of an import, and its place in the plan of a foreign experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.registry import nearest
from harness.exchange.importers._log import EVALUATION, ForeignLogError
from harness.store import ResultStore


@dataclass(frozen=True)
class Import:
    """A log to read, and where it belongs.

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
        cap: response token cap of the evaluation, 0 where unknown or as in the plan.
        parent: the arm to compare with; where None the experiment's first arm, or what the plan says.
        paired: whether runs of equal seed share prompts and sampling seeds across arms; where None as in the plan, no in a new one.
        title: of the experiment; as in the plan, or its name, where empty.
        replace: take the place of another run of this arm and seed, and change what the plan says of label, cap, paired and title.
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
    paired: bool | None = None
    title: str = ""
    replace: bool = False


def planned(
    store: ResultStore, request: Import, score: str, arm_id: str, run_id: str
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
        arm = _arm(request, arm_id, request.parent or (names[0] if names else None))
        arms.append(arm)
    else:
        _retold(arm, request)
    _refuse_reuse(arms, request, run_id)
    replaced = _replaced(arm, request, run_id)
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


def _replaced(arm: Mapping[str, Any], request: Import, run_id: str) -> str | None:
    """The run that stands at this arm and seed, if it is another one.

    Raises:
        ForeignLogError: it would be lost without anyone having said so.
    """
    held: str | None = arm["runs"].get(str(request.seed))
    if held is None or held == run_id:
        return None
    if not request.replace:
        raise ForeignLogError(
            f"arm {request.arm}, seed {request.seed} of experiment {request.experiment!r} is run {held}, another log than "
            f"{request.path}; give this log's own seed=, or replace=true to put it in that run's place"
        )
    return held


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
