"""Show what an experiment would run: arms, what changes in each, status, cost, power, checks, refusals. Runs nothing, needs no network.

harness plan experiment=dapo_ladder
harness plan -m algorithm=grpo,dapo seed=0,1,2
harness plan --sample experiment=dapo_ladder    ask the policy before training, too: is there anything to learn?
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.commands._arguments import flag
from harness.commands._as_json import VerbAnswer
from harness.commands._counter import Counter as Progress
from harness.commands._exit_codes import Exit
from harness.commands._planned import ArmPlanned, Expected, Totals, past_cost, planned_arm, totals_of
from harness.commands._previous_answer import answered_runs, edited, left_out
from harness.configuration.schema import yaml_text
from harness.execution.supervisor import worker_count
from harness.experiment.checks import report_checks
from harness.experiment.duration import counted, format_seconds
from harness.experiment.estimate.cpu import cpu_estimate, memory_lines
from harness.experiment.estimate.unknown import why_unknown
from harness.experiment.estimate.work import RunEstimate, estimate_lines, estimate_of
from harness.experiment.history import Cost, History, computed, found_elsewhere, past_engagement
from harness.experiment.plan import Plan, PlannedArm
from harness.experiment.planning import make_plan
from harness.experiment.power import power_lines, power_of_metrics
from harness.experiment.refusals import refusal_lines, refusals
from harness.store import ResultStore

ARGUMENTS = {
    "-m --multirun": flag("expand overrides as Hydra's multirun does"),
    "--sample": flag(
        "ask the policy before training 16 training problems, four times each, and say what share is right"
    ),
    "--cfg": flag("print the whole configuration of every arm as YAML, and nothing else"),
    "overrides": {"nargs": "*", "help": "Hydra overrides, as for `harness run`"},
}


@dataclass(frozen=True)
class Finding:
    """A check's objection to an arm, or to a level of crossed factors: name, reason and fix."""

    check: str
    arm: str
    reason: str
    fix: str


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """An experiment before it runs.

    `waits_for`: the arm whose spending the others' budget is. `notes`: power, looks, estimates and what else a person reads, in sentences.
    """

    experiment: str
    title: str
    question: str
    design: str
    metrics: list[str]
    seeds: list[int]
    command: str
    match: str
    waits_for: str | None
    arms: list[ArmPlanned]
    totals: Totals
    notes: list[str]
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """1 where no run of it could be made on any machine: all arms are refused, or the one that they wait for, and none is finished."""
        first = [arm for arm in self.arms if self.waits_for in (None, arm.name)]
        nothing = all(arm.refused for arm in first) and not self.totals.finished
        return Exit.FOUND if nothing else Exit.DONE


def answer(options: argparse.Namespace) -> Answer:
    """Plan the experiment and look into the store; nothing is run or written."""
    plan = make_plan(options.overrides, options.multirun)
    runtime = plan.arms[0].config.runtime
    store = ResultStore(runtime.results)
    history = History(store)
    refused = {planned.name: refusals(planned.config) for planned in plan.arms}
    costs, estimates = _costs(plan, history, refused)
    statuses = {spec.run_id: store.run(spec.run_id).status or "new" for spec in plan.specs}
    engaged = past_engagement(plan, store, history)
    arms = [
        planned_arm(plan, planned, statuses, refused[name], costs[name], engaged.get(name, ""), options.cfg)
        for planned in plan.arms
        for name in [planned.name]
    ]
    totals = totals_of(arms)
    lacking = {arm.name: arm.lacking for arm in arms}
    notes = [
        *refusal_lines(refused),
        *(line.replace("refused", "cannot start:", 1) for line in refusal_lines(lacking)),
        *total_lines(totals, _unknown(plan, costs, refused)),
        *metric_lines(plan),
        *look_lines(plan),
        *estimate_lines(estimates),
        *memory_lines(
            [planned.config for planned in plan.arms], min(worker_count(runtime, 0), totals.to_run)
        ),
        *power_lines(plan, store),
        *power_of_metrics(plan, lambda: _spreads(plan, store) if "finished" in statuses.values() else {}),
        *filter(None, [found_elsewhere(store, statuses, runtime)]),
        *edited(plan, store),
        *filter(None, [left_out(plan, answered_runs(store, plan.name))]),
    ]
    if plan.waits_for:
        notes.append(
            f"match={plan.match}: the other arms get the budget that {plan.waits_for} spends; `harness run` runs it first"
        )
    if options.sample:
        notes += sampled_lines(plan, store)
    found = [] if options.cfg else report_checks(plan, runtime.checks)
    return Answer(
        plan.name,
        plan.title,
        plan.question,
        plan.design,
        [one.name for one in plan.metrics],
        list(plan.seeds),
        plan.command,
        plan.match,
        plan.waits_for,
        arms,
        totals,
        notes,
        [Finding(one.check, one.arm, one.reason, one.fix) for one in found],
    )


def _costs(
    plan: Plan, history: History, refused: Mapping[str, list[str]]
) -> tuple[dict[str, Cost | None], dict[str, RunEstimate]]:
    """Arm to the cost of a run by runs in the store, else by arithmetic; and the estimates on GPUs that were taken for it."""
    costs = {planned.name: past_cost(planned, history) for planned in plan.arms}
    estimates = {
        planned.name: estimate
        for planned in plan.arms
        if not refused[planned.name] and costs[planned.name] is None
        if (estimate := estimate_of(planned.config)) is not None
    }
    costs |= {name: computed(estimate) for name, estimate in estimates.items()}
    for planned in plan.arms:
        if costs[planned.name] is None and (on_cpu := cpu_estimate(planned.config)) is not None:
            costs[planned.name] = computed(on_cpu)
    return costs, estimates


def show(found: Answer, options: argparse.Namespace) -> None:
    """Print the arms and what is to know of them; with `--cfg` a YAML document each instead."""
    if options.cfg:
        print("".join(configurations(found)), end="")
        return
    # A pipe or a narrow terminal gets the whole names, too.
    console = Console(markup=False) if sys.stdout.isatty() else Console(width=200, markup=False)
    console.print(Text(found.title, style="bold"), f" {found.question}")
    console.print(_table(found.arms))
    for line in found.notes:
        console.print(line, highlight=False, markup=False)


def configurations(found: Answer) -> Iterator[str]:
    """One YAML document an arm: the configuration stored with its first run, with name, id and what to know of it in comments above."""
    for arm in found.arms:
        assert arm.configuration is not None
        said = f"seed {arm.configuration['seed']}" + f" of {', '.join(map(str, arm.seeds))}" * (
            len(arm.seeds) > 1
        )
        comments = [f"arm {arm.name}, id {arm.arm_id[:8]}, {said}"]
        if not arm.runs and found.waits_for:
            comments.append(
                f"its budget is what {found.waits_for} spends, known when that has run; here it is as without match="
            )
        comments += [f"refused: {reason}" for reason in arm.refused]
        yield "".join(["---\n", *(f"# {line}\n" for line in comments), yaml_text(arm.configuration)])


def sampled_lines(plan: Plan, store: ResultStore) -> Iterator[str]:
    """Tell what the policy answers before training, for arms that ask it alike once."""
    import torch

    from harness.evaluation.before import asks, before_training
    from harness.model.linear import resolve_kernel

    alike: dict[str, list[PlannedArm]] = {}
    for planned in plan.arms:
        alike.setdefault(asks(planned.config), []).append(planned)
    for arms in alike.values():
        config = arms[0].config
        torch.set_num_threads(config.runtime.threads)
        names = "all arms" if len(alike) == 1 else ", ".join(planned.name for planned in arms)
        kernel = resolve_kernel(config.runtime.linear_kernel)
        for line in before_training(config, store, kernel, Progress):
            yield f"before training, {names}: {line}"


def metric_lines(plan: Plan) -> list[str]:
    """Tell what is asked about, with unit, direction and margin; nothing for accuracy alone."""
    if plan.about_score:
        return []
    told = []
    for one in plan.metrics:
        size = plan.margins.get(one.name)
        words = [one.unit, *filter(None, [one.direction]), *([f"margin {size:g}"] if size else [])]
        told.append(f"{one.title} ({', '.join(words)})")
    return [f"asks about: {'; '.join(told)}"]


def look_lines(plan: Plan) -> list[str]:
    """Of a sequential design: its looks, and how many runs it takes at most and on average."""
    looks = plan.looks
    if not looks:
        return []
    from analysis.looks import expected

    *real, (_, none) = expected(plan).items()
    sizes, means = (
        " or ".join(", ".join(words).rsplit(", ", 1))
        for words in zip(*((size, f"{runs:.0f}") for size, runs in real), strict=True)
    )
    return [
        f"seeds until it is decided: looks at {', '.join(map(str, looks))} seeds, {len(plan.specs)} runs at most; on average {means} if "
        f"every difference is {sizes} times the standard deviation of one seed's difference, {none:.0f} if nothing differs"
    ]


def _spreads(plan: Plan, store: ResultStore) -> dict[str, dict[str, float]]:
    from analysis.looks import spreads

    return spreads(plan, store)


def _table(arms: Sequence[ArmPlanned]) -> Table:
    names = ["arm", "changes against its neighbour", "against the base", "id", "runs", "a run takes"]
    with_engaged = any(arm.engaged for arm in arms)
    table = Table(*(Column(name, overflow="fold") for name in [*names, *["engaged"] * with_engaged]))
    base = next((arm.name for arm in arms if arm.parent is None), arms[0].name)
    for arm in arms:
        counts = Counter(run.status for run in arm.runs.values())
        table.add_row(
            arm.name,
            _change_lines(arm.changes),
            "" if arm.parent == base else _change_lines(arm.against_base),
            arm.arm_id[:8],
            ", ".join(f"{count} {status}" for status, count in counts.items()) or "known later",
            "refused" if arm.refused else _takes(arm.expected),
            *[arm.engaged] * with_engaged,
        )
    return table


def _takes(cost: Expected | None) -> str:
    """`12 min, 3.4M tokens`, marked where nothing was measured."""
    if cost is None:
        return "?"
    text = f"{format_seconds(cost.seconds)}, {_tokens(cost.generated_tokens)} tokens"
    return text if cost.measured else f"~ {text} (estimate)"


def _change_lines(changes: Mapping[str, tuple[Any, Any]]) -> str:
    return "\n".join(f"{key}: {before} → {after}" for key, (before, after) in changes.items())


def _unknown(plan: Plan, costs: Mapping[str, Cost | None], refused: Mapping[str, list[str]]) -> list[str]:
    """Each reason once why nothing tells what runs of an arm cost."""
    asked = (planned for planned in plan.arms if planned.runs and not refused[planned.name])
    return list(dict.fromkeys(why_unknown(one.config) for one in asked if costs[one.name] is None))


def total_lines(totals: Totals, unknown: Sequence[str] = ()) -> list[str]:
    """Tell what is left to do and what it is expected to take, and why that is `unknown` of some."""
    counts = [counted(totals.runs), f"{totals.finished} finished", f"{totals.to_run} to run"]
    lines = [", ".join(counts + [f"{totals.refused} refused"] * bool(totals.refused))]
    if totals.known:
        device = f"{totals.gpu_hours:.2f} GPU-hours" if totals.gpu_hours else "no GPU"
        device += f" for {totals.price:,.2f}" if totals.gpu_hours and totals.price is not None else ""
        lines.append(
            f"expected for {totals.known} of them: {format_seconds(totals.seconds)} of runs one after the other, "
            f"{_tokens(totals.generated_tokens)} generated tokens, {device} (from {'; '.join(totals.sources)})"
        )
    if totals.known < totals.to_run:
        left, why = totals.to_run - totals.known, "; ".join(unknown)
        lines.append(f"nothing tells what {left} of them cost: no run like them is in the store, and {why}")
    return lines


def _tokens(count: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"
