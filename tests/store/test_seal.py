"""Files that are what they were: finished runs, checkpoints, folders of a cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from stored_runs import RUN_ID, about, created, graded

from harness.store import ResultStore, RunDir, StoreError, layout, seal

PART = "samples/b/step-{:06d}/part-000.parquet"


@pytest.fixture
def run(store: ResultStore) -> RunDir:
    """A run that finished after two evaluations."""
    run = store.run(RUN_ID)
    created(run, "a: 1\n", about(status="running"))
    for step in (1, 2):
        run.append_step({"step": step, "generated_tokens": 10})
        run.write_samples("b", 1, step, graded([True, False, step == 2]))
    run.write_manifest(run.seal_manifest(run.manifest() or {}))
    assert run.status == "finished"
    return run


def flip(path: Path, at: int = -20) -> None:
    """Change one bit, and no size."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


FAULTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "last samples lost": (PART.format(2), Path.unlink),
    "metrics lost": ("metrics.jsonl", Path.unlink),
    "metrics empty": ("metrics.jsonl", lambda path: path.write_bytes(b"")),
    "metrics shortened": ("metrics.jsonl", shorten),
    "configuration lost": ("config.yaml", Path.unlink),
    "a part torn": (PART.format(1), shorten),
    "a part too many": (PART.format(3), lambda path: (path.parent.mkdir(), path.write_bytes(b"x"))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_finished_run_that_is_not_whole_is_incomplete_to_a_report_and_names_the_file(run: RunDir, fault: str) -> None:
    name, damage = FAULTS[fault]
    damage(run.path / name)
    manifest = run.checked_manifest() or {}
    assert (run.status, manifest["status"]) == ("finished", layout.INCOMPLETE)
    assert name in manifest["error"]
    assert "run the experiment again" in run.fault()


@pytest.mark.parametrize("files", [{"x": 5}, {"../../../etc/passwd": [1, ""]}, {"config.yaml": ["1", 2]}])
def test_a_foreign_list_of_files_is_no_traceback_and_opens_nothing_else(run: RunDir, files: dict[str, object]) -> None:
    path = run.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), layout.FILES: files}))
    assert run.fault()


def test_a_changed_bit_shows_by_hashes(run: RunDir) -> None:
    flip(run.path / PART.format(2))
    assert f"{PART.format(2)} has other content" in run.fault()


def test_a_run_that_finished_before_there_were_lists_stays_finished(run: RunDir) -> None:
    manifest = json.loads((run.path / "manifest.json").read_text())
    del manifest[layout.FILES]
    run.write_manifest(manifest)
    (run.path / PART.format(2)).unlink()
    assert run.fault() == ""


def write(folder: Path) -> None:
    (folder / "inside").mkdir()
    (folder / "inside" / "weights").write_bytes(bytes(range(200)))


def test_the_newest_checkpoint_that_is_what_was_written_is_taken(run: RunDir) -> None:
    for step in (1, 2):
        run.publish_checkpoint(step, write)
    (_, older), (_, newer) = run.checkpoints()
    assert run.newest_checkpoint() == (newer, [])
    flip(newer / "inside" / "weights")
    folder, (fault,) = run.newest_checkpoint()
    assert (folder, str(newer) in fault, "inside/weights has other content" in fault) == (older, True, True)
    (older / "inside" / "weights").unlink()
    assert run.newest_checkpoint()[0] is None


def test_a_folder_of_a_cache_is_made_once_and_again_where_it_is_not_what_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times: list[Path] = []
    folder = tmp_path / "cache" / "base"

    def write_and_count(path: Path) -> None:
        times.append(path)
        write(path)

    def made() -> Path:
        return seal.ensure_folder(folder, write_and_count)

    for damage in (lambda _: None, flip, Path.unlink, shorten):
        assert made() == made() == folder
        damage(folder / "inside" / "weights")
    assert capsys.readouterr().err.count("is not what was written") == 2, "the last damage was not looked at"
    (folder / seal.SEAL).write_text("[" * 100_000)
    made()
    assert (folder / "inside" / "weights").read_bytes() == bytes(range(200))
    assert len(times) == 4


def test_a_run_that_lacks_its_last_evaluation_is_compared_at_none_sealed_or_not(run: RunDir) -> None:
    manifest = run.manifest() or {}
    run.write_manifest({name: value for name, value in manifest.items() if name != layout.FILES})
    assert run.last_evaluation("b") == 2
    (run.path / PART.format(2)).unlink()
    with pytest.raises(StoreError, match=r"lacks its evaluation of step 2 on b; name @1$"):
        run.last_evaluation("b")
    run.write_manifest(manifest)
    with pytest.raises(StoreError, match=r"step-000002/part-000\.parquet is missing"):
        run.last_evaluation("b")
