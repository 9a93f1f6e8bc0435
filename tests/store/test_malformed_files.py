"""Files of a store that are torn, deep, huge or of other kinds end in one line that names them, and take nothing else with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stored_runs import RUN_ID, about, created

from harness.store import ResultStore, RunDir, SchemaMismatch, StoreFull, StoreReadOnly, TornFile, atomic, layout, lease
from harness.store.reader import run_state

DEEP = "[" * 100_000


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = ResultStore(tmp_path).run(RUN_ID)
    created(run, "a: 1\n", about())
    for step in (1, 2, 3):
        run.append_step({"step": step, "reward_mean": 0.5})
    return run


@pytest.mark.parametrize("line", [DEEP, '{"step": 1' + "0" * 30 + "}", '{"step": -1}', '{"step": 1.5}', "\0" * 40])
def test_a_line_that_is_no_row_is_named(run: RunDir, line: str) -> None:
    path = run.path / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    with pytest.raises(TornFile, match=r"metrics\.jsonl:2: .*delete this line"):
        run.steps()
    assert (run.last_step() or {})["step"] == 3


@pytest.mark.parametrize(
    "cell", ['"\\ud800": 1', '"x": "\\udfff"', '"x": [1]', '"loss": "low"', '"x\\u001b": 1', '"x": 1' + "0" * 30]
)
def test_a_cell_that_no_frame_holds_is_named(run: RunDir, cell: str) -> None:
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(f'{{"step": 4, {cell}}}\n')
    with pytest.raises(SchemaMismatch, match=r"metrics\.jsonl: column ") as refusal:
        run.steps()
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("text", ["", DEEP, "- a\n", "a: [", "\0\0", "{" * 50_000, "- " * 5_000])
def test_a_configuration_that_is_none_is_named(run: RunDir, text: str) -> None:
    (run.path / "config.yaml").write_text(text)
    with pytest.raises(TornFile, match=r"config\.yaml holds no settings"):
        run.settings()


def test_a_configuration_that_is_no_text_is_named_and_written_anew(run: RunDir) -> None:
    (run.path / "config.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(TornFile, match=r"config\.yaml is no text"):
        run.config()
    run.write_config("a: 1\n")
    assert run.settings() == {"a": 1}


@pytest.mark.parametrize("text", ["", '{"schema', DEEP, "[]", '{"schema_version": 99}', '{"error": "\\uD800"}'])
def test_a_run_whose_manifest_cannot_be_read_has_a_status_of_its_own(run: RunDir, text: str) -> None:
    (run.path / "manifest.json").write_text(text)
    assert run.status == layout.UNREADABLE
    assert "manifest.json" in run_state(ResultStore(run.path.parent.parent), RUN_ID).problem


@pytest.mark.parametrize("arms", [None, 5, [5], [{"name": "a"}], [{"name": "a", "runs": {"0": "../../x"}}], {"a": 1}])
def test_a_plan_without_arms_names_the_fix(tmp_path: Path, arms: object) -> None:
    store = ResultStore(tmp_path)
    path = layout.plan_file(tmp_path, "e")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema_version": 1, "arms": arms}))
    with pytest.raises(TornFile, match=r"plan\.json names no arms .*delete it, then run the experiment again"):
        store.plan("e")
    assert any("plan.json" in line for line in store.problems())


def test_a_plan_that_was_changed_is_named(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    arms = [{"name": "a", "runs": {"0": RUN_ID}}]
    store.write_plan("e", {"name": "e", "arms": arms, "margin": 3})
    plan = store.plan("e")
    assert plan == {"schema_version": 1, "name": "e", "arms": arms, "margin": 3}
    path = layout.plan_file(tmp_path, "e")
    before = path.stat().st_mtime_ns, path.read_bytes()
    store.write_plan("e", plan)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    path.write_text(path.read_text().replace('"margin": 3', '"margin": 1'))
    with pytest.raises(TornFile, match=r"plan\.json is not what was written; put it back"):
        store.plan("e")
    path.write_text(json.dumps(plan))  # of an earlier version, which has no checksum
    assert store.plan("e") == plan


def test_a_lock_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "claim.lock"
    path.touch(0o644)
    with lease.acquire(path):
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cause", [OSError(28, "No space left on device"), None])
def test_an_error_of_a_library_after_a_full_disk_is_a_full_disk(tmp_path: Path, cause: OSError | None) -> None:
    def write(_: Path) -> None:
        error = RuntimeError("unexpected pos 64 vs 0" if cause else "I/O error: No space left (os error 28)")
        error.__context__ = cause  # as torch's writer at its end; safetensors quotes it
        raise error

    with pytest.raises(StoreFull, match=r"no space left writing .*state\.pt"):
        atomic.publish_file(tmp_path / "state.pt", write)


@pytest.mark.parametrize("place", ["folder", "file/x", "link/x", "loop/x"])
def test_what_stands_in_the_way_of_a_file_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreReadOnly, match=rf"cannot write .*{place} \(.*name another place"):
        atomic.write_file(tmp_path / place, b"")


def test_a_folder_in_the_place_of_a_manifest_is_a_problem_of_its_run_alone(run: RunDir) -> None:
    (run.path / "manifest.json").unlink()
    (run.path / "manifest.json").mkdir()
    store = ResultStore(run.path.parent.parent)
    assert store.run_ids() == []
    assert [problem for problem in store.problems() if "manifest.json cannot be read (Is a directory)" in problem]
