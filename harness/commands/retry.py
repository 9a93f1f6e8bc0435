"""Give failed, interrupted and lost runs another attempt; they resume from their newest checkpoint.

harness retry
harness retry experiment=dapo_ladder runtime.micro_batch_tokens=1024
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from harness.commands._select import HELP, Selection, select
from harness.commands.run import describe, exit_code
from harness.configuration.schema import dump, load
from harness.execution.dispatch import dispatch_runs
from harness.execution.progress import progress_on


@dataclass(frozen=True)
class StoredSpec:
    """A run as the store has it; what it is does not depend on today's configuration files."""

    run_id: str
    arm_id: str
    seed: int
    config_yaml: str
    labels: Mapping[str, str]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "overrides", nargs="*", help=f"{HELP}; other runtime.* overrides hold for the new attempts"
    )


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    selection = select(options.overrides)
    specs = [spec for run_id in selection.run_ids if (spec := _retriable(selection, run_id)) is not None]
    if not specs:
        print("nothing failed or was interrupted")
        return 0
    name = "_".join(selection.experiments) or "retry"
    command = shlex.join(["harness", "retry", *options.overrides])
    runtime = load(yaml.safe_load(specs[0].config_yaml)).runtime
    summary = dispatch_runs(
        specs, selection.store, runtime, progress_on(sys.stderr), command=command, experiment=name
    )
    print(describe(name, len(specs), summary, command))
    return exit_code(summary)


def _retriable(selection: Selection, run_id: str) -> StoredSpec | None:
    run = selection.store.run(run_id)
    manifest = run.manifest()
    if manifest is None or manifest["status"] == "finished" or run.claimed_by() is not None:
        return None
    text = run.config()
    if selection.runtime_overrides:
        values = yaml.safe_load(text)
        for item in selection.runtime_overrides:
            _take(values, dump(selection.runtime), item)
        text = yaml.safe_dump(values, sort_keys=False)
    return StoredSpec(run_id, manifest["arm_id"], manifest["seed"], text, manifest["labels"])


def _take(values: dict[str, Any], runtime: dict[str, Any], override: str) -> None:
    """Set in a stored configuration what one override says; everything else of the run's runtime stays."""
    key = override.lstrip("+~").partition("=")[0]
    path = {"runtime": [], "launcher": ["launcher"], "tracker": ["trackers"], "checks": ["checks"]}.get(key)
    path = key.split(".")[1:] if path is None else path
    if not path:
        values["runtime"] = runtime
        return
    target = values["runtime"]
    for part in path[:-1]:
        target, runtime = target.setdefault(part, {}), runtime[part]
    target[path[-1]] = runtime[path[-1]]
