"""What the runs of a plan read: whether it can be read here, what is wrong with it, and whether it is what earlier runs read."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash, without_neutral
from harness.configuration.schema import RunConfig, dump
from harness.experiment.plan import Plan
from harness.model.system import content_fingerprint
from harness.problems.problem import load_benchmark
from harness.store import ResultStore, StoreError


def unread_data(plan: Plan) -> list[str]:
    """Say which local files of problems cannot be read, and why; nothing of runs that are sent elsewhere."""
    from harness.problems.hygiene import named_sets, statements

    lines: dict[str, None] = {}
    for config in _readers(plan):
        for key, benchmark in named_sets(config.evaluation.benchmarks, config.task).items():
            if getattr(benchmark, "path", None) and not config.runtime.elsewhere:
                try:
                    statements(benchmark)
                except ConfigError as error:
                    lines[f"cannot start: {key}: {error}"] = None
    return list(lines)


def data_faults(plan: Plan) -> list[str]:
    """Say what is wrong with the data of all arms: golds the verifier cannot read, duplicates, overlap of training and test.

    Raises `ConfigError` for data that cannot be read; of runs that are sent elsewhere, what they find there is not known here.
    """
    from harness.problems.hygiene import report

    lines: dict[str, None] = {}
    for config in _readers(plan):
        faults = report(
            config.evaluation.benchmarks, config.task, config.verifier, skip_unread=config.runtime.elsewhere
        )
        lines |= dict.fromkeys(f"data {fault.name}: [{fault.check}] {fault.text}" for fault in faults)
    return list(lines)


def _readers(plan: Plan) -> Iterator[RunConfig]:
    """One configuration for each choice of task, benchmarks and verifier among the arms."""
    configs = {
        content_hash(*map(dump, (config.task, config.evaluation, config.verifier)), config.runtime.elsewhere): config
        for config in (arm.config for arm in reversed(plan.arms))
    }
    yield from reversed(configs.values())


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
    hashes = {name: load_benchmark(benchmark).content for name, benchmark in sets.items()}
    return hashes | {name: content_fingerprint(folder) for name, folder in folders.items()}


def require_same_content(plan: Plan, store: ResultStore, contents: Mapping[str, str]) -> None:
    """Raise `ConfigError` where what a run of the plan reads has changed since it began; `contents` as of `content_hashes`."""
    for arm in plan.arms:
        inputs = {**_problem_sets(arm.config), **_model_folder(arm.config)}
        for run_id in arm.runs.values():
            try:
                hashes = (store.run(run_id).manifest() or {}).get("provenance", {}).get("data", {})
            except StoreError:  # what is wrong with it is said when its turn comes
                continue
            changes = [key for key in inputs if key in contents and hashes.get(key, contents[key]) != contents[key]]
            if changes:
                names = (
                    f"the checkpoint {name}" if name.startswith(_MODEL) else f"the problem set {name.partition(' ')[0]}"
                    for name in changes
                )
                raise ConfigError(f"{', '.join(names)} has changed since run {run_id} began; restore it, or rename it")


def _problem_sets(config: RunConfig) -> dict[str, Any]:
    sets = {"task": config.task, **config.evaluation.benchmarks}
    return {f"{name} {content_hash(without_neutral(benchmark))[:6]}": benchmark for name, benchmark in sets.items()}


def _model_folder(config: RunConfig) -> dict[str, Path]:
    path = getattr(config.model, "path", "")
    folder = Path(path).expanduser()
    return {f"{_MODEL}{path}": folder} if path and folder.is_dir() else {}
