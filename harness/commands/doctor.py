"""Check this machine: Python, packages, GPUs, Slurm, and whether the results root can be written and locked.

harness doctor
harness doctor store=true                           # the files of finished runs and checkpoints, by their hashes
"""

import argparse
import importlib.metadata
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.markup import escape
from rich.table import Table

from harness.commands._arguments import Exit, VerbAnswer, select, take_switch, take_values
from harness.configuration.error import ConfigError
from harness.configuration.numbers import format_count
from harness.configuration.sections import RuntimeConfig
from harness.execution.attempt import hardware
from harness.execution.progress import Terminal
from harness.execution.supervisor import usable_cores, worker_count
from harness.model.system import visible_gpus
from harness.store import ResultStore, StoreError, layout, seal
from harness.store.lease import acquire

_WORDS = {True: "[green]ok[/green]", False: "[red]problem[/red]", None: "optional"}
_PACKAGES = {
    "torch": None, "transformers": None, "hydra-core": None, "math-verify": None, "optuna": "sweep", "submitit": "slurm", "ray": "ray",
    "wandb": "track", "peft": "lora", "vllm": "vllm", "trl": "trl", "datasets": "data",
}  # fmt: skip
_LITTLE_SPACE_GIB = 2.0


_HELP = "runtime.results=DIR, runtime.device=cuda, ...; store=true compares the hash of every file of finished runs and checkpoints"
ARGUMENTS = {"overrides": {"nargs": "*", "help": _HELP}}


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, what was found, and whether it is in order (None: optional and absent)."""

    name: str
    found: str
    good: bool | None


@dataclass(frozen=True)
class Answer(VerbAnswer):
    """What was looked at: `checks` of this machine, or of the store."""

    checks: list[Check] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return Exit.FOUND if any(check.good is False for check in self.checks) else Exit.DONE


def answer(options: argparse.Namespace) -> Answer:
    values, overrides = take_values(options.overrides, ("store",), "doctor")
    if any(item.startswith("experiment=") for item in overrides):
        raise ConfigError("doctor looks at the whole store: leave experiment= out")
    reads_store = take_switch(values, "store")
    selection = select(overrides)
    checks = _contents(selection.store) if reads_store else examine(selection.store, selection.runtime)
    return Answer(list(checks))


def show(result: Answer, options: argparse.Namespace) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    for check in result.checks:
        table.add_row(_WORDS[check.good], check.name, escape(check.found))
    Terminal().print(table)


def examine(store: ResultStore, runtime: RuntimeConfig) -> Iterator[Check]:
    """All checks, cheap ones first. Nothing is changed but a lock file in the store's cache."""
    version = platform.python_version()
    yield Check("python", version, (3, 11) <= tuple(int(part) for part in version.split(".")[:2]) < (3, 14))
    for package, extra in _PACKAGES.items():
        try:
            yield Check(package, importlib.metadata.version(package), True)
        except importlib.metadata.PackageNotFoundError:
            state = "missing: pip install -e ." if extra is None else f"absent: pip install -e '.[{extra}]'"
            yield Check(package, state, False if extra is None else None)
    machine = hardware()
    yield Check("cpu", f"{machine['cpu']}, {usable_cores()} of {machine['cores']} cores usable", True)
    needs_gpu = runtime.device == "cuda"
    gpus = visible_gpus() if needs_gpu else []
    yield Check("gpu", "; ".join(machine["gpus"]) or "none visible", bool(gpus) if needs_gpu else None)
    yield Check("runs at once", f"{worker_count(runtime, len(gpus))} (runtime.workers)", True)
    sbatch = shutil.which("sbatch")
    yield Check("slurm", sbatch or "no sbatch: hydra/launcher=submitit_slurm cannot submit", True if sbatch else None)
    yield from _store_checks(store)


def _store_checks(store: ResultStore) -> Iterator[Check]:
    try:
        with acquire(store.cache_dir("leases") / "doctor.lock", wait_seconds=1.0):
            yield Check("results", f"{store.root.resolve()}: writable, has file locks", True)
    except StoreError as error:
        yield Check("results", str(error), False)
        return
    free_gib = shutil.disk_usage(store.root).free / 2**30
    yield Check("free space", f"{free_gib:.1f} GiB", free_gib >= _LITTLE_SPACE_GIB)
    problems = store.problems()
    yield Check(
        "store", f"{format_count(len(store.run_ids()))}, {format_count(len(store.plans()), 'experiment')}", not problems
    )
    for problem in problems:
        yield Check("store", problem, False)


def _contents(store: ResultStore) -> Iterator[Check]:
    """A line for every run and checkpoint that is not what was written, and one that says how much was compared. Raises `StoreError`."""
    if not store.root.is_dir():
        raise StoreError(f"there is no folder {store.root.absolute()}; set runtime.results")
    count, ids = 0, store.run_ids()
    for run in map(store.run, ids):
        manifest = run.manifest() or {}
        count += layout.FILES in manifest
        faults = [run.fault()]
        faults += [seal.folder_fault(path) for _, path in run.checkpoints()]
        for fault in filter(None, faults):
            yield Check(f"run {run.run_id}", fault, False)
    for problem in store.problems():
        yield Check("store", problem, False)
    yield Check("store", f"{count} of {len(ids)} runs list their files, which were compared by their hashes", True)
