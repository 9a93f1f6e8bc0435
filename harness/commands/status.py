"""Show the state of runs, or one run whole: configuration, provenance, attempts and metrics; of two runs what they differ by.

harness status [experiment=NAME] [runtime.results=DIR] [--watch] [--runs]
harness status 3f9a                     the run whose id begins so; --config: its whole configuration, as YAML
harness status 3f9a 81c0                what differs between the two
"""

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from harness.commands._answer import answer_key, decide
from harness.commands._arguments import HELP, Exit, Selection, VerbAnswer, find_run, flag, select
from harness.commands._stored_run import StoredRun, show_run, stored_run
from harness.configuration.error import ConfigError
from harness.execution.progress import Terminal, status_table
from harness.experiment.plan import Plan
from harness.store import ResultStore
from harness.store.reader import RunState, run_state

ARGUMENTS = {
    "--watch": flag("refresh every second"),
    "--runs": flag("list finished runs, too"),
    "--config": flag("the whole configuration of the run that is named, as YAML"),
    "overrides": {"nargs": "*", "help": f"one run or two by the beginnings of their ids, or {HELP}"},
}


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

    `counts`: status → number of runs. `parts`: first parts, and whether their results have set what they set. `problems`: what of the
    store cannot be read. `run`: the run that is named, alone or with another one; all other fields are empty then.
    """

    results: str
    experiments: list[str]
    counts: dict[str, int]
    runs: list[RunState]
    decisions: list[Decision]
    parts: list[str]
    problems: list[str]
    run: StoredRun | None = None

    @property
    def exit_code(self) -> int:
        """1 where two runs differ in configuration, code or packages, else 0."""
        return Exit.FOUND if self.run and self.run.differs else Exit.DONE


def answer(options: argparse.Namespace) -> Answer:
    names = [item for item in options.overrides if "=" not in item]
    selection = select([item for item in options.overrides if "=" in item])
    store = selection.store
    if options.watch and (options.json or names):
        raise ConfigError("--watch is for a terminal and the runs of a store; with --json or a run ask again instead")
    if len(names) > 2:
        raise ConfigError(f"status takes one run or two, not also {' '.join(names[2:])}")
    if options.config and len(names) != 1:
        raise ConfigError("--config shows one run; without it two runs are compared")
    if names:
        run = stored_run(store, *(store.run(find_run(store, name)) for name in names))
        return Answer(str(store.root), [], {}, [], [], [], [], run)
    has_store = store.root.is_dir()
    states = [run_state(store, run_id) for run_id in dict.fromkeys(selection.run_ids)] if has_store else []
    return Answer(
        str(store.root),
        selection.experiments,
        dict(sorted(Counter(state.status for state in states).items())),
        states,
        decisions_of(selection),
        parts_of(selection),
        store.problems() if has_store else [],
    )


def show(result: Answer, options: argparse.Namespace) -> None:
    """Print counts, the runs that are not finished (all with `--runs`), decisions and problems; with `--watch` again and again."""
    if result.run is not None:
        show_run(result.run, configuration=options.config)
        return
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
    """Of the named experiments that look at comparisons while seeds come in: what their finished runs decide, and what is open."""
    store = selection.store
    names = [name for name in selection.experiments if store.plan(name).get("looks")]
    comparisons_by_name = {name: _judge(store.root, name, answer_key(store, name)) for name in names}
    return [Decision(name, **one) for name, comparisons in comparisons_by_name.items() for one in comparisons]


def parts_of(selection: Selection) -> list[str]:
    """Of the named experiments with a first part: whether its results have set the values that they set."""
    return [
        f"{name}: {part['name']} {'sets' if part['settings'] is None else 'has set'} {part['sets']}"
        for name in selection.experiments
        for part in selection.store.plan(name).get("parts") or ()
    ]


@lru_cache(maxsize=16)
def _judge(root: Path, name: str, key: str) -> Sequence[Mapping[str, str]]:
    """Arm, reference, state and text of each comparison; `key` is that of the answer, so that `--watch` judges the same runs once."""
    store = ResultStore(root)
    return decide(Plan.read(store.plan(name)), store).comparisons


def _render(result: Answer, finished: bool) -> RenderableType:
    lines = [*result.parts, *(decision.line for decision in result.decisions)]
    return Group(status_table(result.runs, finished=finished), *map(Text, lines))
