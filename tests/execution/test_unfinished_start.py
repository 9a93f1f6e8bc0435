"""A supervisor that dies between its claim and the first manifest has computed nothing: the next one begins where it began."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from sweep_support import spec

from harness.execution.attempt import Attempt
from harness.store import ResultStore, RunDir, layout

RECORD = {"provenance": {}, "environment": {}}
DEATHS = ("claim", "attempt", "configuration", "environment", "manifest")


def die_in(death: str, root: Path) -> None:
    """Begin an attempt and end without any cleaning up, before (manifest: within) one of its writes."""
    if death == "claim":
        RunDir.manifest = lambda self: os._exit(9)
    elif death == "attempt":
        RunDir.write_config = lambda self, text: os._exit(9)
    else:
        name = {
            "configuration": layout.CONFIG,
            "environment": layout.ENVIRONMENT,
            "manifest": layout.MANIFEST,
        }[death]
        replace = os.replace
        os.replace = lambda old, new: os._exit(9) if Path(new).name == name else replace(old, new)
    Attempt.begin(spec(0), ResultStore(root).run(spec(0).run_id), **RECORD)
    os._exit(1)


def die(death: str, root: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=die_in, args=(death, root))
    child.start()
    child.join()
    assert child.exitcode == 9


@pytest.mark.parametrize("death", DEATHS)
def test_an_unfinished_start_is_no_problem_and_is_taken_over(tmp_path, death):
    store = ResultStore(tmp_path)
    run = store.run(spec(0).run_id)
    die(death, tmp_path)
    assert run.path.exists()
    (run.path / ".hydra").mkdir()
    (run.path / ".hydra" / "overrides.yaml").touch()  # Hydra writes it before the run is claimed
    assert (run.unfinished_start(), run.exists(), store.problems(), store.run_ids()) == (True, False, [], [])
    die(death, tmp_path)  # and once more
    attempt = Attempt.begin(spec(0), run, **RECORD)
    assert attempt is not None
    attempt.end(0, stopping=False)
    assert [path.name for path in (run.path / "attempts").iterdir()] == ["000"]
    assert [record["index"] for record in run.manifest()["attempts"]] == [0]
    assert not list(run.path.rglob("*.tmp"))
    assert (store.run_ids(), store.problems()) == ([run.run_id], [])


@pytest.mark.parametrize(
    "file",
    ["notes.txt", "metrics.jsonl", "attempts/000/stdout.log", "samples/b/step-000000/part-000.parquet"],
)
def test_a_directory_with_anything_else_is_told_and_left_alone(tmp_path, file):
    store = ResultStore(tmp_path)
    run = store.run(spec(0).run_id)
    die("manifest", tmp_path)
    mine = run.path / file
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    (problem,) = store.problems()
    assert "has no manifest.json" in problem
    attempt = Attempt.begin(spec(0), run, **RECORD)
    assert attempt is not None
    attempt.abandon()
    assert mine.read_text() == "mine"
