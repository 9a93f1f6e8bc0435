"""Results that travel: an experiment as one file, and results of several roots in one."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from commands_support import EXPERIMENT, finish, plan

from harness.commands.merge import merge
from harness.store import ResultStore, RunDir, StoreError
from harness.store.layout import MANIFEST, report_files
from harness.store.pack import open_root, write_pack
from harness.store.seal import SEAL
from harness.tracking._feed import mark_sent

NAME = EXPERIMENT.partition("=")[2]
FEW_ARMS = 'experiment.grid=["optimizer.learning_rate=1e-4,2e-4,4e-4"]'
ARMS = 3


def grid(store: ResultStore, seeds: str, *, finished: bool = True):
    """The grid with these seeds as planned, its runs stored, each with an accuracy of its own."""
    planned = plan(store, f"experiment.seeds={seeds}", FEW_ARMS)
    store.write_plan(NAME, planned.record())
    for number, spec in enumerate(planned.specs):
        finish(store, spec, 0.4 + 0.01 * (number % 20), "finished" if finished else "interrupted")
    return planned


def packed(store: ResultStore, out: Path, **more: bool) -> Path:
    write_pack(store, NAME, str(out), **more)
    return out


def names(pack: Path) -> list[str]:
    with tarfile.open(pack) as archive:
        return archive.getnames()


def same(ours: ResultStore, theirs: ResultStore, run_id: str) -> bool:
    here, there = ours.run(run_id).path, theirs.run(run_id).path
    files = [*report_files(there), MANIFEST]
    return len(files) == 4 and all((here / name).read_bytes() == (there / name).read_bytes() for name in files)


@pytest.fixture
def other(tmp_path):
    return ResultStore(tmp_path / "other")


def test_a_pack_holds_what_a_report_reads_and_its_bytes_follow_from_that_alone(store, tmp_path, said):
    planned = grid(store, "[0]")
    run = store.run(planned.specs[0].run_id)
    (run.path / "rollouts.jsonl").write_text("{}")
    attempt = run.new_attempt()
    (attempt / "stdout.log").write_text("x")
    (attempt / "numerics.json").write_text("{}")
    first = packed(store, tmp_path / "first")
    copy = shutil.copytree(store.root, tmp_path / "copy")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert packed(ResultStore(copy), tmp_path / "second").read_bytes() == first.read_bytes()
    own = {
        "config.yaml",
        "manifest.json",
        "metrics.jsonl",
        "samples/arithmetic_heldout/step-000060/part-000.parquet",
    }
    runs = {f"runs/{spec.run_id}/{name}" for spec in planned.specs for name in own}
    assert names(first) == sorted([f"experiments/{NAME}/plan.json", *runs])
    out = tmp_path / "third"
    told = said("pack", EXPERIMENT, f"out={out}", "checkpoints=true", f"runtime.results={store.root}")
    assert f"{ARMS} finished runs of {ARMS}" in told
    checkpoints = {
        f"runs/{spec.run_id}/checkpoints/step-000060/{name}" for spec in planned.specs for name in ("state", SEAL)
    }
    numerics = f"runs/{run.run_id}/attempts/000/numerics.json"
    assert set(names(out)) - set(names(first)) == {numerics, *checkpoints}
    with open_root(str(out)) as root:
        assert (root / numerics).exists()


def test_a_report_of_a_pack_is_the_report_of_the_store(store, tmp_path, said, monkeypatch):
    grid(store, "[0,1]")
    pack = packed(store, tmp_path / "pack.tar.xz")
    monkeypatch.chdir(tmp_path)
    here = said("report", EXPERIMENT, "only=tables", f"out={tmp_path / 'here'}", f"runtime.results={store.root}")
    there = said("report", f"pack={pack}", "only=tables")
    assert here.partition("written:")[0] == there.partition("written:")[0]
    written = sorted(path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*.*"))
    assert len(written) > 3
    assert all((tmp_path / "here" / name).read_bytes() == (tmp_path / NAME / name).read_bytes() for name in written)
    assert "results root of its own" in said("report", f"pack={pack}", EXPERIMENT, code=2)


def test_seeds_of_two_machines_become_one_experiment(store, other, tmp_path, said):
    second = grid(other, "[1,2]")
    grid(store, "[0,2]")
    shutil.rmtree(store.root / "runs")  # seed 2 was asked for in both places and computed in one
    first = ResultStore(tmp_path / "first")
    specs = grid(first, "[0]").specs
    (first.root / "evaluations").mkdir()
    for root in (store, other, first):  # a claim says where its seeds start
        root.write_plan(
            NAME, (was := root.plan(NAME)) | {"starts": {str(seed): f"base/{seed}" for seed in was["seeds"]}}
        )
    told = said("merge", str(first.root), str(packed(other, tmp_path / "pack")), f"runtime.results={store.root}")
    assert f"pack: {2 * ARMS} new runs, 0 that were here" in told
    assert f"{first.root / 'evaluations'} stays there" in told
    assert all(same(store, first, spec.run_id) for spec in specs)
    assert all(same(store, other, spec.run_id) for spec in second.specs)
    joined, whole = store.plan(NAME), plan(store, "experiment.seeds=[0,1,2]", FEW_ARMS).record()
    assert joined["starts"] == {"0": "base/0", "1": "base/1", "2": "base/2"}
    assert (joined["seeds"], joined["arms"]) == (whole["seeds"], json.loads(json.dumps(whole["arms"])))
    again = said("merge", str(first.root), str(tmp_path / "pack"), f"runtime.results={store.root}")
    assert f"first: 0 new runs, {ARMS} that were here" in again
    assert store.plan(NAME) == joined


def test_what_finished_differently_is_named_and_stays_while_the_rest_is_merged(store, other, said):
    planned, (changed, *rest) = grid(store, "[0]"), grid(other, "[0]").specs
    shutil.rmtree(store.run(rest[0].run_id).path)
    before = store.run(changed.run_id).path / "metrics.jsonl"
    kept = before.read_bytes()
    metrics = other.run(changed.run_id).path / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace("1000", "1001"))
    for spec in planned.specs[2:]:  # the same results at other times, after an interruption
        again = other.run(spec.run_id).path / "metrics.jsonl"
        again.write_text(again.read_text().replace('"seconds_total": 90.0', '"attempt": 1, "seconds_total": 91.0'))
    told = said("merge", str(other.root), f"runtime.results={store.root}", code=1)
    assert f"1 new run, {ARMS - 2} that were here" in told
    assert f"run {changed.run_id} finished in both places with different results; the one here stays" in told
    assert before.read_bytes() == kept
    assert same(store, other, rest[0].run_id)


@pytest.mark.parametrize("here", [True, False])
def test_the_finished_run_wins_then_the_one_that_can_go_on_from_further(store, other, here):
    specs = grid(store, "[0]", finished=False).specs
    done, further, live = (spec.run_id for spec in specs[:3])
    grid(other, "[0]", finished=False)
    winner, loser = (store, other) if here else (other, store)
    shutil.rmtree(winner.run(done).path)
    finish(winner, specs[0])
    loser.run(further).append_step({"step": 61})  # more steps, yet no checkpoint to go on from
    shutil.rmtree(loser.run(further).path / "checkpoints")
    shutil.rmtree(store.run(live).path / "checkpoints")
    with store.run(live).lock():
        found = merge(store, other.root)
    assert store.run(done).status == "finished"
    assert [step for step, _ in store.run(further).checkpoints()] == [60]
    assert [line for line in found.conflicts if live in line]  # somebody works on it here
    assert store.run(live).checkpoints() == []
    assert {f"run {run_id}: {'kept' if here else 'taken'}" for run_id in (done, further)} <= {
        line.partition(",")[0] for line in found.notes
    }


def test_a_run_that_finishes_during_a_merge_is_not_replaced(store, other, monkeypatch):
    """It is looked at again under its lock: between the first look and the lock its supervisor may have ended it."""
    spec = grid(store, "[0]", finished=False).specs[0]
    grid(other, "[0]", finished=False)
    shutil.rmtree(store.run(spec.run_id).path / "checkpoints")  # the other one is further
    lock = RunDir.lock

    def lock_late(run):
        if run.path == store.run(spec.run_id).path:
            run.write_manifest({**run.manifest(), "status": "finished"})
        return lock(run)

    monkeypatch.setattr(RunDir, "lock", lock_late)
    merged = merge(store, other.root)
    assert store.run(spec.run_id).status == "finished"
    assert f"run {spec.run_id}: kept, finished" in " ".join(merged.notes)


@pytest.mark.parametrize(
    ("name", "before", "after"), [("config.yaml", "seed: 0", "seed: 1"), ("metrics.jsonl", "1000", "1001")]
)
def test_a_whole_copy_takes_the_place_of_a_finished_run_whose_content_changed(store, other, name, before, after):
    run = other.run(grid(other, "[0]").specs[0].run_id)
    run.write_manifest(run.seal_manifest(run.manifest()))
    shutil.copytree(other.root, store.root)
    path = store.run(run.run_id).path / name
    path.write_text(path.read_text().replace(before, after, 1))
    merged = merge(store, other.root)
    assert merged.notes == [f"run {run.run_id}: taken, finished (here: finished, a file is gone or changed)"]
    assert same(store, other, run.run_id)


def test_links_and_locks_of_a_folder_stay_behind(store, other, tmp_path):
    run = other.run(grid(other, "[0]").specs[0].run_id)
    (tmp_path / "secret").write_text("s")
    (run.path / "attempts").mkdir()
    (run.path / "attempts" / "link").symlink_to(tmp_path / "secret")
    run.lock().release()
    mark_sent(run, "wandb", 60, "this machine's project")
    merge(store, other.root)
    assert sorted(path.name for path in store.run(run.run_id).path.iterdir()) == sorted(
        {path.name for path in run.path.iterdir()} - {"claim.lock", "tracking"}
    )
    assert list(store.run(run.run_id).path.glob("attempts/*")) == []


@pytest.mark.parametrize("why", ["link", "end"])
def test_a_copy_that_is_not_whole_is_not_taken(store, other, tmp_path, said, monkeypatch, why):
    """Samples lie behind a link, or the run ends while it is copied: its manifest lists what was not there yet."""
    run = other.run(grid(other, "[0]", finished=why == "link").specs[0].run_id)
    if why == "link":
        shutil.move(run.path / "samples", tmp_path / "elsewhere")
        (run.path / "samples").symlink_to(tmp_path / "elsewhere")
    copytree = shutil.copytree

    def copy(source: Path, target: Path, *settings, **options) -> None:
        copytree(source, target, *settings, **options)
        if why == "end" and source == run.path:
            ended = {**run.manifest(), "status": "finished", "files": {"samples/late/part-000.parquet": [1, "x"]}}
            (target / MANIFEST).write_text(json.dumps(ended))

    monkeypatch.setattr(shutil, "copytree", copy)
    told = said("merge", str(other.root), f"runtime.results={store.root}", code=1)
    assert f"{ARMS - 1} new runs" in told
    assert f"run {run.run_id}: not taken, for its copy is not whole (" in told
    assert "part-000.parquet is missing" in told
    assert not store.run(run.run_id).path.exists()


@pytest.mark.parametrize("kind", ["torn", "empty", "absent"])
def test_a_pack_that_cannot_be_read_is_named_and_nothing_of_it_is_taken(store, other, tmp_path, said, kind):
    grid(other, "[0]")
    pack = packed(other, tmp_path / "pack")
    if kind == "torn":
        pack.write_bytes(pack.read_bytes()[:-100])
    elif kind == "empty":
        pack.write_bytes(b"")
    else:
        pack.unlink()
    told = said("merge", str(pack), f"runtime.results={store.root}", code=1)
    assert str(pack) in told
    assert not store.root.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", *["pack"] * (kind != "absent")]


def test_a_pack_that_breaks_off_inside_is_refused_whole(other, tmp_path):
    """Past a broken header the tar reader ends as if that were the end of the archive."""
    grid(other, "[0,1]")
    pack = packed(other, tmp_path / "pack")
    with tarfile.open(pack) as archive:
        second = archive.getmembers()[1].offset
    content = lzma.decompress(pack.read_bytes())
    pack.write_bytes(lzma.compress(content[:second] + b"x" * 512 + content[second + 512 :]))
    with pytest.raises(StoreError, match=r"pack is torn, .*breaks off"), open_root(str(pack)):
        pass
    whole = lzma.compress(content[:second] + b"x" * 512)
    pack.write_bytes(whole[:-20] + bytes(20))
    with pytest.raises(StoreError, match="pack is torn"), open_root(str(pack)):
        pass


def test_other_questions_under_one_name_stay_apart(store, other):
    grid(store, "[0]")
    grid(other, "[0]")
    asked = {**other.plan(NAME), "margin": 7.0}
    other.write_plan(NAME, asked)
    before = store.plan(NAME)
    assert [
        line
        for line in merge(store, other.root).conflicts
        if f"experiment {NAME}: plan.json asks something else" in line
    ]
    assert store.plan(NAME) == before


def test_plans_that_cannot_be_read_are_named_not_taken_and_end_nothing(store, other):
    for root, seeds in ((store, "[0]"), (other, "[1]")):
        grid(root, seeds)
    good = other.plan(NAME)
    newer, named, missing = {"schema_version": 9}, {"arms": [{"name": "a", "runs": {"x": "0" * 16}}]}, {"seeds": None}
    for place, change in (("a_newer", newer), ("b_named", named), ("c_missing", missing)):
        for root in (store, other):
            root.write_plan(place, {**good, "name": place, "notes": [str(root.root)]} if root is store else good)
        (other.root / "experiments" / place / "plan.json").write_text(json.dumps({**good, **change}))
    torn = other.root / "experiments" / "d_torn" / "plan.json"
    torn.parent.mkdir()
    torn.write_text('{"arms": [')
    apart = " ".join(merge(store, other.root).conflicts)
    for words in ("newer version of the harness", "by seed", "is not JSON"):
        assert apart.count(words) == 1, apart
    assert not (store.root / "experiments" / "d_torn").exists()
    assert store.plan(NAME)["seeds"] == [0, 1]


def test_a_file_that_goes_while_a_run_is_packed_is_left_out(store, tmp_path, monkeypatch):
    spec = grid(store, "[0]").specs[0]
    metrics = store.run(spec.run_id).path / "metrics.jsonl"
    listed = report_files(metrics.parent)
    metrics.unlink()
    monkeypatch.setattr(
        "harness.store.layout.report_files", lambda run: listed if run == metrics.parent else report_files(run)
    )
    monkeypatch.setattr(RunDir, "fault", lambda run: "")
    assert f"runs/{spec.run_id}/metrics.jsonl" not in names(packed(store, tmp_path / "pack"))


def test_a_run_that_finishes_while_it_is_packed_is_packed_as_it_was(store, tmp_path, said, monkeypatch):
    run = store.run(grid(store, "[0]", finished=False).specs[0].run_id)

    def list_then_end(path: Path) -> dict[str, Path]:
        files = report_files(path)
        if path == run.path and not run.sample_steps("arithmetic_heldout")[1:]:
            run.write_samples("arithmetic_heldout", 1, 120, run.samples("arithmetic_heldout", 60))
            run.write_manifest({**run.manifest(), "status": "finished"})
            run.write_manifest(run.seal_manifest(run.manifest()))
        return files

    monkeypatch.setattr("harness.store.layout.report_files", list_then_end)
    told = said("pack", EXPERIMENT, f"out={tmp_path / 'pack'}", f"runtime.results={store.root}")
    assert f"0 finished runs of {ARMS}" in told
    assert run.status == "finished"
    with open_root(str(tmp_path / "pack")) as root:
        assert ResultStore(root).run(run.run_id).status == "interrupted"


def test_the_earlier_first_run_of_a_claim_counts(store, other):
    for root, day in ((store, "02"), (other, "01")):
        grid(root, "[0]")
        (root.root / "experiments" / NAME / "claim.json").write_text(
            json.dumps({"declaration": "d", "first_run_at": f"2026-01-{day}T00:00:00+00:00"})
        )
    merge(store, other.root)
    assert "2026-01-01" in (store.root / "experiments" / NAME / "claim.json").read_text()


def test_a_pack_travels_by_object_storage(store, other, said):
    grid(other, "[0]")
    address = "memory://bucket/pack.tar.xz"
    said("pack", EXPERIMENT, f"out={address}", f"runtime.results={other.root}")
    assert f"{address}: {ARMS} new runs" in said("merge", address, f"runtime.results={store.root}")
    assert "no such bucket" in said("merge", "memory://none/a", f"runtime.results={store.root}", code=1)
    assert "nosuch" in said("merge", "nosuch://bucket/pack.tar.xz", f"runtime.results={store.root}", code=1)


def test_storage_out_of_reach_is_said(store, said, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no credentials")  # as botocore's errors, which are no OSError

    monkeypatch.setattr("fsspec.open", refuse)
    message = said("merge", "s3://bucket/pack.tar.xz", f"runtime.results={store.root}", code=1)
    assert "s3://bucket/pack.tar.xz cannot be reached: no credentials" in message


def test_a_root_is_not_merged_into_itself(store):
    grid(store, "[0]")
    with pytest.raises(StoreError, match="results root itself"), open_root(str(store.root)) as root:
        merge(store, root)
