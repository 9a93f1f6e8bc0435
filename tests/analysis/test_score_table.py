"""A table of scores from anywhere: how it is read, and what is refused by name."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from analysis.score_table import TableError, read_file, score_table

ROWS = [(arm, seed, 50.0 + seed + 2 * (arm == "b")) for arm in "ab" for seed in range(3)]
TIDY = pd.DataFrame(ROWS, columns=["arm", "seed", "score"])


def table(text: str) -> pd.DataFrame:
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
    for file in sorted(tmp_path.iterdir()):
        pd.testing.assert_frame_equal(tidy(file), TIDY, check_dtype=False, obj=file.name)
    pd.testing.assert_frame_equal(tidy(TIDY.set_index("seed")), TIDY, check_dtype=False)


@pytest.mark.parametrize(
    ("text", "options", "arms", "seeds", "values"),
    [
        # Names and seeds as they are spelled; a float would make one seed of three.
        ("arm,seed,score\nnan,1,50\n1e-3,1,60\n01,1,55\n001,1,57", {}, ["nan", "1e-3", "01", "001"], [1] * 4, [50, 60, 55, 57]),
        (
            "arm,seed,score\na,12345678901234567890,50\na,12345678901234567891,51\na,12345678901234567892,52",
            {}, ["a"] * 3, [f"1234567890123456789{digit}" for digit in "012"], [50, 51, 52],
        ),
        ("arm,seed,score\na,01,50\nb,1.0,51", {}, ["a", "b"], [1, 1], [50, 51]),
        ("arm,seed,score\nGRPO ,1,50\n GRPO,2,51\nDAPO,1,52\nDAPO,2,inf", {}, ["GRPO", "GRPO", "DAPO"], [1, 2, 1], [50, 51, 52]),
        # Arms in the table's order, whichever rows are left out.
        ("arm,seed,score\nplain,0,\ntrick,0,51\nplain,1,52\ntrick,1,53", {}, ["plain", "trick", "trick"], [1, 0, 1], [52, 51, 53]),
        ("m,arm,seed,score\navg,a,1,50\nmaj,a,1,0\navg,b,1,51", {"where": {"m": "AVG"}}, ["a", "b"], [1, 1], [50, 51]),
        ("arm,seed,step,score\na,1,10,9\na,1,20,50\nb,1,20,51", {"where": {"step": 20}}, ["a", "b"], [1, 1], [50, 51]),
        # Wandb's table of runs, and a chart at its last step: run b-s2 ended earlier, and is no score.
        (
            "Name,State,algorithm,seed,acc\nx,finished,a,1,50\ny,crashed,a,2,0\nz,finished,b,1,51",
            {"where": {"State": "finished"}, "arm": "algorithm"}, ["a", "b"], [1, 1], [50, 51],
        ),
        (
            "Step,a-seed1 - acc,a-seed1 - acc__MIN,b_s1 - acc,b_s2 - acc\n40,10,9,11,48\n100,50,49,51,",
            {}, ["a", "b"], [1, 1], [50, 51],
        ),
        ("Step,a-1 - acc,b-1 - acc\n40,50,51\n100,60,", {"where": {"Step": "40"}}, ["a", "b"], [1, 1], [50, 51]),
        # Two evaluations of a run are one score.
        ("arm,seed,e,score\na,1,0,49\na,1,1,51\nb,1,0,51", {"evaluation_seed": "e"}, ["a", "b"], [1, 1], [50, 51]),
    ],
)  # fmt: skip
def test_a_table_is_read(
    text: str, options: dict[str, object], arms: list[str], seeds: list[object], values: list[float]
) -> None:
    rows = tidy(table(text), **options)
    assert (rows["arm"].tolist(), rows["seed"].tolist(), rows["score"].tolist()) == (arms, seeds, values)


@pytest.mark.parametrize(
    ("text", "options", "note"),
    [
        ("arm,seed,score\na,1,50\nb,1,51", {}, "columns read as arm: arm; seed: seed; score: score"),
        ("arm,seed,score\na,1,50\nb,1,51", {}, "compared with a, the first arm"),
        ("arm,seed,score\na,1,50\nb,1,", {}, "row 3 (b, seed 1, score) has no score: that seed is left out there"),
        ("arm,seed,score\na,1,50\nb,1,inf", {}, "row 3 (b, seed 1, score) has no finite score: that seed is left out there"),
        ("arm,score\na,50\na,51", {}, "no column of seeds: the rows of an arm are its seeds, compared unpaired (seed= names the column)"),
        ("Step,a-1 - acc,b-1 - acc\n40,50,51\n100,60,", {}, "run b-1 ends at Step 40 and is left out"),
        (
            "arm,seed,e,score\na,1,0,49\na,1,1,51\nb,1,0,51\nb,1,1,51", {"evaluation_seed": "e"},
            "e: each run counts once, with the mean of its 2 evaluations; within a run they vary by 1 (SD)",
        ),
    ],
)  # fmt: skip
def test_how_it_was_read_is_told(text: str, options: dict[str, object], note: str) -> None:
    assert note in score_table(table(text), **options).notes


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("arm,seed,score\na,1,50\na,1,51\nb,1,2", {}, "rows 2 and 3 both have the score of a, seed 1, score; keep one of them"),
        ("arm,seed,lr,score\na,1,1,50\na,1,2,51", {}, "they differ in lr: by= or where= tells them apart, evaluation_seed= averages"),
        ("arm,seed,_step,score\na,1,1,50\na,1,20,51", {}, "they differ in _step: where._step=20 takes those of the last"),
        ("arm,seed,score\na,1,50\na,2,0.52\nb,1,55", {}, "per cent and fractions are mixed: row 3 has no score above 1"),
        ("arm,seed,m,g\na,1,50,0.5\nb,1,55,0.7", {"score": ["m", "g"]}, "per cent and fractions are mixed: benchmark g has no score above"),
        ("arm,seed,score\na,1,50%\nb,1,0.5", {}, "row 2: score='50%' is no number; 1 such rows; write per cent as numbers"),
        ("arm,seed,score\na,1,good\na,2,bad", {}, "row 2: score='good' is no number; 2 such rows"),
        ("arm,seed,score\na,1,1e308\na,2,1", {}, "row 2: score=1e+308 is beyond 1e+100"),
        ("arm,seed,m,note\na,1,5,x\na,2,6,y", {}, "which columns are scores? score=COLUMN[,COLUMN] of m"),
        ("arm,seed,score\na,1,50\nb,1,51", {"baseline": "c"}, "no arm is called 'c'; baseline= is one of a, b, or above"),
        ("arm,seed,score\na,1,50\nb,1,51", {"arm": "x"}, "the table has no column 'x'; it has arm, seed, score"),
        ("x,y\n1,2", {}, "which column names the configurations? arm= is one of x, y"),
        ("arm,seed,score\n,1,50\nb,1,51", {}, "row 2 has no arm"),
        ("arm,seed,score\na,1,\nb,1,", {}, "no row has a score"),
        ("arm,m,seed,score\na,1,1,5\nb,2,1,5", {"by": "m", "baseline": "a"}, "2 has no arm a; it has b: baseline=A,B names one"),
        ("arm,seed,score,k\na,1,50,x\nb,1,51,x", {"where": {"k": "y"}}, "no row has k=y; it has x"),
        ("arm,seed,score\na,,50\na,2,51\nb,1,52", {}, "row 2 has no seed"),
        ("arm,seed,score\na,1,5\na\x1b[31m,2,5", {}, r"row 3: 'a\x1b[31m' has control characters"),
        ("arm,State,seed,acc\na,finished,1,5\na,crashed,2,0", {}, "not finished are among the rows (1 crashed); where.State=finished"),
        ("Step,a - acc,b-1 - acc\n40,50,51", {}, "run 'a' of the chart does not end in its seed"),
        ("Step,a-1 - acc,b-1 - acc\n40,50,51", {"where": {"Step": 7}}, "no run of the chart has a value at Step 7"),
        ("arm,seed,score\n" + "".join(f"a{i},1,5\n" for i in range(501)), {}, "501 arms are more than 500; arm= names the configurations"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TableError) as refusal:
        score_table(table(text), **options)
    assert message in str(refusal.value)


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
