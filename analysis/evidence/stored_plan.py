"""The plan of an experiment as typed data: arms, seeds, protocol, published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from harness.engagement.measure import Measure
from harness.evaluation.metrics.names import POINTS, Metric, UnknownMetric, metric
from harness.statistics.attribution import CONTRASTS, Crossing
from harness.statistics.collapse import Collapse
from harness.statistics.spread import replicates
from harness.store import StoreError


class PlanError(StoreError, ValueError):
    """The plan lacks something the analysis needs; the message names it."""


@dataclass(frozen=True)
class Published:
    """A number from the literature beside ours; never compared by a test."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True, kw_only=True)
class StoredArm:
    """One configuration. ``runs`` maps seed to run id; ``patches`` are all that separate it from the base.

    ``refused``: why its backend or machine cannot run it; it has no runs then, or only earlier ones.
    ``engagement``: what tells whether its difference to its reference did anything; empty in plans of before.
    """

    name: str
    runs: Mapping[int, str]
    label: str = ""
    parent: str | None = None
    patch: str | None = None
    patches: tuple[str, ...] = ()
    published: Published | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    arm_id: str = ""
    foreign: str | None = None
    refused: tuple[str, ...] = ()
    engagement: tuple[Measure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StoredPlan:
    """The runs that were planned, and how they are judged (see the store's ``plan.json``).

    ``score`` is the column ``avg`` of the evaluations: over samples graded here, or for foreign runs the score as their
    trainer logged it. ``metrics`` are what the experiment is about, the score unless declared otherwise; all their
    comparisons are one family. ``margins`` has a metric's name to the margin in the unit of a shown difference; in one
    without nothing is called equivalent. An arm with seeds of its own has just those, the others have ``seeds``.
    ``looks`` are the numbers of seeds at which a sequential design looks; its ``seeds`` are those asked for so far, in
    the order in which they come. ``base_policies``: seed s starts from base policy s mod that, None where each stands alone.
    ``declared_on``: the benchmark that the experiment is about, where this plan is seen on another one (see `on`);
    ``stopped_elsewhere``: that one decided how many seeds ran.
    ``factors``, ``fraction``, ``trends`` and ``contrast_to`` are what a factorial crosses (`harness.statistics.attribution.Crossing`).
    ``collapse`` is what a collapsed run is (`harness.statistics.collapse`).
    ``expects`` is what a claim predicts of the only comparison (see `harness.statistics.finding`), None without a claim.
    """

    name: str
    title: str
    question: str = ""
    design: str
    benchmark: str
    primary_cap: int
    caps: tuple[int, ...]
    checkpoint_rule: str = "last"
    seeds: tuple[int, ...]
    paired: bool = True
    arms: tuple[StoredArm, ...]
    command: str = ""
    dev_benchmark: str | None = None
    target_accuracy: float | None = None
    orders: tuple[tuple[str, ...], ...] = ()
    factors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fraction: int = 1
    trends: Sequence[str] | Mapping[str, Sequence[float]] = ()
    contrast_to: str = CONTRASTS[0]
    collapse: Collapse = field(default_factory=Collapse)
    notes: tuple[str, ...] = ()
    score: Metric = field(default_factory=lambda: metric("avg"))
    metrics: tuple[Metric, ...] = field(default_factory=lambda: (metric("avg"),))
    reference: str | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    looks: tuple[int, ...] = ()
    base_policies: int | None = None
    expects: str | None = None
    declared_on: str | None = None
    stopped_elsewhere: bool = False

    @property
    def crossing(self) -> Crossing:
        """The factors that a factorial crosses: those declared, else the patches of its arms, off and on."""
        patches = Crossing.of_patches([name for arm in self.arms for name in arm.patches])
        return Crossing(self.factors or patches.factors, self.fraction, self.trends, self.contrast_to)

    def replicates(self, values: Mapping[int, float]) -> list[float]:
        """The numbers that intervals are taken over: one a seed, or their means by base policy where seeds share one."""
        return replicates(values, self.base_policies)

    @property
    def shares_bases(self) -> bool:
        """True where several of its seeds start from one base policy."""
        return self.base_policies is not None and len(self.seeds) > self.base_policies

    @property
    def about_score(self) -> bool:
        """True where the score is all that the experiment is about."""
        return self.metrics == (self.score,)

    @property
    def cap_text(self) -> str:
        """``, cap 32 tokens``, or nothing where nobody recorded it."""
        return f", cap {self.primary_cap} tokens" if self.primary_cap else ""

    def on(self, benchmark: str) -> StoredPlan:
        """The plan about another benchmark that its runs were evaluated on, without what holds for its own only.

        These are published numbers, a declared target, and the looks at which its own benchmark decided how many seeds run.
        """
        notes = [
            f"The experiment is about {self.benchmark}: what is said here of {benchmark} was not declared, and holds together on "
            f"{benchmark} alone."
        ]
        if self.looks:
            notes.append(
                f"{self.benchmark} decided how many seeds ran, and these intervals do not allow for that."
            )
        return replace(
            self,
            title=f"{self.title} on {benchmark}",
            benchmark=benchmark,
            declared_on=self.benchmark,
            stopped_elsewhere=bool(self.looks),
            target_accuracy=None,
            looks=(),
            arms=tuple(replace(arm, published=None) for arm in self.arms),
            notes=(*self.notes, *notes),
        )

    @property
    def stopped_by_results(self) -> bool:
        """True where results decided how many seeds ran, so that only comparisons that allow for looks may be judged."""
        return bool(self.looks) or self.stopped_elsewhere

    def seeds_of(self, arm: StoredArm) -> tuple[int, ...]:
        """The planned seeds of an arm; all of the plan's where its runs are not known yet."""
        return tuple(seed for seed in self.seeds if seed in arm.runs) or self.seeds

    def arm(self, name: str) -> StoredArm:
        """The arm of that name. Raises PlanError listing the names there are."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise PlanError(f"plan {self.name}: no arm {name!r}; arms: {', '.join(a.name for a in self.arms)}")

    @property
    def base(self) -> StoredArm:
        """The arm the others are measured against: the first one without a parent."""
        return next((arm for arm in self.arms if arm.parent is None), self.arms[0])

    def reference_of(self, arm: StoredArm) -> StoredArm | None:
        """The arm a difference is taken to: the parent, or the base where no parent is declared.

        In a leave-one-out the full recipe has no parent and is no base either: it is what the others are taken to.
        """
        if arm.parent is not None:
            return self.arm(arm.parent)
        if self.design == "leave_one_out":
            return None
        return None if arm.name == self.base.name else self.base


def parse_plan(raw: Mapping[str, Any]) -> StoredPlan:
    """Read a plan. A plain margin is that of the only metric. Raises PlanError naming the missing key, or a parent that is no arm."""
    where = f"plan {raw.get('name', '?')}"
    score, metrics = _metrics(raw, where)
    margins = raw.get("margin") or {}
    if not isinstance(margins, Mapping):
        margins = {metrics[0].name: margins}
    try:
        read = {
            "arms": tuple(_parse_arm(arm) for arm in raw["arms"]),
            "title": raw.get("title") or raw["name"],
            "caps": tuple(raw.get("caps") or [raw["primary_cap"]]),
            "orders": tuple(map(tuple, raw.get("orders") or ())),
            "expects": (raw.get("claim") or {}).get("expects"),
            "collapse": Collapse(**raw.get("collapse") or {}),
        }
        known = _known(StoredPlan, {**raw, **read})
    except KeyError as error:
        raise PlanError(f"{where} lacks {error}; write it with `harness run`") from error
    plan = StoredPlan(**known, score=score, metrics=metrics, margins=margins)
    if not plan.arms:
        raise PlanError(f"{where} has no arms")
    for arm in plan.arms:
        if arm.parent is not None:
            plan.arm(arm.parent)
    return plan


def _parse_arm(raw: Mapping[str, Any]) -> StoredArm:
    published = raw.get("published")
    read = {
        "label": raw.get("label") or raw["name"],
        "runs": {int(seed): run_id for seed, run_id in raw["runs"].items()},
        "published": None if published is None else Published(**_known(Published, published)),
        "engagement": tuple(Measure.of_record(measure) for measure in raw.get("engagement") or ()),
    }
    return StoredArm(**_known(StoredArm, {**raw, **read}))


def _known(kind: type[Published | StoredArm | StoredPlan], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass that a record has, lists as tuples; null is as if it were not there.

    Raises KeyError with a field that is missing and has no default.
    """
    found = {one.name: raw[one.name] for one in fields(kind) if raw.get(one.name) is not None}
    for one in fields(kind):
        if one.default is MISSING and one.default_factory is MISSING and one.name not in found:
            raise KeyError(one.name)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _metrics(raw: Mapping[str, Any], where: str) -> tuple[Metric, tuple[Metric, ...]]:
    """The score and the metrics. Of imported runs the score has the name and unit of their trainer and is the only metric."""
    declared = raw.get("metric") or "avg"
    if raw.get("foreign") or "score_unit" in raw:
        unit, scale, digits = ("reward", 1.0, 3) if raw.get("score_unit") == "reward" else (POINTS, 100.0, 1)
        score = Metric(declared, declared, unit, scale, digits, "higher", "avg")
        return score, (score,)
    try:
        return metric("avg"), tuple(map(metric, [declared] if isinstance(declared, str) else declared))
    except UnknownMetric as error:
        raise PlanError(f"{where}: {error}") from error
