"""Write an experiment as one file with all that its report needs, to send or to keep; `harness merge` puts it into a results root.

harness pack experiment=NAME [out=FILE]           NAME.tar.xz: plan, configurations, manifests, metrics, evaluation samples

A run that finished and lacks a file since is left out, and the exit code is 1.
"""

import argparse
from pathlib import Path

from harness.commands._arguments import Exit, require_one_experiment, select, take_values
from harness.store.pack import write_pack

ARGUMENTS = {"overrides": {"nargs": "+", "help": "experiment=NAME [out=FILE] [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    settings, rest = take_values(options.overrides, ("out",), "pack")
    name, store = require_one_experiment(rest, "pack"), select(rest).store
    out = settings.get("out") or f"{name}.tar.xz"
    packed, planned, faults = write_pack(store, name, Path(out))
    print("\n".join([f"written: {out} ({packed} runs of {planned})", *faults]))
    return Exit.FOUND if faults else Exit.DONE
