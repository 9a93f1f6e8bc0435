"""A table of scores from anywhere: how it is read, what is refused, and what is said of it, beside scipy and numbers worked by hand."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis import judge
from analysis.judgement import MEAN
from analysis.tables.table import numbers_text
from harness.exchange.score_table import TableError, read_file, score_table
from harness.statistics.aggregates import probability_of_improvement

LONG = pd.DataFrame(
    [
        (arm, seed, benchmark, level + gain + noise)
        for arm, gain in (("grpo", 0.0), ("dapo", 6.0), ("gspo", 0.5))
        for seed, noise in enumerate((0.4, -0.2, 0.9, -1.1, 0.3))
        for benchmark, level in (("math500", 70.0 + gain * seed / 9), ("aime24", 20.0), ("gsm8k", 85.0))
    ],
    columns=["arm", "seed", "benchmark", "score"],
)
WIDE = LONG.pivot(index=["arm", "seed"], columns="benchmark", values="score").reset_index()


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def means(frame: pd.DataFrame, arm: str) -> pd.Series:
    return frame[frame["arm"] == arm].groupby("seed")["score"].mean()


# ---- what is said ----


def test_differences_are_students_t_over_seeds_and_hold_together():
    judged = judge(LONG, baseline="grpo", margin=1)
    effects = judged.effects[judged.effects["benchmark"] == MEAN].set_index("arm")
    level = 0.95 ** (1 / 2)
    for arm in ("dapo", "gspo"):
        by_hand = stats.ttest_rel(means(LONG, arm), means(LONG, "grpo")).confidence_interval(level)
        row = effects.loc[arm]
        assert (row["low"], row["high"]) == pytest.approx((by_hand.low, by_hand.high))
        assert row["level"] == pytest.approx(level)
        assert row["family"] == 2
        assert row["seeds"] == 5
    assert effects.loc["dapo", "word"] == "higher"
    assert judged.sentences[0].startswith("On the mean over benchmarks: dapo ")


def test_benchmarks_are_a_family_of_their_own():
    effects = judge(LONG, baseline="grpo").effects
    single = effects[effects["benchmark"].isin(["math500", "aime24", "gsm8k"])]
    assert len(single) == 6
    assert set(single["family"]) == {6}
    assert single.loc[single["low"].isna(), "word"].eq("not resolved").all()


def test_long_wide_and_every_kind_of_file_say_the_same(tmp_path: Path):
    LONG.to_csv(tmp_path / "a.csv", index=False)
    LONG.to_csv(tmp_path / "b.tsv", sep="\t", index=False)
    WIDE.to_parquet(tmp_path / "c.parquet")
    WIDE.to_json(tmp_path / "d.jsonl", orient="records", lines=True)
    WIDE.to_json(tmp_path / "e.json", orient="records")
    WIDE.to_csv(tmp_path / "f.csv")  # with its row labels
    named = WIDE.assign(Name=WIDE["arm"] + "-seed" + WIDE["seed"].astype(str)).drop(columns=["arm", "seed"])
    named.to_csv(tmp_path / "wandb.csv", index=False)
    keys = ["arm", "benchmark"]
    expected = judge(LONG, baseline="grpo").effects.sort_values(keys)
    for file in tmp_path.iterdir():
        effects = judge(file, baseline="grpo").effects.sort_values(keys)
        np.testing.assert_allclose(effects["value"], expected["value"], err_msg=file.name)
        np.testing.assert_allclose(effects["low"], expected["low"], err_msg=file.name)


def test_json_is_read_as_spelled_and_a_number_above_the_whole_ones_of_a_float_stays_one(tmp_path: Path):
    (tmp_path / "a.json").write_text(
        '[{"arm": "001", "seed": 0, "score": 1e20}, {"arm": "1", "seed": 0, "score": 0.30000000000000004}]'
    )
    rows = score_table(read_file(tmp_path / "a.json")).rows
    assert rows["arm"].tolist() == ["001", "1"]
    assert rows["value"].tolist() == [1e20, 0.1 + 0.2]
    (tmp_path / "c.jsonl").write_text(
        '\ufeff{"arm": ["a"], "seed": 0, "score": 0.5}\n{"arm": ["b"], "seed": 0, "score": 1}\n'
    )
    assert score_table(read_file(tmp_path / "c.jsonl")).rows["arm"].tolist() == ["['a']", "['b']"]
    (tmp_path / "b.csv").write_text("arm,seed,score\na,0,1e20\nb,0,2e20\n")
    assert score_table(read_file(tmp_path / "b.csv")).rows["value"].tolist() == [1e20, 2e20]


def test_fractions_are_shown_in_per_cent():
    judged = judge(LONG.assign(score=LONG["score"] / 100), baseline="grpo")
    reference = judge(LONG, baseline="grpo")
    np.testing.assert_allclose(judged.effects["value"], reference.effects["value"])
    assert "mean over benchmarks % (95 % interval)" in [column.header for column in judged.tables[0].columns]


def test_seeds_that_are_not_shared_are_compared_unpaired_and_it_is_told():
    frame = LONG.assign(seed=LONG["seed"] + 100 * (LONG["arm"] == "dapo"))
    judged = judge(frame, baseline="grpo")
    row = judged.effects.set_index(["arm", "benchmark"]).loc[("dapo", MEAN)]
    interval = stats.ttest_ind(means(frame, "dapo"), means(frame, "grpo"), equal_var=False).confidence_interval(
        0.95**0.5
    )
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert "paired where seeds are shared" in judged.notes[0]
    assert any("Arm dapo lacks seed 0, 1, 2, 3, 4" in note for note in judged.notes)
    assert "Welch" in judge(LONG, baseline="grpo", pair=False).notes[0]


def test_one_seed_resolves_nothing():
    judged = judge(LONG[LONG["seed"] == 0], baseline="grpo")
    assert set(judged.effects["word"]) == {"not resolved"}
    assert "2 of 2 have a single seed on a side: with one seed nothing is resolved." in judged.sentences


def test_the_arm_above_is_the_reference_of_a_ladder():
    judged = judge(LONG, baseline="above")
    assert list(judged.effects["reference"][:2]) == ["grpo", "dapo"]
    assert "comparison" in judged.sentences[0]


def test_the_price_of_a_family_is_told():
    rng = np.random.default_rng(5)
    rows = [
        (arm, seed, rng.normal(50, 1) + 1.6 * (arm == "a9"))
        for arm in ("base", *(f"a{i}" for i in range(10)))
        for seed in range(4)
    ]
    judged = judge(pd.DataFrame(rows, columns=["arm", "seed", "score"]))
    alone = [effect for effect in judged.families["alone"] if effect.estimate.resolved]
    wider = stats.t.ppf(0.5 + 0.95**0.1 / 2, 3) / stats.t.ppf(0.975, 3)
    assert f"Intervals without zero, of 10: alone {len(alone)}," in judged.sentences[1]
    assert f"Holding together makes an interval {wider:.1f} times as wide." in judged.sentences[1]


def test_groups_have_baselines_and_families_of_their_own():
    frame = pd.concat(
        [LONG.assign(model="1B"), LONG[LONG["arm"] != "gspo"].assign(model="7B").replace({"arm": {"grpo": "static"}})]
    )
    judged = judge(frame, by="model", baseline=["grpo", "static"])
    primary = judged.effects[judged.effects["benchmark"] == MEAN]
    assert list(zip(primary["group"], primary["reference"], strict=True)) == [
        ("1B", "grpo"),
        ("1B", "grpo"),
        ("7B", "static"),
    ]
    assert set(primary["family"]) == {3}
    own = {(effect.group, effect.estimate.family) for effect in judged.families["in the family of their group"]}
    assert own == {("1B", 2), ("7B", 1)}
    # Without by= the column that tells rows apart is taken, and it is told.
    guessed = judge(frame, baseline=["grpo", "static"])
    assert "Seeds repeat, so model is judged apart." in guessed.notes


def test_pass_at_k_has_one_band_over_all_k_and_no_mean_over_k():
    rng = np.random.default_rng(1)
    gains = np.array([0.08, 0.05, 0.0, -0.06])
    rows = [
        [arm, seed, *(np.array([0.3, 0.42, 0.54, 0.65]) + (arm == "dapo") * gains + rng.normal(0, 0.01, 4))]
        for arm in ("grpo", "dapo")
        for seed in range(6)
    ]
    judged = judge(pd.DataFrame(rows, columns=["arm", "seed", "pass@1", "pass@2", "pass@4", "pass@8"]), baseline="grpo")
    assert judged.title == "pass@1"
    assert any("higher at k 1, 2; lower at k 8 (one band over all k)" in line for line in judged.sentences)


def test_improvement_and_interquartile_mean_by_hand():
    frame = table("arm,seed,m,g\na,0,10,40\na,1,12,44\nb,0,11,41\nb,1,13,39")
    judged = judge(frame, baseline="a")
    # m: 11 > 10, 11 < 12, 13 > both: 3 of 4. g: 41 > 40, 41 < 44, 39 below both: 1 of 4.
    assert judged.improvement(judged.primary[0]) == pytest.approx(0.5)
    assert judged.interquartile(judged.primary[0]) == pytest.approx(np.mean([13, 39]) - np.mean([12, 40]))


def test_improvement_equals_scipy():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 4, (seeds, 3)).astype(float) for seeds in (5, 4))  # many ties
    wins = stats.mannwhitneyu(a, b, method="asymptotic").statistic
    assert probability_of_improvement(a, b) == pytest.approx(wins.mean() / (5 * 4))


def test_a_score_of_which_less_is_better_says_so_and_keeps_its_signs():
    frame = table("arm,seed,loss\na,0,2.0\na,1,2.4\na,2,2.2\nb,0,1.5\nb,1,2.1\nb,2,1.6")
    judged = judge(frame, baseline="a", score="loss", better="lower")
    (effect,) = judged.primary
    # Differences −0.5, −0.3, −0.6: mean −1.4/3, and t(0.975, 2) = 4.303 times their standard error is 0.379.
    assert (effect.estimate.value, effect.estimate.high) == pytest.approx((-1.4 / 3, -1.4 / 3 + 0.379), abs=1e-3)
    assert judged.sentences[0] == "On loss, lower is better: b is shown to do better than a: −0.47."
    assert judged.notes[0].endswith("benchmarks fixed, lower is better.")
    # Of nine pairs of runs, b is below a in all but 2.1 against 2.0.
    assert judged.improvement(effect) == pytest.approx(8 / 9)
    assert "scores below one of the reference" in judged.tables[-1].notes[0]
    assert judged.figure().axes[0].get_xlabel().startswith("difference in loss, lower is better (95 % interval)")
    with pytest.raises(ValueError, match="neither higher nor lower"):
        judge(frame, better="less")
    for margin in (0, -3, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be a finite number above 0"):
            judge(frame, margin=margin)
    usual = judge(frame, baseline="a", score="loss")
    assert usual.improvement(effect) == pytest.approx(1 / 9)
    assert "better" not in f"{usual.sentences} {usual.notes} {usual.figure().axes[0].get_xlabel()}"


def test_what_is_written_is_fit_for_a_paper(tmp_path: Path):
    judged = judge(LONG, baseline="grpo", name="four", margin=1)
    names = {path.name for path in judged.write(tmp_path, formats=("png",))}
    with pytest.raises(ValueError, match="columns=nosuch: no table has such a column; known: "):
        judged.write(tmp_path, columns=["nosuch"])
    assert {"four.md", "four.csv", "four.tex", "numbers.tex", "differences.png", "report.html", "effects.csv"} <= names
    assert "\\newcommand{\\FourDapoDelta}{+6." in (tmp_path / "numbers.tex").read_text()
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_a_name_in_the_table_never_becomes_markup(tmp_path: Path):
    frame = LONG.replace({"arm": {"dapo": "<script>alert(1)</script>"}})
    judge(frame, baseline="grpo").write(tmp_path, formats=())
    assert "<script>alert" not in (tmp_path / "report.html").read_text()


# ---- how a table is read ----


def test_guesses_are_told():
    notes = judge(WIDE).notes
    assert "Columns read as arm: arm; seed: seed; score: aime24, gsm8k, math500." in notes
    assert "Compared with dapo, the first arm." in notes
    assert "Unit: per cent." in notes


def test_columns_that_are_no_scores_are_told():
    frame = WIDE.assign(run_id=range(len(WIDE)), steps=300, lr=1e-6)
    notes = judge(frame, baseline="grpo").notes
    assert "No scores, by name or since every seed of an arm has the same: run_id, steps, lr." in notes


def test_the_last_step_of_a_curve_counts():
    frame = pd.concat([LONG.assign(step=10, score=1.0), LONG.assign(step=20)])
    judged = judge(frame, baseline="grpo")
    assert judged.effects["value"].tolist() == judge(LONG, baseline="grpo").effects["value"].tolist()
    assert f"The last step of each run counts: {len(LONG)} of {2 * len(LONG)} rows." in judged.notes


def test_runs_that_wandb_calls_crashed_are_left_out_and_told():
    rows = [(arm, seed, "finished", 0.5 + 0.01 * seed + (arm == "b") / 10) for arm in "ab" for seed in range(3)]
    frame = pd.DataFrame(
        [*rows, ("b", 3, "crashed", 0.0), ("a", 3, "finished", 0.5)], columns=["arm", "seed", "State", "score"]
    )
    judged = judge(frame, baseline="a")
    assert judged.effects["value"].iloc[0] == pytest.approx(10)
    assert any("Left out as not finished: 1 crashed (column State" in note for note in judged.notes)
    asked = judge(
        frame.assign(State=frame["State"].replace("finished", "crashed")), baseline="a", where={"State": "crashed"}
    )
    assert asked.effects["value"].iloc[0] < 0


def test_a_chart_that_wandb_exported():
    frame = table(
        "Step,grpo-seed1 - acc,grpo-seed1 - acc__MIN,dapo-seed1 - acc,grpo-seed2 - acc,dapo-seed2 - acc\n1,10,10,10,10,10\n2,20,20,30,25,37"
    )
    judged = judge(frame, baseline="grpo")
    assert judged.effects["value"].iloc[0] == pytest.approx(11.0)
    assert judged.effects["seeds"].iloc[0] == 2


def test_only_the_rows_that_where_names():
    frame = pd.concat([LONG.assign(metric="avg"), LONG.assign(metric="maj", score=0.0)])
    judged = judge(frame, baseline="grpo", where={"metric": "avg"})
    assert judged.effects["value"].tolist() == judge(LONG, baseline="grpo").effects["value"].tolist()


def test_a_missing_score_is_named_and_its_seed_left_out():
    frame = LONG.copy()
    frame.loc[1, "score"] = np.nan  # grpo, seed 0, aime24
    judged = judge(frame, baseline="grpo")
    assert "Row 3 (grpo, seed 0, aime24) has no score: that seed is left out there." in judged.notes
    assert judged.effects.set_index(["arm", "benchmark"]).loc[("dapo", MEAN), "seeds"] == 4


def test_a_benchmark_that_an_arm_lacks_is_not_in_the_mean():
    judged = judge(LONG[(LONG["arm"] != "gspo") | (LONG["benchmark"] != "aime24")], baseline="grpo")
    assert "Not in the mean, since an arm lacks it: aime24." in judged.notes


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("a,0,1,5\na,1,2,6\nb,0,3,\nb,1,4,\nc,0,,7\nc,1,,9", "No benchmark is common to all arms"),
        ("a,0,1,5\na,1,2,6\nc,0,,7\nc,1,2,", "No seed has all benchmarks"),
    ],
)
def test_differences_without_a_mean_are_said_to_stand_by_benchmark(rows: str, reason: str):
    judged = judge(table(f"arm,seed,m,g\n{rows}"), baseline="a")
    assert judged.sentences[0] == f"{reason}, so there is no mean; the differences stand in the table by benchmark."
    assert {effect.benchmark for effect in judged.by_benchmark} == {"m", "g"}
    readings = [row[key] for row in judged.tables[-1].rows for key in ("iqm", "improvement")]
    assert all(map(math.isnan, readings))


def test_rows_are_named_by_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("arm,seed,score\n\na,1,1\n\na,2,bad\n")
    (tmp_path / "a.jsonl").write_text('{"arm": "a", "seed": 1, "score": 1}\n{"arm": "a", "seed": 2, "score": "bad"}\n')
    for name, row in (("a.csv", 5), ("a.jsonl", 2)):
        with pytest.raises(TableError, match=f"row {row}: score='bad' is no number"):
            score_table(read_file(tmp_path / name), score="score")


def test_arms_stand_in_the_tables_order_whichever_rows_are_left_out() -> None:
    text = "arm,seed,step,score\n" + "".join(
        f"{arm},{seed},{step},{'' if (arm, seed) == ('plain', 0) else 50 + seed + step}\n"
        for seed in (0, 1)
        for arm, step in (("plain", 3), ("trick", 2), ("both", 3))
    )
    read = score_table(table(text))
    assert list(read.rows["arm"].unique()) == ["plain", "trick", "both"]
    assert read.baselines == {"": "plain"}


def test_a_run_without_a_step_counts_beside_runs_with_several() -> None:
    rows = score_table(table("arm,seed,step,score\na,1,1,50\na,1,2,51\nbase,1,,30\na,2,2,52\nbase,2,,31\n")).rows
    assert rows["value"].tolist() == [51, 52, 30, 31]


def test_names_with_blanks_around_them_are_one_arm_and_infinity_is_named() -> None:
    read = score_table(table("arm,seed,score\nGRPO ,1,50\n GRPO,2,51\nDAPO,1,52\nDAPO,2,inf\n"), score="score")
    assert list(read.rows["arm"]) == ["GRPO", "GRPO", "DAPO"]
    assert any("DAPO, seed 2, score) has no finite score" in note for note in read.notes)


def test_two_seeds_no_spread_and_the_margin_are_told() -> None:
    two = judge(table("arm,seed,score\na,1,50\na,2,51\nb,1,62\nb,2,63.5\n"), margin=3)
    assert any("2 seeds are too few to trust an interval" in line for line in two.sentences)
    assert any(note.startswith("Margin: 3 points") for note in two.notes)
    flat = judge(table("arm,seed,score\na,1,50\na,2,51\na,3,53\nb,1,60\nb,2,61\nb,3,63\n"))
    assert any("do not vary over the seeds, so there is no interval: b" in line for line in flat.sentences)
    fractions = judge(table("arm,seed,score\na,1,.5\na,2,.51\nb,1,.6\nb,2,.63\n"), margin=0.03)
    assert any("3 means 0.03 of 1" in note for note in fractions.notes)


def test_seeds_in_the_index_are_seeds() -> None:
    frame = table("arm,seed,score\na,1,50\na,2,51\nb,1,52\nb,2,53\n").set_index("seed")
    assert score_table(frame).rows["seed"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "arm,seed,score\na,1,50\na,1,51\nb,1,2",
            {},
            "rows 2 and 3 both have the score of a, seed 1, score; keep one of them",
        ),
        ("arm,seed,lr,score\na,1,1,50\na,1,2,51\nb,1,1,2", {}, "they differ in lr: by= or where= tells them apart"),
        (
            "arm,seed,score\na,1,50\na,2,0.52\nb,1,55",
            {},
            "per cent and fractions are mixed: row 3 has no score above 1",
        ),
        (
            "arm,seed,m,g\na,1,50,0.5\na,2,52,0.6\nb,1,55,0.7",
            {},
            "per cent and fractions are mixed: benchmark g has no score above 1",
        ),
        (
            "arm,seed,m,g\na,1,50%,0.5\na,2,52%,0.6\nb,1,55%,0.7",
            {},
            "per cent and fractions are mixed: g has no per cent sign",
        ),
        ("arm,seed,score\na,1,good\na,2,bad", {}, "row 2: score='good' is no number; 2 such rows"),
        ("arm,seed,note\na,1,x\na,2,y", {}, "these are text: note. Name the scores: score=COLUMN"),
        (
            "arm,seed,score\na,1,50\nb,1,51",
            {"baseline": "c"},
            "no arm is called 'c'; baseline= is one of a, b, or above",
        ),
        ("arm,seed,score\na,1,50\nb,1,51", {"arm": "x"}, "the table has no column 'x'; it has arm, seed, score"),
        ("x,y\n1,2", {}, "which column names the configurations? arm= is one of x, y"),
        ("arm,seed,score\n,1,50\nb,1,51", {}, "row 2 has no arm"),
        ("arm,seed,score\na,1,\nb,1,", {}, "no row has a score"),
        (
            "arm,m,seed,score\na,1,1,5\nb,2,1,5",
            {"by": "m", "baseline": "a"},
            "2 has no arm a; it has b: baseline=A,B names one",
        ),
        ("arm,seed,score,k\na,1,50,x\nb,1,51,x", {"where": {"k": "y"}}, "no row has k=y; it has x"),
        ("arm,step,score\na,1,50\na,2,51\nb,1,52\nb,2,53", {}, "no column of seeds, and step varies"),
        (
            "arm,seed,kl,val\na,1,0.5,5000\na,2,0.6,5001\nb,1,0.4,4000\nb,2,0.3,4001",
            {},
            "which of these columns are scores",
        ),
        ("arm,seed,score\na,,50\na,2,51\nb,1,52", {}, "row 2 has no seed"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text: str, options: dict[str, object], message: str):
    with pytest.raises(TableError) as refusal:
        score_table(table(text), **options)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b""), ("a.parquet", b"x"), ("a.json", b"{"), ("a.xlsx", b"x"), ("b.csv", b"\xff\xfe\x00")],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError) as refusal:
        read_file(tmp_path / name)
    assert str(tmp_path / name) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_model_is_never_dropped_for_the_steps_of_another():
    rows = [
        (model, arm, seed, step, 50 + gain * (arm == "dapo") + seed / 10 + step / 100)
        for model, last, gain in (("1.5B", 100, -5), ("7B", 200, 5))
        for arm in ("grpo", "dapo")
        for seed in (0, 1, 2)
        for step in (last // 2, last)
    ]
    frame = pd.DataFrame(rows, columns=["model", "arm", "seed", "step", "score"])
    judged = judge(frame, baseline="grpo")
    assert judged.effects.set_index("group")["value"].round(6).to_dict() == {"1.5B": -5, "7B": 5}
    numbered = frame.replace({"model": {"1.5B": 1e-6, "7B": 5e-6}}).rename(columns={"model": "lr"})
    with pytest.raises(TableError, match="are one arm, seed and step, and differ in lr"):
        judge(numbered, baseline="grpo")


def test_per_cent_signs_give_the_unit():
    judged = judge(table("arm,seed,score\na,1,0.4%\na,2,0.6%\nb,1,0.9%\nb,2,0.8%"), baseline="a")
    assert judged.effects["value"].iloc[0] == pytest.approx(0.35)


def test_names_stay_as_they_are_spelled(tmp_path: Path):
    (tmp_path / "a.csv").write_text(
        "arm,seed,score\nnan,1,50\nnan,2,51\n1e-3,1,60\n1e-3,2,62\n01,1,55\n01,2,56\n001,1,57\n001,2,58\n"
    )
    judged = judge(tmp_path / "a.csv", baseline="nan")
    assert [effect.arm for effect in judged.primary] == ["1e-3", "01", "001"]


def test_rows_that_a_long_table_lacks_are_told():
    judged = judge(
        LONG[~((LONG["arm"] == "grpo") & (LONG["seed"] == 1) & (LONG["benchmark"] == "aime24"))], baseline="grpo"
    )
    assert "Arm grpo, seed 1 lacks aime24." in judged.notes


def test_arms_that_sign_alike_have_numbers_of_their_own():
    arms = ("grpo", "grpo+", "grpo++", "grpo2")
    frame = pd.DataFrame([(arm, seed, 50 + place + seed / 7) for place, arm in enumerate(arms) for seed in range(3)])
    judged = judge(frame.set_axis(["arm", "seed", "score"], axis=1), baseline="grpo", name="coll")
    text = numbers_text(judged.tables[:1], {})
    names = re.findall(r"newcommand\{\\(\w+Score)\}", text)
    assert names == ["CollGrpoScore", "CollGrpoPlusScore", "CollGrpoPlusPlusScore", "CollGrpoTwoScore"]


def test_a_row_with_more_cells_than_the_header_is_refused(tmp_path: Path):
    (tmp_path / "a.csv").write_text("arm,seed,score\na,0,1,5\nb,0,2\n")
    with pytest.raises(TableError, match="row 2 has 4 cells, and the header 3"):
        judge(tmp_path / "a.csv")
