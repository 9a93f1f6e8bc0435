"""Show the state of runs, from any terminal: harness status [experiment=NAME] [runtime.results=DIR] [--watch] [--runs]."""

from __future__ import annotations

import argparse
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from harness.commands._arguments import SELECTION, Selection, flag, select
from harness.execution.progress import status_table

ARGUMENTS = {
    "--watch": flag("refresh every second until interrupted"),
    "--runs": flag("list finished runs, too"),
    **SELECTION,
}


def run(options: argparse.Namespace) -> int:
    selection = select(options.overrides)
    if not selection.store.root.is_dir():
        print(f"no runs: there is no folder {selection.store.root} (another one: runtime.results=DIR)")
        return 0
    if not options.watch:
        console = Console()
        console.print(_shown(selection, options.runs))
        for problem in selection.store.problems():
            console.print(f"skipped: {problem}", style="yellow", markup=False, soft_wrap=True)
        return 0
    with Live(_shown(selection, options.runs), refresh_per_second=2) as live:
        try:
            while True:
                time.sleep(1.0)
                live.update(_shown(select(options.overrides), options.runs))
        except KeyboardInterrupt:
            return 0


def decision_lines(selection: Selection) -> list[str]:
    """Of the named experiments that look at comparisons while seeds come in: what the last look decided and what is open."""
    return [
        f"{one['arm']} against {one['reference']}: {one['state']}; {one['text']}"
        for name in selection.experiments
        for one in selection.store.plan(name).get("decisions") or ()
    ]


def _shown(selection: Selection, finished: bool) -> RenderableType:
    table = status_table(selection.store, selection.run_ids, finished=finished)
    return Group(table, *map(Text, decision_lines(selection)))
