"""What is said of anybody's table of scores, beside scipy and numbers worked by hand."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tables import table

from analysis import judge
from analysis.judged_scores import MEAN
from analysis.tables.table import numbers_text, to_frame

LONG = pd.DataFrame(
    [
        (arm, seed, benchmark, level + gain + noise)
        for arm, gain in (("grpo", 0.0), ("dapo", 6.0), ("gspo", 0.5))
        for seed, noise in enumerate((0.4, -0.2, 0.9, -1.1, 0.3))
        for benchmark, level in (("math500", 70.0 + gain * seed / 9), ("aime24", 20.0), ("gsm8k", 85.0))
    ],
    columns=["arm", "seed", "benchmark", "score"],
)
BENCHMARKS = ["math500", "aime24", "gsm8k"]


def frame_of(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def means(frame: pd.DataFrame, arm: str) -> pd.Series:
    return frame[frame["arm"] == arm].groupby("seed")["score"].mean()


def test_differences_are_students_t_over_seeds_and_hold_together():
    judged = judge(LONG, baseline="grpo", margin=1)
    effects = judged.effects[judged.effects["benchmark"] == MEAN].set_index("arm")
    level = 0.95 ** (1 / 2)
    for arm in ("dapo", "gspo"):
        by_hand = stats.ttest_rel(means(LONG, arm), means(LONG, "grpo")).confidence_interval(level)
        row = effects.loc[arm]
        assert (row["low"], row["high"]) == pytest.approx((by_hand.low, by_hand.high))
        assert (row["level"], row["family"], row["seeds"]) == (pytest.approx(level), 2, 5)
    assert effects.loc["dapo", "word"] == "higher"
    assert judged.sentences[0].startswith("On the mean over benchmarks: dapo ")
    assert "Verdicts: with the margin given, 1 point." in judged.sentences
    single = judged.effects[judged.effects["benchmark"].isin(BENCHMARKS)]
    assert (len(single), set(single["family"])) == (6, {6})
    assert single.loc[single["low"].isna(), "word"].eq("not resolved").all()


def test_wide_fractions_and_the_ladders_reference():
    wide = LONG.pivot(index=["arm", "seed"], columns="benchmark", values="score").div(100).reset_index()
    judged = judge(wide, baseline="grpo", score=BENCHMARKS)
    keys = ["arm", "benchmark"]
    expected = judge(LONG, baseline="grpo").effects.sort_values(keys)
    for name in ("value", "low"):
        np.testing.assert_allclose(judged.effects.sort_values(keys)[name], expected[name])
    assert "mean over benchmarks % (95 % interval)" in [column.header for column in judged.tables[0].columns]
    above = judge(LONG, baseline="above")
    assert list(above.effects["reference"][:2]) == ["grpo", "dapo"]
    assert "comparison" in above.sentences[0]


@pytest.mark.parametrize("shared", [0, 1, 2, 3, 8])
def test_arms_are_paired_where_they_have_the_same_seeds_and_only_there(shared: int):
    """Two shared seeds of eight dropped twelve scores of sixteen, and the word."""
    rng = np.random.default_rng(0)
    base, new = 50 + rng.normal(0, 0.5, 8), 52 + rng.normal(0, 0.5, 8)
    rows = [("base", seed, score) for seed, score in enumerate(base)]
    rows += [("new", seed + 8 - shared, score) for seed, score in enumerate(new)]
    frame = pd.DataFrame(rows, columns=["arm", "seed", "score"])
    (effect,) = judge(frame).primary
    want = stats.ttest_rel(new, base) if shared == 8 else stats.ttest_ind(new, base, equal_var=False)
    interval = want.confidence_interval()
    assert (effect.estimate.low, effect.estimate.high) == pytest.approx((interval.low, interval.high))
    assert "Welch" in judge(frame, pair="none").sentences[1]
    if shared == 3:  # on request, over the seeds that both have
        asked = stats.ttest_rel(new[:3], base[5:]).confidence_interval()
        (effect,) = judge(frame, pair="seed").primary
        assert (effect.estimate.low, effect.estimate.high) == pytest.approx((asked.low, asked.high))


def test_repeated_evaluations_are_no_runs():
    noise = [0.4, -0.2, 0.9]
    rows = [
        (arm, seed, again, 50 + seed + noise[seed] * (arm == "b") + (again - 0.5) * 4)
        for arm in "ab"
        for seed in range(3)
        for again in (0, 1)
    ]
    frame = pd.DataFrame(rows, columns=["arm", "seed", "evaluation_seed", "score"])
    (effect,) = judge(frame, evaluation_seed="evaluation_seed").primary
    want = stats.ttest_1samp(noise, 0).confidence_interval()
    assert (effect.estimate.low, effect.estimate.high, effect.estimate.seeds) == pytest.approx((want.low, want.high, 3))


@pytest.mark.parametrize("scale", [1, 100])
def test_an_interval_of_a_share_holds_no_impossible_value_in_any_file(scale: int):
    frame = frame_of("arm,seed,score\na,0,.96\na,1,.99\na,2,.90\nb,0,.99\nb,1,1\nb,2,.98")
    judged = judge(frame.assign(score=scale * frame["score"]))
    assert to_frame(judged.tables[0])["score_high"].max() == scale
    assert "100.0]" in judged.tables[0].text()[0][1]


@table(__file__, "obstacles", "text, options, words")
def test_what_stands_in_the_way_is_said(text: str, options: dict[str, object], words: str):
    assert words in " ".join(judge(frame_of(text), baseline="a", **options).sentences)


def test_what_an_arm_lacks_is_noted():
    lacking = LONG[~((LONG["arm"] == "grpo") & (LONG["seed"] == 1) & (LONG["benchmark"] == "aime24"))]
    judged = judge(lacking, baseline="grpo")
    assert "Arm grpo, seed 1 lacks aime24." in judged.notes
    assert judged.effects.set_index(["arm", "benchmark"]).loc[("dapo", MEAN), "seeds"] == 4
    without = LONG[(LONG["arm"] != "gspo") | (LONG["benchmark"] != "aime24")]
    assert "Not in the mean, since an arm lacks it: aime24." in judge(without, baseline="grpo").notes
    early = LONG[(LONG["arm"] != "dapo") | (LONG["seed"] < 4)]
    assert "Arm dapo lacks seed 4." in judge(early, baseline="grpo").notes


def test_the_price_of_a_family_is_told():
    rng = np.random.default_rng(5)
    arms = ("base", *(f"a{i}" for i in range(10)))
    rows = [(arm, seed, rng.normal(50, 1) + 1.6 * (arm == "a9")) for arm in arms for seed in range(4)]
    frame = pd.DataFrame(rows, columns=["arm", "seed", "score"])
    wide = frame.pivot(index="seed", columns="arm", values="score")
    alone = sum(stats.ttest_rel(wide[arm], wide["base"]).pvalue < 0.05 for arm in arms[1:])
    told = f"All 10 are simultaneous at 95 % (Šidák). Without zero: 0; of single intervals {alone}, and 0.5 by chance alone."
    assert told in judge(frame).sentences


def test_the_family_is_that_of_all_comparisons_whether_they_can_be_tested_or_not():
    judged = judge(frame_of("arm,seed,score\na,0,50\na,1,51\nb,0,52\nb,1,54\nc,0,53"), baseline="a")
    assert {effect.estimate.family for effect in judged.primary} == {2}
    lacking = LONG[(LONG["arm"] != "gspo") | (LONG["benchmark"] != "aime24")]
    assert {effect.estimate.family for effect in judge(lacking).by_benchmark} == {6}


def test_groups_have_baselines_of_their_own_and_one_family():
    large = LONG[LONG["arm"] != "gspo"].assign(model="7B").replace({"arm": {"grpo": "static"}})
    frame = pd.concat([LONG.assign(model="1B"), large])
    judged = judge(frame, by="model", baseline=["grpo", "static"])
    primary = judged.effects[judged.effects["benchmark"] == MEAN]
    pairs = [("1B", "grpo"), ("1B", "grpo"), ("7B", "static")]
    assert list(zip(primary["group"], primary["reference"], strict=True)) == pairs
    assert set(primary["family"]) == {3}


def test_a_score_of_which_less_is_better_says_so_and_keeps_its_signs():
    frame = frame_of("arm,seed,loss\na,0,2.0\na,1,2.4\na,2,2.2\nb,0,1.5\nb,1,2.1\nb,2,1.6")
    judged = judge(frame, baseline="a", score="loss", better="lower")
    (effect,) = judged.primary
    # Differences −0.5, −0.3, −0.6: mean −1.4/3, and t(0.975, 2) = 4.303 times their standard error is 0.379.
    assert (effect.estimate.value, effect.estimate.high) == pytest.approx((-1.4 / 3, -1.4 / 3 + 0.379), abs=1e-3)
    assert judged.sentences[0] == "On loss, lower is better: b is shown to do better than a: −0.47."
    assert judged.figure().axes[0].get_xlabel().startswith("difference in loss, lower is better (95 % interval)")
    usual = judge(frame, baseline="a", score="loss")
    assert "better" not in f"{usual.sentences[1:]} {usual.notes} {usual.figure().axes[0].get_xlabel()}"


@pytest.mark.parametrize(
    "options", [{"better": "x"}, {"pair": "x"}, {"unit": "x"}, *({"margin": m} for m in (0, -3, math.nan, math.inf))]
)
def test_wrong_options_are_refused(options: dict[str, object]):
    with pytest.raises(ValueError, match=r"is not known|must be a finite number above 0"):
        judge(LONG, **options)


def test_what_is_written_is_fit_for_a_paper_and_replaces_what_was_written(tmp_path: Path):
    frame = LONG.replace({"arm": {"gspo": "<script>alert(1)</script>"}})
    names = {
        path.name for path in judge(frame, baseline="grpo", name="four", margin=1).write(tmp_path, formats=("png",))
    }
    assert {"four.md", "four.csv", "four.tex", "numbers.tex", "differences.png", "report.html", "effects.csv"} <= names
    assert "\\newcommand{\\FourDapoDelta}{+6." in (tmp_path / "numbers.tex").read_text()
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<script>alert" not in page
    assert (tmp_path / "four-benchmarks.tex").exists()
    one = judge(LONG[LONG["benchmark"] == "aime24"], baseline="grpo", name="four")
    one.write(tmp_path, formats=())
    assert not (tmp_path / "four-benchmarks.tex").exists()
    with pytest.raises(ValueError, match="columns=nosuch: no table has such a column; known: "):
        one.write(tmp_path, columns=["nosuch"])


def test_arms_that_sign_alike_have_numbers_of_their_own():
    arms = ("grpo", "grpo+", "grpo++", "grpo2")
    frame = pd.DataFrame([(arm, seed, 50 + place + seed / 7) for place, arm in enumerate(arms) for seed in range(3)])
    judged = judge(frame.set_axis(["arm", "seed", "score"], axis=1), baseline="grpo", name="coll")
    names = re.findall(r"newcommand\{\\(\w+Score)\}", numbers_text(judged.tables[:1], {}))
    assert names == ["CollGrpoScore", "CollGrpoPlusScore", "CollGrpoPlusPlusScore", "CollGrpoTwoScore"]
