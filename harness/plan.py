"""From a declared experiment to the runs it needs: arms × seeds, each a value with an identity."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.compose import compose_run, compose_values, expand
from harness.config import RunConfig, dump
from harness.config_error import ConfigError, require
from harness.identity import arm_id, content_hash, difference, run_id
from harness.ladder import DESIGNS, Arm, design_arms
from harness.registry import nearest

PLAN_VERSION = 1
CHECKPOINT_RULES = ("last", "mean_last_k", "best_on_dev")


@dataclass(frozen=True)
class RunSpec:
    """One run: its configuration and ids; labels (experiment, arm, steps) never enter the id."""

    config: RunConfig
    run_id: str
    arm_id: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, config: RunConfig, labels: Mapping[str, str]) -> RunSpec:
        """The spec of a configuration."""
        steps = {"steps": str(config.training.steps)}
        return cls(config, run_id(config), arm_id(config), {**labels, **steps})

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.config.seed

    @property
    def config_yaml(self) -> str:
        """The resolved configuration as stored with the run."""
        return yaml.safe_dump(dump(self.config), sort_keys=False)


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
        arms: listed arms: name, overrides, and optionally label, parent, patch, published, group.
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
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(f"experiment.seeds={self.seeds} must be distinct and at least one")

    def declared_arms(self) -> list[Arm]:
        """The arms, listed or expanded from patches."""
        if not self.arms:
            return design_arms(self.design, self.base, self.patches, self.orders)
        arms, known = [], {f.name for f in dataclasses.fields(Arm)} - {"patches"} | {"patch"}
        for values in self.arms:
            unknown = [key for key in values if key not in known]
            if unknown:
                raise ConfigError(
                    f"experiment.arms: unknown key {unknown[0]!r}{nearest(unknown[0], sorted(known))}"
                )
            patch = values.get("patch")
            rest = {key: value for key, value in values.items() if key not in ("patch", "overrides")}
            arms.append(
                Arm(**rest, overrides=tuple(values.get("overrides", ())), patches=(patch,) if patch else ())
            )
        return arms


@dataclass(frozen=True)
class PlannedArm:
    """An arm with its composed configuration (at the first seed) and its runs by seed."""

    arm: Arm
    config: RunConfig
    runs: Mapping[int, RunSpec]


@dataclass(frozen=True)
class Plan:
    """Everything an experiment needs, before anything runs."""

    experiment: Experiment
    arms: Sequence[PlannedArm]
    command: str

    @property
    def specs(self) -> list[RunSpec]:
        """Every run once, seed by seed, so that early results cover all arms."""
        seeds = self.experiment.seeds
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
                if k not in ("arms", "base", "orders")
            },
            "primary_cap": first.sampling.max_response_tokens,
            "caps": sorted(set(first.evaluation.caps)),
            "arms": [_arm_record(planned, by_name) for planned in self.arms],
            "command": self.command,
        }


def _arm_record(planned: PlannedArm, by_name: Mapping[str, PlannedArm]) -> dict[str, Any]:
    arm = planned.arm
    changes = difference(by_name[arm.parent].config, planned.config) if arm.parent else {}
    changes.pop("seed", None)
    spec = next(iter(planned.runs.values()))
    return {
        "name": arm.name,
        "label": arm.label or arm.name,
        "parent": arm.parent,
        "patch": arm.patch,
        "patches": list(arm.patches),
        "arm_id": spec.arm_id,
        "runs": {str(seed): run.run_id for seed, run in planned.runs.items()},
        "published": dict(arm.published) if arm.published else None,
        "changes": {key: list(pair) for key, pair in changes.items()},
        "group": arm.group,
        "overrides": list(arm.overrides),
    }


def plan_experiment(overrides: Sequence[str]) -> Plan:
    """Plan `experiment=NAME` with further overrides (those on `experiment.*` change the declaration, the rest every arm).

    Raises:
        ConfigError: an unknown experiment, arm key, patch or configuration key.
    """
    declared = compose_values(overrides)["experiment"]
    unknown = [key for key in declared if key not in {f.name for f in dataclasses.fields(Experiment)}]
    if unknown:
        choices = sorted(f.name for f in dataclasses.fields(Experiment))
        raise ConfigError(f"unknown key 'experiment.{unknown[0]}'{nearest(unknown[0], choices)}")
    experiment = Experiment(**declared)
    common = [item for item in overrides if not item.lstrip("+~").startswith("experiment")]
    arms = []
    for arm in experiment.declared_arms():
        config = compose_run([*arm.overrides, *experiment.overrides, *common])
        labels = {"experiment": experiment.name, "arm": arm.name}
        runs = {seed: RunSpec.of(dataclasses.replace(config, seed=seed), labels) for seed in experiment.seeds}
        arms.append(PlannedArm(arm, config, runs))
    _refuse_unknown_parents(arms)
    return Plan(experiment, arms, f"harness run {' '.join(overrides)}")


def plan_multirun(overrides: Sequence[str]) -> Plan:
    """Plan Hydra's own multirun syntax: every job is a run, jobs that differ only in the seed are one arm."""
    arms: dict[str, PlannedArm] = {}
    for job in expand(overrides):
        config = compose_run(job)
        name = arm_label(job, overrides)
        spec = RunSpec.of(config, {"experiment": "multirun", "arm": name})
        planned = arms.setdefault(spec.arm_id, PlannedArm(Arm(name, tuple(job)), config, {}))
        assert isinstance(planned.runs, dict)
        planned.runs[spec.seed] = spec
    seeds = sorted({seed for planned in arms.values() for seed in planned.runs})
    first = next(iter(arms.values())).config
    experiment = Experiment(
        name=f"multirun_{content_hash(sorted(arms), seeds)[:8]}",
        title=" ".join(overrides),
        seeds=seeds,
        benchmark=next(iter(first.evaluation.benchmarks), ""),
    )
    return Plan(experiment, list(arms.values()), f"harness run -m {' '.join(overrides)}")


def arm_label(job: Sequence[str], overrides: Sequence[str]) -> str:
    """What distinguishes a job's arm: the values of the swept overrides, without the seed."""
    parts = [
        item
        for item, given in zip(job, overrides, strict=False)
        if item != given and not item.startswith("seed=")
    ]
    return ",".join(part.removeprefix("rung=") for part in parts) or "base"


def _refuse_unknown_parents(arms: Sequence[PlannedArm]) -> None:
    names = [planned.arm.name for planned in arms]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"experiment.arms: two arms are called {name!r}; names must be distinct")
    for planned in arms:
        parent = planned.arm.parent
        if parent is not None and parent not in names:
            raise ConfigError(
                f"experiment.arms: {planned.arm.name!r} has the unknown parent {parent!r}{nearest(parent, names)}"
            )
