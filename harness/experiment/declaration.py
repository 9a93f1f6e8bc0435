"""The declaration of an experiment: the question, the arms and seeds that answer it, and the protocol."""

import dataclasses
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from harness.configuration.compose import compose_run, expand, refuse_second_choice
from harness.configuration.error import MOST_SEED, Checked, ConfigError, ranged, require, require_range
from harness.configuration.identity import arm_id
from harness.configuration.registry import nearest, neutral
from harness.configuration.schema import load_dataclass
from harness.evaluation.metrics.names import TRAINING, Metric, UnknownMetric, metric
from harness.experiment.claim import Claim, check_claim
from harness.experiment.designs import DESIGNS, as_a_ladder, design_arms, short_names
from harness.experiment.plan import Arm
from harness.experiment.tuning import Tune
from harness.statistics.attribution import Crossing
from harness.store import METRICS, layout

MATCHES = ("steps", "tokens")


def as_file(declaration: str, comments: Sequence[str] = ()) -> str:
    """The text of an experiment's file: the YAML of a declaration in its place, comments above it."""
    head = ("# @package _global_", *comments, "defaults: [/declared/an_experiment, _self_]", "experiment:")
    return "\n".join([*head, textwrap.indent(declaration, "  ")])


@dataclass
class Experiment:
    """A declaration: the question, the arms and seeds that answer it, and the protocol.

    Attributes:
        name: required and path-safe; results go to `results/experiments/<name>`.
        title: for tables and the report.
        question: one sentence.
        design: arms (listed), cumulative (listed arms form a ladder, or expanded from patches), leave_one_out, one_factor, factorial.
        seeds: training seeds; or `{start: 5, step: 3, most: 20}`, `{looks: [5, 10, 20]}`, with `first: 16` from that seed on: seeds until
            it is decided (docs/statistics.md).
        looks: filled from that: the numbers of seeds at which comparisons are looked at; none: once, at the end.
        base: overrides of the base arm (designs from patches).
        patches: patch names (designs from patches).
        factors: instead of patches, factors with levels, `{group: [group_4, group_8], bonus: [none, entropy_bonus]}`. A level is a patch,
            `none` the base, the first the reference.
        together: one patch for several that write the same key, `{name: [patch, patch]}`, in an arm that has them all.
        arms: name, overrides, and optionally label, parent, patch, published, seeds of each. In a cumulative design their order
            gives parent and patch.
        grid: instead of arms, overrides with several values each (`optimizer.learning_rate=1e-4,2e-4`), compared with the combination
            that is the base, else the first.
        search: instead of arms, what is searched (see `harness.search.study.Search`).
        tune: each arm at its best: `{over: {KEY: [VALUES]}, seeds: [900, 901]}` tries them for every arm first (see `Tune`).
        match: steps (every arm takes training.steps), or tokens (one budget of generated tokens for all arms).
        match_reference: the arm whose spending is the budget; null: the first.
        match_budget: the budget as a number; null: that of the reference arm, which then runs first.
        overrides: applied to every arm.
        benchmark: name of the benchmark that the answer is about.
        metric: a name or a list of names, such as avg, pass@8, length_wrong, entropy, training/COLUMN (docs/statistics.md has all).
        margin: difference that does not matter, in the unit of the metric (of avg: points); of several metrics a mapping. null: nothing
            is called equivalent.
        paired: arms share prompts and sampling seeds, so differences are taken seed by seed.
        notes: shown under the table.
        claim: a published claim that the only comparison decides (`conf/claim`).
    """

    name: str
    title: str = ""
    question: str = ""
    design: str = "arms"
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    base: list[str] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    factors: dict[str, list[str]] = field(default_factory=dict)
    together: dict[str, list[str]] = field(default_factory=dict)
    arms: list[dict[str, Any]] = field(default_factory=list)
    grid: list[str] = field(default_factory=list)
    search: dict[str, Any] | None = None
    match: str = "steps"
    match_reference: str | None = None
    match_budget: float | None = None
    overrides: list[str] = field(default_factory=list)
    benchmark: str = "arithmetic_heldout"
    metric: str | list[str] = "avg"
    margin: float | dict[str, float] | None = None
    paired: bool = True
    notes: list[str] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)
    claim: Claim | None = None
    tune: Tune | None = neutral(None)

    def __post_init__(self) -> None:
        if self.factors and self.design == "arms":
            self.design = "factorial"
        require("experiment.design", self.design, DESIGNS)
        self._check_crossing()
        check_metrics(self.metrics, self.margin)
        if self.claim is not None:
            check_claim(self.claim, self.arms, self.metrics, self.margin)
        require("experiment.match", self.match, MATCHES)
        try:
            layout.safe_name(self.name, "experiment.name")
        except ValueError as error:
            raise ConfigError(f"{error}: it names a folder") from error
        self._check_budget()
        if not self.seeds:
            raise ConfigError("experiment.seeds=[] must name at least one seed")
        _check_seeds("experiment.seeds", self.seeds)
        for name in ("base", "overrides", "grid"):
            refuse_seed(getattr(self, name), where=f"experiment.{name}: ")
        if self.looks:
            self._check_looks()

    def _check_budget(self) -> None:
        for name in ("match_budget", "match_reference"):
            if self.match == "steps" and getattr(self, name) is not None:
                raise ConfigError(f"experiment.{name}={getattr(self, name)} needs match=tokens")
        if self.match_budget is not None and self.match_reference is not None:
            raise ConfigError("experiment.match_reference has no effect beside match_budget; leave one of them out")
        if self.match_budget is not None and not 0 < self.match_budget < math.inf:
            raise ConfigError(f"experiment.match_budget={self.match_budget} must be a finite number above 0")

    def _check_crossing(self) -> None:
        """Raise `ConfigError` for keys that would be ignored, since arms are made in one way."""
        if self.factors and self.patches:
            raise ConfigError("experiment.factors stands instead of experiment.patches; leave out the one or the other")
        if self.design == "factorial" and not self.paired:
            raise ConfigError("experiment.paired=false: a factorial's effects are taken seed by seed; leave it out")
        way = next((name for name in ("arms", "grid", "search") if getattr(self, name)), None)
        if way is None:
            if self.factors and self.design != "factorial":
                raise ConfigError("experiment.factors goes with experiment.design=factorial")
            return
        others = {name: getattr(self, name) for name in ("grid", "search", "patches", "factors", "together")}
        others |= {"tune": self.tune and self.tune.over} if way == "search" else {}
        others |= {"base": self.base} if way == "arms" else {"design": self.design != "arms" and self.design}
        for name, value in others.items():
            if value and name != way:
                raise ConfigError(f"experiment.{name}={value} has no effect beside experiment.{way}; leave one out")
        if self.design in ("leave_one_out", "factorial"):
            raise ConfigError(f"experiment.design={self.design} makes its arms of experiment.patches, not of a list")

    def _check_looks(self) -> None:
        check_numbers(self.looks)
        if self.looks[-1] != len(self.seeds):
            raise ConfigError(f"experiment.looks={self.looks} must end at the {len(self.seeds)} declared seeds")
        own_seeds = any(isinstance(arm, dict) and arm.get("seeds") for arm in self.arms)
        conflicts = {
            f"design={self.design}, which compares no two arms": self.design == "factorial",
            "a grid, whose best cell is asked for": bool(self.grid),
            "a search": self.search is not None,
            "arms that have seeds of their own": own_seeds,
        }
        for feature, present in conflicts.items():
            if present:
                raise ConfigError(f"experiment.seeds in looks does not go with {feature}; list the seeds")

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, one or several."""
        return [self.metric] if isinstance(self.metric, str) else self.metric

    def declared_arms(self, common: Sequence[str]) -> list[Arm]:
        """The arms, listed, or expanded from a grid or from patches; `common` are all overrides of every arm."""
        for name, overrides in (("base", self.base), ("overrides", self.overrides)):
            _refuse_second_choice(f"experiment.{name}", overrides)
        if self.arms:
            arms = [_read_arm(f"experiment.arms[{index}]", values) for index, values in enumerate(self.arms)]
            return as_a_ladder(arms) if self.design == "cumulative" else arms
        if self.grid:
            return grid_arms(self.grid, [*self.base, *self.overrides])
        if self.search is not None:
            raise ConfigError(f"{self.name!r} is a search, whose arms follow: harness run experiment={self.name}")
        return design_arms(self.design, self.base, self.crossing, self.together, common)

    @property
    def crossing(self) -> Crossing:
        """The factors; patches are factors with the levels off and on."""
        factors = self.factors or Crossing.of_patches(self.patches).factors
        return Crossing(factors)


def _check_seeds(key: str, seeds: Sequence[int]) -> None:
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"{key}={list(seeds)} names a seed twice")
    for seed in seeds:
        require_range(key, seed, 0, MOST_SEED)


def refuse_seed(overrides: Sequence[str], where: str = "") -> None:
    """Raises `ConfigError` for `seed=`, which each run gets from its experiment; `where` stands before the message."""
    seed_overrides = [item for item in overrides if item.lstrip("+").startswith("seed=")]
    if seed_overrides:
        numbers = re.fullmatch(r"\[?([\d, ]+)\]?", seed_overrides[0].partition("=")[2])
        instead = f"'experiment.seeds=[{numbers[1] if numbers else '0,1'}]'"
        raise ConfigError(f"{where}{seed_overrides[0]} would be overridden: the seeds of an experiment are {instead}")


def _refuse_second_choice(key: str, overrides: Sequence[str]) -> None:
    try:
        refuse_second_choice(overrides)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


def _read_arm(path: str, values: Any) -> Arm:
    """Raises `ConfigError` naming the arm and the key."""
    arm = load_dataclass(Arm, values, path)
    _refuse_second_choice(f"{path}.overrides", arm.overrides)
    refuse_seed(arm.overrides, where=f"{path}.overrides: ")
    _check_seeds(f"{path}.seeds", arm.seeds)
    if not arm.name:
        raise ConfigError(f"{path} needs a name")
    return dataclasses.replace(arm, patches=[arm.patch]) if arm.patch else arm


def grid_arms(grid: Sequence[str], base: Sequence[str]) -> list[Arm]:
    """Every combination of the values, each compared with the point that equals the base configuration (else with the first)."""
    jobs = expand(grid)
    start = arm_id(compose_run(base))
    origin = next((job for job in jobs if arm_id(compose_run([*base, *job])) == start), jobs[0])
    return [
        Arm(_point(job), (*base, *job), label=label, parent=None if job == origin else _point(origin))
        for job, label in zip(jobs, short_names(jobs), strict=True)
    ]


def _point(job: Sequence[str]) -> str:
    """`optimizer.learning_rate=1e-4 sampling.top_k=5` as `learning_rate=1e-4_top_k=5`."""
    pairs = (item.lstrip("+").partition("=") for item in job)
    return "_".join(f"{re.split('[./]', key)[-1]}={value}" for key, _, value in pairs)


@dataclass
class Looks(Checked, key="experiment.seeds"):
    """`experiment.seeds` as a mapping.

    Attributes:
        start: seeds before the first look.
        step: seeds between looks.
        most: seeds at the last look, the budget of an arm.
        first: the first seed.
        looks: the numbers of seeds themselves instead; filled from the others, the budget is always the last.
    """

    start: int = 4
    step: int = ranged(2, low=1)
    most: int = 20
    looks: list[int] | None = None
    first: int = ranged(0, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.looks is None:
            if self.most < self.start:
                raise ConfigError(f"experiment.seeds.most={self.most} is below experiment.seeds.start={self.start}")
            self.looks = sorted({*range(self.start, self.most, self.step), self.most})
        check_numbers(self.looks)


def with_looks(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration with a mapping under `seeds` spelled out as `seeds` and `looks`. Raises `ConfigError`."""
    values = dict(declaration)
    if not isinstance(values.get("seeds"), Mapping):
        return values
    seeds = values["seeds"]
    if seeds.get("looks") is not None and seeds.keys() & {"start", "step", "most"}:
        raise ConfigError("experiment.seeds: give either looks, or start, step and most")
    section = load_dataclass(Looks, dict(seeds), "experiment.seeds")
    looks = section.looks or []
    return {**values, "seeds": list(range(section.first, section.first + looks[-1])), "looks": looks}


def check_numbers(looks: Sequence[int]) -> None:
    """Raises `ConfigError` unless the first look has at least two seeds and each has more than the one before."""
    if not looks or looks[0] < 2:
        first = looks[0] if looks else 0
        raise ConfigError(f"experiment.seeds: the first look is at {first} seeds; it needs at least 2 (start)")
    for before, after in pairwise(looks):
        if after <= before:
            raise ConfigError(f"experiment.seeds: looks must increase, but {after} seeds follow {before}")


def asked_metrics(names: Sequence[str]) -> list[Metric]:
    """The metrics of these names. Raises `ConfigError` for none, one twice, an unknown one, or a column that no step logs."""
    if not names:
        raise ConfigError("experiment.metric=[] asks for nothing; leave it out for avg")
    if len(set(names)) < len(names):
        raise ConfigError(f"experiment.metric={list(names)} names a metric twice")
    try:
        metrics = [metric(name) for name in names]
    except UnknownMetric as error:
        raise ConfigError(f"experiment.metric: {error}") from error
    for item in metrics:
        if item.kind == TRAINING and item.parameter not in METRICS:
            hint = nearest(str(item.parameter), list(METRICS))
            raise ConfigError(f"experiment.metric={item.name!r}: no step logs {item.parameter!r}{hint}")
    return metrics


def check_metrics(names: Sequence[str], margin: float | Mapping[str, float] | None) -> None:
    """Raises `ConfigError` for metrics that cannot be, and for margins that are not above zero or of no metric."""
    units = {item.name: item.unit for item in asked_metrics(names)}
    if margin is None:
        return
    if not isinstance(margin, Mapping):
        if len(names) > 1:
            example = ", ".join(f"{name}: {margin:g}" for name in names)
            raise ConfigError(f"experiment.margin={margin:g} needs a unit, since metrics are several: {{{example}}}")
        margin = {names[0]: margin}
    for name, size in margin.items():
        if name not in units:
            raise ConfigError(f"experiment.margin: {name!r} is not asked about{nearest(name, list(units))}")
        if not 0 < size < math.inf:
            raise ConfigError(f"experiment.margin={size:g} must be above zero ({units[name]} of {name}), or left out")
