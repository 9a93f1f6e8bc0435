"""One stored run: configuration, provenance, attempts, metrics; or what differs between two."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from harness.configuration.compose import compose_run
from harness.configuration.identity import flatten
from harness.configuration.schema import dump
from harness.execution.progress import Terminal
from harness.store import ResultStore, RunDir, layout
from harness.store.reader import devices_of, run_status

_OF_ATTEMPTS = ("index", "started_at", "ended_at", "outcome", "exit_code", "host", "device", "pid")


def stored_run(store: ResultStore, run: RunDir, other: RunDir | None = None) -> dict[str, Any]:
    """Read a run, and what differs between it and another one, as values by name.

    `changes`: key → its value in the base configuration of today's files and its own, `runtime` apart. `provenance`, flat: device, code,
    packages, machine, data and command. `results`: the newest metrics row, and accuracy (a fraction of 1) by benchmark, step and cap.
    `attempts`: times are ISO 8601, None is not known or not over. `differences`: of configuration, provenance and results, each key whose
    two values differ, with both (None: not there).
    """
    pairs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    if other is not None:
        pairs = {
            "configuration": (flatten(run.settings()), flatten(other.settings())),
            "provenance": (provenance_of(run), provenance_of(other)),
            "results": (scores_of(store, run.run_id), scores_of(store, other.run_id)),
        }
    manifest = run.checked_manifest() or {}
    incomplete = manifest.get("status") == layout.INCOMPLETE
    return {
        **{key: manifest[key] for key in ("run_id", "arm_id", "seed")},
        "status": layout.INCOMPLETE if incomplete else run_status(run) or "",
        **{key: manifest[key] for key in ("created_at", "updated_at")},
        "labels": {key: str(value) for key, value in manifest["labels"].items()},
        "error": manifest.get("error") or None,
        "directory": str(run.path),
        "changes": _changes(run),
        "provenance": provenance_of(run),
        "results": scores_of(store, run.run_id),
        "attempts": [{key: entry.get(key) for key in _OF_ATTEMPTS} for entry in manifest.get("attempts", [])],
        "configuration": run.settings(),
        "other": None if other is None else other.run_id,
        "differences": {kind: differences(*pair) for kind, pair in pairs.items()},
    }


def show_run(run: Mapping[str, Any]) -> None:
    """Print a run, of two what differs."""
    console = Terminal()
    if run["other"] is not None:
        for kind, rows in run["differences"].items():
            title = "last step and scores" if kind == "results" else kind
            values = {key: ["" if one is None else format_value(one) for one in pair] for key, pair in rows.items()}
            _print_table(console, title if rows else f"{title}: the same", values, run["run_id"][:8], run["other"][:8])
        return
    facts = {key: value for key, value in run.items() if isinstance(value, str | int)}
    labels = {f"label {key}": value for key, value in run["labels"].items()}
    for title, rows in (
        ("run", facts | labels),
        ("changed from the base configuration", {key: f"{a} → {b}" for key, (a, b) in run["changes"].items()}),
        ("provenance", run["provenance"]),
        ("last step and scores", {key: value for key, value in run["results"].items() if value is not None}),
    ):
        _print_table(console, title, {key: [format_value(value)] for key, value in rows.items()})
    attempts = {
        str(one["index"]): ["" if v is None else str(v) for v in [*one.values()][1:]] for one in run["attempts"]
    }
    _print_table(console, "attempts", attempts, *_OF_ATTEMPTS[1:])


def _print_table(console: Terminal, title: str, rows: Mapping[str, list[str]], *heads: str) -> None:
    if not rows:
        console.print(title, highlight=False)
        return
    table = Table("", *heads, title=title, title_justify="left", show_header=bool(heads), box=None, pad_edge=False)
    for key, values in rows.items():
        table.add_row(escape(key), *map(escape, values))
    console.print(table)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys whose values are not shown alike, with both values; a missing one is None."""
    return {
        key: (first.get(key), second.get(key))
        for key in dict.fromkeys([*first, *second])
        if format_value(first.get(key, "")) != format_value(second.get(key, ""))
    }


def provenance_of(run: RunDir) -> dict[str, Any]:
    """Device, code, packages, machine, data and command of a run, flat; of several attempts the newest's, and all devices."""
    manifest = run.manifest() or {}
    return {"device": " and ".join(devices_of(manifest))} | flatten(manifest.get("provenance", {}))


def scores_of(store: ResultStore, run_id: str) -> dict[str, Any]:
    """The newest metrics row, and accuracy by benchmark, step and cap."""
    run = store.run(run_id)
    rows = {key: value for key, value in (run.last_step() or {}).items() if value is not None}
    for benchmark in run.benchmarks():
        for step in run.sample_steps(benchmark):
            for cap, value in run.accuracies(benchmark, step).items():
                rows[f"avg on {benchmark}, cap {cap}, step {step}"] = value
    return rows


def format_value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _changes(run: RunDir) -> dict[str, tuple[Any, Any]]:
    base, ours = flatten(dump(compose_run([]))), flatten(run.settings())
    return {
        key: (base.get(key), ours.get(key))
        for key in sorted(base.keys() | ours.keys())
        if base.get(key) != ours.get(key) and not key.startswith("runtime.")
    }
