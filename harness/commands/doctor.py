"""Check this machine: Python, packages, GPUs, Slurm, and whether the results root can be written and locked.

harness doctor
harness doctor numbers=true                       # train two arms for a few steps (30 s of CPU) and compare with reference intervals
harness doctor numbers=true runtime.device=cuda
harness doctor numbers=true engine=transformers
harness doctor members=true config_dir=FOLDER     # the contract tests on members of your own
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.commands._arguments import select
from harness.commands._as_json import VerbAnswer
from harness.commands._exit_codes import Exit
from harness.configuration.compose import compose_values
from harness.configuration.error import ConfigError
from harness.configuration.own import own_members_faults
from harness.execution.machine import Check, examine
from harness.execution.numbers import check_numbers
from harness.execution.progress import progress_on

_WORDS = {True: "[green]ok[/green]", False: "[red]problem[/red]", None: "optional"}
_NUMBERS, _MEMBERS = "numbers=", "members=true"


ARGUMENTS = {
    "overrides": {
        "nargs": "*",
        "help": "runtime.results=DIR, runtime.device=cuda, ...; "
        "numbers=true to compare short runs with reference intervals, with engine=...; "
        "members=true config_dir=FOLDER for the contract tests on members of your own",
    }
}


@dataclass(frozen=True)
class Number:
    """A number of the short runs beside the interval it belongs into; `meaning`: what is usually wrong when it lies outside."""

    name: str
    value: float | None
    low: float
    high: float
    inside: bool
    meaning: str


@dataclass(frozen=True)
class Member:
    """A member of one's own, and what is wrong with it."""

    path: str
    faults: list[str]


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """What was looked at. One of `checks`, `numbers` and `members` is filled, by what was asked for.

    `failed`: run → why it failed. `runs`: where the runs of the numbers lie if they were kept. `again`: the check was stopped.
    """

    checks: list[Check] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    runs: str | None = None
    again: bool = False

    @property
    def exit_code(self) -> int:
        """1 if something that is needed is not in order, or a number lies outside; 75 if the check was stopped."""
        wrong = [one for one in self.checks if one.good is False] + [
            one for one in self.members if one.faults
        ]
        if self.again:
            return Exit.AGAIN
        return (
            Exit.FOUND if wrong or self.failed or not all(one.inside for one in self.numbers) else Exit.DONE
        )


def answer(options: argparse.Namespace) -> Answer:
    """Look at the machine, at the numbers of short runs, or at members of one's own."""
    if _MEMBERS in options.overrides:
        return _of_members([item for item in options.overrides if item != _MEMBERS])
    given = [item.removeprefix(_NUMBERS) for item in options.overrides if item.startswith(_NUMBERS)]
    rest = [item for item in options.overrides if not item.startswith(_NUMBERS)]
    if len(given) > 1 or any(value not in ("true", "false") for value in given):
        raise ConfigError(f"doctor: {_NUMBERS} is said once and is true or false, not {' and '.join(given)}")
    if given == ["true"]:
        return _of_numbers(rest)
    selection = select(rest)
    return Answer(checks=list(examine(selection.store, selection.runtime)))


def show(found: Answer, options: argparse.Namespace) -> None:
    """Print a line for every check, member or number, and what is usually wrong with numbers outside."""
    for one in found.members:
        word = "problem" if one.faults else "ok     "
        print(f"{word} {one.path}", *(f"        {fault}" for fault in one.faults), sep="\n")
    if found.checks:
        table = Table(show_header=False, box=None, pad_edge=False)
        for check in found.checks:
            table.add_row(_WORDS[check.good], check.name, escape(check.found))
        Console().print(table)
    for run_id, reason in found.failed.items():
        print(f"run {run_id} failed: {reason}")
    if found.failed or found.again:
        print(f"nothing was compared: not all runs are finished; they lie in {found.runs}")
    if found.numbers:
        _show_numbers(found)


def _show_numbers(found: Answer) -> None:
    table = Table("", "number", "found", "expected", box=None, pad_edge=False)
    for one in found.numbers:
        word = "[green]right[/green]" if one.inside else "[red]WRONG[/red]"
        value = "nan" if one.value is None else f"{one.value:.6g}"
        table.add_row(word, escape(one.name), value, f"{one.low:.6g} to {one.high:.6g}")
    Console().print(table)
    wrong = [one for one in found.numbers if not one.inside]
    for one in wrong:
        print(f"{one.name}: look at {one.meaning}")
    print(f"{len(found.numbers) - len(wrong)} of {len(found.numbers)} numbers are right")
    if wrong:
        print(f"The runs lie in {found.runs} (`harness status runtime.results={found.runs}`).")


def _of_members(overrides: Sequence[str]) -> Answer:
    compose_values(overrides)
    found = own_members_faults()
    if not found:
        raise ConfigError("doctor: no members of your own; give config_dir=FOLDER (docs/own_members.md)")
    return Answer(members=[Member(str(path), faults) for path, faults in found.items()])


def _of_numbers(overrides: Sequence[str]) -> Answer:
    """Compare the numbers of short runs; their folder goes when all are right."""
    compared, summary, root = check_numbers(overrides, progress_on(sys.stderr))
    if not summary.complete:
        failed = {
            run_id: (reason.strip().splitlines() or ["no reason given"])[-1]
            for run_id, reason in {**dict.fromkeys(summary.failed, ""), **summary.errors}.items()
        }
        return Answer(failed=failed, runs=str(root), again=not summary.failed)
    numbers = [Number(one.name, one.value, one.low, one.high, one.inside, one.meaning) for one in compared]
    right = all(one.inside for one in numbers)
    if right:
        shutil.rmtree(root, ignore_errors=True)
    return Answer(numbers=numbers, runs=None if right else str(root))
