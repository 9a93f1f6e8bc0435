"""Stop what runs: workers finish their step and write a checkpoint; running the experiment again resumes.

harness stop
harness stop experiment=dapo_ladder
"""

from __future__ import annotations

import argparse
import time

from harness.commands._arguments import SELECTION, select
from harness.commands._exit_codes import Exit
from harness.execution.supervise import stop_supervisors

ARGUMENTS = {
    "--wait": {
        "type": float,
        "default": 60.0,
        "metavar": "SECONDS",
        "help": "how long to wait for the workers to end (default 60)",
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
    while busy := [one for one in selection.run_ids if selection.store.run(one).claimed_by() is not None]:
        if time.monotonic() >= deadline:
            break
        time.sleep(0.2)
    if busy:
        print(f"{len(busy)} runs still write their checkpoint: {', '.join(busy[:5])}; see `harness status`")
        return Exit.AGAIN
    print("stopped; the same `harness run` resumes")
    return 0
