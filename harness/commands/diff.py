"""Compare two runs: configuration, provenance, results. RUN is the beginning of an id.

harness diff 3f9a 81c0
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.commands._arguments import SELECTION, find_run, select
from harness.commands.show import configuration_of, provenance_of, results_of

ARGUMENTS = {"run_ids": {"metavar": "RUN", "nargs": 2, "help": "run id, or its beginning"}, **SELECTION}


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 0: same configuration, code and packages; 1: something differs."""
    store = select(options.overrides).store
    ids = [find_run(store, prefix) for prefix in options.run_ids]
    a, b = (store.run(run_id) for run_id in ids)
    console, different = Console(), False
    for title, left, right in (
        ("configuration", configuration_of(a), configuration_of(b)),
        ("provenance", provenance_of(a), provenance_of(b)),
        ("last step and scores", results_of(store, a.run_id), results_of(store, b.run_id)),
    ):
        rows = differences(left, right)
        different |= bool(rows) and title != "last step and scores"
        if not rows:
            console.print(f"{title}: the same", highlight=False)
            continue
        heads = ("", *(run_id[:8] for run_id in ids))
        table = Table(*heads, title=title, title_justify="left", box=None, pad_edge=False)
        for key, pair in rows.items():
            table.add_row(*map(escape, (key, *pair)))
        console.print(table)
    return int(different)


def differences(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Keys whose values differ, with both; a missing one is empty."""
    return {
        key: (left.get(key, ""), right.get(key, ""))
        for key in dict.fromkeys([*left, *right])
        if left.get(key, "") != right.get(key, "")
    }
