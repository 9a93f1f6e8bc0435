"""Claims judged: the word for every place of an interval, hardly engaged mechanisms, late declarations, and what is written."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from synthetic_store import SHORT, build_store

from analysis.claims.judged import effect_of, effects_of
from analysis.claims.load import all_judged
from analysis.claims.pages import page
from analysis.claims.record import read_effects, write_effects
from analysis.claims.table import claims_table, effect_text, wrong_words
from analysis.evidence.stored_plan import parse_plan
from harness.cli import main
from harness.commands.audit import judge, show
from harness.statistics.estimate import Estimate, Verdict
from harness.statistics.finding import Finding, finding, settled
from harness.store import StoreError

HOLDS, REVERSED, NOTHING, OPEN, NOT_ENGAGED = Finding
CLAIM = {
    "statement": "It helps <a lot>.",
    "source": "arXiv:0000.00000",
    "setting": "large",
    "expects": "higher",
    "differs": "Size.",
}


@pytest.mark.parametrize(
    ("expects", "low", "high", "word"),
    [
        ("higher", 1, 5, HOLDS),
        ("higher", 0.5, 2, HOLDS),  # inside the margin, but there
        ("higher", -5, -1, REVERSED),
        ("higher", -2, 2, NOTHING),
        ("higher", -2, 4, OPEN),
        ("lower", -5, -1, HOLDS),
        ("lower", 1, 5, REVERSED),
        ("lower", -2, 2, NOTHING),
        ("equivalent", -2, 2, HOLDS),
        ("equivalent", 0.5, 2, HOLDS),
        ("equivalent", 1, 5, OPEN),  # may be within the margin
        ("equivalent", 4, 5, REVERSED),
        ("equivalent", -9, -4, REVERSED),
        ("equivalent", -4, 1, OPEN),
        ("not_lower", -2, 9, HOLDS),  # no worse by the margin, whatever it gains
        ("not_lower", -2, -1, HOLDS),
        ("not_lower", -5, -1, OPEN),  # lower, and whether by the margin is open
        ("not_lower", -5, -4, REVERSED),
        ("not_lower", -5, 1, OPEN),
        ("not_higher", -9, 2, HOLDS),
        ("not_higher", 1, 5, OPEN),
        ("not_higher", 4, 5, REVERSED),
        ("not_higher", -1, 5, OPEN),
        ("higher", math.nan, math.nan, OPEN),
    ],
)
def test_the_word_for_every_place_of_an_interval(expects, low, high, word):
    effect = Estimate((low + high) / 2, low, high, seeds=8, margin=3.0)
    assert finding(effect, expects, hardly=False) is word
    known = math.isnan(low) or low > 0 or high < 0
    assert finding(effect, expects, hardly=True) is (word if known else NOT_ENGAGED)


def claimed(root, *, expects="higher", declaration="a", first="a", share=None, accuracy=0.7):
    """A store with one claim over two arms that differ by 40 points, unless the second's accuracy is given."""
    rungs = [("plain", "plain", 0.3, 1.0), ("trick", "with the trick", accuracy, 1.0)]
    store = build_store(root, rungs=rungs, name="claim_trick", **SHORT)
    declared = {"claim": CLAIM | {"expects": expects}, "declaration": declaration, "margin": 3.0}
    plan = {**store.plan("claim_trick"), **declared}
    measure = {"name": "tokens clipped", "keys": ["k"], "unit": "of tokens", "fields": ["clip_fraction_high"]}
    if share is not None:
        plan["arms"][1]["engagement"] = [measure | {"threshold": share, "arm": "trick"}]
    store.write_plan("claim_trick", plan)
    path = root / "experiments" / "claim_trick" / "claim.json"
    path.write_text(json.dumps({"declaration": first}))
    return store


def test_a_claim_is_judged_by_its_experiment(tmp_path):
    claimed(tmp_path)
    build_store(tmp_path, seeds=(0,), name="no_claim")
    (one,), unread = all_judged(tmp_path)
    assert unread == []
    assert (one.name, one.finding, one.seeds, one.declared_after) == ("trick", HOLDS, 3, False)
    assert one.effect.low < 40 < one.effect.high
    assert one.generated_tokens > 0


@pytest.mark.parametrize(("accuracy", "word"), [(0.305, NOT_ENGAGED), (0.7, HOLDS)])
def test_where_the_mechanism_hardly_acted_nothing_follows_but_an_effect_that_is_there(
    tmp_path, accuracy, word
):
    claimed(tmp_path, share=0.5, accuracy=accuracy)  # a threshold far above what the synthetic runs have
    (one,), _ = all_judged(tmp_path)
    assert one.finding is word
    assert "hardly engaged" in one.engaged


def test_a_declaration_changed_after_its_first_run_says_so(tmp_path):
    claimed(tmp_path, declaration="b", first="a", expects="lower")
    (one,), _ = all_judged(tmp_path)
    assert one.verdict == "reversed here (declared after the fact)"


def test_page_table_and_figure_are_written_and_the_same_twice(tmp_path, said):
    claimed(tmp_path)
    out = tmp_path / "claims"
    assert "1 claims: 1 holds here" in said("audit", "--judge", "claim=all", f"runtime.results={tmp_path}")
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    files = {"README.md", "trick.md", "claims.csv", "claims.tex", "claims.pdf", "claims.png"}
    assert {path.name for path in first} >= files
    assert "holds here" in (out / "trick.md").read_text()
    assert main(["audit", "--judge", "claim=all", f"runtime.results={tmp_path}"]) == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first


def test_judging_one_claim_leaves_what_is_about_all_as_it_is(tmp_path, capsys):
    claimed(tmp_path)
    out = tmp_path / "claims"
    assert main(["audit", "--judge", "claim=all", f"runtime.results={tmp_path}"]) == 0
    (out / "README.md").write_text("of all")
    (out / "trick.md").unlink()
    capsys.readouterr()
    judged = judge(tmp_path, ["trick"])
    assert (out / "README.md").read_text() == "of all"
    assert "holds here" in (out / "trick.md").read_text()
    show(judged, argparse.Namespace())
    said = capsys.readouterr().out
    assert "1 claims: 1 holds here" in said
    assert "harness audit claim=all --judge" in said


def test_an_empty_store_and_an_unknown_claim_are_said(tmp_path, capsys, said):
    build_store(tmp_path, seeds=(0,), name="no_claim")
    assert "harness audit" in said("audit", "--judge", "claim=all", f"runtime.results={tmp_path}", code=2)
    with pytest.raises(StoreError, match="harness audit claim=all"):
        judge(tmp_path, ["absent"])
    assert "claim_absent" in capsys.readouterr().err


def test_an_effect_without_a_value_or_an_interval_is_no_nan(tmp_path):
    claimed(tmp_path)
    (one,), _ = all_judged(tmp_path)
    never = dataclasses.replace(one, effect=Estimate(math.nan, seeds=8, absent="not reached in 2 of 8 seeds"))
    assert effect_text(never) == "not reached in 2 of 8 seeds"
    assert "not reached in 2 of 8 seeds" in page(never)
    assert effect_text(dataclasses.replace(one, effect=Estimate(0.5, seeds=8))) == "+0.5 points"


def test_a_claim_of_no_harm_goes_on_where_lower_does_not_say_by_how_much(tmp_path):
    """The same two arms: *lower* closes the comparison, and the claim stays open while looks are left."""
    plan = dataclasses.replace(parse_plan(claimed(tmp_path).plan("claim_trick")), looks=(2, 3))
    word = Estimate(-0.02, -0.04, -0.005, seeds=2, margin=0.03)
    assert word.verdict == Verdict.LOWER
    assert settled(word, None)
    assert settled(word, "higher")
    assert not settled(word, "not_lower")
    assert settled(dataclasses.replace(word, high=-0.035), "not_lower")
    assert plan.expects == "higher"


def test_an_open_claim_with_looks_left_says_so(tmp_path):
    store = claimed(tmp_path, accuracy=0.3)
    store.write_plan("claim_trick", {**store.plan("claim_trick"), "looks": [3, 5], "seeds": [0, 1, 2]})
    (one,), _ = all_judged(tmp_path)
    assert one.verdict == "open, 3 of up to 5 seeds run"
    assert "3 of up to 5 seeds run. Nothing is decided." in page(one)
    assert dataclasses.replace(one, looks=(3,)).verdict == "open"


@pytest.mark.parametrize(
    ("expects", "low", "high", "seeds"),
    [
        ("higher", -2.5, 3.5, 12),  # 0.5 +- 3: within the margin of 3 at +- 2.5
        ("higher", -2.0, 7.0, 26),  # 2.5 +- 4.5: above zero at +- 2.5
        ("not_lower", -4.0, 0.0, 32),  # -2 +- 2: above -3 at +- 1
        ("not_higher", 0.0, 4.0, 32),
        ("equivalent", 0.0, 4.0, 32),
    ],
)
def test_an_open_claim_says_how_many_seeds_it_would_take(tmp_path, expects, low, high, seeds):
    claimed(tmp_path, accuracy=0.3)
    (one,), _ = all_judged(tmp_path)
    effect = Estimate((low + high) / 2, low, high, seeds=8, margin=3.0)
    claim = one.claim | {"expects": expects}
    open_ = {"finding": OPEN, "effect": effect, "margin": 3.0, "looks": (8,)}
    found = dataclasses.replace(one, claim=claim, **open_)
    assert found.seeds_to_decide == seeds
    assert f"about {seeds} seeds would decide it" in page(found)
    assert dataclasses.replace(found, finding=HOLDS).seeds_to_decide == 0


def looked_at_again(root, *, accuracy=0.7, seeds=(3, 4, 5), start=3, protocol="p", kept=None, missing=()):
    """`claimed`, and a second look at it on other seeds, that starts from the base policies from `start` on."""
    store = claimed(root)
    own = {"protocol": "p", "starts": {str(seed): f"set/{seed}" for seed in (0, 1, 2)}}
    store.write_plan("claim_trick", {**store.plan("claim_trick"), **own})
    rungs = [("plain", "plain", 0.3, 1.0), ("trick", "with the trick", accuracy, 1.0)]
    build_store(root, rungs=rungs, name="claim_trick_second", seeds=seeds, missing=missing, **SHORT)
    declared = {
        "claim": CLAIM,
        "margin": 3.0,
        "declaration": "b",
        "replicates": "claim_trick",
        "protocol": protocol,
    }
    starts = {str(seed): f"set/{start + place}" for place, seed in enumerate(seeds)}
    store.write_plan("claim_trick_second", {**store.plan("claim_trick_second"), **declared, "starts": starts})
    kept = {"declaration": "b", "chance": 0.9, **(kept or {})}
    (root / "experiments" / "claim_trick_second" / "claim.json").write_text(json.dumps(kept))
    return store


def test_a_second_look_stands_beside_the_first_and_both_have_one_interval(tmp_path):
    looked_at_again(tmp_path)
    (one,), unread = all_judged(tmp_path)
    assert unread == []
    assert one.verdict == "holds, replicated"
    assert (one.both.seeds, one.both.value) == (
        6,
        pytest.approx((one.effect.value + one.second.effect.value) / 2),
    )
    assert one.p_value == pytest.approx(max(one.p_value, replace(one, second=None).p_value))
    said = page(one)
    assert "**Second look.**" in said
    assert "on seeds 3 to 5" in said
    assert "it had 90 % to say the same word" in said
    (row,) = claims_table([one]).rows
    assert (row["verdict"], row["seeds"]) == ("holds, replicated", "3+3")
    assert row["corrected"].startswith("holds, replicated (p ")
    assert "said again though wrong, of 1 looked at twice: 0.00" in wrong_words([one])


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [(0.305, "first look only: holds here, then"), (0.1, "contradicted: holds here, then reversed here")],
)
def test_another_word_is_no_replication(tmp_path, accuracy, verdict):
    looked_at_again(tmp_path, accuracy=accuracy)
    (one,), _ = all_judged(tmp_path)
    assert one.verdict.startswith(verdict)
    assert one.p_value == 1.0 or accuracy > 0.3
    assert "open (p " in claims_table([one]).rows[0]["corrected"]


def test_a_second_look_that_stays_open_says_what_a_decision_takes(tmp_path):
    looked_at_again(tmp_path)
    (one,), _ = all_judged(tmp_path)
    effect = Estimate(
        -0.6, -3.3, 2.1, seeds=16
    )  # a half of 2.7, 2.4 from the margin of 3: 16 x (2.7 / 2.4)^2 = 20.25
    stays = replace(one.second, finding=Finding.OPEN, effect=effect, looks=(8, 12, 16))
    assert "Nothing is decided. If the effect is what was found, about 21 seeds" in page(
        replace(one, second=stays)
    )
    assert "would decide it" not in page(one)


def test_a_second_look_that_has_just_begun_says_so(tmp_path):
    """Stopped before any seed has both arms; the first look keeps its page."""
    looked_at_again(tmp_path, missing={(1, seed): "running" for seed in (3, 4, 5)})
    (one,), (line,) = all_judged(tmp_path)
    assert (one.second, one.verdict) == (None, "holds here")
    assert line.startswith("claim_trick_second: no seed of both arms has finished yet")
    assert "Second look" not in page(one)


def test_a_second_look_that_shares_a_base_policy_is_refused(tmp_path):
    looked_at_again(tmp_path, start=2)
    (one,), (line,) = all_judged(tmp_path)
    assert one.second is None
    assert "they share the base policy set/2" in line


def test_looks_of_different_protocols_are_not_pooled(tmp_path):
    looked_at_again(tmp_path, protocol="another")
    (one,), _ = all_judged(tmp_path)
    assert (one.both, one.not_pooled) == (None, "the two looks have different protocols")
    assert "No common interval: the two looks have different protocols." in page(one)


def test_a_claim_changed_after_its_first_run_says_so_in_both_looks(tmp_path):
    looked_at_again(tmp_path, kept={"changed": True})
    (one,), _ = all_judged(tmp_path)
    assert (one.declared_after, one.second.declared_after) == (True, True)
    assert one.verdict == "holds, replicated (declared after the fact)"


def test_a_row_of_the_record_stands_for_a_first_look_whose_runs_are_elsewhere(tmp_path):
    looked_at_again(tmp_path / "here")
    (one,), _ = all_judged(tmp_path / "here")
    write_effects(effects_of([one]), tmp_path / "effects")
    first, second = read_effects(tmp_path / "effects.csv")
    assert (first, second) == (effect_of(one), effect_of(one.second, "second"))
    assert pd.read_parquet(tmp_path / "effects.parquet")["effect"].tolist() == [first.effect, second.effect]
    looked_at_again(tmp_path / "there", kept={"first": first.record()})
    shutil.rmtree(tmp_path / "there" / "experiments" / "claim_trick")
    (only,), _ = all_judged(tmp_path / "nothing", record=tmp_path / "effects.csv")
    assert (only.verdict, effect_text(only), page(only)) == (one.verdict, effect_text(one), page(one))
    (again,), unread = all_judged(tmp_path / "there")
    assert unread == []
    assert (again.verdict, effect_text(again), again.both) == (one.verdict, effect_text(one), one.both)


def test_a_record_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(StoreError, match="no record of effects"):
        read_effects(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_text("experiment,effect\nclaim_x,much\n")
    with pytest.raises(StoreError, match="effect='much' is no number"):
        read_effects(tmp_path / "bad.csv")
