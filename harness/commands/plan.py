"""Show what an experiment would run: arms, what changes in each, status, cost, power, checks, refusals. Runs nothing, needs no network.

harness plan experiment=dapo_ladder
harness plan -m algorithm=grpo,dapo seed=0,1,2
harness plan --sample experiment=dapo_ladder    ask the policy before training, too: is there anything to learn?
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.commands._arguments import flag
from harness.commands._counter import Counter as Progress
from harness.configuration.identity import arm_id, difference
from harness.configuration.schema import as_yaml
from harness.execution.answer import answered_runs, edited, left_out
from harness.experiment.asked import asked_metrics
from harness.experiment.checks import report_checks
from harness.experiment.duration import format_seconds
from harness.experiment.estimate.cpu import cpu_estimate
from harness.experiment.estimate.work import estimate_lines, estimate_of
from harness.experiment.history import Cost, History, computed, found_elsewhere, past_engagement
from harness.experiment.planning import Plan, PlannedArm, make_plan
from harness.experiment.power import power_lines, power_of_metrics
from harness.experiment.refusals import absent, refusal_lines, refusals
from harness.store import ResultStore

ARGUMENTS = {
    "-m --multirun": flag("expand overrides as Hydra's multirun does"),
    "--sample": flag(
        "ask the policy before training 16 training problems, four times each, and say what share is right"
    ),
    "--cfg": flag("print the whole configuration of every arm as YAML, and nothing else"),
    "overrides": {"nargs": "*", "help": "Hydra overrides, as for `harness run`"},
}


def run(options: argparse.Namespace) -> int:
    plan = make_plan(options.overrides, options.multirun)
    if options.cfg:
        print("".join(configurations(plan)), end="")
        return 0
    store = ResultStore(plan.arms[0].config.runtime.results)
    # A pipe or a narrow terminal gets the whole names, too.
    console = Console(markup=False) if sys.stdout.isatty() else Console(width=200, markup=False)
    experiment = plan.experiment
    console.print(Text(experiment.title or experiment.name, style="bold"), f" {experiment.question}")
    history = History(store)
    refused = {planned.arm.name: refusals(planned.config) for planned in plan.arms}
    costs = {planned.arm.name: _cost(planned, history) for planned in plan.arms}
    estimates = {
        planned.arm.name: estimate
        for planned in plan.arms
        if not refused[planned.arm.name] and costs[planned.arm.name] is None
        if (estimate := estimate_of(planned.config)) is not None
    }
    costs |= {name: computed(estimate) for name, estimate in estimates.items()}
    for planned in plan.arms:
        if costs[planned.arm.name] is None and (on_cpu := cpu_estimate(planned.config)) is not None:
            costs[planned.arm.name] = computed(on_cpu)
    statuses = {spec.run_id: store.run(spec.run_id).status or "new" for spec in plan.specs}
    console.print(_table(plan, statuses, costs, refused, past_engagement(plan, store, history)))
    lacking = {planned.arm.name: absent(planned.config) for planned in plan.arms}
    for line in (
        *refusal_lines(refused),
        *(line.replace("refused", "not here:", 1) for line in refusal_lines(lacking)),
        *_totals(plan, statuses, costs, refused),
        *metric_lines(plan),
        *look_lines(plan),
        *estimate_lines(estimates),
        *power_lines(plan, store),
        *power_of_metrics(plan, lambda: _spreads(plan, store) if "finished" in statuses.values() else {}),
        *filter(None, [found_elsewhere(store, statuses, plan.arms[0].config.runtime)]),
        *edited(plan, store),
        *filter(None, [left_out(plan, answered_runs(store, experiment.name))]),
    ):
        console.print(line, highlight=False, markup=False)
    if plan.waits_for:
        console.print(
            f"match={experiment.match}: the other arms get the budget that {plan.waits_for} spends; "
            "`harness run` runs it first",
            highlight=False,
        )
    report_checks(plan, plan.arms[0].config.runtime.checks)
    if options.sample:
        for line in sampled_lines(plan, store):
            console.print(line, highlight=False, markup=False)
    return 0


def configurations(plan: Plan) -> Iterator[str]:
    """One YAML document an arm: the configuration stored with its first run, with name, id and what to know of it in comments above."""
    for planned in plan.arms:
        spec = next(iter(planned.runs.values()), None)
        seeds = list(planned.runs) or plan.experiment.seeds
        config = dataclasses.replace(planned.config, seed=seeds[0]) if spec is None else spec.config
        said = f"seed {config.seed}" + f" of {', '.join(map(str, seeds))}" * (len(seeds) > 1)
        comments = [f"arm {planned.arm.name}, id {arm_id(config)[:8]}, {said}"]
        if spec is None and plan.waits_for:
            comments.append(
                f"its budget is what {plan.waits_for} spends, known when that has run; here it is as without match="
            )
        comments += [f"refused: {reason}" for reason in refusals(config)]
        yield "".join(["---\n", *(f"# {line}\n" for line in comments), as_yaml(config)])


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
        names = "all arms" if len(alike) == 1 else ", ".join(planned.arm.name for planned in arms)
        kernel = resolve_kernel(config.runtime.linear_kernel)
        for line in before_training(config, store, kernel, Progress):
            yield f"before training, {names}: {line}"


def metric_lines(plan: Plan) -> list[str]:
    """Tell what is asked about, with unit, direction and margin; nothing for accuracy alone."""
    if plan.experiment.metrics == ["avg"]:
        return []
    margin = plan.experiment.margin
    margins = margin if isinstance(margin, dict) else {plan.experiment.metrics[0]: margin}
    told = []
    for one in asked_metrics(plan.experiment.metrics):
        size = margins.get(one.name)
        words = [one.unit, *filter(None, [one.direction]), *([f"margin {size:g}"] if size else [])]
        told.append(f"{one.title} ({', '.join(words)})")
    return [f"asks about: {'; '.join(told)}"]


def look_lines(plan: Plan) -> list[str]:
    """Of a sequential design: its looks, and how many runs it takes at most and on average."""
    looks = plan.experiment.looks
    if not looks:
        return []
    from analysis.evidence.stored_plan import parse_plan
    from analysis.looks import expected

    *real, (_, none) = expected(parse_plan(plan.record())).items()
    sizes, means = (
        " or ".join(", ".join(words).rsplit(", ", 1))
        for words in zip(*((size, f"{runs:.0f}") for size, runs in real), strict=True)
    )
    return [
        f"seeds until it is decided: looks at {', '.join(map(str, looks))} seeds, {len(plan.specs)} runs at most; on average {means} if "
        f"every difference is {sizes} times the standard deviation of one seed's difference, {none:.0f} if nothing differs"
    ]


def _spreads(plan: Plan, store: ResultStore) -> dict[str, dict[str, float]]:
    from analysis.evidence.stored_plan import parse_plan
    from analysis.looks import spreads

    return spreads(parse_plan(plan.record()), store)


def _table(
    plan: Plan,
    statuses: dict[str, str],
    costs: dict[str, Cost | None],
    refused: Mapping[str, list[str]],
    engaged: Mapping[str, str],
) -> Table:
    names = ["arm", "changes against its neighbour", "against the base", "id", "runs", "a run takes"]
    names += ["engaged"] * bool(engaged)
    table = Table(*(Column(name, overflow="fold") for name in names))
    by_name = {planned.arm.name: planned for planned in plan.arms}
    base = next((planned for planned in plan.arms if planned.arm.parent is None), plan.arms[0])
    for planned in plan.arms:
        parent = by_name.get(planned.arm.parent or "")
        counts = Counter(statuses[spec.run_id] for spec in planned.runs.values())
        table.add_row(
            planned.arm.name,
            _changes(parent, planned) if parent else "",
            "" if parent is base else _changes(base, planned),
            arm_id(planned.config)[:8],
            ", ".join(f"{count} {status}" for status, count in counts.items()) or "known later",
            "refused" if refused[planned.arm.name] else _takes(costs[planned.arm.name]),
            *[engaged.get(planned.arm.name, "")] * bool(engaged),
        )
    return table


def _takes(cost: Cost | None) -> str:
    """`12 min, 3.4M tokens`, marked where nothing was measured."""
    if cost is None:
        return "?"
    text = f"{format_seconds(cost.seconds)}, {_tokens(cost.generated_tokens)} tokens"
    return text if cost.measured else f"~ {text} (estimate)"


def _changes(old: PlannedArm, new: PlannedArm) -> str:
    pairs = difference(old.config, new.config)
    return "\n".join(f"{key}: {before} → {after}" for key, (before, after) in pairs.items() if key != "seed")


def _cost(planned: PlannedArm, history: History) -> Cost | None:
    spec = next(iter(planned.runs.values()), None)
    return None if spec is None else history.expect(planned.config, spec.arm_id)


def _totals(
    plan: Plan, statuses: dict[str, str], costs: dict[str, Cost | None], refused: Mapping[str, list[str]]
) -> list[str]:
    """Tell what is left to do and what it is expected to take."""
    finished = sum(status == "finished" for status in statuses.values())
    left: dict[str, Cost | None] = {}
    for planned in plan.arms:
        for spec in planned.runs.values():
            if not refused[planned.arm.name] and statuses[spec.run_id] != "finished":
                left.setdefault(spec.run_id, costs[planned.arm.name])
    impossible = len(statuses) - finished - len(left)
    counts = [f"{len(statuses)} runs", f"{finished} finished", f"{len(left)} to run"]
    lines = [", ".join(counts + [f"{impossible} refused"] * bool(impossible))]
    expected = [cost for cost in left.values() if cost is not None]
    if expected:
        seconds, tokens = sum(c.seconds for c in expected), sum(c.generated_tokens for c in expected)
        gpu_hours = sum(cost.gpu_hours for cost in expected)
        device = f"{gpu_hours:.2f} GPU-hours" if gpu_hours else "no GPU"
        sources = ", ".join(sorted({cost.source for cost in expected}))
        lines.append(
            f"expected for {len(expected)} of them: {format_seconds(seconds)} of runs one after the other, "
            f"{_tokens(tokens)} generated tokens, {device} (from {sources})"
        )
    if len(expected) < len(left):
        lines.append(f"no run in the store tells what {len(left) - len(expected)} of them cost")
    return lines


def _tokens(count: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"
