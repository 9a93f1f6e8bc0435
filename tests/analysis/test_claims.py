"""Claims judged: the word for every place of an interval, hardly engaged mechanisms, late declarations, second looks."""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import replace

import pytest
from synthetic_store import SHORT, build_store

from analysis.claims import (
    JudgedClaim,
    Look,
    adjusted_p_values,
    claims_figure,
    claims_table,
    effect_text,
    effects_frame,
    judged_claims,
    wrong_words,
)
from analysis.figures.drawing import figure_style
from harness.cli import main
from harness.commands.audit import judge, show
from harness.evaluation.metrics.names import metric
from harness.statistics.intervals import Estimate, Finding, Verdict, finding, is_settled
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


def claimed(root, *, expects="higher", declaration="a", first="a", share=None, accuracy=0.7, **fields):
    """A store with one claim over two arms that differ by 40 points, unless the second's accuracy is given."""
    rungs = [("plain", "plain", 0.3, 1.0), ("trick", "with the trick", accuracy, 1.0)]
    measure = {"name": "tokens clipped", "keys": ["k"], "unit": "of tokens", "fields": ["clip_fraction_high"]}
    measure |= {"threshold": share, "arm": "trick"}
    fields |= {"claim": CLAIM | {"expects": expects}, "declaration": declaration, "margin": 3.0}
    arm_fields = [{}, {"engagement": [] if share is None else [measure]}]
    build_store(root, rungs=rungs, name="claim_trick", arm_fields=arm_fields, **fields, **SHORT)
    path = root / "experiments" / "claim_trick" / "claim.json"
    path.write_text(json.dumps({"declaration": first}))


def with_plan(look: Look, **changes) -> Look:
    return replace(look, plan=replace(look.plan, **changes))


def with_estimate(look: Look, **changes) -> Look:
    return replace(look, effect=replace(look.effect, estimate=replace(look.effect.estimate, **changes)))


def test_a_claim_is_judged_by_its_experiment(tmp_path):
    claimed(tmp_path)
    build_store(tmp_path, seeds=(9,), name="no_claim")
    (claim,), unread = judged_claims(tmp_path)
    assert unread == []
    assert (claim.name, claim.first.finding, claim.first.seeds, claim.late) == ("trick", HOLDS, 3, False)
    assert claim.first.effect.shown_estimate.low < 40 < claim.first.effect.shown_estimate.high
    assert claim.first.tokens > 0


@pytest.mark.parametrize(("accuracy", "word"), [(0.305, NOT_ENGAGED), (0.7, HOLDS)])
def test_where_the_mechanism_hardly_acted_nothing_follows_but_an_effect_that_is_there(tmp_path, accuracy, word):
    claimed(tmp_path, share=0.5, accuracy=accuracy)  # a threshold far above what the synthetic runs have
    (claim,), _ = judged_claims(tmp_path)
    assert claim.first.finding is word
    assert "hardly engaged" in claim.first.effect.engaged


def test_a_declaration_changed_after_its_first_run_says_so(tmp_path):
    claimed(tmp_path, declaration="b", first="a", expects="lower")
    (claim,), _ = judged_claims(tmp_path)
    assert claim.verdict == "reversed here (declared after the fact)"


def test_page_table_and_figure_are_written_the_same_twice_and_link_to_nothing_that_is_not_there(tmp_path, said):
    claimed(tmp_path)
    out = tmp_path / "claims"
    assert "1 claims: 1 holds here" in said("audit", "--judge", "claim=all", f"runtime.results={tmp_path}")
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    files = {"README.md", "claims.md", "claims.csv", "effects.csv", "claims.pdf", "claims.png"}
    assert {path.name for path in first} >= files
    assert "holds here" in (out / "claims.md").read_text()
    links = re.findall(r"\]\(([^)#]+)", (out / "README.md").read_text() + (out / "claims.md").read_text())
    assert links
    assert all((out / link).is_file() for link in links)
    assert main(["audit", "--judge", "claim=all", f"runtime.results={tmp_path}"]) == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first


def test_judging_one_claim_leaves_what_is_about_all_as_it_is(tmp_path, capsys):
    claimed(tmp_path)
    judged = judge(tmp_path, ["trick"])
    assert not (tmp_path / "claims").exists()
    show(judged, argparse.Namespace())
    said = capsys.readouterr().out
    assert "1 claims: 1 holds here" in said
    assert "harness audit claim=all --judge" in said


def test_an_empty_store_and_an_unknown_claim_are_said(tmp_path, capsys, said):
    build_store(tmp_path, seeds=(9,), name="no_claim")
    assert "harness audit" in said("audit", "--judge", "claim=all", f"runtime.results={tmp_path}", code=2)
    with pytest.raises(StoreError, match="harness audit claim=all"):
        judge(tmp_path, ["absent"])
    assert "claim_absent" in capsys.readouterr().err


def test_an_effect_without_a_value_or_an_interval_is_no_nan():
    absent = Estimate(math.nan, seeds=8, absent="not reached in 2 of 8 seeds")
    assert effect_text(absent, metric("avg")) == "not reached in 2 of 8 seeds"
    assert effect_text(Estimate(0.5, seeds=8), metric("avg")) == "+0.5 points"


def test_a_claim_of_no_harm_goes_on_where_lower_does_not_say_by_how_much():
    """*Lower* closes the comparison, and the claim stays open while looks are left."""
    word = Estimate(-0.02, -0.04, -0.005, seeds=2, margin=0.03)
    assert word.verdict == Verdict.LOWER
    assert is_settled(word, None)
    assert is_settled(word, "higher")
    assert not is_settled(word, "not_lower")
    assert is_settled(replace(word, high=-0.035), "not_lower")


def test_an_open_claim_with_looks_left_says_so(tmp_path):
    claimed(tmp_path, accuracy=0.3, looks=[3, 5])
    (claim,), _ = judged_claims(tmp_path)
    assert claim.verdict == "open, 3 of up to 5 seeds run"
    assert JudgedClaim(with_plan(claim.first, looks=(3,))).verdict == "open"


def looked_at_again(root, *, accuracy=0.7, seeds=(3, 4, 5), start=3, protocol="p", kept=None, missing=()):
    """`claimed`, and a second look at it on other seeds, that starts from the base policies from `start` on."""
    claimed(root, protocol="p", starts={str(seed): f"set/{seed}" for seed in (0, 1, 2)})
    rungs = [("plain", "plain", 0.3, 1.0), ("trick", "with the trick", accuracy, 1.0)]
    fields = {"claim": CLAIM, "margin": 3.0, "declaration": "b", "replicates": "claim_trick", "protocol": protocol}
    fields["starts"] = {str(seed): f"set/{start + place}" for place, seed in enumerate(seeds)}
    build_store(root, rungs=rungs, name="claim_trick_second", seeds=seeds, missing=missing, **fields, **SHORT)
    kept = {"declaration": "b", **(kept or {})}
    (root / "experiments" / "claim_trick_second" / "claim.json").write_text(json.dumps(kept))


def test_a_second_look_stands_beside_the_first_and_both_have_one_interval(tmp_path):
    looked_at_again(tmp_path)
    (claim,), unread = judged_claims(tmp_path)
    assert unread == []
    assert claim.verdict == "holds, replicated"
    values = (claim.first.effect.shown_estimate.value, claim.second.effect.shown_estimate.value)
    assert (claim.pooled_effect.seeds, claim.pooled_effect.value) == (6, pytest.approx(sum(values) / 2))
    assert claim.p_value >= JudgedClaim(claim.first).p_value
    (row,) = claims_table([claim]).rows
    assert (row["verdict"], row["seeds"]) == ("holds, replicated", "3+3")
    assert row["corrected"].startswith("holds, replicated (p ")
    assert "Of 1 looked at twice, 0.00 are said again though wrong." in wrong_words([claim])
    frame = effects_frame([claim])
    assert frame["look"].tolist() == ["first", "second"]
    assert frame["effect"].tolist() == pytest.approx(values)
    assert frame["seeds"].tolist() == ["0 1 2", "3 4 5"]
    with figure_style("paper"):
        (label,) = claims_figure(frame.assign(title="x" * 50)).axes[0].get_yticklabels()
    assert label.get_text() == f"{'x' * 41}… →"


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [(0.305, "first look only: holds here, then"), (0.1, "contradicted: holds here, then reversed here")],
)
def test_another_word_is_no_replication(tmp_path, accuracy, verdict):
    looked_at_again(tmp_path, accuracy=accuracy)
    (claim,), _ = judged_claims(tmp_path)
    assert claim.verdict.startswith(verdict)
    assert claim.p_value == 1.0 or accuracy > 0.3
    assert "open (p " in claims_table([claim]).rows[0]["corrected"]


def test_the_page_is_adjusted_as_benjamini_and_yekutieli_say(tmp_path):
    claimed(tmp_path)
    ((claim,), _) = judged_claims(tmp_path)
    # One look, t with 7 degrees of freedom: two-sided p; adjusted p of the least of two is 2 (1 + 1/2) p.
    own = (with_estimate(claim.first, value=t, standard_error=0.01, degrees=7.0) for t in (0.05, 0.001))
    claims = [JudgedClaim(with_plan(look, name=f"claim_{i}")) for i, look in enumerate(own)]
    assert adjusted_p_values(claims)["0"] == pytest.approx(3 * claims[0].p_value)
    assert adjusted_p_values([]) == {}


def test_a_second_look_that_has_just_begun_says_so(tmp_path):
    """Stopped before any seed has both arms; the first look keeps its verdict."""
    looked_at_again(tmp_path, missing={(1, seed): "running" for seed in (3, 4, 5)})
    (claim,), (line,) = judged_claims(tmp_path)
    assert (claim.second, claim.verdict) == (None, "holds here")
    assert line.startswith("claim_trick_second: no seed of both arms has finished yet")


def test_a_second_look_that_shares_a_base_policy_is_refused(tmp_path):
    looked_at_again(tmp_path, start=2)
    (claim,), (line,) = judged_claims(tmp_path)
    assert claim.second is None
    assert "they share the base policy set/2" in line


def test_looks_of_different_protocols_and_looks_that_are_not_paired_are_not_pooled(tmp_path):
    looked_at_again(tmp_path, protocol="another")
    (claim,), _ = judged_claims(tmp_path)
    assert claim.pooled_effect.absent == "the two looks have different protocols"
    assert claims_table([claim]).rows[0]["both"] == "the two looks have different protocols"
    second = with_plan(claim.second, protocol=claim.first.plan.protocol)
    unpaired = JudgedClaim(claim.first, with_estimate(second, method="Welch t over seeds"))
    assert unpaired.pooled_effect.absent == "the looks are not paired by seed"


def test_a_claim_changed_after_its_first_run_says_so_of_both_looks(tmp_path):
    looked_at_again(tmp_path, kept={"changed": True})
    (claim,), _ = judged_claims(tmp_path)
    assert claim.verdict == "holds, replicated (declared after the fact)"
