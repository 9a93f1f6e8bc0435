"""Show what an experiment would run: arms, what changes in each, status, cost, power, checks, refusals. Runs nothing, needs no network.

harness plan experiment=dapo_ladder
harness plan -m algorithm=grpo,dapo seed=0,1,2
harness plan --sample experiment=dapo_ladder    ask the policy, too: can a comparison be decided here?
"""

import argparse
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from harness.commands._answer import answered_runs, dropped_runs_line
from harness.commands._arguments import Counter as Progress
from harness.commands._arguments import Exit, VerbAnswer, flag
from harness.commands._launch import REMOTE
from harness.configuration.compose import check_launcher
from harness.configuration.identity import flatten
from harness.configuration.numbers import format_count, format_seconds
from harness.configuration.schema import dump
from harness.configuration.sections import RuntimeConfig
from harness.execution.progress import Terminal
from harness.experiment.checks import (
    Objection,
    absent,
    check_plan,
    differences,
    one_rate_note,
    refusal_lines,
    refusals,
    report_checks,
)
from harness.experiment.data import unread_data
from harness.experiment.history import Cost, History, mixed_devices_note
from harness.experiment.memory import memory_line
from harness.experiment.plan import Part, Plan, PlannedArm
from harness.experiment.planning import make_plan
from harness.experiment.power import half_width_lines, power_line
from harness.experiment.tuning import choice_note
from harness.store import ResultStore
from harness.store.reader import run_status

ARGUMENTS = {
    "-m --multirun": flag("expand overrides as Hydra's multirun does"),
    "--sample": flag(
        "ask the policy before training 32 training problems, a group each: can a comparison be decided here (docs/regime.md)?"
    ),
    "overrides": {"nargs": "*", "help": "Hydra overrides, as for `harness run`"},
}
_PIPE = 200  # columns without a terminal
# Who trains the runs changes no plan, but where this machine lacks what others have.
_LAUNCHER = ("hydra/launcher=", "hydra.launcher.")
# What is told of the arms where it is one thing for all of them.
_COMMON = (
    "model.kind", "model.path", "task.kind", "task.path", "training.steps", "training.generated_tokens",
    "algorithm.prompts_per_step", "algorithm.responses_per_prompt", "sampling.max_response_tokens", "optimizer.learning_rate",
)  # fmt: skip
Changes = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class ArmRow:
    """One arm.

    `changes`: key → its values in the neighbour that the arm is compared with and here. `runs`: id and status (`new`: not in the store) by
    seed, empty where the budget is not known yet. `refused`: why it cannot be run at all; `lacking`: what it needs before it can start,
    here or at all. `expected`: cost of one run, None where no run in the store tells.
    """

    name: str
    label: str
    arm_id: str
    parent: str | None
    changes: Changes
    runs: dict[int, dict[str, str]]
    seeds: list[int]
    refused: list[str]
    lacking: list[str]
    expected: Cost | None


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """An experiment before it runs. `totals`: see `totals_of`. `notes` say power, memory and what else a person reads, in sentences."""

    experiment: str
    title: str
    question: str
    design: str
    metrics: list[str]
    seeds: list[int]
    command: str
    match: str
    parts: list[Part]
    arms: list[ArmRow]
    totals: dict[str, Any]
    notes: list[str]
    findings: list[Objection]

    @property
    def exit_code(self) -> int:
        """1 where no run of it could be made on any machine: all arms are refused, or those of a first part, and none is finished."""
        return Exit.DONE if self.totals["to_run"] or self.totals["finished"] else Exit.FOUND


def answer(options: argparse.Namespace) -> Answer:
    """Plan the experiment and look into the store; nothing is run or written."""
    of_launcher = [item for item in options.overrides if item.lstrip("+").startswith(_LAUNCHER)]
    overrides = [item for item in options.overrides if item not in of_launcher]
    if of_launcher:
        check_launcher(of_launcher)
    if any(item.lstrip("+").removeprefix(_LAUNCHER[0]) in REMOTE for item in options.overrides):
        overrides.append("++runtime.elsewhere=true")
    plan = make_plan(overrides, options.multirun)
    runtime = plan.arms[0].config.runtime
    store = ResultStore(runtime.results)
    plans = [plan, *([plan.first.plan] if plan.first else [])]
    statuses = {spec.run_id: run_status(store.run(spec.run_id)) or "new" for one in plans for spec in one.specs}
    history = History(store)
    arms, *first_arms = ([_arm_row(one, arm, statuses, history) for arm in one.arms] for one in plans)
    totals = totals_of([*arms, *itertools.chain(*first_arms)])
    notes = [
        *refusal_lines({arm.name: arm.refused for arm in arms}),
        *(
            line.replace("refused", "cannot start:", 1)
            for line in refusal_lines({arm.name: arm.lacking for arm in arms})
        ),
        *filter(None, [common_line(plan), f"launched with {' '.join(of_launcher)}" * bool(of_launcher)]),
        *differences(plan),
        *one_rate_note(plan),
        *unread_data(plan),
        *part_lines(plan, statuses),
        *total_lines(totals),
        *metric_lines(plan),
        *filter(None, [gpu_line(runtime), memory_line(arm.config for arm in plan.arms), power_line(plan, store)]),
        *filter(None, [mixed_devices_note(store, statuses, runtime)]),
        *filter(None, [dropped_runs_line(plan, answered_runs(store, plan.name))]),
    ]
    if options.sample:
        notes += sampled_lines(plan, store)
    return Answer(
        plan.name,
        plan.title,
        plan.question,
        plan.design,
        [metric.name for metric in plan.metrics],
        list(plan.seeds),
        plan.command,
        plan.match,
        list(plan.all_parts),
        arms,
        totals,
        notes,
        check_plan(plan) if runtime.checks == "warn" else report_checks(plan, runtime.checks),
    )


def _arm_row(plan: Plan, arm: PlannedArm, statuses: dict[str, str], history: History) -> ArmRow:
    return ArmRow(
        arm.name,
        arm.label,
        arm.arm_id,
        arm.parent,
        dict(arm.changes),
        {seed: {"run_id": run_id, "status": statuses[run_id]} for seed, run_id in arm.runs.items()},
        list(arm.runs or arm.seeds),
        refusals(arm.config),
        absent(arm.config),
        history.expect(arm.config, arm.arm_id) if arm.runs else None,
    )


def common_line(plan: Plan) -> str:
    """Tell the model, task, length and rate that all arms have, and no first part varies."""
    first, *others = (flatten(dump(arm.config)) for arm in (*plan.arms, *(plan.first.plan.arms if plan.first else ())))
    keys = [key for key in _COMMON if first.get(key) is not None and all(one.get(key) == first[key] for one in others)]
    subject, values = "all arms" if len(plan.arms) > 1 else "the arm", ", ".join(f"{key}={first[key]}" for key in keys)
    return f"{subject}: {values}" if keys else ""


def gpu_line(runtime: RuntimeConfig) -> str:
    """Tell the GPUs of a run whose engine has some of its own; nothing of others."""
    shares = f"{runtime.gpus_per_run} to train, {runtime.sampler_gpus} to sample beside it"
    told = runtime.device == "cuda" and runtime.sampler_gpus
    return f"a run takes {runtime.gpus_of_a_run} GPUs: {shares}" if told else ""


def part_lines(plan: Plan, statuses: Mapping[str, str]) -> list[str]:
    """Tell what first parts have set, and which one runs before the rest."""
    lines = [
        f"{part.name} has set {arm}: {' '.join(item.lstrip('+') for item in overrides)}"
        for part in plan.parts
        for arm, overrides in (part.settings or {}).items()
    ]
    if plan.first is None:
        return lines
    runs = [statuses[spec.run_id] for spec in plan.first.plan.specs]
    count = f"{format_count(len(runs))}, {runs.count('finished')} finished"
    later = sum(len(plan.seeds_of(arm)) for arm in plan.arms if not arm.runs)
    return [
        *lines,
        f"first {plan.first.part.name}: {count}; their results set {plan.first.part.sets}; {format_count(later, 'run')} follow",
        *(choice_note(part) for part in [plan.first.part] if part.seeds),
    ]


def totals_of(arms: Sequence[ArmRow]) -> dict[str, Any]:
    """Count what is left to do, each run once, and add up what it is expected to take one after the other, as far as it is `known`."""
    statuses = {run["run_id"]: run["status"] for arm in arms for run in arm.runs.values()}
    finished_count = sum(status == "finished" for status in statuses.values())
    costs: dict[str, Cost | None] = {}
    for arm in arms:
        for run in arm.runs.values():
            if not arm.refused and run["status"] != "finished":
                costs.setdefault(run["run_id"], arm.expected)
    known_costs = [cost for cost in costs.values() if cost is not None]
    counts = {"runs": len(statuses), "finished": finished_count, "to_run": len(costs)}
    sums = {
        name: sum(getattr(cost, name) for cost in known_costs) for name in ("seconds", "generated_tokens", "gpu_hours")
    }
    return {
        **counts,
        "refused": len(statuses) - finished_count - len(costs),
        "known": len(known_costs),
        **(sums if known_costs or not costs else dict.fromkeys(sums)),
        "sources": sorted({cost.source for cost in known_costs}),
    }


def show(result: Answer, options: argparse.Namespace) -> None:
    """Print the arms and what is to know of them."""
    console = Terminal(width=shutil.get_terminal_size((_PIPE, 24)).columns, markup=False, highlight=False)
    console.print(Text.assemble((result.title, "bold"), f"\n{result.question}".rstrip()))
    for arm in result.arms:
        console.print(_block(arm))
    console.print()
    for line in (*result.notes, *(f"check {finding}" for finding in result.findings)):
        console.print(line)


def sampled_lines(plan: Plan, store: ResultStore) -> Iterator[str]:
    """Tell what the policy answers before training and how far a difference will vary, for arms that ask it alike once."""
    import torch

    from harness.evaluation.regime import regime_key, regime_of
    from harness.model.linear import resolve_kernel

    groups: dict[str, list[PlannedArm]] = {}
    for arm in plan.arms:
        groups.setdefault(regime_key(arm.config), []).append(arm)
    for arms in groups.values():
        config = arms[0].config
        torch.set_num_threads(config.runtime.threads)
        names = "all arms" if len(groups) == 1 else ", ".join(arm.name for arm in arms)
        current = regime_of(config, store, resolve_kernel(config.runtime.linear_kernel), Progress)
        widths = half_width_lines(plan, current.sample_sd) if current.mixed else []
        for line in [*current.lines(), *widths]:
            yield f"before training, {names}: {line}"


def metric_lines(plan: Plan) -> list[str]:
    """Tell what is asked about, with unit, direction and margin; nothing for accuracy alone without a margin."""
    if plan.about_score and not plan.margins:
        return []
    parts = []
    for metric in plan.metrics:
        size = plan.margins.get(metric.name)
        words = [metric.unit, metric.direction, f"margin {size:g}" if size else ""]
        parts.append(f"{metric.title} ({', '.join(filter(None, words))})")
    return [f"asks about: {'; '.join(parts)}"]


def _block(arm: ArmRow) -> Text:
    """One arm in lines: label, runs and cost, then what it changes against its neighbour."""
    counts, cost = Counter(run["status"] for run in arm.runs.values()), arm.expected
    runs = ", ".join(f"{count} {status}" for status, count in counts.items()) or "known later"
    if cost is None or arm.refused:
        lines = ["  refused"] * bool(arm.refused)
    else:
        lines = [f"  {format_seconds(cost.seconds)}, {_tokens(cost.generated_tokens)} tokens a run"]
    lines += [f"  {key}: {before} → {after}" for key, (before, after) in arm.changes.items()]
    return Text.assemble((f"\n{arm.label}", "bold"), f"  {runs}", *(f"\n{line}" for line in lines))


def total_lines(totals: Mapping[str, Any]) -> list[str]:
    known, to_run, refused = totals["known"], totals["to_run"], totals["refused"]
    counts = [format_count(totals["runs"]), f"{totals['finished']} finished", f"{to_run} to run"]
    lines = [", ".join(counts + [f"{refused} refused"] * bool(refused))]
    if known:
        device = f"{totals['gpu_hours']:.2f} GPU-hours" if totals["gpu_hours"] else "no GPU"
        lines.append(
            f"expected for {known} of them: {format_seconds(totals['seconds'])} of runs one after the other, "
            f"{_tokens(totals['generated_tokens'])} generated tokens, {device} (from {'; '.join(totals['sources'])})"
        )
    if known < to_run:
        lines.append(f"what {to_run - known} of them cost is unknown until a run like them has finished")
    return lines


def _tokens(count: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"
