"""Where an answer once said two things, too much, or too little of one difference: each of these failed before it was mended."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_store import RUNGS, SHORT, build_store, loaded, relogged, replanned

from analysis.answer import answer_of
from analysis.effects import all_effects, effects_frame
from analysis.figures.drawing import figure_style
from analysis.figures.effects import differences_figure
from analysis.html.page import render_page
from analysis.methods import Methods
from analysis.report import write_tables
from analysis.results import Results
from analysis.tables.experiment import answers_table, grid_table, main_table
from analysis.tables.table import to_frame
from harness.commands._answer import report_of
from harness.experiment.as_declared import remember
from harness.statistics.intervals import comparison_level
from harness.store import ResultStore


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Four rungs with eight seeds."""
    root = tmp_path_factory.mktemp("mended")
    build_store(root, seeds=range(8), margin=3.0, **SHORT)
    return loaded(root)


def test_all_steps_together_have_one_interval_that_of_the_column_of_differences_to_the_base(ladder: Results) -> None:
    """The headline judged them alone, beside a column that judged them in their family."""
    answer, last = answer_of(ladder), ladder.experiment.plan.arms[-1]
    column = ladder.to_base[last.name].rescale(100)
    low, high = (float(end.replace("−", "-")) for end in re.search(r"together: (\S+) to (\S+),", answer.foot).groups())
    assert (low, high) == pytest.approx((column.low, column.high), abs=0.051)
    assert not any("together" in line and "to" in line.split() for line in answer.small if "All three" in line)


def test_a_paragraph_names_one_family(ladder: Results) -> None:
    small = " ".join(answer_of(ladder).small)
    assert small.count("simultaneous") == 1
    assert "all three together" not in small


def test_the_family_is_the_declared_one_whatever_has_run(tmp_path: Path) -> None:
    """A failed arm made the intervals of the others narrower."""
    build_store(tmp_path, missing=[((3, seed), "failed") for seed in range(3)], **SHORT)
    results = loaded(tmp_path)
    tested = [one for one in results.declared.values() if not np.isnan(one.low)]
    assert len(tested) == 2
    assert {one.level for one in tested} == {comparison_level(3)}
    assert set(effects_frame(all_effects(results)).query("arm != @RUNGS[3][0]")["family"]) == {3}
    assert any(line.startswith("1 of 4 arms lack runs") for line in answer_of(results).small)


@pytest.mark.parametrize(("seeds", "warned"), [(4, True), (7, True), (8, False)])
def test_few_seeds_are_warned_of_by_one_threshold_in_answer_and_table_and_before_the_tokens(
    tmp_path: Path, seeds: int, warned: bool
) -> None:
    """The answer warned below three seeds, the table below eight; a costly step hid the graver warning."""
    store = build_store(tmp_path, rungs=[RUNGS[0], RUNGS[3]], seeds=range(seeds), **SHORT)
    for run_id in store.plan("ladder")["arms"][1]["runs"].values():
        relogged(store.run(run_id), lambda row: {"generated_tokens_total": 3 * row["generated_tokens_total"]})
    results = loaded(tmp_path)
    survey = f"{seeds} seeds are a survey: "
    caveats = answer_of(results).caveats
    assert [line.startswith(f"But {survey}") for line in caveats] == [True] * warned + [False]
    assert "3.0 times the tokens" in caveats[-1]
    assert any(note.startswith(survey) for note in main_table(results).notes) is warned


def test_no_file_has_a_bound_beyond_0_and_100(tmp_path: Path) -> None:
    """Markdown cut it, the CSV file beside it did not, and JSON cut another one."""
    build_store(tmp_path, rungs=[("a", "A", 0.97, 1.0), ("b", "B", 0.02, 1.0)], seeds=(0, 1), **SHORT)
    results = loaded(tmp_path)
    write_tables(results, tmp_path / "tables")
    frame = pd.read_csv(tmp_path / "tables" / "ladder.csv")
    assert frame["score_high"].max() <= 1.0
    assert frame["score_low"].min() >= 0.0
    assert to_frame(main_table(results))["score_high"].max() <= 1.0
    (metric,) = report_of(ResultStore(tmp_path), "ladder", only="table").metrics
    for arm, (_, row) in zip(metric["arms"], frame[frame["arm"] != "before RL"].iterrows(), strict=True):
        assert (arm["low"], arm["high"]) == pytest.approx((100 * row["score_low"], 100 * row["score_high"]))


def test_looks_that_go_on_that_ended_early_and_that_share_base_policies_are_said(tmp_path: Path) -> None:
    rungs = [("a", "a", 0.3, 1.0), ("b", "b", 0.301, 1.0), ("c", "c", 0.8, 1.0)]
    build_store(tmp_path, rungs=rungs, seeds=range(4), looks=(4, 8), base_policies=2, **SHORT)
    results = loaded(tmp_path)
    small = " ".join(answer_of(replanned(results, base_policies=None)).small)
    assert "This is an interim look." in small
    assert "What ended early as higher or lower is too large on average" in small
    small = " ".join(answer_of(results).small)
    assert "Seeds share 2 base policies, and intervals are over these, approximately at looks." in small


def test_what_changed_after_a_look_stands_beside_the_verdict_on_the_picture_and_on_the_page(tmp_path: Path) -> None:
    store = build_store(tmp_path, margin=3.0, **SHORT)
    plan = loaded(tmp_path).experiment.plan
    remember(store, replace(plan, margins={}, seeds=(0, 1)), ())
    remember(store, plan, ["a run"])
    results, words = (
        loaded(tmp_path),
        "the margin was chosen as 3 after the scores; seeds grew from 2 to 3 after a look",
    )
    assert answer_of(results).caveats[0] == f"Not as first declared: {words}."
    assert not any("declared not to matter" in line for line in answer_of(results).small)
    assert any(words in note for note in main_table(results).notes)
    assert any(words in sentence for sentence in Methods(results, store).sentences)
    with figure_style("paper"):
        assert "not as first declared" in differences_figure(results).axes[0].get_xlabel().replace("\n", " ")
    assert "when 12 of its 12 runs had finished, and changed since" in render_page(results, tmp_path)


def test_a_grid_says_that_its_intervals_are_simultaneous(tmp_path: Path) -> None:
    points = [[f"clip={clip}", f"lr={rate}"] for clip in (0.2, 0.28) for rate in (1e-4, 3e-4)]
    fields = [{"overrides": point, "changes": {}} for point in points]
    build_store(tmp_path, design="arms", arm_fields=fields, **SHORT)
    (note,) = [note for note in grid_table(loaded(tmp_path)).notes if note.startswith("Best: ")]
    assert "simultaneous intervals of all pairs of cells" in note


def test_pass_at_every_sample_is_shown_with_a_word(ladder: Results) -> None:
    table = answers_table(ladder)
    assert "pass@8" in [column.key for column in table.columns]
    assert any(note.startswith("Pass@8 takes every sample") and note.endswith("up to k = 4.") for note in table.notes)
