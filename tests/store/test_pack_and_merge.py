"""Results that travel: an experiment as one file, results of several places in one root, and packs of strangers."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from planned_runs import EXPERIMENT, finish, plan
from stored_runs import about, created
from tables import table
from verbs import Said

from harness.experiment.plan import Plan, RunSpec
from harness.store import ResultStore, RunDir, StoreError, pack
from harness.store.layout import MANIFEST, report_files
from harness.store.pack import merge, write_pack

NAME = EXPERIMENT.partition("=")[2]
ARMS = 3


def grid(store: ResultStore, seeds: str = "[0]", *, status: str = "finished") -> Plan:
    """The grid with these seeds as planned, its runs stored, each with an accuracy of its own."""
    planned = plan(store, f"experiment.seeds={seeds}", 'experiment.grid=["optimizer.learning_rate=1e-4,2e-4,4e-4"]')
    store.write_plan(NAME, planned.record())
    for number, spec in enumerate(planned.specs):
        finish(store, spec, 0.4 + 0.01 * number, status)
    return planned


def packed(store: ResultStore, out: Path) -> Path:
    write_pack(store, NAME, out)
    return out


def same(ours: ResultStore, theirs: ResultStore, run_id: str) -> bool:
    here, there = ours.run(run_id).path, theirs.run(run_id).path
    files = [*report_files(there), MANIFEST]
    return len(files) == 4 and all((here / name).read_bytes() == (there / name).read_bytes() for name in files)


@pytest.fixture
def other(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "other")


def test_a_pack_holds_what_a_report_reads_and_its_bytes_follow_from_that_alone(
    store: ResultStore, tmp_path: Path, said: Said
) -> None:
    planned = grid(store)
    run = store.run(planned.specs[0].run_id)
    (run.path / "rollouts.jsonl").write_text("{}")
    (run.new_attempt() / "stdout.log").write_text("x")
    assert f"{ARMS} runs of {ARMS}" in said(
        "pack", EXPERIMENT, f"out={tmp_path / 'a'}", f"runtime.results={store.root}"
    )
    copy = shutil.copytree(store.root, tmp_path / "copy")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert packed(ResultStore(copy), tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
    own = ["config.yaml", "manifest.json", "metrics.jsonl", "samples/arithmetic_heldout/step-000100/part-000.parquet"]
    with tarfile.open(tmp_path / "b") as archive:
        assert sorted(archive.getnames()) == sorted(
            [f"experiments/{NAME}/plan.json", *(f"runs/{spec.run_id}/{name}" for spec in planned.specs for name in own)]
        )


def test_seeds_of_two_machines_are_found_by_the_experiment_of_both(
    store: ResultStore, other: ResultStore, tmp_path: Path, said: Said
) -> None:
    """Runs are named by their content: whoever asks for all seeds finds them finished."""
    first, second, here = grid(store), grid(other, "[1]"), f"runtime.results={store.root}"
    told = said("merge", str(packed(other, tmp_path / "pack")), here, code=1)
    assert f"pack: {ARMS} new runs" in told
    assert f"experiments/{NAME}/plan.json here stays; `harness run` with the arms and seeds of both" in told
    assert all(same(store, other, spec.run_id) for spec in second.specs)
    both = plan(store, "experiment.seeds=[0,1]", 'experiment.grid=["optimizer.learning_rate=1e-4,2e-4,4e-4"]')
    assert {spec.run_id for spec in both.specs} == {spec.run_id for each in (first, second) for spec in each.specs}
    fresh = f"runtime.results={tmp_path / 'fresh'}"
    assert "harness merge" not in said("merge", str(tmp_path / "pack"), fresh)
    tables = [said("report", EXPERIMENT, "only=table", root) for root in (fresh, f"runtime.results={other.root}")]
    assert tables[0] == tables[1]


def damaged(run: RunDir) -> None:
    path = run.path / "metrics.jsonl"
    path.write_text(path.read_text().replace("1000", "1001"))


SPEC_STATES: dict[str, Callable[[ResultStore, RunSpec], None]] = {
    "absent": lambda store, spec: None,
    "unfinished": lambda store, spec: finish(store, spec, 0.2, "interrupted"),
    "finished": lambda store, spec: finish(store, spec),
    "sealed": lambda store, spec: sealed(store, spec),
    "damaged": lambda store, spec: damaged(sealed(store, spec)),
    "other": lambda store, spec: finish(store, spec, 0.3),
    "newer": lambda store, spec: sealed(store, spec).path.joinpath(MANIFEST).write_text('{"schema_version": 9}') and None,
}  # fmt: skip


def sealed(store: ResultStore, spec: RunSpec) -> RunDir:
    finish(store, spec)
    run = store.run(spec.run_id)
    run.write_manifest(run.seal_manifest(run.manifest() or {}))
    return run


@table(__file__, "merged", "here, there, words, wins")
def test_what_finished_here_stays_and_what_is_better_there_is_taken(
    store: ResultStore, other: ResultStore, here: str, there: str, words: str, wins: str
) -> None:
    spec = plan(store).specs[0]
    for root, state in ((store, here), (other, there)):
        SPEC_STATES[state](root, spec)
    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    new, left = merge(store, other.root)
    assert new == (wins == "there")
    assert words in " ".join(left)
    assert bool(words) == bool(left)
    if wins == "there":
        assert same(store, other, spec.run_id)
    else:
        assert all(path.read_bytes() == content for path, content in before.items())


def test_a_run_that_somebody_works_on_here_or_that_ends_meanwhile_is_not_replaced(
    store: ResultStore, other: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = plan(store).specs[0]
    finish(store, spec, 0.2, "interrupted")
    finish(other, spec)
    run, lock = store.run(spec.run_id), RunDir.lock
    with run.lock():
        assert "is held by process" in merge(store, other.root)[1][0]

    def lock_late(here: RunDir) -> object:
        here.write_manifest({**(here.manifest() or {}), "status": "finished"})
        return lock(here)

    monkeypatch.setattr(RunDir, "lock", lock_late)
    assert "it finished here with other results" in merge(store, other.root)[1][0]
    assert run.accuracies("arithmetic_heldout", 100) == {32: 0.2}


def test_links_and_files_without_a_name_of_ours_stay_behind(
    store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    run, linked = (other.run(spec.run_id) for spec in grid(other).specs[:2])
    (tmp_path / "secret").write_text("s")
    (run.path / "samples" / "x").symlink_to(tmp_path / "secret")
    for name in ("checkpoints/step-000100/policy/evil.py", "evil.py", "verl/x.json"):
        (run.path / name).parent.mkdir(parents=True, exist_ok=True)
        (run.path / name).write_text("")
    run.lock().release()
    (linked.path / "metrics.jsonl").rename(tmp_path / "metrics.jsonl")
    (linked.path / "metrics.jsonl").symlink_to(tmp_path / "metrics.jsonl")
    new, left = merge(store, other.root)
    assert (new, len(left)) == (ARMS - 1, 1)
    assert f"run {linked.run_id} stays there: its file metrics.jsonl is a link" in left[0]
    files = {
        path.relative_to(store.run(run.run_id).path).as_posix() for path in store.run(run.run_id).path.rglob("*.*")
    }
    assert files - {name for name in files if name.startswith("samples")} == {"config.yaml", MANIFEST, "metrics.jsonl"}


def test_a_run_that_cannot_be_read_stays_apart_and_what_a_killed_merge_was_copying_goes(
    store: ResultStore, other: ResultStore
) -> None:
    for number in "ab":
        created(other.run(number * 16), "", about(status="interrupted"))
    (other.run("a" * 16).path / "metrics.jsonl").mkdir()
    copying = store.root / "runs" / ".00000000000000aa.0123456789ab.tmp"
    copying.mkdir(parents=True)
    plan = other.root / "experiments" / "torn" / "plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_text("{")
    new, left = merge(store, other.root)
    assert new == 2
    assert any("torn" in line for line in left)
    assert store.plans() == []
    assert not copying.exists()


def test_places_without_results_are_one_line(store: ResultStore, tmp_path: Path, said: Said) -> None:
    grid(store)
    here = f"runtime.results={store.root}"
    assert "no results root of another place" in said("merge", str(store.root), here, code=1)
    assert "no results root of another place" in said("merge", str(tmp_path), here, code=1)
    assert "is no folder and no pack" in said("merge", str(tmp_path / "nothing.tar.xz"), here, code=1)
    whole = packed(store, tmp_path / "pack").read_bytes()
    for content in (b"", b"x" * 999, whole[:-9], lzma.compress(b"x" * 999), whole[:500] + whole[501:]):
        (tmp_path / "torn").write_bytes(content)
        assert "or it is torn" in said("merge", str(tmp_path / "torn"), f"runtime.results={tmp_path / 'x'}", code=1)
    assert list((tmp_path / "x" / "runs").iterdir()) == []


# ---- packs of strangers ------------------------------------------------------------------------------------------------------

RUN = "runs/00000000000000aa"
Members = list[tuple[tarfile.TarInfo, bytes]]


def member(name: str, content: bytes = b"{}", size: int | None = None) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = len(content) if size is None else size
    return entry, content


def archive_of(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content))
    return path


def sparse(path: Path) -> Path:
    """A GNU sparse member of 8 TiB whose content is a hole."""
    entry = tarfile.TarInfo(f"{RUN}/metrics.jsonl")
    entry.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386 : 386 + 24] = b"00000000000\0" + b"00000000000\0"
    header[483:495] = (1 << 43).to_bytes(12, "big")
    header[483] |= 0x80
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(lzma.compress(bytes(header) + b"\0" * 10_240))
    return path


def linked(path: Path) -> Path:
    entry, content = member(f"{RUN}/config.yaml", b"")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return archive_of(path, [(entry, content)])


def long_header(path: Path) -> Path:
    """A name that is said to be as long as the whole archive, which is a bomb."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 300 << 20
    path.write_bytes(lzma.compress(entry.tobuf(tarfile.GNU_FORMAT) + b"a" * (300 << 20), preset=0))
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (sparse, "is in no pack of ours"),
        (linked, "is in no pack of ours"),
        (long_header, "holds more than 20 times its size"),
        *((lambda path, name=name: archive_of(path, [member(name)]), "is in no pack of ours") for name in (
            "big", f"/{RUN}/config.yaml", f"{RUN}/evil.py", f"{RUN}/.hydra/config.yaml", f"{RUN}/claim.lock",
            f"{RUN}/checkpoints/step-000001/policy/../../../../x.json", f"{RUN}/checkpoints/step-000001/policy/evil.py",
            f"{RUN}/checkpoints/step-000001/objective/advantage/evil.py", f"{RUN}/checkpoints/step-000001/state.pt",
            f"{RUN}/checkpoints/step-000001" + "/a" * 2500, "runs/\x1b]0;x\x07/config.yaml", "experiments/../plan.json",
        )),
    ],
)  # fmt: skip
def test_what_no_pack_of_ours_holds_is_refused_by_name(
    tmp_path: Path, said: Said, make: Callable[[Path], Path], words: str
) -> None:
    source = make(tmp_path / "pack.tar.xz")
    told = said("merge", str(source), f"runtime.results={tmp_path / 'results'}", code=1)
    assert words in told
    assert str(source) in told
    assert len(told.strip().splitlines()) == 1
    assert "\x1b" not in told
    assert list((tmp_path / "results" / "runs").iterdir()) == []


def test_bombs_of_size_and_of_number_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = f"{RUN}/samples/b/step-000001/part-000.parquet"
    monkeypatch.setattr(pack, "_LEAST_BYTES", 1 << 20)
    store = ResultStore(tmp_path / "results")
    assert merge(store, archive_of(tmp_path / "honest", [member(part, os.urandom(3 << 20))]))[0] == 0
    for members, words in (
        ([member(part, b"\0" * (4 << 20))], "20 times its size"),
        (
            [member(part.replace("000.p", f"{number}.p"), b"") for number in range(1001)],
            "part-1000.parquet' is in no pack",
        ),
    ):
        with pytest.raises(StoreError, match=words):
            merge(store, archive_of(tmp_path / "bomb", members))
