"""Show one run: configuration, provenance, attempts, metrics. RUN is the beginning of its id.

harness show 3f9a
harness show 3f9a --config
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.commands._arguments import SELECTION, find_run, flag, select
from harness.configuration.compose import compose_run
from harness.configuration.flat import flatten
from harness.configuration.schema import dump
from harness.store import ResultStore, RunDir
from harness.store.device import devices_of

ARGUMENTS = {
    "run_id": {"metavar": "RUN", "help": "run id, or its beginning"},
    "--config": flag("the whole configuration, as YAML"),
    **SELECTION,
}


def run(options: argparse.Namespace) -> int:
    store = select(options.overrides).store
    run_dir = store.run(find_run(store, options.run_id))
    console = Console()
    if options.config:
        console.print(run_dir.config(), markup=False, highlight=False, end="")
        return 0
    for title, rows in (
        ("run", _facts(run_dir)),
        ("changed from the base configuration", _changes(run_dir)),
        ("provenance", provenance_of(run_dir)),
        ("last step and scores", results_of(store, run_dir.run_id)),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
        for pair in rows.items():
            table.add_row(*map(escape, pair))
        console.print(table)
    console.print(_attempts(run_dir))
    return 0


def configuration_of(run: RunDir) -> dict[str, str]:
    """The configuration as stored with the run, flat."""
    return {key: str(value) for key, value in flatten(run.settings()).items()}


def provenance_of(run: RunDir) -> dict[str, str]:
    """Device, code, packages, machine, data and command of a run, flat; of several attempts the newest's, and all devices."""
    manifest = run.manifest() or {}
    found = {key: str(value) for key, value in flatten(manifest.get("provenance", {})).items()}
    return {"device": " and ".join(devices_of(manifest))} | found


def results_of(store: ResultStore, run_id: str) -> dict[str, str]:
    """The newest metrics row, and accuracy by benchmark, step and cap."""
    run = store.run(run_id)
    rows = {key: _number(value) for key, value in (run.last_step() or {}).items() if value is not None}
    for benchmark in run.benchmarks():
        for step in run.sample_steps(benchmark):
            for cap, value in run.accuracies(benchmark, step).items():
                rows[f"avg on {benchmark}, cap {cap}, step {step}"] = _number(value)
    return rows


def _facts(run: RunDir) -> dict[str, str]:
    manifest = run.manifest() or {}
    keys = ("run_id", "arm_id", "seed", "status", "created_at", "updated_at")
    facts = {key: str(manifest[key]) for key in keys}
    facts |= {f"label {key}": str(value) for key, value in manifest["labels"].items()}
    if manifest.get("error"):
        facts["error"] = str(manifest["error"])
    return facts | {"directory": str(run.path)}


def _changes(run: RunDir) -> dict[str, str]:
    """Every key that differs from the base configuration of today's files (`runtime` apart)."""
    base, ours = flatten(dump(compose_run([]))), flatten(run.settings())
    return {
        key: f"{base.get(key)} → {ours.get(key)}"
        for key in sorted(base.keys() | ours.keys())
        if base.get(key) != ours.get(key) and not key.startswith("runtime.")
    }


def _attempts(run: RunDir) -> Table:
    keys = ("index", "started_at", "ended_at", "outcome", "exit_code", "host", "device", "pid")
    heads = ("attempt", "started", "ended", "outcome", "code", "host", "device", "pid")
    table = Table(*heads, box=None, pad_edge=False)
    for item in (run.manifest() or {}).get("attempts", []):
        table.add_row(*("" if item.get(key) is None else str(item[key]) for key in keys))
    return table


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
