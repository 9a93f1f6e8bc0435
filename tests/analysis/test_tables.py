"""Loading, results and tables of a synthetic experiment; renderings."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tables
from scipy import stats
from synthetic_store import SHORT, build_store, declared, loaded, make_samples, relogged

from analysis.designs import grid_of, near_best
from analysis.html.page import render_page
from analysis.samples import run_cells
from analysis.tables.experiment import all_tables, behaviour_table, grid_table, main_table
from analysis.tables.table import (
    Column,
    Table,
    latex_escape,
    number_text,
    numbers_text,
    to_csv,
    to_frame,
    to_latex,
    to_markdown,
    to_terminal,
)
from analysis.terminal import terminal_text
from harness.statistics.intervals import Estimate
from harness.verify import MathVerifier


def test_differences_are_paired_over_the_seeds_both_arms_finished(results):
    base, _, third, last = results.experiment.plan.arms
    a, b = results.scores(last, "avg"), results.scores(base, "avg")
    assert sorted(a) == [0, 1]  # seed 2 failed
    reference = stats.ttest_rel([a[0], a[1]], [b[0], b[1]])
    assert results.difference(last, base).p_value == pytest.approx(reference.pvalue)
    assert results.difference(last, third).seeds == 1
    assert results.difference(last, third).verdict == "not resolved"


def test_missing_runs_are_counted_and_named(results):
    table = main_table(results)
    assert [row["seeds"] for row in table.rows[1:]] == ["3/3", "3/3", "2/3", "2/3"]
    notes = " ".join(table.notes)
    assert "ladder_3_dynamic_sampling, seed 2: failed" in notes
    assert "ladder_2_clip_higher, seed 1: not started" in notes
    assert "2 seeds are a survey:" in notes
    assert table.rows[0]["arm"] == "before RL"


def test_an_experiment_without_any_run_still_gives_tables(tmp_path):
    rungs = [("only_a", "A", 0.5, 1.0), ("only_b", "B", 0.5, 1.0)]
    missing = [((arm, seed), "not started") for arm in range(2) for seed in range(2)]
    build_store(tmp_path, rungs=rungs, seeds=(0, 1), missing=missing)
    results = loaded(tmp_path)
    for table in all_tables(results):
        assert "nan" not in to_markdown(table)
        assert to_latex(table)
    assert "Nothing to compare yet: 0 of 4 runs have finished." in render_page(results, tmp_path)


def test_runs_of_no_steps_are_an_evaluation_alone_and_have_tables(tmp_path):
    build_store(tmp_path, rungs=[("x", "X", 0.4, 1.0), ("y", "Y", 0.6, 1.0)], steps=0, evaluate=(0,))
    tables = {table.name: table for table in all_tables(loaded(tmp_path))}
    assert [row["seeds"] for row in next(iter(tables.values())).rows[-2:]] == ["3/3"] * 2
    assert all("nan" not in to_markdown(table) and to_latex(table) for table in tables.values())


def test_factorial_and_grid_tables(tmp_path):
    patches = [[], ["clip"], ["lr"], ["clip", "lr"]]
    rungs = [(f"arm{i}", "+".join(p) or "base", 0.4 + 0.1 * len(p), 1.0) for i, p in enumerate(patches)]
    store = build_store(tmp_path, rungs=rungs, design="factorial", patches=patches, problems=8)
    results = loaded(tmp_path)
    names = [f"ladder-{name}" for name in ("main-effects", "interactions", "shapley")]
    assert [t.name for t in all_tables(results)][3:6] == names
    of_patches = [to_csv(table) for table in all_tables(results)[:6]]
    factors = {"a": ["none", "clip"], "b": ["none", "lr"]}
    # Two levels are patches.
    assert [to_csv(table) for table in all_tables(declared(tmp_path, factors=factors))[:6]] == of_patches

    def grid(arm_fields):
        arms = [arm | own for arm, own in zip(store.plan("ladder")["arms"], arm_fields, strict=True)]
        return grid_table(declared(tmp_path, design="arms", arms=arms))

    clip, rate = {"clip": [0.2, 0.28]}, {"lr": [1e-4, 3e-4]}
    changed = grid([{"changes": changes} for changes in ({}, clip, rate, clip | rate)])
    assert [row["setting"] for row in changed.rows] == ["0.2", "0.28"]
    points = [[f"algorithm.clip={clip}", f"lr={rate}", "seed=0"] for clip in (0.2, 0.28) for rate in (1e-4, 3e-4)]
    swept = grid([{"changes": {}, "overrides": point} for point in points])
    for table in (changed, swept):
        assert [c.header for c in table.columns] == ["clip \\ lr", "0.0001", "0.0003"]
    search = [{"overrides": [f"algorithm.clip=0.2{i}", f"lr={i + 1}e-4"]} for i in range(4)]
    assert grid(search) is None  # a row and a column for each trial


def test_a_grid_names_the_best_cell_and_what_cannot_be_told_from_it(tmp_path):
    rungs = [("low", "low", 0.3, 1.0), ("high", "high", 0.8, 1.0), ("close", "close", 0.795, 1.0)]
    build_store(tmp_path, rungs=rungs, design="arms", problems=24, steps=10, evaluate=(0, 10))
    best, near = near_best(loaded(tmp_path))
    assert best in ("high", "close")
    assert near == {"high", "close"} - {best}


def test_settings_that_are_lists_are_no_obstacle_to_a_grid(results):
    """`harness report` ended in *unhashable type: 'list'*."""
    base, second, third, _ = results.experiment.plan.arms
    changes = {}, {"curriculum.bands": [[0.1, 0.9], [0.2, 0.8]]}, {"clip": [0.2, 0.28]}
    arms = [dataclasses.replace(arm, changes=own) for arm, own in zip((base, second, third), changes, strict=True)]
    grid = grid_of(dataclasses.replace(results.experiment.plan, design="arms", arms=tuple(arms)))
    assert (grid.column_key, grid.columns) == ("curriculum.bands", ["[0.1,0.9]", "[0.2,0.8]"])


def test_a_pair_that_is_told_apart_in_the_differences_is_so_in_the_grid(tmp_path):
    """One report said lower in its table and not distinguishable on its heat map, of one pair: the families differ."""
    rungs = [(name, name, 0.5, 1.0) for name in ("best", "a", "b", "c", "d", "e")]
    build_store(tmp_path, rungs=rungs, design="arms", **SHORT)
    results = loaded(tmp_path)
    # Twelve standard errors below the best: resolved among five comparisons, not among all fifteen pairs.
    lower = {0: 0.12 - 0.0173, 1: 0.12, 2: 0.12 + 0.0173}
    scores = [0.6 - lower[seed] * (arm != "best") for arm, seed in results.per_seed[["arm", "seed"]].to_numpy()]
    results = dataclasses.replace(results, per_seed=results.per_seed.assign(avg=scores))
    assert all(estimate.resolved for estimate in results.declared.values())
    assert near_best(results) == ("best", frozenset())


def test_arms_of_one_label_keep_their_own_behaviour_and_comparison(tmp_path):
    rungs = [("a", "same", 0.3, 1.0), ("b", "same", 0.8, 1.0), ("c", "same", 0.5, 1.0)]
    build_store(tmp_path, rungs=rungs, design="arms", problems=6, n=4, steps=2, evaluate=(0, 2))
    results = loaded(tmp_path)
    rows = {row["name"]: row for row in behaviour_table(results).rows}
    assert rows["a"]["entropy_nats"] != rows["b"]["entropy_nats"]


def test_tokens_are_of_the_finished_runs(results):  # one run failed half way and does not count
    assert behaviour_table(results).rows[-1]["train_generated_tokens_total"] == 62_000


def test_votes_are_over_equal_answers_not_equal_texts():
    frame = make_samples(np.random.default_rng(0), 0.5, 1, 5, 8).assign(step=0, second_correct=None)
    frame["finish_reason"], frame["verdict"] = "stop", ["right"] * 3 + ["wrong"] * 2
    frame["correct"] = [True] * 3 + [False] * 2
    frame["answer"] = ["1/2", "0.5", r"\frac{1}{2}", "3", "3"]

    def ks_of(step, largest):
        return [3, 5]

    table = pa.Table.from_pandas(frame, preserve_index=False)
    texts = pd.DataFrame(run_cells(table, ks_of, None).rows)
    with MathVerifier() as verifier:
        classes = pd.DataFrame(run_cells(table, ks_of, verifier.equivalent_many).rows)
    # three right against two wrong ones: 7 of the 10 triples have a right majority; by text alone 1 of 10, and 4 or 2 ties
    assert classes[["maj@3", "maj@5"]].iloc[0].tolist() == pytest.approx([0.7, 1.0])
    assert texts[["maj@3", "maj@5"]].iloc[0].tolist() == pytest.approx([0.5, 0.0])


NASTY = Table(
    "n",
    "50 % of A_B & {C} #1 ~ ^ \\ $x$ <b> “q” ±",
    (Column("a", "a_b"), Column("e", "Δ (95 % interval)", scale=100, signed=True, words=True), Column("s", "s")),
    (
        {"a": "x|y_*", "e": Estimate(0.012, -0.01, 0.034, seeds=3, p_value=0.2), "s": "[1]"},
        {"a": "日本", "e": None, "s": 12345.0},
    ),
    ("note with 100 % & _",),
)


def test_every_rendering_has_the_values_the_words_and_the_notes():
    assert NASTY.text()[0][1] == "+1.2 [−1.0, +3.4] not resolved"
    assert NASTY.text()[1][1:] == ["–", "12\u2009345.0"]
    assert "| x\\|y\\_\\* |" in to_markdown(NASTY)
    assert to_frame(NASTY).loc[0, ["e_low", "e_verdict"]].tolist() == [-0.01, "not resolved"]
    assert to_csv(NASTY).startswith("a,e,e_low,e_high,e_seeds,e_p_value")
    assert "\n{}[U+65E5][U+672C] & " in to_latex(NASTY)  # a bracket behind the end of a row would be its argument
    text = to_terminal(NASTY, width=200)
    assert "[−1.0, +3.4]" in text
    assert "note with 100 % & _" in text


@pytest.mark.optional
def test_every_table_is_latex_that_compiles(results, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    tables = [to_latex(table, columns=["all"]) for table in (*all_tables(results), NASTY)]
    start = "\\documentclass[twocolumn]{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs,graphicx}"
    (tmp_path / "t.tex").write_text(f"{start}\\begin{{document}}{' '.join(tables)}\\end{{document}}")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


def test_latex_has_score_and_difference_all_columns_or_those_that_are_picked(results):
    table = main_table(results)
    delta = results.declared["ladder_1_overlong_filtering"]
    arm = next(line for line in to_latex(table).splitlines() if line.startswith("+ overlong filtering"))
    assert len(arm.split(" & ")) == 3
    assert latex_escape(number_text(100 * delta.value, 1, signed=True)) in arm.split(" & ")[2]
    assert "36 \\\\" in to_latex(table, columns=["all"])  # published, the last column
    picked = to_latex(table, columns=["score"])
    arm = next(line for line in picked.splitlines() if line.startswith("+ overlong filtering"))
    assert len(arm.split(" & ")) == 2
    assert "published" not in picked


def test_latex_escapes_every_special_character():
    for character in "&%$#_{}":
        assert latex_escape(character) == f"\\{character}"
    assert latex_escape("日 Šidák †") == r"[U+65E5] \v{S}idák~\textdagger{}"
    assert latex_escape("a^b~c\\d") == "a\\textasciicircum{}b\\textasciitilde{}c\\textbackslash{}d"


def test_every_number_has_a_command_of_its_own(results):
    text = numbers_text(all_tables(results), {"x_1": "2"})
    names = re.findall(r"newcommand\{\\([A-Za-z]+)\}", text)
    assert len(names) == len(set(names)) == text.count("newcommand")
    score = 100 * results.mean(results.experiment.plan.arms[1]).value
    assert f"{{\\LadderOverlongFilteringScore}}{{{score:.1f}}}" in text
    assert "{\\XOne}{2}" in text
    rows = [{"a": "same", "b": Estimate(1.0)}, {"a": "same", "b": Estimate(-2.0)}]
    twice = numbers_text([Table("t", "t", (Column("a", "a"), Column("b", "b", signed=True)), rows)], {})
    assert twice.count("newcommand") == sum(
        f"{{\\TSame{row}B}}{{{number}}}" in twice for row, number in (("One", "+1.0"), ("Two", "$-$2.0"))
    )


def test_tables_ignore_wall_time(tmp_path):
    build_store(tmp_path / "a", problems=8, steps=5, evaluate=(0, 5))
    build_store(tmp_path / "b", problems=8, steps=5, evaluate=(0, 5))
    for path in (tmp_path / "b").glob("runs/*/metrics.jsonl"):
        path.write_text(path.read_text().replace('"seconds_rollout": 0.05', '"seconds_rollout": 7.5'))
    a, b = (all_tables(loaded(tmp_path / x)) for x in "ab")
    for left, right in zip(a, b, strict=True):
        assert to_csv(left) == to_csv(right)
        assert to_latex(left) == to_latex(right)


@pytest.mark.parametrize("what", ["packages", "device", "code"])
def test_rows_made_by_other_packages_code_or_another_device_are_marked_and_named(tmp_path, what):
    store = build_store(tmp_path)
    assert "†" not in to_markdown(main_table(loaded(tmp_path)))
    plan = store.plan("ladder")
    arm = plan["arms"][1]
    for run_id in (run_id for item in plan["arms"] for run_id in item["runs"].values()):
        manifest, odd = store.run(run_id).manifest(), run_id == arm["runs"]["2"]
        if what == "device":
            manifest["attempts"] = [{"device": "NVIDIA H100" if odd else "cpu"}]
        elif odd and what == "code":
            manifest["provenance"]["git_commit"] = "another"
        elif odd:
            manifest["provenance"]["packages"] = {"numpy": "3"}
        store.run(run_id).write_manifest(manifest)
    table = main_table(loaded(tmp_path))
    assert [row["arm"] for row in table.rows if "†" in str(row["arm"])] == [f"{arm['label']} †"]
    assert any(f"{arm['name']}, seed 2." in note for note in table.notes)
    assert "than the other runs of this table." in to_latex(table)
    assert arm["name"] not in to_latex(table)


def test_a_matched_budget_that_is_not_spent_is_said(tmp_path):
    store = build_store(tmp_path, match="tokens", **SHORT)
    arm = store.plan("ladder")["arms"][1]
    for budget, said in (
        (6200, []),
        (12400, ["; ".join(f"overlong filtering, seed {seed}: 50 % of 12400" for seed in range(3))]),
    ):
        path = store.run(arm["runs"]["0"]).path / "config.yaml"
        path.write_text(f"training: {{steps: 2, generated_tokens: {budget}}}")
        notes = [note for note in main_table(loaded(tmp_path)).notes if "raise training.steps" in note]
        assert [note.partition("raise training.steps: ")[2].rstrip(".") for note in notes] == said
    path.write_text("training: {steps: 2, generated_tokens: 6000}")
    over = "The last step overshot the budget of tokens: overlong filtering by 3 %."
    assert over in main_table(loaded(tmp_path)).notes


@tables.table(__file__, "not_learned", "column, value, words")
def test_a_run_that_could_not_learn_is_said_beside_its_score(tmp_path, column, value, words):
    """Every gradient was zero, or every third reward was lost, and the terminal said nothing."""
    store = build_store(tmp_path, **SHORT)
    relogged(store.run(store.plan("ladder")["arms"][0]["runs"]["1"]), lambda _: {column: value})
    whole, found = (
        main_table(loaded(root)).notes for root in (build_store(tmp_path / "whole", **SHORT).root, tmp_path)
    )
    (note,) = set(found) - set(whole)
    assert re.fullmatch(words, note)
    assert f"! {note}" in terminal_text(loaded(tmp_path), width=1000)
