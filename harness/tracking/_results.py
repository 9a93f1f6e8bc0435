"""The things that trackers get besides rows: tables and figures of an experiment, and finished runs that did not arrive."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.families import TRACKING
from harness.configuration.registry import implementation
from harness.store import ResultStore
from harness.store.layout import experiment_dir
from harness.tracking._sink import about, absent, mark_sent, metrics_of, sent_step

PATIENCE_SECONDS = 120.0
_RESULT_SUFFIXES = {".csv", ".md", ".tex", ".pdf", ".png", ".svg", ".html"}


def send_results(store: ResultStore, experiment: str, trackers: Mapping[str, Any]) -> None:
    """Send tables and figures, in a process of its own that is killed when it takes too long. Never raises for a tracker's sake."""
    missing = absent(trackers)
    for name, config in trackers.items():
        if name in missing or not hasattr(implementation(TRACKING, config), "send_results"):
            continue
        process = multiprocessing.get_context("spawn").Process(
            target=_send_results, args=(config, store.root, experiment)
        )
        process.start()
        process.join(PATIENCE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        if process.exitcode:
            sys.stderr.write(
                f"tracker {name} did not take the tables and figures; later: harness sync experiment={experiment}\n"
            )


def _send_results(config: Any, root: Path, experiment: str) -> None:
    folder = experiment_dir(root.resolve(), experiment)
    files = sorted(path for path in folder.rglob("*") if path.suffix in _RESULT_SUFFIXES)
    try:
        implementation(TRACKING, config).send_results(config, root.resolve(), experiment, files)
    except Exception as error:  # of somebody's tracker: told in a line, without the traceback of this process
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(1) from None


def sync_runs(
    store: ResultStore, run_ids: Iterable[str], trackers: Mapping[str, Any], *, again: bool = False
) -> dict[str, list[str]]:
    """Send finished runs that the trackers do not have, whole. Returns run ids by what became of them: sent, had, failed.

    Raises:
        ConfigError: a tracker's package is not installed.
    """
    result: dict[str, list[str]] = {"sent": [], "had": [], "failed": []}
    for run_id in run_ids:
        if store.run(run_id).status != "finished":
            continue
        for name, config in trackers.items():
            result[_sync_run(store, run_id, name, config, again)].append(run_id)
    return result


def _sync_run(store: ResultStore, run_id: str, name: str, config: Any, again: bool) -> str:
    run = store.run(run_id)
    module = implementation(TRACKING, config)
    destination, last = module.destination(config), int((run.last_step() or {"step": 0})["step"])
    if not again and sent_step(run, name, destination) >= last:
        return "had"
    sink = None
    try:
        sink = module.open_sink(config, about(run, 0))
        for row in run.steps().to_dict("records"):
            numbers = {str(key): value for key, value in row.items() if value == value}
            sink.log(int(row["step"]), metrics_of(numbers))
        sink.close(True)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"tracker {name} needs {error.name}; install it with: pip install -e '.[{module.EXTRA}]'"
        ) from error
    except Exception as error:  # a tracker's errors are its own; the next run may get through
        sys.stderr.write(f"{run_id}: tracker {name}: {error}\n")
        if sink is not None:
            with contextlib.suppress(Exception):
                sink.close(False)  # what has arrived is a part
        return "failed"
    mark_sent(run, name, last, destination)
    return "sent"


def online(trackers: Mapping[str, Any]) -> dict[str, Any]:
    """The trackers as `harness sync` uses them: those that have an online mode, in it."""
    return {
        name: dataclasses.replace(config, mode="online") if hasattr(config, "mode") else config
        for name, config in trackers.items()
    }
