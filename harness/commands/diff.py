"""Compare two runs: configuration, provenance, results. RUN is the beginning of an id.

harness diff 3f9a 81c0
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.commands._arguments import SELECTION, find_run, select
from harness.commands._as_json import VerbAnswer
from harness.commands._exit_codes import Exit
from harness.commands.show import configuration_of, provenance_of, results_of, shown

ARGUMENTS = {"run_ids": {"metavar": "RUN", "nargs": 2, "help": "run id, or its beginning"}, **SELECTION}


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """Two runs, and key → its two values (None: not there) of what differs in configuration, provenance, and last step and scores."""

    runs: list[str]
    configuration: dict[str, tuple[Any, Any]]
    provenance: dict[str, tuple[Any, Any]]
    results: dict[str, tuple[Any, Any]]

    @property
    def exit_code(self) -> int:
        """0: same configuration, code and packages; 1: something differs."""
        return Exit.FOUND if self.configuration or self.provenance else Exit.DONE


def answer(options: argparse.Namespace) -> Answer:
    """Compare the two runs."""
    store = select(options.overrides).store
    ids = [find_run(store, prefix) for prefix in options.run_ids]
    a, b = (store.run(run_id) for run_id in ids)
    return Answer(
        ids,
        differences(configuration_of(a), configuration_of(b)),
        differences(provenance_of(a), provenance_of(b)),
        differences(results_of(store, a.run_id), results_of(store, b.run_id), written=shown),
    )


def show(found: Answer, options: argparse.Namespace) -> None:
    """Print a table of each kind of difference."""
    console = Console()
    for title, rows in (
        ("configuration", found.configuration),
        ("provenance", found.provenance),
        ("last step and scores", found.results),
    ):
        if not rows:
            console.print(f"{title}: the same", highlight=False)
            continue
        heads = ("", *(run_id[:8] for run_id in found.runs))
        table = Table(*heads, title=title, title_justify="left", box=None, pad_edge=False)
        for key, pair in rows.items():
            table.add_row(escape(key), *("" if one is None else escape(shown(one)) for one in pair))
        console.print(table)


def differences(
    left: Mapping[str, Any], right: Mapping[str, Any], written: Callable[[Any], str] = str
) -> dict[str, tuple[Any, Any]]:
    """Keys whose values are not `written` alike, with both; a missing one is None."""
    return {
        key: (left.get(key), right.get(key))
        for key in dict.fromkeys([*left, *right])
        if written(left.get(key, "")) != written(right.get(key, ""))
    }
