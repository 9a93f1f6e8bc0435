"""Write an experiment as one file with all that its report needs, to send or to keep.

harness pack experiment=NAME                      NAME.tar.xz: configurations, manifests, metrics, evaluation samples
harness pack experiment=NAME out=FILE checkpoints=true
harness pack experiment=NAME out=s3://bucket/NAME.tar.xz

`harness report pack=FILE` and `harness view pack=FILE` show it, `harness merge FILE` puts it into a results root.
A run that finished and lacks a file since is named and left out, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys

from harness.commands._arguments import Exit, require_one_experiment, select, take_switch, take_values
from harness.store.pack import SUFFIX, write_pack

ARGUMENTS = {"overrides": {"nargs": "+", "help": "experiment=NAME [out=FILE] [checkpoints=true] [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    settings, rest = take_values(options.overrides, ("out", "checkpoints"), "pack")
    name, selection = require_one_experiment(rest, "pack"), select(rest)
    checkpoints = take_switch(settings, "checkpoints")
    out = settings.get("out") or f"{name}{SUFFIX}"
    statuses = write_pack(selection.store, name, out, checkpoints=checkpoints)
    finished_count = list(statuses.values()).count("finished")
    print(f"written: {out} ({finished_count} finished runs of {len(selection.run_ids)} in the plan)")
    faults = {run_id: selection.store.run(run_id).fault() for run_id in selection.run_ids if run_id not in statuses}
    for run_id, fault in faults.items():
        if fault:
            print(f"harness pack: run {run_id} is left out: {fault}", file=sys.stderr)
    return Exit.FOUND if any(faults.values()) else Exit.DONE
