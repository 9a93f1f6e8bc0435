"""The answer as a person would say it: it names what is higher or lower, never calls an open difference none, and stays short."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_store import SHORT, build_store, loaded, relogged

from analysis import headline
from analysis.answer import answer_markdown, answer_of, answer_sentences
from analysis.engagement import Engagement, Untested
from analysis.figures.drawing import difference_series
from analysis.headline import MOST_WORDS, Wording
from analysis.html.page import answer_html
from analysis.line import Line
from analysis.tables.experiment import main_table
from analysis.terminal import terminal_text
from harness.engagement.measure import RELEASED
from harness.evaluation.metrics.names import metric
from harness.statistics.intervals import Estimate
from harness.store import ResultStore

AVG = metric("avg")
IDLE = Engagement((RELEASED,), (0.0002,))
LADDER = [("s0", "naive GRPO", 0.5, 1.0), ("s1", "+ filtering", 0.5, 1.0), ("s2", "+ sampling", 0.75, 1.0)]


def row(name: str, value: float, half: float, *, seeds: int = 8, margin: float | None = 3.0) -> Line:
    """A comparison in points; no interval for a half width of NaN."""
    estimate = Estimate(value, value - half, value + half, seeds=seeds, margin=margin).rescale(0.01)
    return Line(name, estimate, AVG)


def say(*rows: Line, wording: Wording | None = None) -> str:
    return " ".join(headline.sentences(rows, wording or Wording("step")))


def test_what_is_shown_is_named() -> None:
    up, little, same, unclear = row("up", 7, 3), row("little", -1.5, 1), row("same", 0.5, 1), row("open", 2, 5)
    assert say(up, same, unclear) == "Up is the only step shown to help: +7.0 points."
    both = say(up, little, same)
    assert both.endswith("Little is the only step shown to hurt, but by less than 3 points: −1.5 points.")
    assert say(up, row("more", 9, 3)) == "More (+9.0 points) and up (+7.0) are shown to help."
    assert say(up, wording=Wording("arm", "GRPO")) == "Up is shown to do better than GRPO: +7.0 points."


def test_one_of_many_is_named() -> None:
    rows = [row(f"arm {number}", 0.5, 9) for number in range(35)]
    assert say(*rows, row("the one", 7, 3)) == "The one is the only step shown to help: +7.0 points."
    many = [row(f"arm {number}", 7 + number, 3) for number in range(36)]
    assert say(*many) == "36 of 36 steps are shown to help, most of all arm 35: +42.0 points."


def test_what_is_not_shown_is_never_called_none() -> None:
    same, unclear = row("same", 0.5, 1), row("open", 2, 5)
    assert say(same, same, same) == "All three steps are equivalent within 3 points."
    assert say(unclear, unclear) == "No step is shown to help or hurt. Neither is resolved."
    assert (
        say(same, unclear)
        == "No step is shown to help or hurt. One is equivalent within 3 points, one is not resolved."
    )
    assert say(unclear) == "Open is not shown to help or hurt: +2.0 points, not resolved."
    assert say(row("a", 2, math.nan, seeds=1), row("b", 9, math.nan, seeds=1)).startswith("One seed cannot show")


@pytest.mark.parametrize("length", [1, 4, 12])
def test_no_sentence_has_more_than_25_words(length: int) -> None:
    name = "a rather long name of " + "an arm " * length
    for rows in (
        [row(name, 7, 3)],
        [row(name, 7, 3), row(name, 1.5, 1), row(name, -1.5, 1)],
        [row(name, 0.5, 1), row(name, 2, 5)],
    ):
        sentences = headline.sentences(rows, Wording("step"))
        assert all(len(sentence.split()) <= MOST_WORDS for sentence in sentences), sentences


def test_a_name_without_spaces_is_cut_and_not_left_out() -> None:
    name = "naive_grpo+overlong_filtering+clip_higher+soft_overlong_punishment"
    assert say(row(name, 7, 3)).startswith(f"{name[:59]}… is shown to help")
    assert headline.shorten("two words", 5) == "two …"


def store_of(root: Path, tokens: float = 1.0, **changed) -> None:
    store = build_store(root, **{"rungs": LADDER, "seeds": range(8), "margin": 3.0, **SHORT, **changed})
    for run_id in store.plan("ladder")["arms"][-1]["runs"].values():
        if store.run(run_id).path.exists():
            relogged(store.run(run_id), lambda row: {"generated_tokens_total": tokens * row["generated_tokens_total"]})


def test_the_ladder_says_its_whole_and_its_cost(tmp_path: Path) -> None:
    store_of(tmp_path, tokens=2.0)
    answer = answer_of(loaded(tmp_path))
    assert re.fullmatch(
        r"At equal steps sampling is the only step shown to help: \+2\d\.\d points\.", answer.headline[0]
    )
    assert re.fullmatch(r"Both together: \+2\d\.\d\.", answer.headline[1])
    assert answer.caveats == ["But sampling, against filtering, took 2.0 times the tokens (12k against 6\u2009200)."]
    assert "cannot be read off the curves: no evaluation lies between" in answer.small[-1]
    assert "sampling +" in answer.small[0]
    text = answer_markdown(loaded(tmp_path))
    assert text.startswith(f"**{answer.headline[0]}")
    # In small type, in its row, and here both together are that one step.
    assert text.count(answer.lines[1].interval) == 3


def test_the_second_sentence_has_the_tokens_of_the_smaller_arm(tmp_path: Path) -> None:
    """Read by hand: half of the tokens of the larger arm are its evaluation at step 2 of 4."""
    store_of(tmp_path, tokens=2.0, steps=4, evaluate=(0, 1, 2, 3, 4))
    results = loaded(tmp_path)
    answer, cells = answer_of(results), results.experiment.cells
    ends = cells[(cells["arm"] == "s1") & (cells["step"] == 4)].set_index("seed")["avg"]
    half = cells[(cells["arm"] == "s2") & (cells["step"] == 2)].set_index("seed")["avg"]
    assert answer.headline[1].startswith(f"At equal tokens it is {100 * (half - ends).mean():+.1f} points (")
    assert answer.headline[1].endswith("not resolved.")
    curve = difference_series(results, results.experiment.plan.arms[-1], "tokens")
    assert curve.mean[-1] == pytest.approx(100 * (half - ends).mean())
    assert [row["tokens"] for row in answer.spent.rows] == pytest.approx([12400, 12400, 24800])
    for text in (answer_markdown(results), terminal_text(results), answer_html(answer)):
        assert "a run takes" in text


@pytest.mark.parametrize(
    ("match", "steps", "words"), [("steps", 2, "At equal tokens "), ("tokens", 1, "At equal tokens ")]
)
def test_what_is_equal_is_what_the_runs_took(tmp_path: Path, match: str, steps: int, words: str) -> None:
    """Twice the steps of half the tokens each are equal tokens, whatever was declared."""
    store_of(tmp_path, match=match)
    last = ResultStore(tmp_path).plan("ladder")["arms"][-1]["runs"].values()
    for run_id in last:
        relogged(ResultStore(tmp_path).run(run_id), lambda row: {"step": row["step"], "updates": 4 * row["updates"]})
    results = loaded(tmp_path)
    steps_of_last = results.experiment.steps["arm"] == "s2"
    results.experiment.steps.loc[steps_of_last, "step"] *= 3
    answer = answer_of(results)
    assert answer.headline[0].startswith(words)
    assert "took 3.0 times the steps (6.0 against 2.0), 4.0 times the updates (128 against 32)" in answer.caveats[0]
    assert words.strip().lower() in main_table(results).notes[0]


def test_equal_tokens_are_no_caveat(tmp_path: Path) -> None:
    store_of(tmp_path)
    assert answer_of(loaded(tmp_path)).caveats == []


def test_what_hardly_acted_is_not_tested_and_never_counted_among_what_does_not_help() -> None:
    idle = replace(row("idle", 0.1, 1), estimate=Untested(0.001, -0.01, 0.01, seeds=8, margin=0.03), engagement=IDLE)
    same, unclear, up = row("same", 0.5, 1), row("open", 2, 5), row("up", 7, 3)
    assert idle.verdict == "not tested: 0.02 % of tokens"
    assert (
        say(up, idle)
        == "Up is the only step shown to help: +7.0 points. Idle was not tested: it affected 0.02 % of tokens."
    )
    assert say(same, same, idle).startswith("Both tested steps are equivalent within 3 points. Idle was not tested")
    assert "Neither of the two tested is resolved. Idle" in say(unclear, unclear, idle)
    assert say(idle, idle).startswith("Not tested, since they hardly acted: idle (0.02 % of tokens) and idle")
    assert say(*[idle] * 9) == "9 of 9 steps were not tested: they hardly acted."


def test_runs_that_go_on_carry_their_correction(tmp_path: Path) -> None:
    store_of(tmp_path, missing=[((2, 7), "running")])
    answer = answer_of(loaded(tmp_path), so_far=True)
    assert "not corrected for looking before the end" in answer.caveats[0]
    assert all(line.verdict.endswith(" so far") for line in answer.lines)


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("design", ["cumulative", "arms"])
def test_a_terminal_cuts_nothing(tmp_path: Path, width: int, design: str) -> None:
    rungs = [*LADDER, ("s3", "+ an arm whose name is sixty characters long, as a file name is", 0.7, 1.0)]
    store_of(tmp_path, rungs=rungs, design=design)
    results = loaded(tmp_path)
    text, answer = terminal_text(results, width=width), answer_of(results)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text.partition("verdict")[2]
    for line in answer.lines:
        assert re.search(rf"{re.escape(line.points)} .*{re.escape(line.verdict)}$", text, re.MULTILINE)
    assert text.index(answer.headline[0].split()[0]) < text.index("verdict")
    assert len(answer_sentences(results)) < 8
