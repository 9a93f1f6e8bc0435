"""What a run directory promises to its writers and readers."""

from __future__ import annotations

import json
import math
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored_runs import RUN_ID, about, created, graded
from tables import table

from harness.store import METRICS, ResultStore, RunDir, SchemaMismatch, StoreError, TornFile
from harness.store.samples import SAMPLES


@pytest.fixture
def run(tmp_path) -> RunDir:
    run = ResultStore(tmp_path).run(RUN_ID)
    created(run, "seed: 0\n", about(status="running"))
    return run


def samples(problems: int = 2, **columns: object) -> pd.DataFrame:
    answers = ["1", *[None] * (problems - 1)]
    return graded([True] * problems).assign(sampling_seed=np.uint64(2**64 - 1), answer=answers, **columns)


def test_the_manifest_keeps_its_creation_time_and_refuses_unknown_states(run):
    created = run.manifest()["created_at"]
    run.write_manifest({**run.manifest(), "status": "running"})
    assert run.manifest()["created_at"] == created
    assert run.manifest()["updated_at"] >= created
    with pytest.raises(SchemaMismatch, match=r"manifest\.json has status .done.; expected one of running"):
        run.write_manifest({**run.manifest(), "status": "done"})


@table(__file__, "manifest", "key, value, says")
def test_a_manifest_has_what_readers_need(run, key, value, says):
    kept = run.manifest()
    with pytest.raises(SchemaMismatch, match=rf"manifest\.json {says}"):
        run.write_manifest({**kept, key: value})
    del kept[key]
    (run.path / "manifest.json").write_text(json.dumps(kept))
    with pytest.raises(SchemaMismatch, match=rf"manifest\.json has no {key}"):
        run.manifest()


def test_steps_have_every_column_and_keep_the_last_occurrence(run):
    for attempt, step, reward in [(0, 1, 0.1), (0, 2, 0.2), (0, 3, 0.3), (1, 2, 0.25), (1, 3, 0.35), (1, 4, 0.4)]:
        run.append_step({"step": step, "attempt": attempt, "reward_mean": np.float32(reward), "my_metric": 7})
    steps = run.steps()
    assert list(steps["step"]) == [1, 2, 3, 4]
    assert list(steps["attempt"]) == [0, 1, 1, 1]
    assert steps["reward_mean"].tolist() == pytest.approx([0.1, 0.25, 0.35, 0.4])
    assert list(steps.columns) == [*METRICS, "my_metric"]
    assert steps["kl_to_reference"].isna().all()
    assert steps["step"].dtype == "int64"
    assert run.last_step()["step"] == 4


def test_numbers_that_json_has_no_word_for_come_back_as_nan(run):
    run.append_step({"step": 1, "loss": math.nan, "ratio_max": math.inf, "reward_mean": 1})
    assert "null" in (run.path / "metrics.jsonl").read_text()
    row = run.steps().iloc[0]
    assert math.isnan(row["loss"])
    assert math.isnan(row["ratio_max"])
    assert row["reward_mean"] == 1.0
    with pytest.raises(TypeError, match="metric 'loss' is a list"):
        run.append_step({"step": 2, "loss": [1]})


def test_the_last_step_is_found_behind_lines_longer_than_the_window(run):
    run.append_step({"step": 1, "text": "a" * 30_000})
    run.append_step({"step": 2, "text": "b" * 30_000})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "text": "' + "c" * 50_000)
    assert run.last_step()["step"] == 2


def test_samples_come_back_as_written_with_the_explicit_schema(run):
    run.write_samples("arithmetic_heldout", 3, 100, samples())
    frame = run.samples("arithmetic_heldout", 100)
    assert list(frame.columns) == SAMPLES.names
    assert frame["sampling_seed"].tolist() == [2**64 - 1] * 2
    assert frame["answer"].isna().tolist() == [False, True]
    assert run.benchmarks() == ["arithmetic_heldout"]
    assert run.sample_steps("arithmetic_heldout") == [100]
    path = run.path / "samples/arithmetic_heldout/step-000100/part-000.parquet"
    metadata = pq.read_schema(path).metadata
    assert metadata[b"schema_version"] == b"2"
    assert metadata[b"benchmark_version"] == b"3"
    assert (metadata[b"run_id"], metadata[b"step"]) == (RUN_ID.encode(), b"100")


def test_columns_can_be_chosen_also_over_several_parts(run):
    run.write_samples("b", 1, 0, samples(), part="000")
    run.write_samples("b", 1, 0, samples(sample_index=1), part="001")
    frame = run.samples("b", 0, columns=["problem_id", "correct"])
    assert list(frame.columns) == ["problem_id", "correct"]
    assert len(frame) == 4
    with pytest.raises(SchemaMismatch, match="unknown sample columns"):
        run.samples("b", 0, columns=["reward"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (samples().drop(columns="verdict"), r"missing columns \['verdict'\]"),
        (samples(extra=1), r"unknown columns \['extra'\]"),
        (samples(correct=None), "column correct holds 2 nulls"),
        (samples(response_tokens="many"), "column response_tokens is not int32"),
        (samples(sample_index=2**40), "column sample_index is not int32"),
    ],
)
def test_samples_of_another_schema_are_refused_on_writing(run, table, message):
    with pytest.raises(SchemaMismatch, match=message):
        run.write_samples("b", 1, 0, table)
    assert run.benchmarks() == []


def test_parts_of_a_mixed_or_newer_schema_are_refused_on_reading(run):
    run.write_samples("b", 1, 0, samples(), part="000")
    directory = run.path / "samples/b/step-000000"
    run.write_samples("b", 2, 0, samples(sample_index=1), part="001")
    with pytest.raises(SchemaMismatch, match="mixes benchmark versions 1, 2"):
        run.samples("b", 0)
    table = pq.read_table(directory / "part-000.parquet")
    pq.write_table(table.replace_schema_metadata({"schema_version": "9"}), directory / "part-001.parquet")
    with pytest.raises(SchemaMismatch, match=r"part-001\.parquet was written by a newer version"):
        run.samples("b", 0)
    text = table.set_column(1, "sample_index", pa.array(["0", "1"]))
    pq.write_table(text, directory / "part-001.parquet")
    with pytest.raises(SchemaMismatch, match=r"part-001\.parquet: column sample_index is string, expected int32"):
        run.samples("b", 0)
    (directory / "part-001.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(TornFile, match=r"part-001\.parquet is not a readable Parquet file"):
        run.samples("b", 0)


def test_a_sample_in_two_parts_is_refused_and_no_samples_is_an_error(run):
    run.write_samples("b", 1, 0, samples(), part="000")
    run.write_samples("b", 1, 0, samples(), part="000")  # the same part again replaces it
    assert len(run.samples("b", 0)) == 2
    run.write_samples("b", 1, 0, samples(), part="001")
    with pytest.raises(StoreError, match="the same sample stands in two"):
        run.samples("b", 0)
    with pytest.raises(StoreError, match="holds no samples"):
        run.samples("b", 5)


def test_names_that_would_leave_the_directory_are_refused(run):
    with pytest.raises(ValueError, match=r"benchmark '\.\./x'"):
        run.write_samples("../x", 1, 0, samples())
    with pytest.raises(ValueError, match="not 16 lower-case hex"):
        ResultStore(run.path.parent.parent).run("../../etc")


def test_checkpoints_list_only_complete_ones_and_keep_the_newest(run):
    def explode(directory):
        (directory / "weights").write_text("half")
        raise RuntimeError("killed while saving")

    for step in (5, 10, 15):
        run.publish_checkpoint(step, lambda path: (path / "weights").write_text("w") and None, keep=2)
    with pytest.raises(RuntimeError):
        run.publish_checkpoint(20, explode, keep=2)
    (run.path / "checkpoints/.step-000025.abc.tmp").mkdir()
    assert [step for step, _ in run.checkpoints()] == [10, 15]
    run.publish_checkpoint(15, lambda path: (path / "weights").write_text("again") and None)
    assert (run.checkpoints()[-1][1] / "weights").read_text() == "again"
    run.remove_leftovers()
    assert sorted(os.listdir(run.path / "checkpoints")) == ["step-000010", "step-000015"]


def test_a_new_checkpoint_is_in_place_before_the_old_one_of_its_step_is_deleted(run, monkeypatch):
    rmtree, weights_then = shutil.rmtree, []

    def delete(path):
        weights_then.append((run.path / "checkpoints/step-000005/weights").read_text())
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", delete)
    for text in ("old", "new"):
        run.publish_checkpoint(5, lambda path, text=text: (path / "weights").write_text(text) and None)
    assert weights_then == ["new"]


def test_rewinding_forgets_rows_samples_and_a_torn_line_beyond_a_step(run):
    for step in (1, 2, 3):
        run.append_step({"step": step, "loss": 0.5})
        run.write_samples("aime24", 1, step, samples())
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    run.rewind(2)
    assert run.steps()["step"].tolist() == [1, 2]
    assert run.sample_steps("aime24") == [1, 2]
    run.append_step({"step": 3, "loss": 0.25})
    assert run.steps()["loss"].tolist() == [0.5, 0.5, 0.25]
    untouched = (run.path / "metrics.jsonl").stat().st_mtime_ns
    run.rewind(3)
    assert (run.path / "metrics.jsonl").stat().st_mtime_ns == untouched
