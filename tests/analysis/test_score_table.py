"""A table of scores from anywhere: how it is read, and what is refused by name."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import table

from analysis.score_table import TableError, read_file, score_table

ROWS = [(arm, seed, 50.0 + seed + 2 * (arm == "b")) for arm in "ab" for seed in range(3)]
TIDY = pd.DataFrame(ROWS, columns=["arm", "seed", "score"])


def frame_of(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def tidy(frame: pd.DataFrame | Path, **options: object) -> pd.DataFrame:
    rows = score_table(read_file(frame) if isinstance(frame, Path) else frame, **options).rows
    return rows[["arm", "seed", "value"]].set_axis(["arm", "seed", "score"], axis=1)


def test_every_kind_of_file_says_the_same(tmp_path: Path) -> None:
    TIDY.to_csv(tmp_path / "a.csv", index=False)
    TIDY.to_csv(tmp_path / "b.tsv", sep="\t", index=False)
    TIDY.assign(notes=[["a"]] * len(TIDY)).to_parquet(tmp_path / "c.parquet")
    TIDY.to_json(tmp_path / "d.jsonl", orient="records", lines=True)
    TIDY.to_json(tmp_path / "e.json", orient="records")
    TIDY.to_csv(tmp_path / "f.csv")  # with its row labels
    (tmp_path / "g.csv").write_text("\ufeff" + (tmp_path / "a.csv").read_text())
    TIDY.set_axis([7, *range(len(TIDY) - 1)]).to_parquet(tmp_path / "h.parquet")
    noted = {b"pandas": b'{"index_columns": ["x"], "columns": [], "column_indexes": []}'}
    pq.write_table(pa.Table.from_pandas(TIDY.set_index("seed")).replace_schema_metadata(noted), tmp_path / "i.parquet")
    for file in sorted(tmp_path.iterdir()):
        pd.testing.assert_frame_equal(tidy(file), TIDY, check_dtype=False, obj=file.name)
    pd.testing.assert_frame_equal(tidy(TIDY.set_index("seed")), TIDY, check_dtype=False)


@table(__file__, "read", "text, options, arms, seeds, values")
def test_a_table_is_read(
    text: str, options: dict[str, object], arms: list[str], seeds: list[object], values: list[float]
) -> None:
    rows = tidy(frame_of(text), **options)
    assert (rows["arm"].tolist(), rows["seed"].tolist(), rows["score"].tolist()) == (arms, seeds, values)


@table(__file__, "told", "text, options, note")
def test_how_it_was_read_is_told(text: str, options: dict[str, object], note: str) -> None:
    assert note in score_table(frame_of(text), **options).notes


@table(__file__, "refused", "text, options, message")
def test_what_cannot_be_read_is_refused_by_name(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TableError) as refusal:
        score_table(frame_of(text), **options)
    assert message in str(refusal.value)


def test_too_many_arms_are_refused() -> None:
    with pytest.raises(TableError, match="501 arms are over 500; arm= names the configurations"):
        score_table(frame_of("arm,seed,score\n" + "".join(f"a{i},1,5\n" for i in range(501))))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "no header in its first line"),
        ("c.parquet", b"x", "c.parquet"),
        ("a.json", b"{", "a.json"),
        ("a.xlsx", b"x", "no table of a known kind"),
        ("b.csv", b"\xff\xfe\x00", "b.csv"),
        ("c.csv", b"arm,seed,score\na,0,1,5\nb,0,2\n", "row 2 has 4 cells, and the header 3"),
        ("wide.csv", b",".join(b"c%d" % i for i in range(10_000)) + b"\n", "10,000 columns are more than 1,000"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError) as refusal:
        read_file(tmp_path / name)
    assert words in str(refusal.value)
    assert str(tmp_path / name) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_json_is_read_as_spelled_and_rows_are_named_by_their_lines(tmp_path: Path) -> None:
    rows = [{"arm": "001", "seed": 0, "score": 1e20}, {"arm": "1", "seed": 0, "score": 0.30000000000000004}]
    pd.DataFrame(rows).to_json(tmp_path / "a.json", orient="records", double_precision=15)
    found = tidy(tmp_path / "a.json")
    assert (found["arm"].tolist(), found["score"].iloc[0]) == (["001", "1"], 1e20)
    (tmp_path / "b.csv").write_text("arm,seed,score\n\na,1,1\n\na,2,bad\n")
    (tmp_path / "b.jsonl").write_text(
        '{"arm": ["a"], "seed": 1, "score": 1}\n{"arm": "a", "seed": 2, "score": "bad"}\n'
    )
    for name, row in (("b.csv", 5), ("b.jsonl", 2)):
        with pytest.raises(TableError, match=f"row {row}: score='bad' is no number"):
            tidy(tmp_path / name)


def test_names_of_runs_that_end_in_their_seed_are_arms():
    frame = pd.DataFrame({"Name": ["grpo-s0", "grpo-s1", "dapo-s0"], "seed": [0, 1, 0], "score": [61.0, 62.0, 66.0]})
    assert list(score_table(frame).rows["arm"]) == ["grpo", "grpo", "dapo"]
    frame["seed"] = [5, 6, 7]
    assert list(score_table(frame).rows["arm"]) == list(frame["Name"])
