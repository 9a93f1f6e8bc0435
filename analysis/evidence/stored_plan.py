"""The plan of an experiment as typed data: arms, seeds, protocol, published numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.store.measures import Measure

DESIGNS = ("cumulative", "leave_one_out", "one_factor", "factorial", "shapley", "arms")
SCORE_UNITS = ("fraction", "reward")


class PlanError(ValueError):
    """The plan lacks something the analysis needs; the message names it."""


@dataclass(frozen=True)
class Published:
    """A number from the literature beside ours; never compared by a test."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Arm:
    """One configuration. ``runs`` maps seed to run id; ``patches`` are all that separate it from the base.

    ``refused``: why its backend or machine cannot run it; it has no runs then, or only earlier ones.
    ``engagement``: what tells whether its difference to its reference did anything; empty in plans of before.
    """

    name: str
    label: str
    runs: Mapping[int, str]
    parent: str | None = None
    patch: str | None = None
    patches: tuple[str, ...] = ()
    published: Published | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None
    overrides: tuple[str, ...] = ()
    arm_id: str = ""
    foreign: str | None = None
    refused: tuple[str, ...] = ()
    engagement: tuple[Measure, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What was to be run and how it is judged (see the store's ``plan.json``).

    ``metric`` is ``avg`` (over samples graded here) or, for foreign runs, the score as their trainer logged it.
    ``score_unit`` is ``fraction`` (shown in %) or ``reward`` (shown as it is). ``margin`` is in the unit of a shown
    difference; None where nothing is to be called equivalent. An arm with seeds of its own has
    just those, the others have ``seeds``. ``looks`` are the numbers of seeds at which a sequential design looks; its
    ``seeds`` are those asked for so far, in the order in which they come.
    """

    name: str
    title: str
    question: str
    design: str
    benchmark: str
    primary_cap: int
    caps: tuple[int, ...]
    checkpoint_rule: str
    seeds: tuple[int, ...]
    paired: bool
    arms: tuple[Arm, ...]
    command: str = ""
    dev_benchmark: str | None = None
    target_accuracy: float | None = None
    orders: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    metric: str = "avg"
    score_unit: str = "fraction"
    reference: str | None = None
    margin: float | None = None
    looks: tuple[int, ...] = ()

    @property
    def score_margin(self) -> float | None:
        """The margin in the unit of stored scores."""
        return None if self.margin is None else self.margin / self.scale

    @property
    def scale(self) -> float:
        """What a score is multiplied by to be shown."""
        return 1.0 if self.score_unit == "reward" else 100.0

    @property
    def digits(self) -> int:
        """Digits after the point of a shown score."""
        return 3 if self.score_unit == "reward" else 1

    @property
    def percent(self) -> str:
        """`` %`` behind the name of a score that is shown as one, else nothing."""
        return "" if self.score_unit == "reward" else " %"

    @property
    def unit(self) -> str:
        """The unit of a difference of scores."""
        return "reward" if self.score_unit == "reward" else "points"

    @property
    def cap_text(self) -> str:
        """``, cap 32 tokens``, or nothing where nobody recorded it."""
        return f", cap {self.primary_cap} tokens" if self.primary_cap else ""

    def seeds_of(self, arm: Arm) -> tuple[int, ...]:
        """The planned seeds of an arm; all of the plan's where its runs are not known yet."""
        return tuple(seed for seed in self.seeds if seed in arm.runs) or self.seeds

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises PlanError listing the names there are."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise PlanError(f"plan {self.name}: no arm {name!r}; arms: {', '.join(a.name for a in self.arms)}")

    @property
    def base(self) -> Arm:
        """The arm the others are measured against: the first one without a parent."""
        return next((arm for arm in self.arms if arm.parent is None), self.arms[0])

    def reference_of(self, arm: Arm) -> Arm | None:
        """The arm a difference is taken to: the parent, or the base where no parent is declared.

        In a leave-one-out the full recipe has no parent and is no base either: it is what the others are taken to.
        """
        if arm.parent is not None:
            return self.arm(arm.parent)
        if self.design == "leave_one_out":
            return None
        return None if arm.name == self.base.name else self.base


def parse_plan(raw: Mapping[str, Any]) -> Plan:
    """Read a plan. Raises PlanError naming the missing key, an unknown design, a wrong margin, or a parent that is no arm."""
    try:
        arms = tuple(_parse_arm(arm) for arm in raw["arms"])
        plan = Plan(
            name=str(raw["name"]),
            title=str(raw.get("title") or raw["name"]),
            question=str(raw.get("question") or ""),
            design=str(raw["design"]),
            benchmark=str(raw["benchmark"]),
            primary_cap=int(raw["primary_cap"]),
            caps=tuple(int(cap) for cap in raw.get("caps") or [raw["primary_cap"]]),
            checkpoint_rule=str(raw.get("checkpoint_rule") or "last"),
            seeds=tuple(int(seed) for seed in raw["seeds"]),
            paired=bool(raw.get("paired", True)),
            arms=arms,
            command=str(raw.get("command") or ""),
            dev_benchmark=raw.get("dev_benchmark"),
            target_accuracy=raw.get("target_accuracy"),
            orders=tuple(tuple(order) for order in raw.get("orders") or ()),
            notes=tuple(str(note) for note in raw.get("notes") or ()),
            metric=str(raw.get("metric") or "avg"),
            score_unit=str(raw.get("score_unit") or "fraction"),
            reference=raw.get("reference"),
            looks=tuple(int(seeds) for seeds in raw.get("looks") or ()),
            margin=None if raw.get("margin") is None else float(raw["margin"]),
        )
    except KeyError as error:
        raise PlanError(f"plan {raw.get('name', '?')} lacks {error}; write it with `harness run`") from error
    if plan.design not in DESIGNS:
        raise PlanError(f"plan {plan.name}: unknown design {plan.design!r}; known: {', '.join(DESIGNS)}")
    if not arms:
        raise PlanError(f"plan {plan.name} has no arms")
    _check_margin(plan)
    for arm in arms:
        if arm.parent is not None:
            plan.arm(arm.parent)
    return plan


def _check_margin(plan: Plan) -> None:
    if plan.margin is None:
        return
    if not 0 < plan.margin < math.inf:
        raise PlanError(f"plan {plan.name}: margin {plan.margin:g} must be above zero, in {plan.unit}")
    if plan.score_unit not in SCORE_UNITS:
        raise PlanError(
            f"plan {plan.name}: margin {plan.margin:g} has no unit, since score_unit is {plan.score_unit!r}; "
            f"known: {', '.join(SCORE_UNITS)}. Leave the margin out or name the unit"
        )


def _parse_arm(raw: Mapping[str, Any]) -> Arm:
    published = raw.get("published")
    return Arm(
        name=str(raw["name"]),
        label=str(raw.get("label") or raw["name"]),
        runs={int(seed): str(run_id) for seed, run_id in raw["runs"].items()},
        parent=raw.get("parent"),
        patch=raw.get("patch"),
        patches=tuple(raw.get("patches") or ()),
        published=None
        if published is None
        else Published(float(published["value"]), str(published["unit"]), str(published["source"])),
        changes=dict(raw.get("changes") or {}),
        group=raw.get("group"),
        overrides=tuple(raw.get("overrides") or ()),
        arm_id=str(raw.get("arm_id") or ""),
        foreign=raw.get("foreign"),
        refused=tuple(raw.get("refused") or ()),
        engagement=tuple(Measure.of_record(measure) for measure in raw.get("engagement") or ()),
    )
