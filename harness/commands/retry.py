"""Give failed, interrupted and lost runs another attempt; they resume from their newest checkpoint.

harness retry
harness retry experiment=dapo_ladder runtime.micro_batch_tokens=1024
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from harness.commands._arguments import HELP, Selection, select
from harness.commands.run import describe, exit_code
from harness.configuration.identity import canonical_json
from harness.configuration.runtime import RuntimeConfig
from harness.configuration.schema import dump, load
from harness.execution.dispatch import dispatch_runs
from harness.execution.progress import progress_on
from harness.execution.supervise import Summary

# What the launcher reads of a runtime; the rest is each run's own.
_PLACE = (
    "launcher", "device", "workers", "threads", "runs_per_gpu", "gpus_per_run", "ranks", "nodes", "trackers",
)  # fmt: skip


@dataclass(frozen=True)
class StoredSpec:
    """A run as the store has it; what it is does not depend on today's configuration files."""

    run_id: str
    arm_id: str
    seed: int
    config_yaml: str
    labels: Mapping[str, str]


ARGUMENTS = {
    "overrides": {"nargs": "*", "help": f"{HELP}; other runtime.* overrides hold for the new attempts"}
}


def run(options: argparse.Namespace) -> int:
    selection = select(options.overrides)
    specs = [spec for run_id in selection.run_ids if (spec := _retriable(selection, run_id)) is not None]
    if not specs:
        print("nothing failed or was interrupted")
        return 0
    name = "_".join(selection.experiments) or "retry"
    command = shlex.join(["harness", "retry", *options.overrides])
    summary = Summary()
    for runtime, share in _by_place(specs):
        if summary.stopped_by is not None:
            summary.not_started.extend(spec.run_id for spec in share)
            continue
        ended = dispatch_runs(
            share, selection.store, runtime, progress_on(sys.stderr), command=command, experiment=name
        )
        summary = _both(summary, ended)
    print(describe(name, len(specs), summary, command))
    return exit_code(summary)


def _by_place(specs: Sequence[StoredSpec]) -> list[tuple[RuntimeConfig, list[StoredSpec]]]:
    """Runs that one launcher can have at once, with their runtime: the others need another device, launcher or number of GPUs."""
    groups: dict[str, tuple[RuntimeConfig, list[StoredSpec]]] = {}
    for spec in specs:
        runtime = load(yaml.safe_load(spec.config_yaml)).runtime
        place = canonical_json({key: value for key, value in dump(runtime).items() if key in _PLACE})
        groups.setdefault(place, (runtime, []))[1].append(spec)
    return list(groups.values())


def _both(earlier: Summary, later: Summary) -> Summary:
    """One summary of two dispatches of different runs."""
    lists = ("finished", "skipped", "failed", "interrupted", "elsewhere", "not_started", "submitted")
    both = {name: [*getattr(earlier, name), *getattr(later, name)] for name in lists}
    return Summary(**both, errors={**earlier.errors, **later.errors}, stopped_by=later.stopped_by)


def _retriable(selection: Selection, run_id: str) -> StoredSpec | None:
    run = selection.store.run(run_id)
    manifest = run.manifest()
    if manifest is None or manifest["status"] == "finished" or run.claimed_by() is not None:
        return None
    if "foreign" in manifest["labels"]:  # an import that was killed: importing again completes it
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
    path = {
        "runtime": [],
        "launcher": ["launcher"],
        "tracker": ["trackers"],
        "checks": ["checks"],
        "config_dir": ["config_dir"],
    }.get(key)
    path = key.split(".")[1:] if path is None else path
    if not path:
        values["runtime"] = runtime
        return
    target = values["runtime"]
    for part in path[:-1]:
        target, runtime = target.setdefault(part, {}), runtime[part]
    target[path[-1]] = runtime[path[-1]]
