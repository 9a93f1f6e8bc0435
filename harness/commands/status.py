"""Show the state of runs, or one run whole: configuration, provenance, attempts and metrics; of two runs what they differ by.

harness status [experiment=NAME] [runtime.results=DIR] [--runs]
harness status 3f9a                     the run whose id begins so
harness status 3f9a 81c0                what differs between the two
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.commands._answer import decide, headline_of
from harness.commands._arguments import HELP, Exit, Selection, VerbAnswer, find_run, flag, select
from harness.commands._stored_run import show_run, stored_run
from harness.configuration.error import ConfigError
from harness.execution.progress import Terminal, status_table
from harness.experiment.plan import Plan
from harness.store.reader import RunState, run_state

ARGUMENTS = {
    "--runs": flag("list finished runs, too"),
    "overrides": {"nargs": "*", "help": f"one run or two by the beginnings of their ids, or {HELP}"},
}


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Runs of a store, all of them or those of the named experiments.

    `counts`: status → number of runs. `answers`: experiment → first sentence of its stored answer. `decisions`: a sequential design's
    comparisons after their last look. `parts`: first parts, and whether their results have set what they set. `problems`: what of the store
    cannot be read. `run`: the run that is named, alone or with another one; all other fields are empty then.
    """

    results: str
    experiments: list[str]
    counts: dict[str, int]
    answers: dict[str, str]
    runs: list[RunState]
    decisions: list[dict[str, str]]
    parts: list[str]
    problems: list[str]
    run: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int:
        """1 where two runs differ in configuration, code or packages, else 0."""
        pairs = self.run["differences"] if self.run else {}
        return Exit.FOUND if pairs.get("configuration") or pairs.get("provenance") else Exit.DONE


def answer(options: argparse.Namespace) -> Answer:
    names = [item for item in options.overrides if "=" not in item]
    selection = select([item for item in options.overrides if "=" in item])
    store = selection.store
    if len(names) > 2:
        raise ConfigError(f"status takes one run or two, not also {' '.join(names[2:])}")
    if names:
        run = stored_run(store, *(store.run(find_run(store, name)) for name in names))
        return Answer(str(store.root), [], {}, {}, [], [], [], [], run)
    has_store = store.root.is_dir()
    states = [run_state(store, run_id) for run_id in dict.fromkeys(selection.run_ids)] if has_store else []
    return Answer(
        str(store.root),
        selection.experiments,
        dict(sorted(Counter(state.status for state in states).items())),
        {name: text for name in selection.experiments or store.plans() if (text := headline_of(store, name))},
        states,
        decisions_of(selection),
        parts_of(selection),
        store.problems() if has_store else [],
    )


def show(result: Answer, options: argparse.Namespace) -> None:
    """Print counts, the runs that are not finished (all with `--runs`), decisions and problems."""
    if result.run is not None:
        show_run(result.run)
        return
    if not result.runs and not Path(result.results).is_dir():
        print(f"no runs: there is no folder {result.results} (another one: runtime.results=DIR)")
        return
    console = Terminal()
    console.print(status_table(result.runs, finished=options.runs))
    for line in (
        *(f"{name}: {text}" for name, text in result.answers.items()),
        *result.parts,
        *("{arm} against {reference}: {state}; {text}".format(**one) for one in result.decisions),
    ):
        console.print(line, markup=False, highlight=False)
    for problem in result.problems:
        console.print(f"skipped: {problem}", style="yellow", markup=False, soft_wrap=True)


def decisions_of(selection: Selection) -> list[dict[str, str]]:
    """Of the named experiments that look at comparisons while seeds come in: what their finished runs decide, and what is open."""
    store = selection.store
    names = [name for name in selection.experiments if store.plan(name).get("looks")]
    comparisons_by_name = {name: decide(Plan.read(store.plan(name)), store).comparisons for name in names}
    return [{"experiment": name, **one} for name, comparisons in comparisons_by_name.items() for one in comparisons]


def parts_of(selection: Selection) -> list[str]:
    """Of the named experiments with a first part: whether its results have set the values that they set."""
    return [
        f"{name}: {part['name']} {'sets' if part['settings'] is None else 'has set'} {part['sets']}"
        for name in selection.experiments
        for part in selection.store.plan(name).get("parts") or ()
    ]
