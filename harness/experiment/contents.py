"""Problem sets and base policies that runs read from paths. A run's id names them by path, so their content is compared beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.configuration.schema import RunConfig, dump
from harness.experiment.plan import Plan
from harness.model.content import content_fingerprint
from harness.problems.problem import load_benchmark
from harness.store import ResultStore, StoreError

_MODEL = "model.path="


def content_hashes(configs: Iterable[RunConfig]) -> dict[str, str]:
    """Content hash of every distinct problem set of these runs' training and evaluation, and of every local checkpoint they start from.

    By a name that holds the path. A checkpoint of the Hub has its revision in the run's id; a folder that this machine lacks is left out.
    """
    sets: dict[str, Any] = {}
    folders: dict[str, Path] = {}
    for config in configs:
        sets |= _problem_sets(config)
        folders |= _model_folder(config)
    found = {name: load_benchmark(benchmark).content for name, benchmark in sets.items()}
    return found | {name: content_fingerprint(folder) for name, folder in folders.items()}


def require_same_content(plan: Plan, store: ResultStore, contents: Mapping[str, str]) -> None:
    """Refuse to go on with a run, or to count it as finished, where what it reads has changed since it began.

    `contents` are those of all arms of the plan, see `content_hashes`; a run is held to what its own arm reads.

    Raises:
        ConfigError: names what has changed, and the run.
    """
    for planned in plan.arms:
        own = {**_problem_sets(planned.config), **_model_folder(planned.config)}
        for run_id in planned.runs.values():
            try:
                known = (store.run(run_id).manifest() or {}).get("provenance", {}).get("data", {})
            except StoreError:  # what is wrong with it is said when its turn comes
                continue
            changed = [
                name for name in own if name in contents and known.get(name, contents[name]) != contents[name]
            ]
            if changed:
                names = (
                    f"the checkpoint {name}"
                    if name.startswith(_MODEL)
                    else f"the problem set {name.partition(' ')[0]}"
                    for name in changed
                )
                raise ConfigError(
                    f"{', '.join(names)} has changed since run {run_id} began, which has the same configuration; "
                    "restore what was there, or give the new one another path or version"
                )


def _problem_sets(config: RunConfig) -> dict[str, Any]:
    sets = {"task": config.task, **config.evaluation.benchmarks}
    return {f"{name} {content_hash(dump(benchmark))[:6]}": benchmark for name, benchmark in sets.items()}


def _model_folder(config: RunConfig) -> dict[str, Path]:
    path = getattr(config.model, "path", "")
    folder = Path(path).expanduser()
    return {f"{_MODEL}{path}": folder} if path and folder.is_dir() else {}
