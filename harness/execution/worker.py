"""The worker: one process, one run. Started by the supervisor with a run directory that holds `config.yaml`.

Heavy imports stand at the top on purpose: the supervisor's fork server imports this module once, and every run starts from there.
"""

import os
import signal
import threading
from pathlib import Path

import pandas  # noqa: F401 (pyarrow imports it when it makes its first array)
import pyarrow.dataset  # noqa: F401 (and this, with `compute`, when it reads a file)
from transformers import AutoConfig, AutoTokenizer  # noqa: F401 (with torch's compiler, which its optimisers import)

import harness.training.loop  # noqa: F401
from harness.configuration.registry import implementation
from harness.configuration.schema import load
from harness.execution.exit_codes import EXIT_INTERRUPTED
from harness.store import RunDir


def main(run_path: Path) -> int:
    """Train and evaluate the run with the backend it names; returns the process's exit code.

    SIGTERM, SIGUSR1 and SIGUSR2 (Slurm's pre-emption) end the step early, write a checkpoint and return `EXIT_INTERRUPTED`.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    run = RunDir(run_path)
    newest = run.newest_attempt()  # the supervisor has made it for this process
    attempt = int(newest.name) if newest else 0
    config = load(run.settings())
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: stopping.set())
    backend = implementation("harness.backends", config.backend)
    return 0 if backend.train(config, run, stopping.is_set, attempt) else EXIT_INTERRUPTED
