"""Send finished runs, and an experiment's tables and figures, to a tracker (wandb unless another is named).

harness sync
harness sync experiment=dapo_ladder runtime.trackers.wandb.project=my-project
harness sync tracker=tensorboard
"""

from __future__ import annotations

import argparse

from harness.commands._arguments import HELP, flag, select
from harness.commands._exit_codes import Exit
from harness.experiment.duration import counted
from harness.tracking._results import online, send_results, sync_runs

ARGUMENTS = {
    "--offline": flag("write wandb's offline files instead of sending"),
    "--again": flag("also runs that were sent before"),
    "overrides": {"nargs": "*", "help": f"{HELP}; tracker=[NAME] and runtime.trackers.*"},
}


def run(options: argparse.Namespace) -> int:
    overrides = list(options.overrides)
    if not any(item.startswith("tracker=") for item in overrides):
        overrides.insert(0, "tracker=wandb")
    selection = select(overrides)
    trackers = selection.runtime.trackers if options.offline else online(selection.runtime.trackers)
    result = sync_runs(selection.store, selection.run_ids, trackers, again=options.again)
    for experiment in selection.experiments:
        send_results(selection.store, experiment, trackers)
    sent, had, failed = (len(result[word]) for word in ("sent", "had", "failed"))
    print(f"{counted(sent)} sent, {had} sent before, {failed} failed")
    return Exit.FOUND if result["failed"] else Exit.DONE
