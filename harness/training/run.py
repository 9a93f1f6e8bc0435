"""One run from configuration to finished store entry, with the built-in trainer, and the record of what decides its numbers' last bits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import torch
import torch.utils.deterministic

from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.configuration.sections import RuntimeConfig
from harness.model.linear import onednn_available, resolve_kernel
from harness.model.packed_attention import attention_name
from harness.model.ranks import Ranks
from harness.model.system import processor
from harness.reward.grading import Grader
from harness.store import RunDir, layout
from harness.store.atomic import write_file
from harness.training.loop import train
from harness.training.run_parts import RunParts


def train_run(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Prepare the initial policy, train, evaluate; see `harness.backends`."""
    with (
        deterministic(config.runtime.deterministic),
        closing(Grader(config.verifier, config.runtime)) as grader,
    ):
        return _train_run(config, run, stop, attempt, grader)


def _train_run(
    config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int, grader: Grader
) -> bool:
    torch.set_num_threads(config.runtime.threads)
    ranks = Ranks.join()
    cache = run.path.parent.parent / "cache"
    phases = {"begin": time.time()}
    kernel = ranks.from_first(settle_kernel(config.runtime, run, attempt) if ranks.first else None)
    source = implementation("harness.base_policy", config.model)
    if ranks.first:
        run.say_phase(attempt, "preparing the base policy")
    # Rank 0 warms up or downloads; the others wait, and find it in the cache.
    initial = ranks.from_first(
        source.prepare(config.model, config.task, config.seed, cache, kernel) if ranks.first else None
    )
    phases["initial_policy_ready"] = time.time()
    with closing(RunParts(config, run, initial, kernel, grader, ranks)) as parts:
        phases["trainer_ready"] = time.time()
        complete = train(parts, stop, attempt)
    phases["end"] = time.time()
    if not ranks.first:
        return complete
    # For where the time goes (`tests/benchmarks/ladder_split.py`); nothing else reads it.
    write_file(layout.attempt_dir(run.path, attempt) / "phases.json", json.dumps(phases).encode())
    return complete


def settle_kernel(runtime: RuntimeConfig, run: RunDir, attempt: int) -> str:
    """The linear kernel of this attempt, recorded in its directory before anything is computed.

    A run that resumes from a checkpoint keeps the kernel it began with: the supervisor copies the record into the manifest's provenance.

    Raises:
        ConfigError: the configuration asks for another kernel than the run began with, or this machine lacks that one.
    """
    begun = _begun_with(run, attempt) if run.checkpoints() else None
    kernel = begun or resolve_kernel(runtime.linear_kernel)
    if runtime.linear_kernel not in ("auto", kernel):
        raise ConfigError(
            f"runtime.linear_kernel={runtime.linear_kernel}, but run {run.run_id} began with {kernel}: set it to auto to resume"
        )
    if kernel == "onednn" and not onednn_available():
        raise ConfigError(
            f"run {run.run_id} needs runtime.linear_kernel=onednn, which this torch has not: go on where it began"
        )
    record = {
        "linear_kernel": kernel,
        "threads": runtime.threads,
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "processor": processor().name,
        "packed_attention": attention_name(runtime.device),
    }
    path = layout.attempt_dir(run.path, attempt) / layout.NUMERICS
    write_file(path, json.dumps(record, indent=1).encode() + b"\n")
    return kernel


def _begun_with(run: RunDir, attempt: int) -> str | None:
    """The kernel of the newest earlier attempt that told it."""
    for number in range(attempt - 1, -1, -1):
        path = layout.attempt_dir(run.path, number) / layout.NUMERICS
        try:
            return str(json.loads(path.read_text())["linear_kernel"])
        except (FileNotFoundError, ValueError):  # it broke off before, or a power cut left the file empty
            continue
    return None


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Inside, torch takes algorithms that repeat their bits, and raises RuntimeError at one that has none (`wanted` False: nothing).

    A CPU with one thread needs nothing. On a GPU the backward of flash attention and of indexing adds in an order that changes from call
    to call.

    Must be entered before the first matrix product on a GPU: cuBLAS reads its workspace's size once.
    """
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    filled: bool = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    # Not a warning instead: torch's memory-efficient attention repeats its bits only where errors are wanted.
    torch.use_deterministic_algorithms(True)
    _fill(False)  # nothing here reads what was not written
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        _fill(filled)


def _fill(wanted: bool) -> None:
    torch.utils.deterministic.fill_uninitialized_memory = wanted  # type: ignore[attr-defined]
