"""Show what an experiment would run: arms, what changes in each, status, checks. Runs nothing.

harness plan experiment=dapo_ladder
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from harness.checks import check_plan
from harness.commands.run import make_plan
from harness.plan import Plan, PlannedArm
from harness.store import ResultStore


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="expand overrides as Hydra's multirun does"
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, as for `harness run`")


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    plan = make_plan(options.overrides, options.multirun)
    store = ResultStore(plan.arms[0].config.runtime.results)
    console = Console()
    experiment = plan.experiment
    console.print(
        f"[bold]{experiment.title or experiment.name}[/bold]  {experiment.question}", highlight=False
    )
    console.print(_table(plan, store))
    statuses = [store.run(spec.run_id).status or "new" for spec in plan.specs]
    left = sum(status != "finished" for status in statuses)
    console.print(f"{len(statuses)} runs, {len(statuses) - left} finished, {left} to run", highlight=False)
    for finding in check_plan(plan):
        console.print(f"check {finding}", style="yellow", highlight=False, markup=False)
    return 0


def _table(plan: Plan, store: ResultStore) -> Table:
    table = Table("arm", "changes against its parent", "id", "seeds", "finished")
    record = {arm["name"]: arm for arm in plan.record()["arms"]}
    for planned in plan.arms:
        arm = record[planned.arm.name]
        changes = "\n".join(f"{key}: {old} → {new}" for key, (old, new) in arm["changes"].items())
        table.add_row(
            planned.arm.name, changes, arm["arm_id"][:8], str(len(planned.runs)), _finished(planned, store)
        )
    return table


def _finished(planned: PlannedArm, store: ResultStore) -> str:
    done = sum(store.run(spec.run_id).status == "finished" for spec in planned.runs.values())
    return f"{done}/{len(planned.runs)}"
