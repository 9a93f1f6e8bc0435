"""From a declared experiment to the runs it needs: arms × seeds, each a value with an identity."""

import dataclasses
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness.configuration.compose import (
    REPLACED,
    choices,
    compose_run,
    compose_values,
    expand,
    folder_flags,
    parse_overrides,
    refuse_second_choice,
)
from harness.configuration.error import ConfigError, require
from harness.configuration.identity import arm_id, content_hash, difference, ids
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig, dump, load_dataclass
from harness.configuration.sections import base_policy_count, key_of, of_machine
from harness.engagement.measure import Measure, measures
from harness.experiment.declaration import Experiment, asked_metrics, refuse_seed, with_looks
from harness.experiment.designs import lower_rungs, short_names
from harness.experiment.plan import Arm, FirstPart, Part, Plan, PlannedArm, Settings
from harness.experiment.tuning import check_tune, tuned
from harness.problems.problem import chances_of
from harness.store import ResultStore

SELECTORS = ("experiment=", "claim=")  # beginnings of overrides that choose a whole declaration
_OF_A_DECLARATION = ("experiment", "claim=")  # of those that choose one or change it


def cost_class(config: RunConfig) -> str:
    """Runs of one class cost about the same a step: same model, engine, lengths, batch and evaluation."""
    algorithm = config.algorithm
    sizes = [algorithm.prompts_per_step, algorithm.responses_per_prompt, algorithm.dead_groups.policy]
    parts = [dump(part) for part in (config.model, config.engine, config.sampling, config.evaluation)]
    return content_hash(sizes, algorithm.updates_per_step, algorithm.epochs_per_step, *parts)


def plan_of(experiment: Experiment, arms: Sequence[PlannedArm], command: str) -> Plan:
    """The plan of a declaration with these arms, which have their runs."""
    return _described(_asked(experiment, arms, command))


def _asked(experiment: Experiment, arms: Sequence[PlannedArm], command: str) -> Plan:
    """What a declaration asks of these arms. Raises `ConfigError`."""
    _refuse_other_places(arms)
    first = arms[0].config
    metrics = tuple(asked_metrics(experiment.metrics))
    margin = experiment.margin or {}
    seeds = _seeds(experiment.seeds, arms)
    shared_fields = (
        "name", "question", "design", "benchmark", "paired", "together", "factors", "match", "match_reference",
        "match_budget",
    )  # fmt: skip
    return Plan(
        **{key: getattr(experiment, key) for key in shared_fields},
        title=experiment.title or experiment.name,
        metrics=metrics,
        margins=margin if isinstance(margin, Mapping) else {metrics[0].name: margin},
        seeds=seeds,
        looks=tuple(experiment.looks),
        arms=tuple(arms),
        base_policies=base_policy_count(dump(arm.config.model) for arm in arms),
        chances=chances_of(first.evaluation.benchmarks.get(experiment.benchmark)),
        primary_cap=first.score_cap,
        caps=tuple(sorted(set(first.evaluation.caps))),
        patches=tuple(experiment.patches),
        overrides=tuple(experiment.overrides),
        notes=tuple(experiment.notes),
        command=command,
        claim=None if experiment.claim is None else dataclasses.asdict(experiment.claim),
    )


def _refuse_other_places(arms: Sequence[PlannedArm]) -> None:
    """Raise `ConfigError` where a key of the machine that the whole command has one value of differs between arms."""
    for key in ("results", "checks", "elsewhere"):
        values = {getattr(arm.config.runtime, key): arm.name for arm in reversed(arms)}
        if len(values) > 1:
            arms_of_values = ", ".join(f"{value} in {name}" for value, name in reversed(values.items()))
            raise ConfigError(f"runtime.{key} differs between arms ({arms_of_values}); give it to all arms")


def planned_arm(
    arm: Arm, config: RunConfig, experiment: Experiment, more: Sequence[str] = (), *, with_runs: bool = True
) -> PlannedArm:
    """The arm with a run for each of its seeds, or with none yet."""
    values = {**vars(arm), "seeds": tuple(arm.seeds or experiment.seeds), "label": arm.label or arm.name}
    return _identified(PlannedArm(**values, more=more), config, experiment.name, with_runs=with_runs)


def _identified(arm: PlannedArm, config: RunConfig, experiment: str, *, with_runs: bool = True) -> PlannedArm:
    """The arm of this configuration, with the ids and labels that follow from it."""
    arm_id, runs = ids(config, arm.seeds if with_runs else ())
    labels = {"experiment": experiment, "arm": arm.name, **cost_labels(config)}
    return dataclasses.replace(arm, composed_config=config, arm_id=arm_id, runs=runs, labels=labels)


def cost_labels(config: RunConfig) -> dict[str, str]:
    """What the labels of a run say of its configuration; a run that ends by a budget tells no number of steps."""
    steps = {"steps": str(config.training.steps)} if config.training.generated_tokens is None else {}
    return {"cost_class": cost_class(config), **steps}


def _seeds(shared: Iterable[int], arms: Sequence[PlannedArm]) -> tuple[int, ...]:
    """The seeds of all arms, then those that single arms have of their own."""
    return tuple(dict.fromkeys([*shared, *(seed for arm in arms for seed in arm.runs)]))


def _described(plan: Plan) -> Plan:
    """The plan whose arms tell their changes against their parents, and what shows if these did anything (docs/objective/engagement.md)."""
    # What the arms of a matched budget stop at is the experiment's doing, as is what they are tuned to.
    ignore = (*["training."] * (plan.match != "steps"), *plan.tuned_keys)
    arms = []
    for arm in plan.arms:
        changes = {} if arm.parent is None else difference(plan.arm(arm.parent).config, arm.config)
        changes.pop("seed", None)
        engagement: tuple[Measure, ...] = ()
        if (reference := plan.reference_of(arm)) is not None:
            engagement = tuple(measures(reference.config, arm.config, (reference.name, arm.name), ignore))
        arms.append(dataclasses.replace(arm, changes=changes, engagement=engagement))
    return dataclasses.replace(plan, arms=tuple(arms))


def declares(overrides: Sequence[str]) -> bool:
    return any(item.startswith(SELECTORS) for item in overrides)


def make_plan(overrides: Sequence[str], multirun: bool = False, experiment: Experiment | None = None) -> Plan:
    """Plan an experiment where one is named (a multirun in any case), else one run, or Hydra's multirun. Raises `ConfigError`.

    `experiment`: what the overrides declare, where that is known already.
    """
    if experiment is not None or declares(overrides):
        return plan_experiment(overrides, experiment)
    return plan_multirun(overrides) if multirun else plan_jobs([overrides], overrides)


def plan_experiment(overrides: Sequence[str], experiment: Experiment | None = None) -> Plan:
    """Plan `experiment=NAME`; overrides on `experiment.*` change the declaration, the rest every arm. Raises `ConfigError`."""
    experiment = experiment or declared_experiment(overrides)
    refuse_seed(overrides)
    common = (*experiment.overrides, *common_overrides(overrides))
    # A patch among them is refused below, by a better reason.
    declared_arms = experiment.declared_arms([item for item in common if not re.match(r"\+*patch=", item)])
    refuse_replaced(declared_arms, common)
    arms = [
        planned_arm(arm, compose_run([*arm.overrides, *common]), experiment, common, with_runs=False)
        for arm in declared_arms
    ]
    _refuse_unfit(experiment, arms)
    plan = _asked(experiment, arms, _command(overrides))
    for arm, reference in plan.comparisons if plan.paired else ():
        if set(plan.seeds_of(arm)).isdisjoint(plan.seeds_of(reference)):  # no pair
            raise ConfigError(f"{arm.name!r} and {reference.name!r} share no seed; set experiment.paired=false")
    if experiment.tune is None:
        return matched(plan)
    check_tune(experiment.tune, plan)
    for point in experiment.tune.points:
        refuse_replaced(declared_arms, point)
    trials = tuned(plan, experiment.tune, runs=matched, then=lambda plan, part: matched(with_settings(plan, part)))
    return after(trials, with_runs(plan, []))


def matched(plan: Plan) -> Plan:
    """The plan with a run for every arm and seed, and one budget for all arms where that is asked.

    A budget that is no declared number is what the reference arm spends: its runs are a first part, which sets that of the others.
    """
    names = [arm.name for arm in plan.arms]
    if plan.match == "steps":
        return with_runs(plan, names)
    if plan.match_budget is not None:
        budget = plan.match_budget
        return with_runs(
            _with_overrides(plan, {arm.name: budget_overrides(arm.config, budget) for arm in plan.arms}), names
        )
    reference_name = plan.match_reference or names[0]
    require("experiment.match_reference", reference_name, names)
    waiting = with_runs(plan, [reference_name])
    reference = waiting.arm(reference_name)
    # In a sequential design the budget is that of the first look, so that it stays the same whatever follows.
    seeds = plan.seeds[: plan.looks[0]] if plan.looks else tuple(reference.runs)
    reference = dataclasses.replace(reference, parent=None, runs={seed: reference.runs[seed] for seed in seeds})
    sets = f"the budget of the other arms, which is what {reference_name} spends"
    part = Part(f"match={plan.match}", sets, plan.name)

    def settle(store: ResultStore) -> Part | None:
        budget = mean_spending(store, reference.runs.values())
        if budget is None:
            return None
        others = (arm for arm in plan.arms if arm.name != reference_name)
        settings = {arm.name: budget_overrides(arm.config, budget) for arm in others}
        return dataclasses.replace(part, settings=settings)

    def then(settled: Part) -> Plan:
        return with_runs(with_settings(plan, settled), names)

    alone = dataclasses.replace(waiting, arms=(reference,), seeds=seeds, looks=(), match="steps")
    return after(FirstPart(part, alone, settle, then), waiting)


def after(first: FirstPart, waiting: Plan) -> Plan:
    """The plan that the first part's results make, where all are stored; else the waiting one, with the part. Failed runs come again."""
    store = ResultStore(first.plan.arms[0].config.runtime.results)
    has_failed = any(store.run(spec.run_id).status == "failed" for spec in first.plan.specs)
    settled = None if has_failed else first.settle(store)
    return dataclasses.replace(waiting, first=first) if settled is None else first.then(settled)


def with_settings(plan: Plan, part: Part) -> Plan:
    """The plan with what a first part has set."""
    return _with_overrides(dataclasses.replace(plan, parts=(*plan.parts, part)), part.settings or {})


def _with_overrides(plan: Plan, settings: Settings) -> Plan:
    """The plan with values of its arms, which win over those that the arms have."""
    arms = []
    for arm in plan.arms:
        more = (*arm.more, *settings.get(arm.name, ()))
        config = compose_run([*arm.overrides, *more]) if arm.name in settings else arm.config
        arms.append(dataclasses.replace(arm, more=more, composed_config=config))
    return dataclasses.replace(plan, arms=tuple(arms))


def with_runs(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with a run for each seed of these arms, and with what its arms change."""
    arms = tuple(_identified(arm, arm.config, plan.name) if arm.name in names else arm for arm in plan.arms)
    return _described(dataclasses.replace(plan, arms=arms, seeds=_seeds(plan.seeds, arms)))


def declared_experiment(overrides: Sequence[str]) -> Experiment:
    """The declaration that `experiment=NAME` and overrides on `experiment.*` make. `match=tokens` stands for `experiment.match=tokens`.

    Overrides of other keys are left to the arms: a key may exist only in a group that the experiment chooses (`engine.tensor_parallel`).
    """
    lines = [line for item in overrides for line in replace_whole(spell_out(item))]
    selectors = [item for item in lines if item.startswith(SELECTORS)]
    if len(selectors) > 1 or "," in "".join(selectors):
        raise ConfigError(f"{' and '.join(selectors)}: each is a whole declaration; name one of them")
    if not selectors:
        raise ConfigError("name what to plan: experiment=NAME or claim=NAME")
    refuse_second_choice(overrides)
    sweeps = [item for item in parse_overrides(common_overrides(overrides)) if item.is_sweep_override()]
    if sweeps and sweeps[0].key_or_group != "seed":
        raise ConfigError(f"{sweeps[0].input_line}: an experiment takes one value for all its arms (experiment.grid)")
    declared_lines = [item for item in lines if item.lstrip("+~").startswith(_OF_A_DECLARATION)]
    values = compose_values(declared_lines)
    if not isinstance(values.get("experiment"), dict):
        raise ConfigError(f"{selectors[0]} declares nothing: its file needs `# @package _global_` and `experiment:`")
    experiment = load_dataclass(Experiment, with_looks(values["experiment"]), "experiment")
    _refuse_margin_of_another_metric(experiment, declared_lines)
    return experiment


def _refuse_margin_of_another_metric(experiment: Experiment, lines: Sequence[str]) -> None:
    """Raise `ConfigError` where `lines` choose another metric than the file's and leave the margin that the file has in its unit."""
    keys = [*map(key_of, lines)]
    if "experiment.metric" not in keys or "experiment.margin" in keys or not isinstance(experiment.margin, float):
        return
    others = [item for item in lines if key_of(item) != "experiment.metric"]
    metric = compose_values(others)["experiment"].get("metric", Experiment.metric)
    if experiment.metrics not in (metric, [metric]):
        raise ConfigError(f"experiment.margin={experiment.margin:g} was declared for another metric; say it anew")


def common_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides that apply to every arm: all but those on the declaration."""
    return [item for item in overrides if not spell_out(item).lstrip("+~").startswith(_OF_A_DECLARATION)]


def _command(overrides: Sequence[str], *flags: str) -> str:
    """The command as recorded: without `runtime.*`, which changes no number and may hold this machine's paths."""
    arguments = [item for item in overrides if not item.lstrip("+").startswith("runtime.")]
    return shlex.join(["harness", "run", *flags, *folder_flags(), *arguments])


def _refuse_unfit(experiment: Experiment, arms: Sequence[PlannedArm]) -> None:
    """Raises `ConfigError` for names of arms that do not fit together, and for what the arms' evaluations do not serve."""
    names, parents = [arm.name for arm in arms], {arm.name: arm.parent for arm in arms}
    for arm in arms:
        config = arm.config
        if names.count(arm.name) > 1:
            raise ConfigError(f"experiment.arms: two arms are called {arm.name!r}; names must be distinct")
        if arm.parent is not None and arm.parent not in names:
            hint = nearest(arm.parent, names)
            raise ConfigError(f"experiment.arms: {arm.name!r} has the unknown parent {arm.parent!r}{hint}")
        refuse_benchmark(experiment.benchmark, config, f"arm {arm.name!r}")
        samples = config.evaluation.samples_per_problem
        for metric in asked_metrics(experiment.metrics):
            if isinstance(metric.parameter, int) and metric.parameter > samples:
                key = f"evaluation.samples_per_problem={metric.parameter}"
                raise ConfigError(f"experiment.metric={metric.name}: arm {arm.name!r} has {samples} samples; set {key}")
        if experiment.match != "steps" and config.optimizer.decay != "none":
            rates = f"optimizer.decay={config.optimizer.decay} of arm {arm.name!r}: budgets would give arms other rates"
            raise ConfigError(f"experiment.match={experiment.match} with {rates}; set optimizer.decay=none")
        chain = [arm.name]
        while (parent := parents.get(chain[-1])) is not None:
            chain.append(parent)
            if parent in chain[:-1]:
                raise ConfigError(f"experiment.arms: parents in a circle, {' → '.join(chain)}; leave one of them out")


def refuse_benchmark(name: str, config: RunConfig, subject: str) -> None:
    """Raise `ConfigError` where the evaluation of the subject has benchmarks, but none of this name."""
    benchmarks = sorted(config.evaluation.benchmarks)
    if benchmarks and name not in benchmarks:
        raise ConfigError(f"experiment.benchmark={name!r} is not evaluated by {subject}{nearest(name, benchmarks)}")


def plan_multirun(overrides: Sequence[str]) -> Plan:
    """Plan what Hydra's multirun would run."""
    refuse_second_choice(overrides)
    return plan_jobs(expand(overrides), overrides)


def job_config(job: Sequence[str]) -> RunConfig:
    """The configuration of a job. Its seed is set last, so that jobs that differ in nothing else are composed once."""
    seeds = [int(item[5:]) for item in job if item.startswith("seed=") and item[5:].isdecimal()]
    config = compose_run([item for item in job if not (seeds and item.startswith("seed="))])
    return dataclasses.replace(config, seed=seeds[-1]) if seeds else config


def plan_jobs(jobs: Sequence[Sequence[str]], overrides: Sequence[str], *, whole: bool = True) -> Plan:
    """Plan the jobs of a multirun, each a list of overrides, made of `overrides`: every job is a run.

    Jobs that differ only in the seed are one arm. It is compared with the rung below it where there is one, else with the first arm.
    `whole`: these are all jobs of the multirun, which has its name of them, else of `overrides`.
    """
    if not jobs:
        raise ConfigError(f"{' '.join(overrides)}: no configuration matches; a glob found nothing, or a range is empty")
    refuse_second_choice(jobs[0])
    declaration, jobs = multirun_declaration(overrides), [run_overrides(job) for job in jobs]
    arms_by_id: dict[str, tuple[Arm, RunConfig, list[int]]] = {}
    for job, name in zip(jobs, short_names(jobs), strict=True):
        config = job_config(job)
        arm, known, own_seeds = arms_by_id.setdefault(arm_id(config), (Arm(name, tuple(job)), config, []))
        if known.runtime != config.runtime:
            others = " ".join(item for item in job if item not in arm.overrides and not item.startswith("seed="))
            raise ConfigError(f"{others}: jobs that differ in runtime.* alone are one run; give it one value")
        own_seeds.append(config.seed)
    first = next(iter(arms_by_id.values()))[1]
    all_seeds = sorted({seed for *_, seeds in arms_by_id.values() for seed in seeds})
    own_name = (
        [sorted(arms_by_id), all_seeds] if whole else [sorted(item for item in overrides if not of_machine(item))]
    )
    names = [arm.name for arm, *_ in arms_by_id.values()]
    title = ", ".join(names)
    values = {
        "name": f"multirun_{content_hash(*own_name, *filter(None, [declaration]))[:8]}",
        "title": declaration.get("name")
        or (title if len(title) <= 60 else f"{len(names)} arms: {names[0]} to {names[-1]}"),
        "benchmark": next(iter(first.evaluation.benchmarks), ""),
        **declaration,
        "seeds": all_seeds,
    }
    parents = _parents({key: arm for key, (arm, *_) in arms_by_id.items()})
    references = {name for name in parents.values() if name is not None}
    if len(references) == 1:
        values["notes"] = [f"Arms are compared with {references.pop()}, the first one."]
    experiment = load_dataclass(Experiment, values, "experiment")
    arms = [
        planned_arm(
            dataclasses.replace(arm, parent=parents[name], seeds=tuple(dict.fromkeys(seeds))), config, experiment
        )
        for name, (arm, config, seeds) in arms_by_id.items()
    ]
    if declaration:
        _refuse_unfit(experiment, arms)
    return plan_of(experiment, arms, _command(overrides, "-m"))


def _parents(arms: Mapping[str, Arm]) -> dict[str, str | None]:
    """What each arm (by its id) is compared with: the nearest rung below it that is there, else the first arm that has none."""
    names = {_without_seed(arm.overrides): arm.name for arm in arms.values()}
    parents: dict[str, str | None] = {}
    for key, arm in arms.items():
        lower_names = (names.get(_without_seed(overrides)) for overrides in lower_rungs(arm.overrides))
        parents[key] = next(filter(None, lower_names), None)
    reference, *others = [key for key, parent in parents.items() if parent is None]
    return parents | {key: arms[reference].name for key in others}


def _without_seed(overrides: Sequence[str]) -> frozenset[str]:
    return frozenset(item for item in overrides if not item.startswith("seed="))


def spell_out(item: str) -> str:
    """`match=tokens` as `++experiment.match=tokens`, `experiment.seeds=0,1` as a list. Raises `ConfigError` for `experiment.seeds=3`."""
    if item.startswith("match="):
        return f"++experiment.{item}"
    if match := re.fullmatch(r"\+*experiment\.seeds=(\d+)", item):
        raise ConfigError(f"{item}: say which seeds: 'experiment.seeds=[{match[1]}]', 'experiment.seeds=[0,1,2]'")
    item = re.sub(r"^(experiment\.seeds=)(\d+(?:,\d+)*)$", r"\1[\2]", item)
    # A documented field may be missing from the experiment's file: adding it is what the user means; typos are caught afterwards.
    return f"++{item}" if item.startswith("experiment.") else item


def refuse_replaced(arms: Sequence[Arm], common: Sequence[str]) -> None:
    """Raise `ConfigError` for overrides of all arms that choose a group in which the arms differ: all would be one under their names."""
    for group, item in choices(common):
        beginnings = (f"{group}=", *["rung="] * (group == "algorithm"))
        choice_arms = {
            next((line for line in arm.overrides if line.startswith(beginnings)), f"no {group}="): arm.name
            for arm in arms
        }
        if len(choice_arms) > 1:
            examples = ", ".join(f"{choice} ({name})" for choice, name in list(choice_arms.items())[:3])
            text = f"would replace what the arms differ in under their names: {examples}"
            raise ConfigError(f"{item.input_line} {text}; compare others: harness run -m {group}=A,B seed=0,1")


def replace_whole(override: str) -> list[str]:
    """A list or mapping for some keys of a declaration takes the place of what the file has; Hydra would merge mappings."""
    key, _, value = override.partition("=")
    if key.lstrip("+") in REPLACED and value.lstrip().startswith(("{", "[")):
        return [f"++{key.lstrip('+')}=null", override]
    return [override]


_MULTIRUN_KEYS = {"name", "title", "question", "metric", "margin", "benchmark", "paired"}


def run_overrides(job: Sequence[str]) -> list[str]:
    """The overrides of a job that are about its run, without `experiment.*`.

    Raises `ConfigError` for a whole experiment in it, whose arms would not be run.
    """
    override = next((item for item in job if item.startswith(SELECTORS) and item[-5:] != "=null"), None)
    if override:
        line = "`defaults: [/declared/an_experiment, _self_]`"
        raise ConfigError(f"{override}: an experiment is a sweep of its own; its file needs the line {line}")
    return [item for item in job if not item.lstrip("+").startswith("experiment.")]


def multirun_declaration(overrides: Sequence[str]) -> dict[str, Any]:
    """Return what `experiment.*` overrides of a multirun ask. Raises `ConfigError` for what its jobs decide."""
    others = run_overrides(overrides)
    declared = [f"++{item.lstrip('+')}" for item in overrides if item not in others]
    values = dict(compose_values(declared)["experiment"]) if declared else {}
    invalid_keys = sorted(values.keys() - _MULTIRUN_KEYS)
    if invalid_keys:
        allowed = ", ".join(f"experiment.{key}" for key in sorted(_MULTIRUN_KEYS))
        raise ConfigError(f"experiment.{invalid_keys[0]} is not for a multirun, which may say {allowed}")
    return values


# The budget, not the number of steps, has to end an arm; one that spends less a step takes more of them.
STEP_LIMIT_FACTOR = 20


def budget_overrides(config: RunConfig, tokens: float) -> list[str]:
    """What stops a run after the step in which the budget is spent."""
    steps = config.training.steps * STEP_LIMIT_FACTOR
    return [f"++training.generated_tokens={round(tokens)}", f"++training.steps={steps}"]


def mean_spending(store: ResultStore, run_ids: Iterable[str]) -> float | None:
    """Return the tokens that finished runs generated on average; None where one is missing."""
    totals = []
    for name in run_ids:
        run = store.run(name)
        if run.status != "finished":
            return None
        totals.append(float((run.last_step() or {}).get("generated_tokens_total") or 0.0))
        if not totals[-1] > 0:
            raise ConfigError(f"the reference run {name} spent no tokens: raise training.steps or set match_budget")
    return sum(totals) / len(totals) if totals else None
