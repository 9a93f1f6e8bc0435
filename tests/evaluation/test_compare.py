"""`harness compare`: two evaluations of the same problems, paired."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from stored_runs import about, graded
from verbs import Said, jsonl

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.schema import dump
from harness.evaluation.counts import problems_needed, samples_needed, sampling_noise
from harness.evaluation.metrics.names import pass_at_k
from harness.evaluation.side_by_side import Comparison, Side, compare
from harness.statistics.bands import simultaneous_band
from harness.statistics.intervals import comparison_level, power, seeds_needed, two_way_difference
from harness.store import ResultStore
from harness.store.samples import write_part
from harness.verify import MathVerifier

RIGHT = {"A": [[1, 1], [0, 1], [1, 0], [0, 0], [1, 1]], "B": [[1, 1], [1, 1], [1, 1], [0, 1], [0, 1]]}


def frame(right: list[list[int]], first: int = 0, tokens: float = 7.0) -> pd.DataFrame:
    """Problems numbered from `first`, their samples right or wrong; every wrong answer is another one."""
    return pd.DataFrame(
        {
            "problem_id": f"p{first + number}",
            "sample_index": index,
            "gold": str(first + number),
            "problem": f"Question {first + number}?",
            "correct": bool(one),
            "answer": str(first + number) if one else f"{1000 + index}",
            "verdict": "right" if one else "wrong",
            "finish_reason": "stop",
            "tokens": tokens,
            "label": None,
        }
        for number, row in enumerate(right)
        for index, one in enumerate(row)
    )


def side(name: str, *frames: pd.DataFrame, seeds: tuple[int | None, ...] = ()) -> Side:
    return Side(name, frames, seeds or (None,) * len(frames))


def compared(*sides: Side, **settings: Any) -> Comparison:
    with MathVerifier() as verifier:
        return compare(sides, verifier, **settings)


A, B = (side(name, frame(right)) for name, right in RIGHT.items())


def shares(name: str) -> np.ndarray:
    return np.array(RIGHT[name]).mean(axis=1)


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
    assert found["tokens"].value == 0.0


def test_samples_of_a_problem_are_one_cluster() -> None:
    twice = [side(name, frame([row * 2 for row in right])) for name, right in RIGHT.items()]
    again, once = compared(*twice, ks=[2]).differences["B"]["avg"], compared(A, B).differences["B"]["avg"]
    assert (again.low, again.high) == pytest.approx((once.low, once.high))


def test_sides_change_the_sign_and_the_order_of_problems_nothing() -> None:
    there, back = compared(A, B).differences["B"], compared(B, A).differences["A"]
    shuffled = side("B", frame(RIGHT["B"]).iloc[::-1])
    for name, one in compared(A, shuffled).differences["B"].items():
        assert one.value == pytest.approx(there[name].value)
        assert (-back[name].high, -back[name].value) == pytest.approx((one.low, one.value), nan_ok=True)


def test_problems_that_one_side_lacks_are_named_and_left_out() -> None:
    more = side("B", pd.concat([frame(RIGHT["B"]), frame([[1, 1], [1, 1]], first=5)]))
    found = compared(A, more)
    assert found.differences["B"]["avg"].low == pytest.approx(compared(A, B).differences["B"]["avg"].low)
    assert found.notes == ["B: 2 of 7 problems are not on every side: 'p5', 'p6'"]


def test_other_ids_are_matched_by_text_and_other_golds_left_out() -> None:
    renamed = frame(RIGHT["B"]).assign(problem_id=lambda rows: rows["problem_id"] + "x")
    found = compared(A, side("B", renamed))
    assert found.differences["B"]["avg"].value == pytest.approx(0.2)
    renamed.loc[renamed["gold"] == "4", "gold"] = "5"
    renamed.loc[renamed["gold"] == "3", "gold"] = "3.0"
    found = compared(A, side("B", renamed))
    assert found.notes == ["1 problems of one text have different golds and are left out: 'question 4?'"]
    assert len(found.problems) == 4
    with pytest.raises(ValueError, match="1 problems have one text"):
        compared(A, side("B", renamed.assign(problem="same")))


def test_caps_that_differ_are_named() -> None:
    first, second = (
        side(name, frame(RIGHT[name]).assign(max_response_tokens=cap)) for name, cap in (("A", 48), ("B", 64))
    )
    (note,) = compared(first, second).notes
    assert note == "the caps differ, in tokens (A: 48; B: 64); cap=TOKENS chooses one that every side has"
    assert compared(first, side("C", frame(RIGHT["B"]))).notes == []


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(ValueError, match="no problem is on every side by its text"):
        compared(A, side("B", frame(RIGHT["B"], first=100)))
    with pytest.raises(ValueError, match=r"no problem is on every side by its id; match=problem"):
        compared(A, side("B", frame(RIGHT["B"], first=100)), by_text=False)


def test_training_runs_on_both_sides_are_counted_as_such() -> None:
    a = [frame(RIGHT["A"]), frame(RIGHT["B"][::-1])]
    b = [frame(RIGHT["B"]), frame(RIGHT["B"])]
    a_SP, b_SP = (
        np.array([np.array(rows).mean(axis=1) for rows in pair])
        for pair in ((RIGHT["A"], RIGHT["B"][::-1]), (RIGHT["B"],) * 2)
    )
    for seeds, paired in ((((0, 1), (0, 1)), True), (((0, 1), (2, 3)), False), ((), False)):
        known = seeds or ((None, None),) * 2
        found = compared(side("A", *a, seeds=known[0]), side("B", *b, seeds=known[1])).differences["B"]["avg"]
        want = two_way_difference(b_SP, a_SP, paired=paired)
        assert (found.low, found.high) == pytest.approx((want.low, want.high))
    one = compared(side("A", *a), side("B", b[0])).differences["B"]["avg"]
    assert (one.seeds, one.method) == (1, "paired t over problems")


def test_runs_are_paired_by_the_seeds_that_both_sides_have() -> None:
    runs = {"A": ["A", "B", "A"], "B": ["B", "A", "B"]}  # by training seed

    def of(name: str, *seeds: int) -> Side:
        return side(name, *(frame(RIGHT[runs[name][seed]]) for seed in seeds), seeds=seeds)

    ordered = compared(of("A", 0, 1, 2), of("B", 0, 1, 2))
    turned = compared(of("A", 0, 1, 2), of("B", 2, 0, 1))
    assert turned.differences["B"]["avg"] == ordered.differences["B"]["avg"]
    fewer = compared(of("A", 0, 1, 2), of("B", 1, 0))
    assert fewer.differences["B"]["avg"] == compared(of("A", 0, 1), of("B", 0, 1)).differences["B"]["avg"]
    assert fewer.notes == ["A: seeds 2 are not on every side and are left out"]


def test_intervals_of_several_sides_hold_together() -> None:
    found = compared(A, B, side("C", frame(RIGHT["B"][::-1])))
    low, high = stats.ttest_rel(shares("B"), shares("A")).confidence_interval(comparison_level(2))
    assert (found.differences["B"]["avg"].low, found.differences["B"]["avg"].high) == pytest.approx((low, high))
    assert found.by_problem()["problem_id"][0] == "p3"  # 0 for A, 1/2 for B, 1 for C


def test_the_scores_of_more_than_ten_problems_stand_beside_their_problems() -> None:
    right = [[int(number == 2)] * 2 for number in range(12)]
    found = compared(side("A", frame([[0, 0]] * 12)), side("B", frame(right)))
    assert found.by_problem()["problem_id"][0] == "p2"
    assert found.scores["B"]["avg"][0].tolist() == [float(number == 2) for number in range(12)]


def curves(right: list[list[int]]) -> np.ndarray:
    """Pass@k of each problem for k = 1 and 2."""
    counts = np.array(right).sum(axis=1)
    return np.stack([pass_at_k(counts, 2, k) for k in (1, 2)], axis=1)


def test_pass_at_k_has_a_band_over_problems_or_over_runs_where_both_sides_have_several() -> None:
    one = compared(A, B).k_bands["B"]
    assert one.over == "problems"
    assert one.band.high_K == pytest.approx(simultaneous_band(curves(RIGHT["B"]) - curves(RIGHT["A"])).high_K)
    several = {"A": [RIGHT["A"], RIGHT["B"][::-1]], "B": [RIGHT["B"], RIGHT["B"][::-1]]}
    means = {name: np.array([curves(right).mean(axis=0) for right in runs]) for name, runs in several.items()}
    for seeds, want in (
        ((0, 1), simultaneous_band(means["B"] - means["A"])),
        ((2, 3), simultaneous_band(means["B"], means["A"])),
    ):
        a, b = (side(name, *map(frame, runs), seeds=(0, 1)) for name, runs in several.items())
        found = compared(a, side("B", *b.runs, seeds=seeds))
        assert found.k_bands["B"].over == "training runs"
        assert found.k_bands["B"].band.low_K == pytest.approx(want.low_K, nan_ok=True)
        assert found.point_costs["B"] is None


def test_pass_at_k_goes_as_far_as_both_sides_have_samples() -> None:
    more = side("C", frame([row * 3 for row in RIGHT["B"]]))
    bands = compared(A, more, side("D", frame([row[:1] for row in RIGHT["B"]]))).k_bands
    assert {name: len(one.band.value_K) for name, one in bands.items()} == {"C": 2}
    assert bands["C"].band.level == comparison_level(2)


def test_difficulty_is_that_of_a_side_that_is_not_compared() -> None:
    apart = side("base", frame([[0, 0], [0, 0], [1, 0], [0, 1], [1, 1]]))
    found = compared(A, B, difficulty=apart).by_difficulty
    assert found is not None
    assert (found.side, found.problems, found.empty) == ("base", 5, ["more than half"])
    average = {row.difficulty: row for row in found.rows if row.metric == "avg"}
    assert {name: row.problems for name, row in average.items()} == {
        "never right": 2,
        "up to half": 2,
        "always right": 1,
    }
    never = average["never right"]
    assert (never.first, never.other, never.difference.value) == pytest.approx((0.75, 1.0, 0.25))  # 1, 1/2 and 1, 1
    # Two bands have two problems: both intervals hold together, and none leaves what shares can differ by.
    wide = stats.ttest_1samp([0.0, 0.5], 0).confidence_interval(comparison_level(2))
    assert wide.high > 1
    assert (never.difference.low, never.difference.high, never.difference.family) == (-1, 1, 2)
    assert np.isnan(average["always right"].difference.low)
    fewer = side("base", frame([[0, 0], [0, 1]]))
    assert compared(A, B, difficulty=fewer).by_difficulty.problems == 2


def test_a_compared_side_does_not_say_what_is_hard() -> None:
    again = side("another name", frame(RIGHT["B"]).iloc[::-1])
    with pytest.raises(ConfigError, match="difficulty=another name has the samples of B, which is compared"):
        compared(A, B, difficulty=again)


def test_what_a_point_of_avg_takes_by_hand() -> None:
    found = compared(A, B).point_costs["B"]
    assert (found.problems_now, found.samples_now, found.samples_known, found.level) == (5, 2, True, 0.95)
    # Differences 0, 1/2, 1/2, 1/2, -1/2: variance 0.2. One of two right has noise 1/4, two in each side do: (2 + 2) / 4 / 5 = 0.2.
    assert found.samples is not None  # so all of the variance is samples'
    want = 0.2 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / 0.01) ** 2
    assert found.problems == pytest.approx(want, rel=1e-3)
    assert found.samples * 5 > 2 * want  # as many samples in all, and more for the t of five problems
    single = [side(name, frame([row[:1] for row in right])) for name, right in RIGHT.items()]
    alone = compared(*single).point_costs["B"]
    assert (alone.samples, alone.samples_known) == (None, False)


def test_the_noise_of_a_share_by_hand_and_without_bias() -> None:
    assert sampling_noise([0, 1, 2, 4], 4).tolist() == [0, 0.0625, 1 / 12, 0]  # 1/4 * 3/4 / 3, 1/2 * 1/2 / 3
    assert np.isnan(sampling_noise([0, 1], 1)).all()
    for rate in (0.1, 0.5, 0.9):
        weights = stats.binom.pmf(range(6), 5, rate)
        assert weights @ sampling_noise(range(6), 5) == pytest.approx(rate * (1 - rate) / 5)


def test_problems_needed_are_the_fewest() -> None:
    assert problems_needed(0.05, 0.04, 0.95) == seeds_needed(0.05, 0.2, paired=True)  # the same t test over fewer units
    many = problems_needed(0.01, 0.04, 0.95)
    assert many == pytest.approx(0.04 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / 0.01) ** 2, rel=1e-3)
    assert problems_needed(0.01, 0.04, 0.99) > many
    assert problems_needed(0.01, 0.0, 0.95) is None


def test_samples_needed_are_the_fewest_or_none_does() -> None:
    problems = 1000  # they make 0.01 of the variance, one sample a problem 0.24
    samples = samples_needed(0.01, 0.04, 0.03, 8, problems, 0.95)
    reached = [
        power(0.01, math.sqrt(0.01 + 0.24 / n), problems, paired=True, alpha=0.05) for n in (samples - 1, samples)
    ]
    assert reached[0] < 0.8 <= reached[1]
    assert samples_needed(0.01, 0.04, 0.03, 8, 700, 0.95) is None  # 0.01 * 7.849 / 0.0001 = 785 problems at least
    assert samples_needed(0.01, 0.04, 0.05, 8, 700, 0.95) is not None  # noise beyond the variance leaves problems none
    assert samples_needed(0.01, 0.04, math.nan, 1, problems, 0.95) is None


# ---- the verb ----


def write(path: Path, right: list[list[int]], **more: list[Any]) -> Path:
    rows = [
        {
            "id": number,
            "problem": f"What is {number} + 10?",
            "answer": str(number + 10),
            "samples": [f"\\boxed{{{number + 10 if one else 7}}}" for one in row],
            **{key: value[number] for key, value in more.items()},
        }
        for number, row in enumerate(right)
    ]
    return jsonl(path, rows)


def test_files_are_graded_again_and_recorded_verdicts_stand_beside_ours(tmp_path: Path, said: Said) -> None:
    a = write(tmp_path / "a.jsonl", RIGHT["A"], labels=[[True, True]] + [[False, False]] * 4)
    b = write(tmp_path / "b.jsonl", RIGHT["B"], response_tokens=[[3, 4]] * 5)
    out = tmp_path / "out"
    told = said("compare", str(a), str(b), "margin=3", f"out={out}")
    assert "4 of 10 recorded verdicts are others than ours" in told
    assert "says nothing" in told or "nothing about training again" in told
    table = pd.read_csv(out / "comparison.csv").set_index("metric")
    assert table.loc["avg, %", ["first", "other", "difference"]].tolist() == pytest.approx([60, 80, 20])
    assert table.loc["avg, %", "difference_verdict"] == "not resolved"
    assert "tokens a response" not in table.index  # one side does not know
    assert len(pd.read_csv(out / "disagreements.csv")) == 4
    assert {path.name for path in out.iterdir()} >= {"differences.pdf", "comparison.md", "problems.csv", "k-bands.pdf"}
    assert pd.read_csv(out / "k-bands.csv")["difference"].tolist() == pytest.approx([0.2, 0.2])
    assert "b.jsonl: Pass@k: no k from 1 to 2 at which they part; bands hold together over all k" in told
    assert "b.jsonl: a difference of 1 point in avg takes" in told
    told = said("compare", str(a), str(b), "benchmark=aime", code=2)
    assert "benchmark=aime chooses among evaluations of models; recorded generations have no benchmark" in told
    graded_before = tmp_path / "graded"
    said("evaluate", f"samples={b}", f"out={graded_before}", "figures=false")
    said("compare", str(graded_before), str(a), f"out={out}")
    assert pd.read_csv(out / "comparison.csv")["difference"][0] == pytest.approx(-20)
    strict = tmp_path / "strict"
    said("evaluate", f"samples={a}", f"out={strict}", "figures=false", "verifier=boxed")
    for key, words in (("cap=512", "recorded generations have no cap"), (f"golds={a}", "no side is a file")):
        assert f"{words}: leave it out" in said("compare", str(graded_before), str(strict), key, code=2)
    told = said("compare", str(graded_before), str(strict), f"out={out}")
    assert "stored verdicts are by different rules (graded: extraction=any" in told


def test_golds_that_no_answer_matches_are_named(tmp_path: Path, said: Said) -> None:
    rows = [{"id": f"p{number}", "answer": r"\boxed{" if number == 1 else "1", "samples": ["1"]} for number in range(3)]
    for name in ("a", "b"):
        jsonl(tmp_path / f"{name}.jsonl", rows)
    told = said("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), f"out={tmp_path / 'out'}")
    assert "a.jsonl: golds that no answer can match: p1" in told


def test_runs_are_compared_at_steps_and_arms_over_their_seeds(tmp_path: Path, said: Said) -> None:
    store, here = ResultStore(tmp_path / "results"), f"runtime.results={tmp_path / 'results'}"
    config = compose_run([])
    problems = 256
    generator = np.random.default_rng(0)
    runs: dict[str, dict[str, str]] = {}
    for arm in "ab":
        for seed in range(3):
            run = store.run(f"{arm}{seed}" * 8)
            run.create(yaml.safe_dump(dump(config)), {**about(), "arm_id": arm, "seed": seed})
            for step, rate in ((0, 0.2), (60, 0.5 if arm == "a" else 0.8)):
                rows = graded(list(generator.random(problems) < rate))
                rows["problem_id"] = [f"heldout/{number}" for number in range(problems)]
                run.write_samples("arithmetic_heldout", 1, step, rows)
            runs.setdefault(arm, {})[str(seed)] = run.run_id
    store.write_plan("mine", {"arms": [{"name": name, "runs": found} for name, found in runs.items()]})
    out = tmp_path / "out"
    told = said("compare", "mine/a", "mine/b", f"out={out}", here)
    assert "Training runs: mine/a 3, mine/b 3" in told
    whole = pd.read_csv(out / "comparison.csv").set_index("metric").loc["avg, %"]
    assert whole["difference"] == pytest.approx(30, abs=5)
    assert whole["difference_verdict"] == "higher"
    assert "both sides have several training runs, so power is a matter of seeds" in told
    told = said("compare", "a0a0", "b0b0", "difficulty=a1a1@0", f"out={out}", here)
    bands = pd.read_csv(out / "difficulty.csv").set_index("difficulty")
    assert bands["problems"].sum() == problems
    assert bands["difference"].tolist() == pytest.approx([30, 30], abs=15)
    assert "Bands without a problem: up to half, more than half." in told
    said("compare", "a0a0@0", "a0a0", f"out={out}", here)
    frames = [store.run("a0" * 8).samples("arithmetic_heldout", step)["correct"] for step in (0, 60)]
    moved = 100 * (frames[1].mean() - frames[0].mean())
    assert pd.read_csv(out / "comparison.csv")["difference"][0] == pytest.approx(moved)
    for wrong, words in (
        (("a0a0@7", "b0b0"), "was evaluated at steps 0, 60"),
        (("a0a0", "b0b0", "cap=31"), "at caps of 32 tokens, not at 31"),
        (("a0a0", "b0b0", "benchmark=x"), "choose one: benchmark=arithmetic_heldout"),
        (("mine/a", "mine/c"), "arm of mine"),
        (("a0a0", "nothing"), "no such file or folder"),
        (("a0a0", "a0a0"), "two different sides"),
        (("a0a0", "b0b0", "margin=-1"), "must be a finite number above 0"),
        (("mine/a", "mine/b", "difficulty=b1b1@60"), "has the samples of mine/b, which is compared"),
        (("mine/a", "mine/b", "difficulty=nothing"), "no such file or folder"),
    ):
        assert words in said("compare", *wrong, here, code=2)


def test_an_evaluation_of_several_models_is_never_taken_as_one(tmp_path: Path, said: Said) -> None:
    benchmark = compose_run([]).evaluation.benchmarks["arithmetic_heldout"]
    about_it = {"benchmark": {"name": "arithmetic_heldout"}, "benchmark_config": asdict(benchmark)}
    cells = []
    for model, right in (("org/one", [True] * 4), ("org/two@abc", [True] * 3 + [False])):
        folder = tmp_path / "evaluations" / "samples" / model.replace("/", "-")
        folder.mkdir(parents=True)
        (folder / "about.json").write_text(json.dumps({**about_it, "names": ["another name of it"]}))
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
