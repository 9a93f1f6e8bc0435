"""Stop what runs: workers finish their step and write a checkpoint; running the experiment again resumes.

harness stop
harness stop experiment=dapo_ladder
"""

from __future__ import annotations

import argparse
import time

from harness.commands._arguments import SELECTION, select
from harness.execution.supervise import stop_supervisors
from harness.store import ResultStore

ARGUMENTS = {
    "--wait": {
        "type": float,
        "default": 60.0,
        "metavar": "SECONDS",
        "help": "wait for the end so long (default 60)",
    },
    **SELECTION,
}


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 0: nothing runs any more; 75: something still did when the waiting ended."""
    selection = select(options.overrides)
    here, elsewhere = stop_supervisors(selection.store, selection.run_ids)
    if not here and not elsewhere:
        print("nothing is running")
        return 0
    places = [f"process {pid} here" for pid in here]
    places += [f"process {holder.pid} on {holder.host}" for holder in elsewhere]
    print(f"asked to stop: {', '.join(places)}")
    deadline = time.monotonic() + options.wait
    while (busy := _busy(selection.store, selection.run_ids)) and time.monotonic() < deadline:
        time.sleep(0.2)
    if busy:
        print(f"{len(busy)} runs still write their checkpoint: {', '.join(busy[:5])}; see `harness status`")
        return 75
    print("stopped; the same `harness run` resumes")
    return 0


def _busy(store: ResultStore, run_ids: list[str]) -> list[str]:
    return [run_id for run_id in run_ids if store.run(run_id).claimed_by() is not None]
