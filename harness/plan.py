"""From a declared experiment to the runs it needs: arms × seeds, each a value with an identity."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.compose import compose_run, compose_values, expand
from harness.config import RunConfig, dump
from harness.config_error import ConfigError, require
from harness.config_loader import load_dataclass
from harness.cost import cost_class
from harness.identity import arm_id, content_hash, difference, run_id
from harness.ladder import DESIGNS, Arm, design_arms
from harness.match import MATCHES, spent, with_budget
from harness.registry import nearest
from harness.store import ResultStore, layout

PLAN_VERSION = 1
CHECKPOINT_RULES = ("last", "mean_last_k", "best_on_dev")
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml where PyYAML has it: five times faster


@dataclass(frozen=True)
class RunSpec:
    """One run: its configuration and ids; labels (experiment, arm, steps) never enter the id."""

    config: RunConfig
    run_id: str
    arm_id: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, config: RunConfig, labels: Mapping[str, str]) -> RunSpec:
        """The spec of a configuration; a run that ends by a budget tells no number of steps."""
        training = config.training
        budget = training.generated_tokens is not None or training.seconds is not None
        steps = {} if budget else {"steps": str(training.steps)}
        known = {"cost_class": cost_class(config), **steps}
        return cls(config, run_id(config), arm_id(config), {**labels, **known})

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.config.seed

    @property
    def config_yaml(self) -> str:
        """The resolved configuration as stored with the run."""
        return str(yaml.dump(dump(self.config), Dumper=_Dumper, sort_keys=False))


@dataclass
class Experiment:
    """A declaration: what is asked, which arms and seeds answer it, and by which protocol.

    Attributes:
        name: path-safe name; results go to `results/experiments/<name>`.
        title: for tables and the report.
        question: one sentence.
        design: arms (listed), cumulative (listed arms form a ladder, or expanded from patches), leave_one_out, one_factor, factorial,
            shapley.
        seeds: training seeds, the unit of replication.
        base: overrides of the base arm (designs from patches).
        patches: patch names (designs from patches).
        orders: random orders for shapley.
        arms: listed arms: name, overrides, and optionally label, parent, patch, published, group, seeds (of its own).
        grid: instead of arms, overrides with several values each (`optimizer.learning_rate=1e-4,2e-4`); every combination is an arm,
            compared with the one that equals the base configuration (else the first).
        search: instead of arms, what `harness sweep` searches (see `harness.sweep.Search`).
        match: steps (every arm takes training.steps), tokens or seconds (every arm stops at the same budget instead).
        match_reference: the arm whose spending is the budget; null: the first.
        match_budget: the budget as a number; null: that of the reference arm, which then runs first.
        overrides: applied to every arm.
        benchmark: name of the benchmark that the answer is about.
        metric: the primary metric.
        checkpoint_rule: last, mean_last_k or best_on_dev.
        paired: arms share prompts and sampling seeds, so differences are taken seed by seed.
        reference: file of published numbers, relative to the repository.
        notes: shown under the table.
    """

    name: str
    title: str = ""
    question: str = ""
    design: str = "arms"
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    base: list[str] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    orders: int = 8
    arms: list[dict[str, Any]] = field(default_factory=list)
    grid: list[str] = field(default_factory=list)
    search: dict[str, Any] | None = None
    match: str = "steps"
    match_reference: str | None = None
    match_budget: float | None = None
    overrides: list[str] = field(default_factory=list)
    benchmark: str = "arithmetic_heldout"
    metric: str = "avg"
    checkpoint_rule: str = "last"
    paired: bool = True
    reference: str | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require("experiment.design", self.design, DESIGNS)
        require("experiment.checkpoint_rule", self.checkpoint_rule, CHECKPOINT_RULES)
        require("experiment.match", self.match, MATCHES)
        try:
            layout.safe_name(self.name, "experiment.name")
        except ValueError as error:
            raise ConfigError(f"{error}: it names a folder") from error
        if self.match == "steps" and self.match_budget is not None:
            raise ConfigError(
                f"experiment.match_budget={self.match_budget:g} needs match=tokens or match=seconds"
            )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(f"experiment.seeds={self.seeds} must be distinct and at least one")

    def declared_arms(self) -> list[Arm]:
        """The arms, listed, or expanded from a grid or from patches."""
        if self.grid and not self.arms:
            return grid_arms(self.grid, [*self.base, *self.overrides])
        if not self.arms:
            if self.search is not None:
                raise ConfigError(
                    f"experiment {self.name!r} is a search; run it with: harness sweep experiment={self.name}"
                )
            return design_arms(self.design, self.base, self.patches, self.orders)
        arms, known = [], {f.name for f in dataclasses.fields(Arm)} - {"patches"}
        for values in self.arms:
            unknown = [key for key in values if key not in known]
            if unknown:
                raise ConfigError(
                    f"experiment.arms: unknown key {unknown[0]!r}{nearest(unknown[0], sorted(known))}"
                )
            patch = values.get("patch")
            rest = {key: value for key, value in values.items() if key not in ("overrides", "seeds")}
            arms.append(
                Arm(
                    **rest,
                    overrides=tuple(values.get("overrides", ())),
                    patches=(patch,) if patch else (),
                    seeds=tuple(values.get("seeds", ())),
                )
            )
        return arms


@dataclass(frozen=True)
class PlannedArm:
    """An arm with its composed configuration (at the first seed), its runs by seed, and why it has none if it is refused."""

    arm: Arm
    config: RunConfig
    runs: Mapping[int, RunSpec]
    refused: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """Everything an experiment needs, before anything runs.

    `waits_for` names the arm whose spending has to be known before the runs of the others can be (`match=tokens|seconds`).
    """

    experiment: Experiment
    arms: Sequence[PlannedArm]
    command: str
    waits_for: str | None = None

    @property
    def seeds(self) -> list[int]:
        """The experiment's seeds, then those that single arms have of their own."""
        return list(
            dict.fromkeys([*self.experiment.seeds, *(s for planned in self.arms for s in planned.runs)])
        )

    @property
    def specs(self) -> list[RunSpec]:
        """Every run once, seed by seed, so that early results cover all arms."""
        seeds = self.seeds
        ordered = [planned.runs[seed] for seed in seeds for planned in self.arms if seed in planned.runs]
        return list({spec.run_id: spec for spec in ordered}.values())

    def record(self) -> dict[str, Any]:
        """The plan as stored in `results/experiments/<name>/plan.json`, what the analysis reads."""
        by_name = {planned.arm.name: planned for planned in self.arms}
        first = self.arms[0].config
        return {
            "schema_version": PLAN_VERSION,
            **{
                k: v
                for k, v in dataclasses.asdict(self.experiment).items()
                if k not in ("arms", "base", "orders", "grid", "search")
            },
            "seeds": self.seeds,
            "primary_cap": first.sampling.max_response_tokens,
            "caps": sorted(set(first.evaluation.caps)),
            "arms": [_arm_record(planned, by_name) for planned in self.arms],
            "command": self.command,
        }


def _arm_record(planned: PlannedArm, by_name: Mapping[str, PlannedArm]) -> dict[str, Any]:
    arm = planned.arm
    changes = difference(by_name[arm.parent].config, planned.config) if arm.parent else {}
    changes.pop("seed", None)
    return {
        "name": arm.name,
        "label": arm.label or arm.name,
        "parent": arm.parent,
        "patch": arm.patch,
        "patches": list(arm.patches),
        "arm_id": arm_id(planned.config),
        "runs": {str(seed): run.run_id for seed, run in planned.runs.items()},
        "published": dict(arm.published) if arm.published else None,
        "changes": {key: list(pair) for key, pair in changes.items()},
        "group": arm.group,
        "overrides": list(arm.overrides),
        "refused": list(planned.refused),
    }


def plan_experiment(overrides: Sequence[str]) -> Plan:
    """Plan `experiment=NAME` with further overrides (those on `experiment.*` change the declaration, the rest every arm).

    Raises:
        ConfigError: an unknown experiment, arm key, patch or configuration key.
    """
    experiment = declared_experiment(overrides)
    common = common_overrides(overrides)
    composed = [
        (arm, compose_run([*arm.overrides, *experiment.overrides, *common]))
        for arm in experiment.declared_arms()
    ]
    _refuse_unknown_parents([arm for arm, _ in composed])
    planned, waits_for = _match_budgets(experiment, composed)
    _refuse_unknown_benchmark(experiment, composed)
    return Plan(experiment, planned, shlex.join(["harness", "run", *_recorded(overrides)]), waits_for)


def declared_experiment(overrides: Sequence[str]) -> Experiment:
    """The declaration that `experiment=NAME` and overrides on `experiment.*` make. `match=tokens` stands for `experiment.match=tokens`.

    Overrides of other keys are left to the arms: a key may exist only in a group that the experiment chooses (`engine.tensor_parallel`).
    """
    spelled = [_spelled_out(item) for item in overrides]
    declared = compose_values([item for item in spelled if item.lstrip("+~").startswith("experiment")])
    declared = declared["experiment"]
    return load_dataclass(Experiment, declared, "experiment")


def common_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides that apply to every arm: all but those on the declaration."""
    return [item for item in overrides if not _spelled_out(item).lstrip("+~").startswith("experiment")]


def _recorded(overrides: Sequence[str]) -> list[str]:
    """The overrides as recorded: without `runtime.*`, which changes no number and may hold this machine's paths."""
    return [item for item in overrides if not item.lstrip("+").startswith("runtime.")]


def _refuse_unknown_benchmark(experiment: Experiment, composed: Sequence[tuple[Arm, RunConfig]]) -> None:
    for arm, config in composed:
        known = sorted(config.evaluation.benchmarks)
        if known and experiment.benchmark not in known:
            raise ConfigError(
                f"experiment.benchmark={experiment.benchmark!r} is not evaluated by arm {arm.name!r}"
                f"{nearest(experiment.benchmark, known)}"
            )


def _spelled_out(item: str) -> str:
    if item.startswith("match="):
        return f"++experiment.{item}"
    # A documented field may be missing from the experiment's file: adding it is what the user means; typos are caught afterwards.
    return f"++{item}" if item.startswith("experiment.") else item


def _match_budgets(
    experiment: Experiment, composed: Sequence[tuple[Arm, RunConfig]]
) -> tuple[list[PlannedArm], str | None]:
    """The arms with their runs; with a matched budget that is not known yet, only the reference arm has runs."""

    def planned(arm: Arm, config: RunConfig) -> PlannedArm:
        labels = {"experiment": experiment.name, "arm": arm.name}
        seeds = arm.seeds or experiment.seeds
        runs = {seed: RunSpec.of(dataclasses.replace(config, seed=seed), labels) for seed in seeds}
        return PlannedArm(arm, config, runs)

    match, budget = experiment.match, experiment.match_budget
    if match == "steps":
        return [planned(arm, config) for arm, config in composed], None
    if budget is not None:
        return [planned(arm, with_budget(config, match, budget)) for arm, config in composed], None
    names = [arm.name for arm, _ in composed]
    name = experiment.match_reference or names[0]
    require("experiment.match_reference", name, names)
    reference = planned(*composed[names.index(name)])
    store = ResultStore(reference.config.runtime.results)
    budget = spent(store, [spec.run_id for spec in reference.runs.values()], match)
    arms = []
    for arm, config in composed:
        if arm.name == name:
            arms.append(reference)
        elif budget is None:
            arms.append(PlannedArm(arm, config, {}))
        else:
            arms.append(planned(arm, with_budget(config, match, budget)))
    return arms, name if budget is None else None


def plan_multirun(overrides: Sequence[str]) -> Plan:
    """Plan Hydra's own multirun syntax: every job is a run, jobs that differ only in the seed are one arm."""
    arms: dict[str, PlannedArm] = {}
    composed: dict[tuple[str, ...], RunConfig] = {}
    jobs = expand(overrides)
    if not jobs:
        raise ConfigError(f"{' '.join(overrides)}: no configuration matches; a glob found nothing")
    for job in jobs:
        seeds = [int(item[5:]) for item in job if item.startswith("seed=") and item[5:].isdigit()]
        rest = tuple(item for item in job if not (seeds and item.startswith("seed=")))
        if rest not in composed:
            composed[rest] = compose_run(rest)
        config = dataclasses.replace(composed[rest], seed=seeds[-1]) if seeds else composed[rest]
        name = arm_label(job, overrides)
        spec = RunSpec.of(config, {"experiment": "multirun", "arm": name})
        planned = arms.setdefault(spec.arm_id, PlannedArm(Arm(name, tuple(job)), config, {}))
        assert isinstance(planned.runs, dict)
        planned.runs[spec.seed] = spec
    all_seeds = sorted({seed for planned in arms.values() for seed in planned.runs})
    first = next(iter(arms.values())).config
    experiment = Experiment(
        name=f"multirun_{content_hash(sorted(arms), all_seeds)[:8]}",
        title=" ".join(_recorded(overrides)),
        seeds=all_seeds,
        benchmark=next(iter(first.evaluation.benchmarks), ""),
    )
    return Plan(experiment, list(arms.values()), shlex.join(["harness", "run", "-m", *_recorded(overrides)]))


def grid_arms(grid: Sequence[str], base: Sequence[str]) -> list[Arm]:
    """Every combination of the values, each compared with the point that equals the base configuration (else with the first).

    Raises:
        ConfigError: an override that cannot be expanded or composed.
    """
    jobs = expand(grid)
    start = compose_run(base)
    same = [job for job in jobs if not difference(start, compose_run([*base, *job]))]
    origin = (same or jobs)[0]
    names = {tuple(job): "_".join(_point(item) for item in job) for job in jobs}
    return [
        Arm(
            names[tuple(job)],
            (*base, *job),
            label=", ".join(_point(item).replace("_", " ").replace("=", " ") for item in job),
            parent=None if job == origin else names[tuple(origin)],
        )
        for job in jobs
    ]


def arm_label(job: Sequence[str], overrides: Sequence[str]) -> str:
    """What distinguishes a job's arm: the values of the swept overrides, without the seed."""
    parts = [item for item in job if item not in overrides and not item.startswith("seed=")]
    return ",".join(part.removeprefix("rung=") for part in parts) or "base"


def _point(override: str) -> str:
    """`optimizer.learning_rate=1e-4` as `learning_rate=1e-4`."""
    key, _, value = override.lstrip("+").partition("=")
    return f"{re.split('[./]', key)[-1]}={value}"


def _refuse_unknown_parents(arms: Sequence[Arm]) -> None:
    names = [arm.name for arm in arms]
    for arm in arms:
        if names.count(arm.name) > 1:
            raise ConfigError(f"experiment.arms: two arms are called {arm.name!r}; names must be distinct")
        if arm.parent is not None and arm.parent not in names:
            raise ConfigError(
                f"experiment.arms: {arm.name!r} has the unknown parent {arm.parent!r}{nearest(arm.parent, names)}"
            )
