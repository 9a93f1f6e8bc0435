"""Write an experiment as one file with all that its report needs, to send or to keep; `harness merge` puts it into a results root.

harness pack experiment=NAME [out=FILE]           NAME.tar.xz: plan, configurations, manifests, metrics, evaluation samples

A run that finished and lacks a file since is left out, and the exit code is 1.
"""

import argparse
from pathlib import Path

from harness.commands._arguments import Exit, require_one_experiment, select, take_values
from harness.store.pack import SUFFIX, planned_ids, write_pack

ARGUMENTS = {"overrides": {"nargs": "+", "help": "experiment=NAME [out=FILE] [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    settings, rest = take_values(options.overrides, ("out",), "pack")
    name, selection = require_one_experiment(rest, "pack"), select(rest)
    out = settings.get("out") or f"{name}{SUFFIX}"
    run_ids = write_pack(selection.store, name, Path(out))
    all_ids = planned_ids(selection.store, name)
    faults = [fault for run_id in all_ids if (fault := selection.store.run(run_id).fault())]
    print("\n".join([f"written: {out} ({len(run_ids)} runs of {len(all_ids)})", *faults]))
    return Exit.FOUND if faults else Exit.DONE
