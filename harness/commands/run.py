"""Run an experiment: plan, check, train, evaluate, answer. Repeat it at any moment: finished runs are never run again.

harness run experiment=dapo_ladder
harness run experiment=dapo_ladder 'experiment.seeds=[0,1]' training.steps=20
harness run experiment=dapo_ladder 'experiment.seeds={start: 5, step: 3, most: 20}'
harness run -m 'rung=glob(dapo_*)' seed=0,1,2
harness run algorithm=dapo seed=3
harness run experiment=dapo_ladder match=tokens
harness run experiment=dapo_ladder launcher=slurm runtime.launcher.partition=gpu
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.commands._answer import (
    TablesSoFar,
    answer_stands,
    answered_runs,
    decide,
    edited,
    left_out,
    put_back,
    table_so_far,
    write_answer,
)
from harness.commands._arguments import Exit, flag
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.execution.progress import progress_on
from harness.execution.supervisor import Decisions, Summary, dispatch, until_decided
from harness.experiment.checks import refusal_lines, refuse, report_checks
from harness.experiment.claim import remember
from harness.experiment.history import counted, found_elsewhere
from harness.experiment.plan import Plan
from harness.experiment.planning import make_plan, with_runs
from harness.store import ResultStore
from harness.tracking._feed import send_results

ARGUMENTS = {
    "-m --multirun": flag("expand overrides as Hydra's multirun does"),
    "--no-answer": flag("do not write tables and figures at the end"),
    "overrides": {
        "nargs": "*",
        "help": "Hydra overrides, for example experiment=dapo_ladder training.steps=50; config_dir=FOLDER adds your own files",
    },
}


def run(options: argparse.Namespace) -> int:
    """Execute the verb: plan, check, dispatch, answer."""
    plan = refuse(make_plan(options.overrides, options.multirun))
    config, name = plan.arms[0].config, plan.name
    store = ResultStore(config.runtime.results)
    refuse_imported(store, name)
    checks = [str(finding) for finding in report_checks(plan, config.runtime.checks)]
    report_data(config)
    before = answered_runs(store, name)
    _say(left_out(plan, before))
    _say("\n".join(edited(plan, store)))

    again = shlex.join(["harness", "run", *(["-m"] if options.multirun else []), *options.overrides])
    sweep = _Sweep(plan, store, checks, again, tables=not options.no_answer)
    summary = sweep.bring_to_end()
    if plan.waits_for and summary.complete:  # the budget of the other arms is known now
        sweep = replace(sweep, plan=refuse(with_runs(plan)))
        summary = sweep.bring_to_end()
    if summary.submitted:
        return exit_code(summary)
    if plan.looks and summary.complete:  # how many seeds are asked for is known now
        _say(left_out(sweep.part, before))

    if sweep.tables:
        put_back(store, name, sweep.written)
        # Tables that stand already are shown, in a second instead of twenty.
        stands = summary.complete and answer_stands(store, name)
        # Who stops it wants the prompt back: figures take a minute or two, tables seconds.
        only = "table" if stands else "tables" if summary.stopped_by is not None else "all"
        write_answer(store, name, only=only)
        send_results(store, name, config.runtime.trackers)
        if only == "tables":
            print(f"figures and page are left out; they come with: harness report experiment={name}")
            return exit_code(summary) or Exit.AGAIN
    return exit_code(summary) or (Exit.FOUND if sweep.blocked(summary) else Exit.DONE)


def report_data(config: RunConfig) -> None:
    """Say what is wrong with the data before anything runs: golds the verifier cannot read, duplicates, train/test overlap."""
    from harness.problems.hygiene import report

    for finding in report(config.evaluation.benchmarks, config.task):
        print(f"data {finding.name}: [{finding.check}] {finding.text}", file=sys.stderr)


def refuse_imported(store: ResultStore, name: str) -> None:
    """Refuse the name of an experiment of imported logs: it has no runs to make, and writing over its plan would lose it."""
    if name in store.plans() and store.plan(name).get("foreign"):
        raise ConfigError(
            f"experiment.name={name}: the store holds imported logs under this name; choose another"
        )


@dataclass
class _Sweep:
    """The runs of a plan on their way to their end. `again`: the command; `tables`: show them while runs go on.

    `part` is what was asked for at last, in a sequential design less than the whole plan at most times, and `written` its record.
    """

    plan: Plan
    store: ResultStore
    checks: list[str]
    again: str
    tables: bool
    part: Plan = field(init=False)
    written: dict[str, Any] = field(init=False)

    def bring_to_end(self) -> Summary:
        """Run what is wanted of the plan and say what became of it."""
        plan, name = self.plan, self.plan.name
        _say(found_elsewhere(self.store, [spec.run_id for spec in plan.specs], plan.arms[0].config.runtime))
        undecidable = 0
        if plan.looks:
            judge = partial(decide, store=self.store)
            _, decisions, summary = until_decided(
                plan, decide=judge, record=self._record, bring=self._dispatch, show=self._show
            )
            undecidable = decisions.open if summary.complete and not plan.waits_for else 0
        else:
            self._record(plan)
            summary = self._dispatch(plan)
        if self.blocked(summary):
            print(
                f"{name}: nothing was run: {counted(len(summary.skipped))} finished before, and all arms that lack runs are refused"
            )
        else:
            print(describe(name, len(self.part.specs), summary, self.again))
        if undecidable:
            print(
                f"{name}: {undecidable} comparisons wait for scores that no run brings (of refused arms, or of runs without an "
                f"evaluation); `harness status experiment={name}` names them"
            )
        refused = {planned.name: planned.refused for planned in plan.arms if planned.refused}
        if refused:
            print(f"{len(refused)} of {len(plan.arms)} arms were refused and not run:")
            print("\n".join(f"  {line}" for line in refusal_lines(refused)))
        return summary

    def blocked(self, summary: Summary) -> bool:
        """Say if nothing is left but runs of refused arms."""
        return len(summary.skipped) == len(self.part.specs) and any(arm.refused for arm in self.plan.arms)

    def _record(self, part: Plan, decisions: Decisions | None = None) -> None:
        closed = {} if decisions is None else {"decisions": list(decisions.comparisons)}
        self.part, self.written = part, {**part.record(), **closed, "checks": self.checks}
        self.store.write_plan(part.name, self.written)
        if "declaration" in self.written:
            remember(self.store, part.name, self.written["declaration"])

    def _dispatch(self, part: Plan) -> Summary:
        progress = progress_on(sys.stderr)
        if self.tables:
            make = partial(table_so_far, self.store, part.name)
            progress = TablesSoFar(progress, part, self.store, make)
        return dispatch(part, self.store, progress)

    def _show(self, decisions: Decisions) -> None:
        name = self.plan.name
        print(f"{name}: {decisions.headline()}, the next look needs more seeds")
        if self.tables:
            put_back(self.store, name, self.written)
            print(table_so_far(self.store, name))


def _say(line: str) -> None:
    if line:
        print(line, file=sys.stderr)


def describe(name: str, total: int, summary: Summary, command: str) -> str:
    """Say what the invocation did, in a line or a few."""
    if len(summary.skipped) == total:
        done = f"all {total} runs were" if total > 1 else "its run was"
        return f"{name}: {done} finished already; nothing to do"
    if summary.submitted:
        return (
            f"{name}: {len(summary.submitted)} of {counted(total)} submitted; follow them with `harness status`, and run the same "
            f"command again for the answer: {command}"
        )
    parts = [
        f"{len(summary.finished)} finished",
        *[f"{len(summary.skipped)} finished before"] * bool(summary.skipped),
    ]
    for label in ("failed", "interrupted", "elsewhere", "not_started"):
        count = len(getattr(summary, label))
        if count:
            parts.append(f"{count} {label.replace('_', ' ')}")
    lines = [f"{name}: {counted(total)}: {', '.join(parts)}"]
    lines += [
        f"  {run_id} {_outcome(summary, run_id)}: {_shortly(reason)}"
        for run_id, reason in summary.errors.items()
        if reason.strip()
    ]
    if not summary.complete:
        lines.append(f"run the same command again to finish the rest: {command}")
    return "\n".join(lines)


def _outcome(summary: Summary, run_id: str) -> str:
    named = {"failed": summary.failed, "was interrupted": summary.interrupted}
    return next((words for words, run_ids in named.items() if run_id in run_ids), "was not run")


def _shortly(reason: str) -> str:
    """Return the line that says why a run failed: what killed it, else the last line that it wrote."""
    lines = reason.strip().splitlines()
    killed = lines[0].startswith("killed by")
    return lines[0].partition("; ")[0] if killed else lines[-1]


def exit_code(summary: Summary) -> int:
    """0: complete, or all submitted; 1: something failed; 75: stopped or elsewhere, repeat the command."""
    if summary.failed:
        return Exit.FOUND
    return Exit.DONE if summary.complete or summary.submitted else Exit.AGAIN
