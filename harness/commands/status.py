"""Show the state of runs, from any terminal: harness status [experiment=NAME] [runtime.results=DIR] [--watch] [--runs]."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from harness.commands._arguments import SELECTION, Selection, VerbAnswer, flag, select
from harness.configuration.error import ConfigError
from harness.execution.progress import Terminal, status_table
from harness.store.reader import RunState, run_state

ARGUMENTS = {"--watch": flag("refresh every second"), "--runs": flag("list finished runs, too"), **SELECTION}


@dataclass(frozen=True)
class Decision:
    """A comparison of a sequential design after its last look: its state (higher, lower, ..., open) and the difference in words."""

    experiment: str
    arm: str
    reference: str
    state: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.arm} against {self.reference}: {self.state}; {self.text}"


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Runs of a store, all of them or those of the named experiments.

    `counts`: status → number of runs. `problems`: what of the store cannot be read.
    """

    results: str
    experiments: list[str]
    counts: dict[str, int]
    runs: list[RunState]
    decisions: list[Decision]
    problems: list[str]


def answer(options: argparse.Namespace) -> Answer:
    if options.watch and options.json:
        raise ConfigError("--watch is for a terminal; with --json ask again instead")
    selection = select(options.overrides)
    store = selection.store
    has_store = store.root.is_dir()
    states = [run_state(store, run_id) for run_id in dict.fromkeys(selection.run_ids)] if has_store else []
    return Answer(
        str(store.root),
        selection.experiments,
        dict(sorted(Counter(state.status for state in states).items())),
        states,
        decisions_of(selection),
        store.problems() if has_store else [],
    )


def show(result: Answer, options: argparse.Namespace) -> None:
    """Print counts, the runs that are not finished (all with `--runs`), decisions and problems; with `--watch` again and again."""
    if not result.runs and not Path(result.results).is_dir():
        print(f"no runs: there is no folder {result.results} (another one: runtime.results=DIR)")
        return
    if not options.watch:
        console = Terminal()
        console.print(_render(result, options.runs))
        for problem in result.problems:
            console.print(f"skipped: {problem}", style="yellow", markup=False, soft_wrap=True)
        return
    with Live(_render(result, options.runs), console=Terminal(), refresh_per_second=2) as display:
        try:
            while True:
                time.sleep(1.0)
                display.update(_render(answer(options), options.runs))
        except KeyboardInterrupt:
            return


def decisions_of(selection: Selection) -> list[Decision]:
    """Of the named experiments that look at comparisons while seeds come in: what the last look decided and what is open."""
    return [
        Decision(name, decision["arm"], decision["reference"], decision["state"], decision["text"])
        for name in selection.experiments
        for decision in selection.store.plan(name).get("decisions") or ()
    ]


def _render(result: Answer, finished: bool) -> RenderableType:
    return Group(status_table(result.runs, finished=finished), *(Text(decision.line) for decision in result.decisions))
