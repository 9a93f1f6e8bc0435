"""Check this machine: Python, packages, GPUs, Slurm, and whether the results root can be written and locked.

harness doctor
harness doctor numbers=true                       # train two arms for a few steps (30 s of CPU) and compare with reference points
harness doctor numbers=true runtime.device=cuda
harness doctor numbers=true engine=transformers
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.commands._select import select
from harness.configuration.error import ConfigError
from harness.execution.machine import examine
from harness.execution.numbers.check import Outcome, check_numbers
from harness.execution.numbers.compare import FALSE_ALARM, Finding
from harness.execution.progress import progress_on

_WORDS = {True: "[green]ok[/green]", False: "[red]problem[/red]", None: "optional"}
_NUMBERS = "numbers="


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "overrides",
        nargs="*",
        help="runtime.results=DIR, runtime.device=cuda, ...; numbers=true to compare short runs with reference points, with engine=...",
    )


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 1 if something that is needed is not in order, or a number lies outside; 75 if the check was stopped."""
    if _numbers(options.overrides):
        return _report(check_numbers(_others(options.overrides), progress_on(sys.stderr)))
    selection = select(_others(options.overrides))
    table = Table(show_header=False, box=None, pad_edge=False)
    checks = list(examine(selection.store, selection.runtime))
    for check in checks:
        table.add_row(_WORDS[check.good], check.name, escape(check.found))
    Console().print(table)
    return int(any(check.good is False for check in checks))


def _others(overrides: Sequence[str]) -> list[str]:
    return [item for item in overrides if not item.startswith(_NUMBERS)]


def _numbers(overrides: Sequence[str]) -> bool:
    given = [item.removeprefix(_NUMBERS) for item in overrides if item.startswith(_NUMBERS)]
    if len(given) > 1 or any(value not in ("true", "false") for value in given):
        raise ConfigError(f"doctor: {_NUMBERS} is said once and is true or false, not {' and '.join(given)}")
    return given == ["true"]


def _report(outcome: Outcome) -> int:
    """Print a line for every statistic and what is wrong; returns the exit code."""
    summary = outcome.summary
    if not summary.complete:
        for run_id, reason in summary.errors.items():
            print(f"run {run_id} failed: {(reason.strip().splitlines() or ['no reason given'])[-1]}")
        print(f"nothing was compared: not all runs are finished; they lie in {outcome.root}")
        return 1 if summary.failed else 75
    table = Table("", "statistic", "found", "expected", box=None, pad_edge=False)
    for finding in outcome.findings:
        word = "[green]inside[/green]" if finding.inside else "[red]OUTSIDE[/red]"
        table.add_row(word, escape(finding.name), f"{finding.value:.4g}", _range(finding))
    Console().print(table)
    outside = [finding for finding in outcome.findings if not finding.inside]
    for finding in outside:
        print(
            f"{finding.name}: {finding.value:.4g}, {finding.beyond:.2g} outside {_range(finding)}. {finding.meaning}"
        )
    made = outcome.reference.made_with
    print(
        f"{len(outcome.findings) - len(outside)} of {len(outcome.findings)} statistics lie inside the reference points "
        f"({len(made['seeds'])} seeds, torch {made['packages']['torch']}, {made['cpu']}). Chance that any interval misses although all "
        f"is right: at most {FALSE_ALARM:.0%}; differences at the first step have fixed tolerances."
    )
    if outside:
        print(f"The runs lie in {outcome.root} (`harness status runtime.results={outcome.root}`).")
    return int(bool(outside))


def _range(finding: Finding) -> str:
    return f"at most {finding.high:.3g}" if finding.low == 0 else f"{finding.low:.4g} to {finding.high:.4g}"
