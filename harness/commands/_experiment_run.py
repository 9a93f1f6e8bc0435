"""The runs of an experiment on their way to their end, part by part and look by look, whatever launcher takes them."""

import dataclasses
import math
import sys
from typing import Any

from harness.commands._answer import (
    answer_stands,
    answered_runs,
    decide,
    dropped_runs_line,
    metrics_of,
    put_back,
    report_of,
    show_report,
    table_so_far,
)
from harness.commands._arguments import Exit
from harness.commands._launch import Launch
from harness.configuration.numbers import format_count
from harness.execution.supervisor import Summary
from harness.experiment.as_declared import remember
from harness.experiment.checks import check_plan, refusal_lines, refuse, report
from harness.experiment.data import content_hashes, data_faults, require_same_content
from harness.experiment.history import longest_first, mixed_devices_note
from harness.experiment.looks import Decisions
from harness.experiment.plan import Plan
from harness.experiment.power import score
from harness.store import ResultStore, StoreError


class ExperimentRun:
    """A plan that is checked, and then on its way. `tables`: show them between looks.

    `part` is what was asked for at last, in a sequential design less than the whole plan at most times, and `record` what is stored of it.
    """

    part: Plan
    record: dict[str, Any]

    def __init__(self, plan: Plan, launch: Launch, *, tables: bool = True) -> None:
        self.launch, self.tables, self.summary = launch, tables, Summary()
        self.store = ResultStore(plan.arms[0].config.runtime.results)
        self._said: dict[str, None] = {}  # what speaks against the plan, each line once
        self._previous_runs = answered_runs(self.store, plan.name)
        self.ask_for(plan)

    def ask_for(self, plan: Plan) -> None:
        """Take a plan, or what it has become. What speaks against it is printed; raises `ConfigError` where it cannot be launched."""
        self.plan = self.part = plan = refuse(plan)
        runtime = plan.arms[0].config.runtime
        objections = [] if runtime.checks == "off" else check_plan(plan)
        report([item for item in objections if str(item) not in self._said], runtime.checks)
        self.checks = [str(item) for item in objections]
        self._said |= dict.fromkeys(self.checks)
        run_ids = [spec.run_id for spec in plan.specs]
        for line in [*data_faults(plan), mixed_devices_note(self.store, run_ids, runtime)]:
            self._say(line)
        if not runtime.elsewhere:
            self.launch.content = content_hashes([arm.config for arm in plan.arms])
            require_same_content(plan, self.store, self.launch.content)

    def to_end(self) -> None:
        """Have what is not finished brought to its end, first parts before what they set, and say what became of it."""
        self._say(dropped_runs_line(self.plan, self._previous_runs))
        self._say(remember(self.store, self.plan, self._previous_runs))
        while (first := self.plan.first) is not None:
            self.store_plan(self.plan)
            if first.plan.name != self.plan.name:
                self.store.write_plan(first.plan.name, first.plan.record())
            self.part = first.plan
            self.summary = self.bring(first.plan)
            self.tell()
            settled = first.settle(self.store) if self.summary.stopped_by is None else None
            if settled is None:
                return
            self.ask_for(first.then(settled))
        if not self.plan.looks:
            self.store_plan(self.plan)
            self.summary = self.bring(self.plan)
            self.tell()
            return
        decisions = self.bring_looks()
        self.tell()
        if self.summary.ended_well:  # how many seeds are asked for is known now
            self._say(dropped_runs_line(self.part, self._previous_runs))
        if self.summary.ended_well and decisions.open:
            name = self.plan.name
            print(
                f"{name}: {decisions.open} comparisons wait for scores that no run brings (of refused arms, or of runs without an "
                f"evaluation); `harness status experiment={name}` names them"
            )

    def bring_looks(self) -> Decisions:
        """Bring look after look to its end, until no comparison waits for seeds, runs are left over, or a stop came."""
        self.summary, decisions = Summary(), decide(self.plan, self.store)
        while True:
            part = self.plan.first_seeds(decisions.seed_counts)
            self.store_plan(part, decisions)
            self.summary = self.summary.then(self.bring(part))
            if not self.summary.ended_well or not decisions.open:
                return decisions
            following = decide(self.plan, self.store)
            if following.seed_counts == decisions.seed_counts:
                self.store_plan(part, following)
                return following
            self._show(following)
            decisions = following

    def bring(self, part: Plan) -> Summary:
        """Have the launcher bring the runs of a part to their end, the longest first."""
        return self.launch.bring(part, longest_first(part, self.store), self.store)

    def store_plan(self, part: Plan, decisions: Decisions | None = None) -> None:
        """Write down what is asked for now, where jobs find their labels and readers the question."""
        decision_record = {} if decisions is None else {"decisions": list(decisions.comparisons)}
        self.part, self.record = part, {**part.record(), **decision_record, "checks": self.checks}
        self.store.write_plan(part.name, self.record)

    def tell(self) -> None:
        """Print what became of the runs, and which arms were refused."""
        plan, summary = self.plan, self.summary
        refused_arms = {arm.name: arm.refused for arm in plan.arms if arm.refused}
        if refused_arms and len(summary.skipped) == len(self.part.specs):
            count = format_count(len(summary.skipped))
            print(f"{plan.name}: nothing was run: {count} finished before, and all arms that lack runs are refused")
        else:
            print(describe(plan.name, len(self.part.specs), summary, self.launch.command))
        if refused_arms:
            print(f"{len(refused_arms)} of {len(plan.arms)} arms were refused and not run:")
            print("\n".join(f"  {line}" for line in refusal_lines(refused_arms)))

    @property
    def exit_code(self) -> int:
        """75: stopped or elsewhere, repeat the command; 1: a run failed, or an arm is refused; 0: complete."""
        if self.summary.failed and self.summary.stopped_by is None:
            return Exit.FOUND
        if not self.summary.ended_well:
            return Exit.AGAIN
        return Exit.FOUND if any(arm.refused for arm in self.plan.arms) else Exit.DONE

    def answer(self) -> None:
        """Write tables, figures and page from the store, and print what was found."""
        summary, store, name = self.summary, self.store, self.plan.name
        put_back(store, name, self.record)
        # Tables that stand already are shown, in a second instead of twenty.
        is_current = summary.complete and answer_stands(store, name)
        # Who stops it wants the prompt back: figures take a minute or two, tables seconds.
        part = "table" if is_current else "tables" if summary.stopped_by is not None else "all"
        show_report(report_of(store, name, only=part))
        if part == "tables":
            print(f"figures and page are left out; they come with: harness report experiment={name}")

    def _say(self, line: str) -> None:
        if line and line not in self._said:
            print(line, file=sys.stderr)
        self._said[line] = None

    def _show(self, decisions: Decisions) -> None:
        name = self.plan.name
        print(f"{name}: {decisions.headline()}, the next look needs more seeds")
        if self.tables:
            put_back(self.store, name, self.record)
            print(table_so_far(self.store, name))


def describe(name: str, total: int, summary: Summary, command: str) -> str:
    """What became of an experiment's runs, in lines: counts, why single ones failed, and how to go on."""
    if len(summary.skipped) == total:
        runs = f"all {total} runs were" if total > 1 else "its run was"
        return f"{name}: {runs} finished already; nothing to do"
    parts = [f"{len(summary.finished)} finished", *[f"{len(summary.skipped)} finished before"] * bool(summary.skipped)]
    for label in ("failed", "interrupted", "elsewhere", "not_started"):
        count = len(getattr(summary, label))
        if count:
            parts.append(f"{count} {label.replace('_', ' ')}")
    lines = [f"{name}: {format_count(total)}: {', '.join(parts)}"]
    outcomes = dict.fromkeys(summary.interrupted, "was interrupted") | dict.fromkeys(summary.failed, "failed")
    lines += [
        f"  {run_id} {outcomes.get(run_id, 'was not run')}: {_shorten(reason)}"
        for run_id, reason in summary.errors.items()
        if reason.strip()
    ]
    if not summary.ended_well:
        lines.append(f"run the same command again to finish the rest: {command}")
    return "\n".join(lines)


def _shorten(reason: str) -> str:
    """Return the line that says why a run failed: what killed it, else the last line that it wrote."""
    lines = reason.strip().splitlines()
    killed = lines[0].startswith("killed by")
    return lines[0].partition("; ")[0] if killed else lines[-1]


def run_value(store: ResultStore, plan: Plan, name: str) -> float | list[float]:
    """What a run answers to the metrics of the plan, in the unit that tables show: a number, or a list of several, for sweepers.

    NaN where the run is not finished or has no such value.
    """
    values = [math.nan] * len(plan.metrics)
    try:
        if store.run(name).status == "finished":
            values = _values(store, plan, name)
    except StoreError as error:
        print(error, file=sys.stderr)
    return values[0] if len(values) == 1 else values


def _values(store: ResultStore, plan: Plan, name: str) -> list[float]:
    if plan.about_score:  # without the analysis, which takes a second to load
        value = score(store, name, plan.benchmark, plan.primary_cap)
        return [math.nan if value is None else plan.score.scale * value]
    arm = next(arm for arm in plan.arms if name in arm.runs.values())
    seed = next(seed for seed, run in arm.runs.items() if run == name)
    single_arm = dataclasses.replace(arm, parent=None, runs={seed: name})
    return metrics_of(store, dataclasses.replace(plan, arms=(single_arm,), seeds=(seed,)))
