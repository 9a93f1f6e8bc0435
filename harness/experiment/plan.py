"""The plan of an experiment: its question, its arms and their runs, and how they are judged.

A plan is made once (`harness.experiment.planning`), stored with the results as `plan.json`, and read again by everything that answers from
the store. `Plan.record` and `Plan.read` are inverse to each other.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from harness.configuration.schema import RunConfig, portable, yaml_text
from harness.engagement.measure import Measure
from harness.evaluation.metrics.names import Metric, metric
from harness.statistics.attribution import Crossing
from harness.statistics.intervals import replicate_count, replicates
from harness.store import ResultStore, StoreError

# What a record holds only where there is one.
_OPTIONAL = ("factors", "chances", "parts", "claim")


class PlanError(StoreError, ValueError):
    """The plan lacks something that is asked of it; the message names it."""


@dataclass(frozen=True)
class PublishedNumber:
    """A number from the literature beside ours; never compared by a test."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class RunSpec:
    """One run: its configuration and ids; labels (experiment, arm, steps) never enter the id."""

    config: RunConfig
    run_id: str
    arm_id: str
    labels: Mapping[str, str]

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def config_yaml(self) -> str:
        """The resolved configuration as stored with the run."""
        return yaml_text(portable(self.config))


@dataclass(frozen=True)
class Arm:
    """One configuration as a declaration or a design describes it: overrides on the base, and how it relates to the other arms.

    `seeds` are training seeds of its own, where it must not share those of the experiment (an A/A comparison).
    """

    name: str
    overrides: Sequence[str] = ()
    label: str = ""
    parent: str | None = None
    patch: str | None = None
    patches: Sequence[str] = ()
    published: PublishedNumber | None = None
    seeds: Sequence[int] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class PlannedArm(Arm):
    """An arm with its runs; `composed_config`, `more` and `labels` are known only in the process that made the plan.

    `runs`: seed → run id; empty while a first part has to set its values, and only finished ones where the arm is refused. `changes`: key
    → [value in the parent, value here]. `engagement`: what tells whether its difference to its reference did anything.
    `composed_config`: the configuration at the first seed; `more`: overrides after its own, which are those of all arms and what first
    parts set.
    """

    arm_id: str = ""
    runs: Mapping[int, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    refused: Sequence[str] = ()
    engagement: tuple[Measure, ...] = ()
    composed_config: RunConfig | None = field(default=None, repr=False, compare=False)
    more: Sequence[str] = field(default=(), repr=False, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def plain_label(self) -> str:
        """The label without the plus of a rung."""
        return self.label.removeprefix("+ ")

    @property
    def config(self) -> RunConfig:
        """The configuration. Raises PlanError for an arm that was read from a store, where every run has its own."""
        if self.composed_config is None:
            raise PlanError(f"arm {self.name} was read from a stored plan, which holds no configuration")
        return self.composed_config

    def spec(self, seed: int) -> RunSpec:
        """The run of a seed, ready to be started."""
        config = copy.copy(self.config)
        config.seed = seed
        return RunSpec(config, self.runs[seed], self.arm_id, self.labels)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> PlannedArm:
        """Read one arm of a record. Raises KeyError with a key that is missing."""
        number = raw.get("published")
        parsed_values = {
            "label": raw.get("label") or raw["name"],
            "runs": {int(seed): run_id for seed, run_id in raw["runs"].items()},
            "published": None if number is None else PublishedNumber(**_read_fields(PublishedNumber, number)),
            "engagement": tuple(Measure(**_read_fields(Measure, one)) for one in raw.get("engagement") or ()),
        }
        return cls(**_read_fields(cls, {**raw, **parsed_values}))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that an experiment needs and how it is judged. A record has the fields that `repr` shows, here and of an arm.

    Attributes:
        metrics: what the experiment is about; all their comparisons are one family.
        score: the column ``avg`` of the evaluations.
        margins: a metric's name → the difference that does not matter, in the unit of a shown difference.
        seeds: of all arms; in a sequential design those asked for so far, in the order in which they come.
        looks: the numbers of seeds at which a sequential design looks.
        base_policies: seed s starts from base policy s mod that; None where each seed stands alone, or all start from one.
        factors: what a factorial crosses.
        chances: how often a blind answer to a problem of the benchmark is right (`harness.problems.problem.Chances`); None: unknown.
        primary_cap, caps: response caps in tokens at which scores are read.
        claim: a published claim that the only comparison decides, as recorded.
        parts: the first parts whose results have set values of the arms. first: the one whose results lack, in the process that made
            the plan; the arms whose values it sets have no runs.
        declared_on: the benchmark that the experiment is about, where this is a view on another one (see `view_on`);
            stopped_elsewhere: that one decided how many seeds ran.
    """

    name: str
    title: str
    question: str = ""
    design: str
    benchmark: str
    score: Metric = field(default_factory=lambda: metric("avg"), repr=False)
    metrics: tuple[Metric, ...] = field(default_factory=lambda: (metric("avg"),), repr=False)
    margins: Mapping[str, float] = field(default_factory=dict, repr=False)
    paired: bool = True
    seeds: tuple[int, ...]
    looks: tuple[int, ...] = ()
    arms: tuple[PlannedArm, ...]
    base_policies: int | None = None
    chances: Sequence[Sequence[float]] | None = None
    primary_cap: int
    caps: tuple[int, ...]
    patches: Sequence[str] = ()
    together: Mapping[str, Sequence[str]] = field(default_factory=dict)
    factors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    match: str = "steps"
    match_reference: str | None = None
    match_budget: float | None = None
    overrides: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    claim: Mapping[str, Any] | None = None
    command: str = ""
    parts: tuple[Part, ...] = ()
    first: FirstPart | None = field(default=None, repr=False, compare=False)
    declared_on: str | None = field(default=None, repr=False)
    stopped_elsewhere: bool = field(default=False, repr=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Plan:
        """Read a record; a plain margin is that of the only metric. Raises `PlanError` that names what is missing, gone or malformed."""
        label = f"plan {raw.get('name', '?')}"
        try:
            names = raw.get("metric") or "avg"
            metrics = tuple(map(metric, [names] if isinstance(names, str) else names))
            margins = raw.get("margin") or {}
            parsed_values = {
                "arms": tuple(PlannedArm.read(arm) for arm in raw["arms"]),
                "title": raw.get("title") or raw["name"],
                "caps": tuple(raw.get("caps") or [raw["primary_cap"]]),
                "parts": tuple(Part(**part) for part in raw.get("parts") or ()),
                "metrics": metrics,
                "margins": margins if isinstance(margins, Mapping) else {metrics[0].name: margins},
            }
            plan = cls(**_read_fields(cls, {**raw, **parsed_values}))
        except KeyError as error:
            raise PlanError(f"{label} lacks {error}; write it with `harness run`") from error
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            raise PlanError(f"{label} is malformed ({error}); write it with `harness run`") from error
        if not plan.arms:
            raise PlanError(f"{label} has no arms")
        for arm in plan.arms:
            if arm.parent is not None:
                plan.arm(arm.parent)
        return plan

    def record(self) -> dict[str, Any]:
        """The plan as stored in `results/experiments/<name>/plan.json`."""
        names = [metric.name for metric in self.metrics]
        margin = self.margins.get(names[0]) if len(names) == 1 else dict(self.margins) or None
        judgement = {"metric": names[0] if len(names) == 1 else names, "margin": margin}
        record = _recorded(replace(self, parts=self.all_parts)) | judgement
        return {key: value for key, value in record.items() if value or key not in _OPTIONAL}

    @cached_property
    def specs(self) -> list[RunSpec]:
        """Every run once, seed by seed, so that early results cover all arms."""
        specs = [arm.spec(seed) for seed in self.seeds for arm in self.arms if seed in arm.runs]
        return list({spec.run_id: spec for spec in specs}.values())

    def first_seeds(self, counts: Mapping[str, int]) -> Plan:
        """The plan with as many of the first seeds of each arm as `counts` says by the arm's name."""
        arms = []
        for arm in self.arms:
            first = self.seeds[: counts[arm.name]]
            arms.append(replace(arm, runs={seed: arm.runs[seed] for seed in first if seed in arm.runs}))
        run_seeds = {seed for arm in arms for seed in arm.runs}
        seeds = tuple(seed for seed in self.seeds if seed in run_seeds)
        return replace(self, arms=tuple(arms), seeds=seeds)

    def seeds_of(self, arm: PlannedArm) -> tuple[int, ...]:
        """The planned seeds of an arm; all of the plan's where its runs are not known yet."""
        return tuple(seed for seed in self.seeds if seed in arm.runs) or self.seeds

    @property
    def seed_counts(self) -> list[int]:
        """How many planned seeds each arm has: the numbers differ in a sequential design, and where arms have seeds of their own."""
        return [len(self.seeds_of(arm)) for arm in self.arms]

    def arm(self, name: str) -> PlannedArm:
        """The arm of that name. Raises PlanError listing the names there are."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise PlanError(f"plan {self.name}: no arm {name!r}; arms: {', '.join(a.name for a in self.arms)}")

    @property
    def base(self) -> PlannedArm:
        """The arm that the others are measured against: the first one without a parent."""
        return next((arm for arm in self.arms if arm.parent is None), self.arms[0])

    def reference_of(self, arm: PlannedArm) -> PlannedArm | None:
        """The arm that a difference is taken to: the parent, or the base where no parent is declared.

        In a leave-one-out the full recipe has no parent and is no base either: it is what the others are taken to.
        """
        if arm.parent is not None:
            return self.arm(arm.parent)
        return None if self.design == "leave_one_out" or arm.name == self.base.name else self.base

    @property
    def comparisons(self) -> list[tuple[PlannedArm, PlannedArm]]:
        """The family: every arm that has a reference, run or not, so that the family is known before anything runs."""
        return [(arm, reference) for arm in self.arms if (reference := self.reference_of(arm)) is not None]

    @property
    def references(self) -> list[PlannedArm]:
        """The arms that others are compared with, each once."""
        return list({reference.name: reference for _, reference in self.comparisons}.values())

    @property
    def crossing(self) -> Crossing:
        """The factors that a factorial crosses: those declared, else the patches of its arms, off and on."""
        patches = Crossing.of_patches([name for arm in self.arms for name in arm.patches])
        return Crossing(self.factors or patches.factors)

    @property
    def expects(self) -> str | None:
        """What a claim predicts of the only comparison (see `harness.statistics.intervals`); None without a claim."""
        return None if self.claim is None else str(self.claim["expects"])

    def replicates(self, values: Mapping[int, float]) -> list[float]:
        """The numbers that intervals are taken over: one a seed, or their means by base policy where seeds share one."""
        return replicates(values, self.base_policies)

    @property
    def shares_bases(self) -> bool:
        """True where several of its seeds start from one base policy."""
        return replicate_count(self.seeds, self.base_policies) < len(self.seeds)

    @property
    def replicate_name(self) -> str:
        """What intervals are taken over: seeds, or the base policies that these share."""
        return "base policies" if self.shares_bases else "seeds"

    @property
    def about_score(self) -> bool:
        """True where the score is all that the experiment is about."""
        return self.metrics == (self.score,)

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """The first parts, the one whose results lack at last."""
        return (*self.parts, *([self.first.part] if self.first else []))

    @property
    def tuning(self) -> Part | None:
        """The trials that have chosen, or will choose, values for each arm."""
        return next((part for part in self.all_parts if part.name == TUNE), None)

    @property
    def tuned_keys(self) -> tuple[str, ...]:
        """The keys whose values trials have chosen."""
        settings = (self.tuning.settings if self.tuning else None) or {}
        return tuple(dict.fromkeys(item.partition("=")[0] for items in settings.values() for item in items))

    @property
    def stopped_by_results(self) -> bool:
        """True where results decided how many seeds ran, so that only comparisons that allow for looks may be judged."""
        return bool(self.looks) or self.stopped_elsewhere

    @property
    def cap_text(self) -> str:
        """``, cap 32 tokens``."""
        return f", cap {self.primary_cap} tokens"

    def view_on(self, benchmark: str) -> Plan:
        """The plan about another benchmark that its runs were evaluated on, without what holds for its own only.

        These are published numbers, and the looks at which its own benchmark decided how many seeds run.
        """
        notes = [f"The experiment is about {self.benchmark}: what is said of {benchmark} here was not declared."]
        if self.looks:
            notes.append(f"{self.benchmark} decided how many seeds ran, and these intervals do not allow for that.")
        return replace(
            self,
            title=f"{self.title} on {benchmark}",
            benchmark=benchmark,
            chances=None,
            declared_on=self.benchmark,
            stopped_elsewhere=bool(self.looks),
            looks=(),
            arms=tuple(replace(arm, published=None) for arm in self.arms),
            notes=(*self.notes, *notes),
        )


Settings = Mapping[str, Sequence[str]]
"""Arm → overrides that the results of a first part set."""
TUNE = "tune"  # the name of a part that tries values


@dataclass(frozen=True)
class Part:
    """What is recorded of a first part.

    Attributes:
        name: what asks for it, `match=tokens` or `tune`.
        sets: what its results set, in words.
        experiment: the name under which its runs are stored.
        settings: what they have set; None while they lack.
        seeds: of trials: their training seeds.
        scores: of trials: arm → values as overrides → mean score, None where a run of them failed.
    """

    name: str
    sets: str
    experiment: str
    settings: Settings | None = None
    seeds: Sequence[int] = ()
    scores: Mapping[str, Mapping[str, float | None]] | None = None


@dataclass(frozen=True)
class FirstPart:
    """Runs whose stored results set values of a plan's other runs; see `harness.experiment.planning.matched`.

    Attributes:
        part: what is recorded of it.
        plan: its runs, a plan of its own.
        settle: the part with what the stored results set, None while they lack; raises `ConfigError` where they cannot set anything.
        then: the plan with those values, which may have a first part again.
    """

    part: Part
    plan: Plan
    settle: Callable[[ResultStore], Part | None]
    then: Callable[[Part], Plan]


def _recorded(item: Any) -> dict[str, Any]:
    """The fields of a plan or an arm that are recorded, as plain values."""
    return {one.name: _as_plain(getattr(item, one.name)) for one in fields(item) if one.repr}


def _as_plain(value: Any) -> Any:
    if isinstance(value, PlannedArm):
        return _recorded(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _as_plain(part) for key, part in value.items()}
    return [_as_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _read_fields(kind: type[PublishedNumber | Measure | PlannedArm | Plan], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass that a record has, lists as tuples; null is as if it were not there.

    Raises KeyError with a field that is missing and has no default.
    """
    values = {item.name: raw[item.name] for item in fields(kind) if raw.get(item.name) is not None}
    for item in fields(kind):
        if item.default is MISSING and item.default_factory is MISSING and item.name not in values:
            raise KeyError(item.name)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
