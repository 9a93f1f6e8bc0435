"""The record of one attempt at a run: claim, manifest, attempt directory. No processes here."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.execution.provenance import device_name
from harness.execution.supervise.outcome import classify, describe_failure
from harness.store import Lease, RunDir, layout
from harness.store.atomic import write_file
from harness.store.run import utc_now


class Runnable(Protocol):
    """A run as the supervisor needs to know it; `harness.experiment.planning.RunSpec` is one."""

    @property
    def run_id(self) -> str: ...
    @property
    def arm_id(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def config_yaml(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


class Attempt:
    """A claimed run. The claim is held from `begin` until `end` (or the death of this process)."""

    def __init__(
        self, spec: Runnable, run: RunDir, lease: Lease, manifest: dict[str, Any], path: Path
    ) -> None:
        self.spec, self.run, self.path = spec, run, path
        self._lease, self._manifest = lease, manifest

    @classmethod
    def begin(
        cls,
        spec: Runnable,
        run: RunDir,
        *,
        identity_version: int,
        provenance: Mapping[str, Any],
        environment: Mapping[str, str],
    ) -> Attempt | None:
        """Claim `spec` and record a new attempt; None if the run is finished.

        An attempt without an outcome belongs to a supervisor that died: it is marked "lost". One that died before it wrote a manifest
        has computed nothing: its start is made again.

        Raises:
            RunClaimed: a living supervisor has it.
            StoreError: the run cannot be read or written.
        """
        lease = run.lock()
        try:
            run.forget_stop()
            manifest = run.manifest()
            if manifest is None:
                run.forget_start()
                manifest = {"created_at": utc_now(), "attempts": []}
            if manifest.get("status") == "finished":
                lease.release()
                return None
            for attempt in manifest["attempts"]:
                attempt["outcome"] = attempt["outcome"] or "lost"
            path = run.new_attempt()
            manifest |= {
                "identity_version": identity_version,
                "arm_id": spec.arm_id,
                "seed": spec.seed,
                "status": "claimed",
                "labels": dict(spec.labels),
                "provenance": dict(provenance),
                "error": None,
            }
            manifest["attempts"].append(_new_record(int(path.name), environment))
            run.write_config(spec.config_yaml)
            record = _environment_record(provenance, environment)
            write_file(path / layout.ENVIRONMENT, record, durable=False)
            run.write_manifest(manifest)
        except BaseException:
            lease.release()
            raise
        return cls(spec, run, lease, manifest, path)

    def started(self, pid: int) -> None:
        """Record that worker `pid` runs."""
        self._manifest["attempts"][-1]["pid"] = pid
        self._write("running")

    def end(self, code: int, *, stopping: bool, note: str = "") -> str:
        """Record the end, free the claim, and return the outcome: finished, failed or interrupted."""
        outcome = classify(code, stopping=stopping)
        if outcome == "failed":
            self._manifest["error"] = note or describe_failure(code, self.path / layout.STDERR)
        numerics = self.path / layout.NUMERICS
        if numerics.exists():  # the worker chose, so the worker says
            self._manifest["provenance"]["numerics"] = json.loads(numerics.read_text())
        self._manifest["attempts"][-1] |= {"ended_at": utc_now(), "outcome": outcome, "exit_code": code}
        self._write(outcome)
        self._lease.release()
        return outcome

    def abandon(self) -> None:
        """Free the claim without a record: the next supervisor sees a lost attempt and resumes it."""
        self._lease.release()

    @property
    def error(self) -> str:
        """The reason why the attempt failed, empty if it did not."""
        return self._manifest["error"] or ""

    def _write(self, status: str) -> None:
        self._manifest["status"] = status
        self.run.write_manifest(self._manifest)


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


def _environment_record(provenance: Mapping[str, Any], environment: Mapping[str, str]) -> bytes:
    record = {
        "host": socket.gethostname(),
        "supervisor_pid": os.getpid(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "environment": dict(environment),
        "provenance": dict(provenance),
    }
    return json.dumps(record, indent=1).encode() + b"\n"
