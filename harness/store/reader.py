"""A results root: its runs, experiments and caches by name."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import atomic, layout
from harness.store.device import devices_of
from harness.store.errors import StoreError, write_errors
from harness.store.run import RunDir
from harness.store.schema import PLAN_VERSION, check_version, read_object

if TYPE_CHECKING:  # these load where a table is asked for: workers and most verbs ask for none, and they take as long as all the rest
    import pandas as pd


class ResultStore:
    """All runs and experiments under one root. Reading never writes; an absent root is an empty store."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def run(self, run_id: str) -> RunDir:
        """The directory of a run, whether or not it exists yet."""
        return RunDir(layout.run_dir(self.root, run_id))

    def run_ids(self) -> list[str]:
        """List the runs with a readable manifest, sorted; `problems()` tells of the rest."""
        return [run_id for run_id, entry in self._scan() if isinstance(entry, dict)]

    def problems(self) -> list[str]:
        """Say in a line each what readers skip: foreign files, newer schemas, unreadable manifests."""
        problems = [problem for _, problem in self._scan() if isinstance(problem, str)]
        for name in self._experiment_names():
            if not layout.is_safe(name):
                folder = layout.experiments_dir(self.root) / name
                problems.append(f"{folder} is not an experiment (no experiment can have this name); ignored")
                continue
            try:
                self.plan(name)
            except StoreError as error:
                problems.append(str(error))
        return problems

    def readable(self) -> list[dict[str, Any]]:
        """Read the manifests of the readable runs, sorted by run id."""
        return [entry for _, entry in self._scan() if isinstance(entry, dict)]

    def made_by(self, run_ids: Iterable[str]) -> pd.DataFrame:
        """Tabulate what made each run: run_id, code (hash of the sources, else commit and diff), packages (hash of all versions), device.

        Rows of a table whose values differ were not made by the same program. Empty strings where the manifest does not say.
        """
        import pandas as pd

        rows = []
        for run_id in run_ids:
            manifest = self.run(run_id).manifest() or {}
            provenance, device = manifest.get("provenance", {}), " and ".join(devices_of(manifest))
            commit = [provenance.get("git_commit"), provenance.get("git_dirty_hash")]
            code = provenance.get("code_hash") or "+".join(str(part) for part in commit if part)
            packages = json.dumps(provenance.get("packages", {}), sort_keys=True)
            digest = hashlib.sha256(packages.encode()).hexdigest()[:16] if packages != "{}" else ""
            rows.append({"run_id": run_id, "code": code, "packages": digest, "device": device})
        return pd.DataFrame.from_records(rows, columns=["run_id", "code", "packages", "device"])

    # -- experiments and caches ----------------------------------------------------------------------------

    def write_plan(self, name: str, plan: Mapping[str, Any]) -> None:
        """Publish the plan of an experiment, unless it says the same already; `schema_version` is filled in."""
        whole = {"schema_version": PLAN_VERSION, **plan}
        text = json.dumps(whole, indent=1, allow_nan=False).encode() + b"\n"
        path = layout.plan_file(self.root, name)
        if not path.exists() or path.read_bytes() != text:  # its date tells whether tables are older
            atomic.write_file(path, text)

    def plan(self, name: str) -> dict[str, Any]:
        """Read the plan of an experiment. Raises `StoreError` naming the file, and the plans there are."""
        if not layout.is_safe(name):
            raise StoreError(
                f"no experiment can be called {name!r} (plans here: {', '.join(self.plans()) or 'none'})"
            )
        path = layout.plan_file(self.root, name)
        plan = read_object(path, "delete it, then run the experiment again")
        if plan is None:
            known = ", ".join(self.plans()) or "none"
            raise StoreError(f"{path} does not exist (plans here: {known}); `harness run` writes it")
        check_version(plan.get("schema_version"), PLAN_VERSION, path)
        return plan

    def plans(self) -> list[str]:
        """List the experiments that have a plan, by name."""
        return [name for name in self._experiment_names() if layout.is_safe(name)]

    def cache_dir(self, name: str) -> Path:
        """Make and return `cache/<name>`, for what can be rebuilt."""
        path = layout.cache_dir(self.root, name)
        with write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def _experiment_names(self) -> list[str]:
        """The folders with a plan, whatever they are called."""
        plans = layout.experiments_dir(self.root).glob("*/plan.json")
        return sorted(path.parent.name for path in plans if not path.parent.name.startswith("."))

    def _scan(self) -> Iterator[tuple[str, dict[str, Any] | str]]:
        """(directory name, its manifest or what is wrong with it), sorted by name."""
        root = layout.runs_dir(self.root)
        names = sorted(os.listdir(root)) if root.is_dir() else []
        for name in names:
            if name.startswith("."):
                continue
            if layout.RUN_ID.fullmatch(name) is None:
                yield name, f"{root / name} is not a run (its name is not a run id); ignored"
                continue
            try:
                manifest = RunDir(root / name).manifest()
            except StoreError as error:
                yield name, str(error)
                continue
            if manifest is not None:
                yield name, manifest
            elif not RunDir(
                root / name
            ).unfinished_start():  # a start `harness run` takes over, or it gets its manifest soon
                problem = f"has no {layout.MANIFEST}, yet more than a start (foreign, or its manifest is gone); ignored"
                yield name, f"{root / name} {problem}"
