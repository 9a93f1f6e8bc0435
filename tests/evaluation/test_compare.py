"""`harness compare`: evaluations of the same problems, paired."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from evaluation_support import RIGHT, graded_side, recorded_file
from scipy import stats
from stored_runs import about, created, graded
from tables import table
from verbs import Said, jsonl

from analysis.comparison import comparison_figure, comparison_table
from analysis.figures.drawing import figure_style
from harness.commands import compare as verb
from harness.configuration.compose import compose_run
from harness.configuration.schema import dump
from harness.evaluation.paired import AVG, TOKENS, Comparison, Side, compare
from harness.evaluation.stored import write_problems
from harness.problems.problem import Benchmark, Problem
from harness.statistics.intervals import comparison_level, paired_difference
from harness.statistics.pairs import paired_shares
from harness.store import ResultStore
from harness.store.layout import PROBLEMS, problems_file
from harness.store.samples import write_part
from harness.verify import MathVerifier


def compared(*sides: Side, **settings: Any) -> Comparison:
    with MathVerifier() as verifier:
        return compare(sides, verifier, **settings)


A, B = (graded_side(name, right) for name, right in RIGHT.items())


def shares(name: str) -> np.ndarray:
    return np.array(RIGHT[name]).mean(axis=1)


def other(frame: pd.DataFrame, name: str = "B") -> Side:
    return Side(name, frame)


def test_the_interval_is_students_t_over_the_differences_of_problems() -> None:
    found = compared(A, B, margin=0.9).differences["B"]
    want = stats.ttest_rel(shares("B"), shares("A"))
    low, high = want.confidence_interval(0.95)
    assert found["avg"].value == pytest.approx(0.2)  # 0.6 and 0.8 of ten samples each
    assert (found["avg"].low, found["avg"].high, found["avg"].p_value) == pytest.approx((low, high, want.pvalue))
    assert found["avg"].words(100, "points") == "equivalent within 90 points"
    # Pass@2: 1, 1, 1, 0, 1 against 1, 1, 1, 1, 1.
    assert found["pass@2"].value == pytest.approx(0.2)
    # Maj@2, ties half: 1, .5, .5, 0, 1 against 1, 1, 1, .5, .5.
    assert found["maj@2"].value == pytest.approx(0.2)
    assert found["length"].value == 0.0


def test_one_answer_a_problem_has_tangos_interval() -> None:
    single = [graded_side(name, [row[:1] for row in right]) for name, right in RIGHT.items()]
    found = compared(*single).differences["B"]["avg"]
    want = paired_shares(np.array(RIGHT["B"])[:, 0], np.array(RIGHT["A"])[:, 0])
    assert (found.value, found.low, found.high) == (want.value, want.low, want.high)
    pairs = [np.array(RIGHT[name]).any(axis=1) for name in "BA"]  # as Pass@k of k answers is
    assert compared(A, B).differences["B"]["pass@2"].high == paired_shares(*pairs).high


def test_samples_of_a_problem_are_one_cluster_and_sides_change_the_sign_alone() -> None:
    there, back = compared(A, B).differences["B"], compared(B, A).differences["A"]
    shuffled = compared(A, other(B.frame.iloc[::-1])).differences["B"]
    twice = [graded_side(name, [row * 2 for row in right]) for name, right in RIGHT.items()]
    again = compared(*twice, ks=[2]).differences["B"]["avg"]
    assert (again.low, again.high) == pytest.approx((there["avg"].low, there["avg"].high))
    for name, one in shuffled.items():
        assert (-back[name].high, -back[name].value) == pytest.approx((one.low, there[name].value), nan_ok=True)


def test_problems_that_one_side_lacks_or_has_another_gold_of_are_named_and_left_out() -> None:
    more = pd.concat([B.frame, graded_side("", [[1, 1], [1, 1]], first=5).frame])
    found = compared(A, other(more))
    assert found.differences["B"]["avg"].low == pytest.approx(compared(A, B).differences["B"]["avg"].low)
    assert found.notes == ["B: 2 of 7 problems are not on every side: 'p5', 'p6'"]
    renamed = B.frame.assign(problem_id=lambda rows: rows["problem_id"] + "x")
    assert compared(A, other(renamed)).differences["B"]["avg"].value == pytest.approx(0.2)  # by text
    renamed.loc[renamed["gold"] == "4", "gold"] = "5"
    renamed.loc[renamed["gold"] == "3", "gold"] = "3.0"
    found = compared(A, other(renamed))
    assert found.notes == ["1 problems of one text have different golds and are left out: 'question 4?'"]
    assert len(found.problems) == 4


@table(__file__, "refused", "change, by_text, words")
def test_nothing_in_common_is_refused(change: dict[str, Any], by_text: bool | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compared(A, other(B.frame.assign(**change)), by_text=by_text)


def test_caps_that_differ_are_named() -> None:
    first, second = (Side(s.name, s.frame.assign(max_response_tokens=cap)) for s, cap in ((A, 48), (B, 64)))
    (note,) = compared(first, second).notes
    assert note == "the caps differ, in tokens (A: 48; B: 64); cap=TOKENS chooses one that every side has"
    assert compared(first, B).notes == []


def test_lost_samples_of_a_side_are_named() -> None:
    frame = B.frame.assign(finish_reason=["lost" if row % 2 else "stop" for row in range(10)])
    frame["correct"] &= frame["finish_reason"] == "stop"
    (note,) = compared(A, other(frame)).notes
    assert note == "B: 5 of 10 samples were lost and count as wrong; of those that are there 60.0 % are right"


def test_intervals_of_several_sides_hold_together() -> None:
    found = compared(A, B, graded_side("C", RIGHT["B"][::-1]))
    low, high = stats.ttest_rel(shares("B"), shares("A")).confidence_interval(comparison_level(2))
    assert (found.differences["B"]["avg"].low, found.differences["B"]["avg"].high) == pytest.approx((low, high))
    assert found.by_problem()["problem_id"][0] == "p3"  # 0 for A, 1/2 for B, 1 for C


def test_the_scores_of_more_than_ten_problems_stand_beside_their_problems() -> None:
    right = [[int(number == 2)] * 2 for number in range(12)]
    found = compared(graded_side("A", [[0, 0]] * 12), graded_side("B", right))
    assert found.by_problem()["problem_id"][0] == "p2"
    assert found.scores["B"]["avg"].tolist() == [float(number == 2) for number in range(12)]


def test_files_are_graded_again(tmp_path: Path, said: Said) -> None:
    a = recorded_file(tmp_path / "a.jsonl", RIGHT["A"])
    b = recorded_file(tmp_path / "b.jsonl", RIGHT["B"], response_tokens=[[3, 4]] * 5)
    out = tmp_path / "out"
    told = said("compare", str(a), str(b), "margin=3", f"out={out}")
    assert "nothing about training again" in told
    assert "with the margin given, 3 points" in told
    table = pd.read_csv(out / "comparison.csv").set_index("metric")
    assert table.loc["avg@n %", ["first", "other", "difference"]].tolist() == pytest.approx([60, 80, 20])
    assert table.loc["avg@n %", "difference_verdict"] == "not resolved"
    assert not any("tokens" in name for name in table.index)  # one side does not know
    assert {path.name for path in out.iterdir()} >= {"differences.pdf", "comparison.md", "problems.csv"}
    answer, _ = json.JSONDecoder().raw_decode(said("compare", str(a), str(b), "margin=3", f"out={out}", "--json"))
    assert list(answer) == [field.name for field in dataclasses.fields(verb.Answer)]
    average = answer["effects"][0]
    assert [average[key] for key in ("metric", "arm", "reference")] == ["avg", "b.jsonl", "a.jsonl"]
    assert (average["value"], answer["text"] in told) == (pytest.approx(20.0), True)
    graded_before, strict = tmp_path / "graded", tmp_path / "strict"
    said("evaluate", f"samples={b}", f"out={graded_before}")
    said("evaluate", f"samples={a}", f"out={strict}", "verifier=boxed")
    said("compare", str(graded_before), str(a), f"out={out}")
    assert pd.read_csv(out / "comparison.csv")["difference"][0] == pytest.approx(-20)
    told = said("compare", str(graded_before), str(strict), f"out={out}")
    assert "stored verdicts are by different rules (graded: extraction=any" in told
    told = said("compare", str(graded_before), str(strict), f"golds={a}", code=2)
    assert "no side is a file: leave it out" in told


def test_golds_that_no_answer_matches_are_named(tmp_path: Path, said: Said) -> None:
    rows = [{"id": f"p{number}", "answer": r"\boxed{" if number == 1 else "1", "samples": ["1"]} for number in range(3)]
    for name in ("a", "b"):
        jsonl(tmp_path / f"{name}.jsonl", rows)
    told = said("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), f"out={tmp_path / 'out'}")
    assert "a.jsonl: golds that no answer can match: p1" in told


def test_runs_are_compared_at_steps(tmp_path: Path, said: Said) -> None:
    store, here = ResultStore(tmp_path / "results"), f"runtime.results={tmp_path / 'results'}"
    config, problems = compose_run([]), 256
    benchmark = Benchmark("x", 1, [Problem(f"heldout/{number}", "?", "7") for number in range(problems)])
    generator = np.random.default_rng(0)
    for arm in "ab":
        run = store.run(f"{arm}0" * 8)
        created(run, yaml.safe_dump(dump(config)), {**about(), "arm_id": arm, "seed": 0})
        write_problems(problems_file(run.path, "arithmetic_heldout"), benchmark)
        for step, rate in ((0, 0.2), (60, 0.5 if arm == "a" else 0.8)):
            rows = graded(list(generator.random(problems) < rate))
            rows["problem_id"] = [problem.id for problem in benchmark.problems]
            run.write_samples("arithmetic_heldout", 1, step, rows)
    store.write_plan("mine", {"arms": []})
    out = tmp_path / "out"
    said("compare", "a0a0@0", "a0a0", f"out={out}", here)
    right = [store.run("a0" * 8).samples("arithmetic_heldout", step)["correct"].to_numpy() for step in (0, 60)]
    want, row = paired_shares(right[1], right[0]), pd.read_csv(out / "effects.csv").iloc[0]
    assert (row["value"], row["low"], row["high"]) == pytest.approx((100 * want.value, 100 * want.low, 100 * want.high))
    for wrong, words in (
        (("a0a0@7", "b0b0"), "was evaluated at steps 0, 60"),
        (("a0a0", "b0b0", "cap=31"), "at caps of 32 tokens, not at 31"),
        (("a0a0", "b0b0", "benchmark=x"), "choose one: benchmark=arithmetic_heldout"),
        (("mine/a", "mine/c"), "its arms are answered by harness report experiment=mine"),
        (("a0a0", "nothing"), "no such file or folder"),
        (("a0a0", "a0a0"), "two different sides"),
        (("a0a0", "b0b0", "margin=-1"), "must be a finite number above 0"),
    ):
        assert words in said("compare", *wrong, here, code=2)
    problems_file(store.run("a0" * 8).path, "arithmetic_heldout").write_text("")
    assert "problems.jsonl lacks the problem 'heldout/0'" in said("compare", "a0a0", "b0b0", here, code=2)


def test_an_evaluation_of_several_models_is_never_taken_as_one(tmp_path: Path, said: Said) -> None:
    about_it = {"benchmark": {"name": "arithmetic_heldout"}}
    benchmark = Benchmark("x", 1, [Problem(f"heldout/{number}", "?", "7") for number in range(4)])
    cells = []
    for model, right in (("org/one", [True] * 4), ("org/two@abc", [True] * 3 + [False])):
        folder = tmp_path / "evaluations" / "samples" / model.replace("/", "-")
        folder.mkdir(parents=True)
        (folder / "about.json").write_text(json.dumps({**about_it, "names": ["another name of it"]}))
        write_problems(folder / PROBLEMS, benchmark)
        rows = graded(right).assign(problem_id=[f"heldout/{number}" for number in range(4)])
        later = rows.assign(sample_index=1, correct=False)  # of a larger evaluation, which shares the folder
        rows = pd.concat([rows, later], ignore_index=True)
        write_part(folder / "part-000000.parquet", rows, {"benchmark": "x", "benchmark_version": "1"})
        cells.append(
            {"model": model, "samples": str(folder.relative_to(tmp_path)), "samples_per_problem": 1, "cap": 32}
        )
    result = tmp_path / "evaluations" / ("0a" * 8)  # a name such as a run has
    result.mkdir()
    (result / "evaluation.json").write_text(json.dumps({"cells": cells}))
    out, here = tmp_path / "out", f"runtime.results={tmp_path}"
    said("compare", f"{result}@org/one", f"{result}@org/two@abc", f"out={out}", here)
    assert pd.read_csv(out / "comparison.csv")["difference"][0] == pytest.approx(-25)
    told = said("compare", str(result), f"{result}@org/one", here, code=2)
    assert "it has the models org/one, org/two@abc" in told


def test_the_interval_is_drawn_whole_and_tokens_stand_in_the_table_alone() -> None:
    rng = np.random.default_rng(0)
    scores = {name: {AVG: rng.binomial(8, level, 40) / 8} for name, level in (("a", 0.4), ("b", 0.6))}
    differences = {AVG: paired_difference(scores["b"][AVG], scores["a"][AVG])}
    differences[TOKENS] = differences[AVG].rescale(50)
    for side in scores.values():
        side[TOKENS] = 50 * side[AVG]
    problems = pd.DataFrame({"problem_id": [f"p{place}" for place in range(40)], "gold": "1"})
    comparison = Comparison(problems, scores, {"b": differences})
    with figure_style("paper"):
        axes = comparison_figure(comparison).axes[0]
    (bar,) = axes.containers
    (low, high), interval = axes.get_xlim(), differences[AVG]
    assert low < 0 < 100 * interval.low < 100 * interval.high < high
    assert bar.lines[0].get_alpha() == 1.0
    table = comparison_table(comparison)
    assert [row["metric"] for row in table.rows] == ["avg@n %", "length of answers, tokens"]
    assert "nothing about training again" in table.notes[-1]
