"""Hand a finished (or half-finished) experiment to the analysis. A process of its own: the harness imports no analysis."""

from __future__ import annotations

import subprocess
import sys

from harness.store import ResultStore, StoreError


def write_answer(store: ResultStore, experiment: str, *arguments: str) -> None:
    """Write tables and figures of an experiment into the store and print the table.

    Raises:
        StoreError: the analysis failed; its own message went to standard error. Nothing computed is lost.
    """
    sys.stdout.flush()
    command = [sys.executable, "-m", "analysis", str(store.root), experiment, *arguments]
    if subprocess.run(command, check=False).returncode:
        raise StoreError(
            f"the analysis of {experiment} failed (see above); repeat it with: harness report experiment={experiment}"
        )
