"""Claims: the word for every place of an interval, and what the answer of an experiment says of the claim that it declares."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from synthetic_store import SHORT, build_store, loaded
from tables import table

from analysis.answer import answer_of, finding_of
from harness.statistics.intervals import Estimate, Finding, Verdict, finding, is_settled

CLAIM = {
    "statement": "It helps <a lot>.",
    "source": "arXiv:0000.00000",
    "setting": "large",
    "expects": "higher",
    "differs": "Size.",
}


@table(__file__, "words", "expects, low, high, word")
def test_the_word_for_every_place_of_an_interval(expects, low, high, word):
    effect = Estimate((low + high) / 2, low, high, seeds=8, margin=3.0)
    assert finding(effect, expects, hardly=False) is Finding(word)
    known = math.isnan(low) or low > 0 or high < 0
    assert finding(effect, expects, hardly=True) is Finding(word if known else "not engaged")


def claimed(root, *, expects="higher", share=None, accuracy=0.7, **fields):
    """A store with one claim over two arms that differ by 40 points, unless the second's accuracy is given."""
    rungs = [("plain", "plain", 0.3, 1.0), ("trick", "with the trick", accuracy, 1.0)]
    measure = {"name": "tokens clipped", "keys": ["k"], "unit": "of tokens", "fields": ["clip_fraction_high"]}
    measure |= {"threshold": share, "arm": "trick"}
    fields |= {"claim": CLAIM | {"expects": expects}, "margin": 3.0}
    arm_fields = [{}, {"engagement": [] if share is None else [measure]}]
    build_store(root, rungs=rungs, name="claim_trick", arm_fields=arm_fields, **fields, **SHORT)


def test_the_answer_judges_the_claim_first(tmp_path):
    claimed(tmp_path)
    answer = answer_of(loaded(tmp_path, "claim_trick"))
    assert answer.headline[0] == "Holds here: the claim expects a higher value."
    assert answer.headline[1].startswith("At equal steps with the trick is shown to help: +")


@pytest.mark.parametrize(("accuracy", "word"), [(0.305, Finding.NOT_ENGAGED), (0.7, Finding.HOLDS)])
def test_where_the_mechanism_hardly_acted_nothing_follows_but_an_effect_that_is_there(tmp_path, accuracy, word):
    claimed(tmp_path, share=0.5, accuracy=accuracy)  # a threshold far above what the synthetic runs have
    assert finding_of(loaded(tmp_path, "claim_trick")) is word


def test_a_claim_of_no_harm_goes_on_where_lower_does_not_say_by_how_much():
    """*Lower* closes the comparison, and the claim stays open while looks are left."""
    word = Estimate(-0.02, -0.04, -0.005, seeds=2, margin=0.03)
    assert word.verdict == Verdict.LOWER
    assert is_settled(word, None)
    assert is_settled(word, "higher")
    assert not is_settled(word, "not_lower")
    assert is_settled(replace(word, high=-0.035), "not_lower")


def test_a_claim_without_any_run_is_not_resolved(tmp_path):
    claimed(tmp_path, missing={(arm, seed): "not started" for arm in (0, 1) for seed in range(3)})
    assert answer_of(loaded(tmp_path, "claim_trick")).headline[0].startswith("Not resolved: ")
