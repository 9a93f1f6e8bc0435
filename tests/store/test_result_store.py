"""The results root as data frames, and what it says of things that are not ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from stored_runs import about, created

from harness.configuration.error import ConfigError
from harness.experiment.planning import mean_spending
from harness.store import ResultStore, SchemaMismatch, StoreError

IDS = [f"{number:016x}" for number in range(3)]


@pytest.fixture
def store(tmp_path) -> ResultStore:
    store = ResultStore(tmp_path / "results")
    for seed, run_id in enumerate(IDS):
        run = store.run(run_id)
        created(run, "", about(seed=seed))
        for step in range(1, seed + 2):
            run.append_step({"step": step, "reward_mean": seed / 4})
    return store


def test_an_absent_store_is_empty_and_reading_does_not_make_it(tmp_path):
    store = ResultStore(tmp_path / "none")
    assert (store.run_ids(), store.problems(), store.plans()) == ([], [], [])
    assert not store.root.exists()


def test_foreign_and_newer_things_are_skipped_and_reported(store):
    runs = store.root / "runs"
    (runs / "notes.txt").write_text("mine")
    (runs / "old_results").mkdir()
    (runs / ".hidden.tmp").mkdir()
    (runs / ("f" * 16)).mkdir()
    (runs / ("f" * 16) / "model.bin").write_text("mine")
    for name, text in [
        ("e" * 16, '{"schema_version": 2}'),
        ("d" * 16, '{"schema'),
        ("c" * 16, '{"schema_version": 1, "run_id": "0000000000000000", "status": "finished"}'),
        ("b" * 16, '{"status": "finished"}'),
        ("9" * 16, "[" * 100_000),
        ("a" * 16, json.dumps({"schema_version": 1, "run_id": "a" * 16, "status": "finished"})),
    ]:
        (runs / name).mkdir()
        (runs / name / "manifest.json").write_text(text)
    assert store.run_ids() == IDS
    assert len(store.readable()) == 3
    problems = "\n".join(store.problems())
    assert len(store.problems()) == 9
    for reason in ("notes.txt is not a run", "old_results is not a run", "no manifest.json", "newer version"):
        assert reason in problems
    assert "is not JSON" in problems
    assert "is the manifest of run '0000000000000000'" in problems
    assert "has no schema_version" in problems
    assert "has no arm_id" in problems
    with pytest.raises(SchemaMismatch, match="written by a newer version of the harness"):
        store.run("e" * 16).manifest()


def test_plans_come_back_and_errors_name_the_file(store):
    store.write_plan("dapo_ladder", {"name": "dapo_ladder", "arms": []})
    assert store.plan("dapo_ladder") == {"schema_version": 1, "name": "dapo_ladder", "arms": []}
    shutil.copytree(store.root / "experiments/dapo_ladder", store.root / "experiments/renamed")
    assert store.plan("renamed")["name"] == "renamed"
    shutil.rmtree(store.root / "experiments/renamed")
    with pytest.raises(StoreError, match=r"none/plan\.json does not exist \(plans here: dapo_ladder\)"):
        store.plan("none")
    (store.root / "experiments/newer").mkdir()
    (store.root / "experiments/newer/plan.json").write_text('{"schema_version": 2}')
    assert store.plans() == ["dapo_ladder", "newer"]
    assert any("newer version" in problem for problem in store.problems())


def test_folders_that_can_be_no_experiment_are_foreign(store):
    store.write_plan("dapo", {"name": "dapo", "arms": []})
    folder = store.root / "experiments" / "dapo copy"
    folder.mkdir()
    (folder / "plan.json").write_text((store.root / "experiments/dapo/plan.json").read_text())
    assert store.plans() == ["dapo"]
    assert store.problems() == [f"{folder} is not an experiment (no experiment can have this name); ignored"]
    with pytest.raises(StoreError, match=r"no experiment can be called 'dapo copy' \(plans here: dapo\)"):
        store.plan("dapo copy")


def test_a_reference_that_spent_nothing_gives_no_budget(store):
    run_id = "9" * 16
    created(store.run(run_id), "", about())
    with pytest.raises(ConfigError, match=rf"{run_id} spent no tokens: raise training\.steps"):
        mean_spending(store, [run_id])


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="root may write anywhere")
def test_a_read_only_store_can_be_read_and_refuses_writes_by_name(store):
    code = """
import os, sys
from harness.store import ResultStore, StoreError, StoreReadOnly
from harness.store.reader import run_state
os.chdir(sys.argv[1])  # from here on no folder above is looked at: another pytest of this user may close them at any moment
store = ResultStore(".")
[store.run(name).steps() for name in store.run_ids()]  # imports all it needs while it may read the interpreter
if os.geteuid() == 0:
    os.setuid(65534)
assert [len(store.run(name).steps()) for name in store.run_ids()] == [1, 2, 3] and store.problems() == []
assert store.run(store.run_ids()[0]).claim_holder() is None
run = store.run(store.run_ids()[0])
try:
    store.run(store.run_ids()[1]).claim_holder()
except StoreError as error:
    assert "claim.lock is the lock of user " in str(error), error
else:
    raise AssertionError("read another user's lock")
assert run_state(store, store.run_ids()[1]).status == "finished"
for write in (run.lock, run.new_attempt, lambda: run.append_step({"step": 9}), lambda: store.cache_dir("x"),
              lambda: run.write_manifest(run.manifest()), lambda: store.write_plan("p", {})):
    try:
        write()
    except StoreReadOnly as error:
        assert "cannot write" in str(error) and "runtime.results" in str(error), error
    else:
        raise AssertionError("wrote to a read-only store")
"""
    others_lock = store.run(store.run_ids()[1]).path / "claim.lock"
    others_lock.touch()
    for path in [store.root, *store.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    others_lock.chmod(0)
    done = subprocess.run([sys.executable, "-c", code, str(store.root)], capture_output=True, text=True, check=False)
    for path in [store.root, *store.root.rglob("*")]:
        path.chmod(0o755)
    assert done.returncode == 0, done.stderr
