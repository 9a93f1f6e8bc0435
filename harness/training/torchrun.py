"""One run on several processes of this machine, started by `torchrun`, and child processes of a worker: none outlives it.

`python -m harness.training.torchrun RUN_DIRECTORY ATTEMPT` is one of its ranks.
"""

import contextlib
import ctypes
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.configuration.sections import RuntimeConfig
from harness.store import RunDir, StoreError, StoreFull, StoreReadOnly
from harness.store.atomic import FULL, write_file
from harness.store.layout import attempt_dir

STOP, RESULT, ERROR = "stop-ranks", "ranks.json", "rank-error.json"
_POLL_SECONDS = 0.5


class RankFailed(RuntimeError):
    """A rank of the run ended with an error; the message is that rank's."""


# What the worker raises for a rank's error: it decides whether another attempt follows, and whether the sweep goes on.
_KINDS: dict[str, type[Exception]] = {"disk": StoreFull, "refused": ConfigError, "failed": RankFailed}


def wanted_ranks(runtime: RuntimeConfig) -> int:
    """Number of processes: `runtime.ranks`, by default one for each GPU of the run, and one on a CPU."""
    if runtime.ranks:
        return runtime.ranks
    return runtime.gpus_per_run if runtime.device == "cuda" else 1


def distributed(runtime: RuntimeConfig) -> bool:
    return wanted_ranks(runtime) > 1


def refused_places(runtime: RuntimeConfig) -> Iterator[str]:
    """Where a run cannot be trained by processes that this module starts."""
    for name in ("gpus_per_run", "runs_per_gpu"):
        if runtime.device != "cuda" and getattr(runtime, name) > 1:
            value = f"runtime.{name}={getattr(runtime, name)}"
            yield f"{value} with runtime.device={runtime.device}, which trains on the CPU; add runtime.device=cuda"
    if runtime.device == "cuda" and runtime.ranks > runtime.gpus_per_run:
        yield f"runtime.ranks={runtime.ranks} with runtime.gpus_per_run={runtime.gpus_per_run}: a GPU takes one process"
    if runtime.nodes > 1:
        yield f"runtime.nodes={runtime.nodes}: this backend trains a run on one node; use backend=verl for more"


def train_by(trainer: str, config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Train by the `train_run` of a module, in this process or on the ranks that the run asks for; see `harness.backends`."""
    if distributed(config.runtime):
        return train_on_ranks(config.runtime, run, stop, attempt)
    complete: bool = importlib.import_module(trainer).train_run(config, run, stop, attempt)
    return complete


def train_on_ranks(runtime: RuntimeConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """Train `run` under torchrun; see `harness.backends`. A request to stop reaches the ranks as a file.

    Raises what a rank raised, by kind: `StoreFull`, `ConfigError`, else `RankFailed`.
    """
    folder = attempt_dir(run.path, attempt)
    for name in (STOP, RESULT, ERROR):
        (folder / name).unlink(missing_ok=True)
    child = Child(torchrun_command(runtime, run.path, attempt))
    try:
        while child.wait(_POLL_SECONDS):
            if stop() and not (folder / STOP).exists():
                (folder / STOP).touch()
    finally:
        child.stop()
    if (folder / RESULT).exists():  # all ranks were done: a process that dies after that undoes nothing
        return bool(json.loads((folder / RESULT).read_text())["complete"])
    if not (folder / ERROR).exists():
        text = f"torchrun ended with code {child.code}: a rank was killed (often for memory); its report above names it"
        record_error(folder, RankFailed(), text)  # raises StoreFull where a full disk kept the ranks from it
    error = json.loads((folder / ERROR).read_text())
    raise _KINDS[error["kind"]](error["text"])


def record_error(folder: Path, error: BaseException, text: str) -> None:
    """Leave a rank's error in the attempt's folder, in words and by its kind."""
    kind = "failed"
    if isinstance(error, StoreError | ConfigError):
        kind = "disk" if isinstance(error, StoreFull | StoreReadOnly) else "refused"
    elif isinstance(error, OSError) and error.errno in FULL:
        kind = "disk"
    write_file(folder / ERROR, json.dumps({"kind": kind, "text": text}).encode())


def torchrun_command(runtime: RuntimeConfig, run: Path, attempt: int) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher.append(f"--nproc-per-node={wanted_ranks(runtime)}")
    return [*launcher, "-m", "harness.training.torchrun", str(run), str(attempt)]


def main(run_path: Path, attempt: int) -> int:
    """Train as this rank; rank 0 leaves the result once all are through, the first rank that fails its error.

    Ranks end together: none leaves its groups before the result is written. One that fails leaves at once, since the others may
    wait for it in an operation that it will not join.
    """
    # torchrun gives ranks a session of their own, where the supervisor's signals do not reach.
    die_with(os.getppid())
    from harness.configuration.registry import BACKEND, implementation
    from harness.configuration.schema import load
    from harness.model.ranks import Ranks, close_groups

    run = RunDir(run_path)
    folder = attempt_dir(run.path, attempt)
    try:
        config = load(run.settings())
        trainer = importlib.import_module(implementation(BACKEND, config.backend).TRAINER)
        complete = trainer.train_run(config, run, (folder / STOP).exists, attempt)
        ranks = Ranks.join()
        ranks.gather(None)  # all are through
        if ranks.first:
            write_file(folder / RESULT, json.dumps({"complete": complete}).encode())
        ranks.from_first(None)  # it is written
        close_groups()
    except BaseException as error:  # torch's CheckpointException is no Exception
        traceback.print_exc()
        if not (folder / ERROR).exists():
            with contextlib.suppress(StoreError):
                text = f"rank {os.environ.get('RANK', '0')}: {type(error).__name__}: {error}"
                record_error(folder, error, text)
        return 1
    return 0


_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 60.0


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when `parent` ends (Linux; elsewhere nothing does)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it ended before the call; here `number` may be handled or ignored
            os.kill(os.getpid(), signal.SIGKILL)


class Child:
    """A started process with a session of its own. When this process ends, however it ends, the child gets the signal `death`.

    Without `environment` and `log` the child has the environment and the output of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        *,
        death: int = signal.SIGKILL,
        pass_fds: Collection[int] = (),
    ) -> None:
        with log.open("ab") if log else contextlib.nullcontext() as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                pass_fds=pass_fds,
                preexec_fn=functools.partial(_prepare, os.getpid(), death),
            )

    @property
    def code(self) -> int | None:
        """The exit code, negative for the signal that ended it; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> bool:
        """Wait for its end at most so long; returns whether it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.code is None

    def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """SIGTERM to its group, and SIGKILL to what is left of it after the grace time."""
        self._signal(signal.SIGTERM)
        self.wait(grace_seconds)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _prepare(parent: int, death: int) -> None:
    """Run in the child before its program."""
    die_with(parent, death)
    # Slurm warns every process of a step of its time limit; a child stops when it is asked to.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of torch's libraries can live on; destroying them with the interpreter aborts the process now and then.
    os._exit(code)
