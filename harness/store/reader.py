"""A results root as data frames; experiments and caches by name."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.store import atomic, layout
from harness.store.device import devices_of
from harness.store.errors import StoreError, TornFile, write_errors
from harness.store.run import RunDir
from harness.store.schema import PLAN_VERSION, check_version

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
        """The runs with a readable manifest, sorted; `problems()` tells of the rest."""
        return [run_id for run_id, found in self._scan() if isinstance(found, dict)]

    def problems(self) -> list[str]:
        """One line for everything that readers skip: foreign files, newer schemas, unreadable manifests."""
        found = [problem for _, problem in self._scan() if isinstance(problem, str)]
        for name in self._experiment_names():
            if not layout.is_safe(name):
                folder = layout.experiments_dir(self.root) / name
                found.append(f"{folder} is not an experiment (no experiment can have this name); ignored")
                continue
            try:
                self.plan(name)
            except StoreError as error:
                found.append(str(error))
        return found

    def readable(self) -> list[dict[str, Any]]:
        """The manifests of the readable runs, sorted by run id."""
        return [found for _, found in self._scan() if isinstance(found, dict)]

    def manifests(self) -> pd.DataFrame:
        """One row per readable run, one column per manifest key (`labels`, `attempts`, ... as they are)."""
        import pandas as pd

        columns = ["run_id", "arm_id", "seed", "status", "labels", "attempts"]
        frame = pd.DataFrame.from_records(self.readable())
        return frame.reindex(columns=[*columns, *(name for name in frame.columns if name not in columns)])

    def made_by(self, run_ids: Iterable[str]) -> pd.DataFrame:
        """What made each run: columns run_id, code (hash of the sources, else commit and diff), packages (hash of all versions), device.

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

    def steps(self, run_ids: Iterable[str]) -> pd.DataFrame:
        """The metrics of several runs with `run_id` as first column; runs without steps have no rows."""
        import pandas as pd

        frames = []
        for run_id in run_ids:
            frame = self.run(run_id).steps()
            frame.insert(0, "run_id", run_id)
            frames.append(frame)
        filled = [frame for frame in frames if len(frame)]
        return pd.concat(filled or frames[:1] or [pd.DataFrame({"run_id": []})], ignore_index=True)

    def samples(
        self,
        run_ids: Iterable[str],
        benchmark: str,
        step: int | Literal["last"] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Graded samples of several runs, with `run_id` and `step` as first columns.

        Args:
            run_ids: the runs; those without such samples contribute no rows.
            benchmark: path-safe benchmark name.
            step: one step, `"last"` for the newest of each run, None for all.
            columns: columns of `sample_schema.SAMPLES` to read, None for all; leaving out `response` is much faster.
        """
        import pyarrow as pa

        from harness.store.sample_schema import SAMPLES

        tables = []
        for run_id in run_ids:
            run = self.run(run_id)
            found = run.sample_steps(benchmark)
            wanted = found[-1:] if step == "last" else [n for n in found if step is None or n == step]
            for number in wanted:
                table = run.sample_table(benchmark, number, columns)
                table = table.add_column(0, "run_id", pa.array([run_id] * len(table), pa.string()))
                tables.append(table.add_column(1, "step", pa.array([number] * len(table), pa.int64())))
        if not tables:
            names = list(SAMPLES.names if columns is None else columns)
            schema = pa.schema(
                [("run_id", pa.string()), ("step", pa.int64()), *(SAMPLES.field(n) for n in names)]
            )
            return schema.empty_table().to_pandas()
        return pa.concat_tables(tables).to_pandas()

    # -- experiments and caches ----------------------------------------------------------------------------

    def write_plan(self, name: str, plan: Mapping[str, Any]) -> None:
        """Publish the plan of an experiment, unless it says the same already; `schema_version` is filled in."""
        text = (
            json.dumps({"schema_version": PLAN_VERSION, **plan}, indent=1, allow_nan=False).encode() + b"\n"
        )
        path = layout.plan_file(self.root, name)
        if not path.exists() or path.read_bytes() != text:  # its date tells whether tables are older
            atomic.write_file(path, text)

    def plan(self, name: str) -> dict[str, Any]:
        """The plan of an experiment. Raises `StoreError` naming the file, and the plans there are."""
        if not layout.is_safe(name):
            raise StoreError(
                f"no experiment can be called {name!r} (plans here: {', '.join(self.plans()) or 'none'})"
            )
        path = layout.plan_file(self.root, name)
        try:
            plan = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            known = ", ".join(self.plans()) or "none"
            raise StoreError(
                f"{path} does not exist (plans here: {known}); `harness run` writes it"
            ) from error
        except ValueError as error:
            raise TornFile(f"{path} is not JSON ({error}); run the experiment again to rewrite it") from error
        if not isinstance(plan, dict):
            raise TornFile(f"{path} is not a JSON object; run the experiment again to rewrite it")
        check_version(plan.get("schema_version"), PLAN_VERSION, path)
        return plan

    def plans(self) -> list[str]:
        """The experiments that have a plan, by name."""
        return [name for name in self._experiment_names() if layout.is_safe(name)]

    def cache_dir(self, name: str) -> Path:
        """Make and return `cache/<name>`, for what can be rebuilt."""
        path = layout.cache_dir(self.root, name)
        with write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def _experiment_names(self) -> list[str]:
        """The folders with a plan, whatever they are called."""
        root = layout.experiments_dir(self.root)
        names = sorted(os.listdir(root)) if root.is_dir() else []
        return [name for name in names if not name.startswith(".") and (root / name / "plan.json").exists()]

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
            if manifest is None:
                if RunDir(root / name).unfinished_start():
                    continue  # `harness run` takes it over; whoever claims it now writes its manifest soon
                yield (
                    name,
                    f"{root / name} has no {layout.MANIFEST}, yet more than a start (foreign, or its manifest is gone); ignored",
                )
            else:
                yield name, manifest
