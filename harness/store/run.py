"""One run directory: configuration, manifest, metrics, samples, attempts and checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.store import atomic, layout, lease, metrics_log, seal
from harness.store.atomic import write_errors
from harness.store.error import StoreError, TornFile
from harness.store.layout import MANIFEST_VERSION, check_manifest, read_object

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_DEEPEST = 100  # levels of a configuration
_BEFORE_MANIFEST = (layout.CLAIM_LOCK, layout.CONFIG)


class RunDir:
    """The files of one run. Reading takes no lock; see `layout` for who may write what.

    Every method that writes raises `StoreFull` or `StoreReadOnly` when the file system refuses.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.run_id = self.path.name

    def exists(self) -> bool:
        return (self.path / layout.MANIFEST).exists()

    def write_config(self, config_yaml: str) -> None:
        path = self.path / layout.CONFIG
        if not path.exists() or path.read_bytes() != config_yaml.encode():
            atomic.write_file(path, config_yaml.encode())

    def config(self) -> str:
        """The text of `config.yaml`. Raises `TornFile` where it is gone."""
        path = self.path / layout.CONFIG
        try:
            return path.read_text()
        except (FileNotFoundError, UnicodeDecodeError) as error:
            state = "is missing" if isinstance(error, FileNotFoundError) else "is no text"
            raise TornFile(f"{path} {state}; put it back, or move the run's directory away and run it again") from error

    def settings(self) -> dict[str, Any]:
        """The content of `config.yaml`. Raises `TornFile` where that is no mapping."""
        loader, text = getattr(yaml, "CSafeLoader", yaml.SafeLoader), self.config()
        try:
            depth = 0
            for event in yaml.parse(text, Loader=loader):  # libyaml ends the process at some thousands of levels
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _DEEPEST:
                    raise ValueError(f"nested more than {_DEEPEST} levels deep")
            settings = yaml.load(text, Loader=loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            settings = " ".join(str(error).split())
        if not isinstance(settings, dict):
            raise TornFile(f"{self.path / layout.CONFIG} holds no settings ({str(settings)[:200]}); put it back")
        return settings

    def manifest(self) -> dict[str, Any] | None:
        """The manifest, or None if the run was never created. Raises `SchemaMismatch`, `TornFile`."""
        path = self.path / layout.MANIFEST
        manifest = read_object(path, "delete it to run this run again")
        if manifest is not None:
            check_manifest(manifest, self.run_id, path)
        return manifest

    def checked_manifest(self) -> dict[str, Any] | None:
        """The manifest for whoever counts what the files say, all of which are read. Raises as `manifest`.

        A finished run with a file that is not what it was is `layout.INCOMPLETE` here, and `error` names the file.
        """
        manifest = self.manifest()
        if manifest is None or manifest["status"] != "finished" or layout.FILES not in manifest:
            return manifest
        if fault := seal.file_fault(layout.report_files(self.path), manifest[layout.FILES]):
            text = f"{self.path} is not what it was when the run finished: {fault}; put the file back, or delete the folder and run "
            manifest |= {"status": layout.INCOMPLETE, "error": f"{text}the experiment again"}
        return manifest

    def fault(self) -> str:
        """Say why a run cannot be believed: its manifest cannot be read, or it finished and its files are not what they were."""
        try:
            manifest = self.checked_manifest()
        except StoreError as error:
            return str(error)
        if manifest is None:
            return self.without_manifest()
        return str(manifest["error"]) if manifest["status"] == layout.INCOMPLETE else ""

    def seal_manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest of a run that finishes now, with the files that it has, all of them on the disk."""
        atomic.sync_file(self.path / layout.METRICS_FILE)
        files = seal.seal_of(layout.report_files(self.path))
        return {**manifest, "status": "finished", layout.FILES: files}

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Publish the whole manifest; `schema_version`, `run_id`, `created_at`, `updated_at` are filled in.

        Only the holder of `lock()` may call this. Raises `SchemaMismatch` for an unknown status.
        """
        now = utc_now()
        full = {"schema_version": MANIFEST_VERSION, "run_id": self.run_id, "created_at": now, **manifest}
        full["updated_at"] = now
        path = self.path / layout.MANIFEST
        check_manifest(full, self.run_id, path)
        atomic.write_file(path, json.dumps(full, indent=1, allow_nan=False).encode() + b"\n")

    @property
    def status(self) -> str | None:
        """Of the manifest, None where there is none. One that cannot be read is `layout.UNREADABLE`, and `manifest` says why."""
        try:
            manifest = self.manifest()
        except StoreError:
            return layout.UNREADABLE
        return None if manifest is None else str(manifest["status"])

    def lock(self) -> lease.Lease:
        """Claim the run for this supervisor. Raises `RunClaimed` if another one lives (see `lease.acquire`)."""
        return lease.acquire(self.path / layout.CLAIM_LOCK)

    def claim_holder(self) -> lease.Holder | None:
        return lease.holder(self.path / layout.CLAIM_LOCK)

    def worker_lock(self, wait_seconds: float = 0.0) -> lease.Lease:
        """The lock a worker process holds for its whole life. Raises `RunClaimed`."""
        return lease.acquire(self.path / layout.WORKER_LOCK, wait_seconds=wait_seconds)

    def unfinished_start(self) -> bool:
        """True where a supervisor claims it just now, or died between its claim and the first manifest: nothing is computed in it."""
        # `.hydra/` is of the command, not of the run.
        files = (name for folder, _, names in os.walk(self.path) if Path(folder).name != ".hydra" for name in names)
        flags = (name in _BEFORE_MANIFEST or (name.startswith(".") and name.endswith(".tmp")) for name in files)
        return not self.exists() and all(flags)

    def without_manifest(self) -> str:
        """Say that a run has lost its manifest; nothing where it has one, or nothing is computed in it."""
        if self.exists() or not self.path.is_dir() or self.unfinished_start():
            return ""
        return f"{self.path} has no {layout.MANIFEST}, yet more than a start; ignored"

    def forget_start(self) -> None:
        """Delete an unfinished start of a dead supervisor, and nothing else. Only the holder of `lock()` may call this."""
        if self.unfinished_start():
            atomic.remove_leftovers(self.path)
            atomic.remove_directory(self.path / "attempts")

    def new_attempt(self, least: int = 0) -> Path:
        """Make the next `attempts/NNN`, number `least` or above. Only the holder of `lock()` may call this."""
        attempts = self.path / "attempts"
        with write_errors(attempts):
            atomic.make_folder(attempts)
            numbers = [int(entry.name) for entry in attempts.iterdir() if entry.name.isdigit()]
            path = attempts / f"{max([least - 1, *numbers]) + 1:03d}"
            path.mkdir()
        return path

    def newest_attempt(self) -> Path | None:
        return max(self.path.glob("attempts/[0-9]*"), default=None, key=lambda path: int(path.name))

    def say_phase(self, attempt: int, text: str) -> None:
        """Tell whoever watches what the attempt does now, in a few words. Nothing depends on it: what cannot be written is left out."""
        with contextlib.suppress(OSError):
            (layout.attempt_dir(self.path, attempt) / layout.PHASE).write_text(text, encoding="utf-8")

    def phase(self, attempt: int) -> str:
        """Read what an attempt said last, nothing where it said nothing yet. Cheap."""
        try:
            return (layout.attempt_dir(self.path, attempt) / layout.PHASE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def append_step(self, row: Mapping[str, Any]) -> None:
        """Append one step to `metrics.jsonl`; visible to readers at once. One writer at a time."""
        metrics_log.append(self.path / layout.METRICS_FILE, row)

    def steps(self) -> pd.DataFrame:
        return metrics_log.read_steps(self.path / layout.METRICS_FILE)

    def rewind(self, step: int) -> None:
        """Forget all that lies beyond `step`, the checkpoint that an attempt starts from: it belongs to a policy that is gone.

        The new attempt makes its own, the same ones where a run is deterministic. Only the worker, under its lock, may call this.
        """
        for directory in (self.path / "checkpoints", *(self.path / "samples").glob("*")):
            for path_step, path in _step_dirs(directory):
                if path_step > step:
                    atomic.remove_directory(path)
        metrics_log.rewind(self.path / layout.METRICS_FILE, step)

    def last_step(self) -> dict[str, Any] | None:
        """The newest row of `metrics.jsonl` as written (null is None), None before the first step. Cheap."""
        return metrics_log.last_step(self.path / layout.METRICS_FILE)

    def write_samples(
        self, benchmark: str, benchmark_version: int, step: int, table: pa.Table | pd.DataFrame, part: str = "000"
    ) -> None:
        """Publish one part of graded samples with the columns of `samples.SAMPLES`; replaces the same part."""
        from harness.store import samples

        directory = layout.samples_dir(self.path, benchmark, step)
        metadata = {"run_id": self.run_id, "benchmark": benchmark}
        metadata |= {"benchmark_version": str(benchmark_version), "step": str(step)}
        samples.write_part(directory / f"part-{layout.safe_name(part, 'part')}.parquet", table, metadata)

    def samples(self, benchmark: str, step: int, columns: Sequence[str] | None = None) -> pd.DataFrame:
        return self.sample_table(benchmark, step, columns).to_pandas()

    def sample_table(
        self, benchmark: str, step: int, columns: Sequence[str] | None = None, *, coded: bool = False
    ) -> pa.Table:
        """The same as an Arrow table: pandas takes longer to load than a few runs to read. `coded`: text as dictionaries."""
        from harness.store import samples

        return samples.read_parts(layout.samples_dir(self.path, benchmark, step), columns, coded=coded)

    def accuracies(self, benchmark: str, step: int) -> dict[int, float]:
        """avg@n by response cap, ascending, as a fraction of 1."""
        from pyarrow import compute  # counts, since grouping, and columns as NumPy, would load pandas

        table = self.sample_table(benchmark, step, ("max_response_tokens", "correct"))
        caps, right = table.itercolumns()
        samples, correct = (
            {row["values"]: row["counts"] for row in column.value_counts().to_pylist()}
            for column in (caps, compute.filter(caps, right))
        )
        return {int(cap): correct.get(cap, 0) / samples[cap] for cap in sorted(samples)}

    def sample_steps(self, benchmark: str) -> list[int]:
        steps = _step_dirs(self.path / "samples" / benchmark)
        return [step for step, path in steps if layout.part_paths(path)]

    def last_evaluation(self, benchmark: str) -> int:
        """The step of its last evaluation on a benchmark. Raises `StoreError`: none, not of its last step, or a file is broken."""
        steps, last = self.sample_steps(benchmark), self.last_step()
        if fault := self.fault():
            raise StoreError(fault)
        if not steps:
            raise StoreError(f"{self.path} was never evaluated on {benchmark}")
        due_step = int(last["step"]) if last and self.status == "finished" else 0
        if steps[-1] < due_step:
            raise StoreError(f"{self.path} lacks its evaluation of step {due_step} on {benchmark}; name @{steps[-1]}")
        return steps[-1]

    def benchmarks(self) -> list[str]:
        root = self.path / "samples"
        names = [] if not root.is_dir() else [entry.name for entry in root.iterdir() if entry.is_dir()]
        return sorted(name for name in names if layout.is_safe(name) and self.sample_steps(name))

    def publish_checkpoint(self, step: int, write: Callable[[Path], None], keep: int | None = None) -> Path:
        """Publish what `write(directory)` writes as the checkpoint of `step`, sealed; keep only the newest `keep`.

        The metrics up to here are flushed to the disk first, so a checkpoint never outlives its metrics.
        """
        atomic.sync_file(self.path / layout.METRICS_FILE)
        path = self.path / "checkpoints" / layout.step_name(step)
        atomic.publish_directory(path, seal.add_seal(write))
        if keep is not None:
            for _, old_path in self.checkpoints()[: -max(keep, 1)]:
                atomic.remove_directory(old_path)
        return path

    def checkpoints(self) -> list[tuple[int, Path]]:
        return _step_dirs(self.path / "checkpoints")

    def resume_step(self) -> int:
        """The step that the run would go on from, -1 for the beginning: of its checkpoints, or of verl's, which lie apart until its end."""
        steps = [step for step, _ in self.checkpoints()]
        return max([verl_step(self.path / "verl" / "checkpoints") or -1, *steps])

    def newest_checkpoint(self) -> tuple[Path | None, list[str]]:
        """Return the newest checkpoint that is what was written, None where there is none, and what is wrong with newer ones."""
        faults: list[str] = []
        for _, path in reversed(self.checkpoints()):
            if not (fault := seal.folder_fault(path)):
                return path, faults
            faults.append(fault)
        return None, faults

    def remove_leftovers(self) -> None:
        """Delete half-written files of dead writers. Only the worker, under its lock, may call this."""
        samples = self.path / "samples"
        for directory in (self.path / "checkpoints", *samples.glob("*"), *samples.glob("*/*")):
            atomic.remove_leftovers(directory)


def utc_now() -> str:
    """The time in UTC as ISO 8601, for people to read; nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _step_dirs(directory: Path) -> list[tuple[int, Path]]:
    if not directory.is_dir():
        return []
    steps = ((layout.parse_step(entry.name), entry) for entry in directory.iterdir())
    return sorted((step, entry) for step, entry in steps if step is not None)


def verl_step(checkpoints: Path) -> int:
    """The step that verl resumes from (`trainer.resume_mode=auto`), 0 for the beginning."""
    tracker = checkpoints / "latest_checkpointed_iteration.txt"
    text = tracker.read_text().strip() if tracker.exists() else ""
    step = int(text) if text.isdigit() else 0
    return step if (checkpoints / f"global_step_{step}").is_dir() else 0
