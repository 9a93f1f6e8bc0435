"""From a declared experiment to the runs it needs: arms × seeds, each a value with an identity."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.compose import compose_run, compose_values, expand, refuse_second_choice
from harness.configuration.error import ConfigError, require
from harness.configuration.identity import arm_id, content_hash, difference, run_id, without_neutral
from harness.configuration.loader import load_dataclass
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig, as_yaml, dump
from harness.engagement.measure import Measure
from harness.engagement.rules import measures
from harness.experiment.arm_names import short_names
from harness.experiment.asked import asked_of_a_multirun, refuse_too_few
from harness.experiment.claim import fingerprint, terms
from harness.experiment.declaration import Experiment
from harness.experiment.designs import Arm, lower_rungs
from harness.experiment.equal_budget import spent, with_budget
from harness.experiment.given import refuse_replaced, refuse_seed, spelled_out
from harness.experiment.looks import replacing, with_looks
from harness.store import ResultStore


def cost_class(config: RunConfig) -> str:
    """Runs of one class cost about the same a step: same model, engine, lengths, batch and evaluation."""
    algorithm = config.algorithm
    sizes = [algorithm.prompts_per_step, algorithm.responses_per_prompt, algorithm.dead_groups.policy]
    parts = [dump(part) for part in (config.model, config.engine, config.sampling, config.evaluation)]
    return content_hash(sizes, algorithm.updates_per_step, algorithm.epochs_per_step, *parts)


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
        return as_yaml(self.config)


@dataclass(frozen=True)
class PlannedArm:
    """An arm with its composed configuration (at the first seed), its runs by seed, and why it has none if it is refused.

    `common` are the overrides that it shares with all arms of its experiment.
    """

    arm: Arm
    config: RunConfig
    runs: Mapping[int, RunSpec]
    refused: Sequence[str] = ()
    common: Sequence[str] = ()

    @classmethod
    def of(
        cls, arm: Arm, config: RunConfig, experiment: Experiment, common: Sequence[str] = ()
    ) -> PlannedArm:
        """The arm with a run for each of its seeds."""
        labels, seeds = {"experiment": experiment.name, "arm": arm.name}, arm.seeds or experiment.seeds
        runs = {seed: RunSpec.of(dataclasses.replace(config, seed=seed), labels) for seed in seeds}
        return cls(arm, config, runs, common=common)


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
        """The experiment's seeds (in a sequential design those asked for so far), then those that single arms have of their own."""
        used = {seed: None for planned in self.arms for seed in planned.runs}
        declared = [seed for seed in self.experiment.seeds if seed in used or not self.experiment.looks]
        return list(dict.fromkeys([*declared, *used]))

    @property
    def base_policies(self) -> int | None:
        """Count the shipped base policies that the seeds of every arm take in turn: seed s starts from number s modulo that.

        None where arms differ in it, where they have no set, or where one base policy is declared for all seeds: intervals are about
        that one policy then, and seeds are the replicates.
        """
        bases = [getattr(planned.config.model, "bases", None) for planned in self.arms]
        counts = {None if one is None or one.set is None else one.count for one in bases}
        (count, *others) = counts
        return None if others or count == 1 else count

    def first_seeds(self, wanted: Mapping[str, int]) -> Plan:
        """The plan with as many of the first seeds of each arm as `wanted` says by the arm's name."""
        arms = []
        for planned in self.arms:
            first = self.experiment.seeds[: wanted[planned.arm.name]]
            runs = {seed: planned.runs[seed] for seed in first if seed in planned.runs}
            arms.append(dataclasses.replace(planned, runs=runs))
        return dataclasses.replace(self, arms=arms)

    @property
    def specs(self) -> list[RunSpec]:
        """Every run once, seed by seed, so that early results cover all arms."""
        seeds = self.seeds
        ordered = [planned.runs[seed] for seed in seeds for planned in self.arms if seed in planned.runs]
        return list({spec.run_id: spec for spec in ordered}.values())

    @property
    def compared(self) -> dict[str, str | None]:
        """Name what each arm is compared with: its parent, else the base, the first arm without one.

        The full recipe of a leave-one-out is compared with nothing: the others are compared with it.
        """
        parents = {planned.arm.name: planned.arm.parent for planned in self.arms}
        orphans = [name for name, parent in parents.items() if parent is None]
        inherited = None if self.experiment.design == "leave_one_out" else next(iter([*orphans, *parents]))
        return {
            name: parent or (inherited if name != inherited else None) for name, parent in parents.items()
        }

    def measures(self) -> dict[str, list[Measure]]:
        """Return what tells if each arm's difference to what it is compared with did anything (docs/objective/engagement.md)."""
        by_name = {planned.arm.name: planned for planned in self.arms}
        # What the arms of a matched budget stop at is the experiment's doing.
        ignore = "" if self.experiment.match == "steps" else "training."
        return {
            name: []
            if other is None
            else measures(by_name[other].config, by_name[name].config, (other, name), ignore)
            for name, other in self.compared.items()
        }

    def record(self) -> dict[str, Any]:
        """The plan as stored in `results/experiments/<name>/plan.json`, what the analysis reads."""
        by_name = {planned.arm.name: planned for planned in self.arms}
        engagement, first = self.measures(), self.arms[0].config
        given = self.arms[0].common[len(self.experiment.overrides) :]
        declared = without_neutral(self.experiment)
        left_out = {"arms", "base", "orders", "grid", "search"} | (
            {"claim"} if self.experiment.claim is None else set()
        )
        return {
            **{key: value for key, value in declared.items() if key not in left_out},
            "seeds": self.seeds,
            "base_policies": self.base_policies,
            "primary_cap": first.score_cap,
            "caps": sorted(set(first.evaluation.caps)),
            "arms": [_arm_record(planned, by_name, engagement[planned.arm.name]) for planned in self.arms],
            "command": self.command,
            **({"declaration": fingerprint(self.experiment, given)} if self.experiment.claim else {}),
            **terms(self.experiment, [planned.config for planned in self.arms], self.seeds),
        }


def _arm_record(
    planned: PlannedArm, by_name: Mapping[str, PlannedArm], engagement: Sequence[Measure]
) -> dict[str, Any]:
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
        "engagement": [measure.record() for measure in engagement],
    }


def make_plan(overrides: Sequence[str], multirun: bool = False) -> Plan:
    """Plan an experiment where one is named, else Hydra's multirun (of which a single run is the smallest).

    Raises:
        ConfigError: both at once: an experiment says itself what is varied.
    """
    if not any(item.startswith(("experiment=", "claim=")) for item in overrides):
        return plan_multirun(overrides)
    if multirun:
        raise ConfigError(
            "experiment= does not go with -m: an experiment lists its own arms and seeds. Leave out -m "
            "(several experiments: one command each; other seeds: 'experiment.seeds=[0,1]')"
        )
    return plan_experiment(overrides)


def plan_experiment(overrides: Sequence[str]) -> Plan:
    """Plan `experiment=NAME` with further overrides (those on `experiment.*` change the declaration, the rest every arm).

    Raises:
        ConfigError: an unknown experiment, arm key, patch or configuration key.
    """
    experiment = declared_experiment(overrides)
    refuse_seed(overrides, "'experiment.seeds=[0,1]'")
    common = (*experiment.overrides, *common_overrides(overrides))
    declared = experiment.declared_arms([item for item in overrides if item.startswith("config_dir=")])
    refuse_replaced(declared, common)
    arms = [PlannedArm(arm, compose_run([*arm.overrides, *common]), {}, common=common) for arm in declared]
    _refuse_unfit(experiment, arms)
    return with_runs(Plan(experiment, arms, shlex.join(["harness", "run", *_recorded(overrides)])))


def with_runs(plan: Plan) -> Plan:
    """Return the plan with a run for every arm and seed; with a matched budget that is not known yet, only for the reference arm.

    Of a plan that waited for its reference arm: the same plan, with the budget that the arm has spent since.
    """
    experiment, budget = plan.experiment, plan.experiment.match_budget

    def planned(one: PlannedArm, budget: float | None = None) -> PlannedArm:
        config = one.config if budget is None else with_budget(one.config, experiment.match, budget)
        return PlannedArm.of(one.arm, config, experiment, one.common)

    if experiment.match == "steps" or budget is not None:
        return dataclasses.replace(plan, arms=[planned(one, budget) for one in plan.arms], waits_for=None)
    arms = {one.arm.name: one for one in plan.arms}
    name = experiment.match_reference or plan.arms[0].arm.name
    require("experiment.match_reference", name, list(arms))
    reference = arms[name] = planned(arms[name])
    store = ResultStore(reference.config.runtime.results)
    # In a sequential design the budget is that of the first look, so that it stays the same whatever follows.
    first = experiment.seeds[: experiment.looks[0]] if experiment.looks else list(reference.runs)
    budget = spent(store, [reference.runs[seed].run_id for seed in first], experiment.match)
    if budget is not None:
        arms |= {other: planned(one, budget) for other, one in arms.items() if other != name}
    return dataclasses.replace(plan, arms=list(arms.values()), waits_for=name if budget is None else None)


def declared_experiment(overrides: Sequence[str]) -> Experiment:
    """The declaration that `experiment=NAME` and overrides on `experiment.*` make. `match=tokens` stands for `experiment.match=tokens`.

    Overrides of other keys are left to the arms: a key may exist only in a group that the experiment chooses (`engine.tensor_parallel`).
    """
    spelled = [plain for item in overrides for plain in replacing(spelled_out(item))]
    own = ("experiment", "claim=", "config_dir=")
    both = [item for item in spelled if item.startswith(("experiment=", "claim="))]
    if len(both) > 1:
        raise ConfigError(f"{' and '.join(both)}: each is a whole declaration; name one of them")
    if not both:
        raise ConfigError("name what to plan: experiment=NAME or claim=NAME")
    refuse_second_choice(overrides)
    declared = compose_values([item for item in spelled if item.lstrip("+~").startswith(own)])
    if not isinstance(declared.get("experiment"), dict):
        raise ConfigError(
            f"{both[0]} declares nothing: its file must begin with the line `# @package experiment`"
        )
    experiment = load_dataclass(Experiment, with_looks(declared["experiment"]), "experiment")
    changed = {item.lstrip("+~").partition("=")[0] for item in spelled}
    another = "experiment.metric" in changed and "experiment.margin" not in changed
    if another and isinstance(experiment.margin, float):
        raise ConfigError(
            f"experiment.margin={experiment.margin:g} was declared for another metric than {', '.join(experiment.metrics)}; say "
            "experiment.margin= in its unit, or experiment.margin=null"
        )
    return experiment


def common_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides that apply to every arm: all but those on the declaration."""
    own = ("experiment", "claim=")
    return [item for item in overrides if not spelled_out(item).lstrip("+~").startswith(own)]


def _recorded(overrides: Sequence[str]) -> list[str]:
    """The overrides as recorded: without `runtime.*`, which changes no number and may hold this machine's paths."""
    return [item for item in overrides if not item.lstrip("+").startswith("runtime.")]


def _refuse_unfit(experiment: Experiment, arms: Sequence[PlannedArm]) -> None:
    """Raises `ConfigError` for names of arms that do not fit together, and for what the arms' evaluations do not serve."""
    names = [planned.arm.name for planned in arms]
    for arm, config in ((planned.arm, planned.config) for planned in arms):
        if names.count(arm.name) > 1:
            raise ConfigError(f"experiment.arms: two arms are called {arm.name!r}; names must be distinct")
        if arm.parent is not None and arm.parent not in names:
            hint = nearest(arm.parent, names)
            raise ConfigError(f"experiment.arms: {arm.name!r} has the unknown parent {arm.parent!r}{hint}")
        known, protocol = sorted(config.evaluation.benchmarks), config.evaluation
        for key in ("benchmark", "dev_benchmark"):
            name = getattr(experiment, key)
            if known and name is not None and name not in known:
                raise ConfigError(
                    f"experiment.{key}={name!r} is not evaluated by arm {arm.name!r}{nearest(name, known)}"
                )
        fewer = (protocol.samples_between or protocol.samples_per_problem) < protocol.samples_per_problem
        if experiment.checkpoint_rule != "last" and fewer:
            raise ConfigError(
                f"experiment.checkpoint_rule={experiment.checkpoint_rule} scores evaluations before the last one, and arm "
                f"{arm.name!r} gives these fewer samples; set evaluation.samples_between=null"
            )
        refuse_too_few(experiment.metrics, arm.name, config)


def plan_multirun(overrides: Sequence[str]) -> Plan:
    """Plan Hydra's own multirun syntax: every job is a run, jobs that differ only in the seed are one arm.

    An arm is compared with the rung below it where there is one, else with the arm that equals the base configuration (else the first).
    """
    arms: dict[str, PlannedArm] = {}
    refuse_second_choice(overrides)
    given, (asked, overrides) = overrides, asked_of_a_multirun(overrides)
    jobs = expand(overrides)
    if not jobs:
        raise ConfigError(f"{' '.join(overrides)}: no configuration matches; a glob found nothing")
    for job, name in zip(jobs, short_names(jobs), strict=True):
        seeds = [int(item[5:]) for item in job if item.startswith("seed=") and item[5:].isdigit()]
        config = compose_run([item for item in job if not (seeds and item.startswith("seed="))])
        config = dataclasses.replace(config, seed=seeds[-1]) if seeds else config
        spec = RunSpec.of(config, {"experiment": asked.get("name", "multirun"), "arm": name})
        planned = arms.setdefault(spec.arm_id, PlannedArm(Arm(name, tuple(job)), config, {}))
        assert isinstance(planned.runs, dict)
        planned.runs[spec.seed] = spec
    all_seeds = sorted({seed for planned in arms.values() for seed in planned.runs})
    first = next(iter(arms.values())).config
    values = {
        "name": f"multirun_{content_hash(sorted(arms), all_seeds, *filter(None, [asked]))[:8]}",
        "title": asked.get("name") or " ".join(_recorded(overrides)),
        "benchmark": next(iter(first.evaluation.benchmarks), ""),
        **asked,
        "seeds": all_seeds,
    }
    experiment = load_dataclass(Experiment, values, "experiment")
    if asked:
        _refuse_unfit(experiment, list(arms.values()))
    compared = _with_parents(arms, [item for item in overrides if all(item in job for job in jobs)])
    return Plan(experiment, compared, shlex.join(["harness", "run", "-m", *_recorded(given)]))


def _with_parents(arms: Mapping[str, PlannedArm], common: Sequence[str]) -> list[PlannedArm]:
    """Arms by arm id, each with what it is compared with; `common` are the overrides that all of them have."""
    names = {_unseeded(planned.arm.overrides): planned.arm.name for planned in arms.values()}
    parents: dict[str, str | None] = {}
    for name, planned in arms.items():
        lower = (names.get(_unseeded(overrides)) for overrides in lower_rungs(planned.arm.overrides))
        parents[name] = next(filter(None, lower), None)
    lowest = [name for name, parent in parents.items() if parent is None]
    base = arm_id(compose_run(common))
    origin = base if base in lowest else lowest[0]
    parents |= {name: arms[origin].arm.name for name in lowest if name != origin}
    return [
        dataclasses.replace(planned, arm=dataclasses.replace(planned.arm, parent=parents[name]))
        for name, planned in arms.items()
    ]


def _unseeded(overrides: Sequence[str]) -> frozenset[str]:
    return frozenset(item for item in overrides if not item.startswith("seed="))
