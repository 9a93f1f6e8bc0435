"""`harness evaluate samples=` and `regrade=`: files in, exact numbers out, malformed input named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from verbs import Said, jsonl

from harness.cli import main


def evaluate(path: Path, out: Path, *more: str) -> dict[str, Any]:
    assert main(["evaluate", f"samples={path}", f"out={out}", "figures=false", *more]) == 0
    return dict(json.loads((out / "summary.json").read_text()))


A = [r"\boxed{0.5}", r"\boxed{\frac12}", r"\boxed{3}", "?"]
B = [r"\boxed{8}", r"\boxed{8}", r"\boxed{7}", r"\boxed{7}"]
TWO = [
    {"id": "a", "problem": "?", "answer": "1/2", "samples": A},
    {"id": "b", "problem": "?", "answer": "7", "samples": B},
]


def test_the_summary_has_the_hand_worked_numbers_and_the_table_a_row_per_sample(tmp_path: Path) -> None:
    summary = evaluate(jsonl(tmp_path / "two.jsonl", TWO), tmp_path / "out", "verifier.extraction=boxed")
    assert (summary["n_problems"], summary["n_samples"], summary["samples_per_problem"]) == (2, 8, 4)
    assert summary["avg"] == 0.5
    # c = 2 of n = 4 in both: Pass@2 = 1 - C(2,2)/C(4,2) = 5/6.
    assert summary["pass_at"] == pytest.approx({"1": 0.5, "2": 5 / 6, "4": 1.0})
    # a: 0.5 and 1/2 are one class, which wins with two votes against one; b: two against two is half a win.
    assert summary["maj_at"]["4"] == pytest.approx(0.75)
    # Two equal problems: a kind that neither is of may be up to 1 - sqrt(0.025) of all (Clopper-Pearson), all right or all wrong.
    low = 0.5 * 0.025**0.5
    assert summary["intervals"]["avg"] == pytest.approx([low, 1 - low])
    assert "over problems" in summary["intervals"]["method"]
    assert summary["verifier"]["verdicts"] == {"no_answer": 1, "right": 4, "wrong": 3}
    assert summary["verifier"]["extraction"] == "boxed"
    frame = pq.read_table(tmp_path / "out" / "samples.parquet").to_pandas()
    assert frame["problem_id"].tolist() == ["a"] * 4 + ["b"] * 4
    assert frame["sample_index"].tolist() == [0, 1, 2, 3] * 2
    assert frame["correct"].tolist() == [True, True, False, False, False, False, True, True]
    assert frame["verdict"].tolist()[3] == "no_answer"


def test_lost_backslashes_are_put_back_and_golds_that_are_no_answers_are_named(tmp_path: Path, said: Said) -> None:
    """A form feed and `rac` in a response or a gold made every honest answer wrong, in silence."""
    rows = [
        {"id": "a", "answer": r"\frac{1}{2}", "samples": ["so \\boxed{\x0crac{1}{2}}"]},
        {"id": "b", "answer": "3\text{ cm}", "samples": [r"so \boxed{3}"]},
        {"id": "c", "answer": "see figure", "samples": [r"\boxed{5}"]},
    ]
    told = said("evaluate", f"samples={jsonl(tmp_path / 'e.jsonl', rows)}", f"out={tmp_path / 'out'}", "figures=false")
    assert "2 texts had lost backslashes" in told
    assert "1 golds are no answers: c 'see figure'" in told
    assert pd.read_parquet(tmp_path / "out" / "samples.parquet")["correct"].tolist() == [True, True, False]


def test_ks_choose_the_curve(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jsonl(tmp_path / "two.jsonl", TWO)
    assert list(evaluate(path, tmp_path / "out", "ks=[1,3]")["pass_at"]) == ["1", "3"]
    monkeypatch.delattr("harness.evaluation.recorded.verdicts_of")  # nothing is graded in vain
    for command in (
        ["evaluate", f"samples={path}", f"out={tmp_path / 'x'}"],
        ["compare", str(path), str(jsonl(tmp_path / "b", TWO))],
    ):
        assert "ks=[1, 5] must lie between 1 and the 4 samples" in said(*command, "ks=[1,5]", code=2)


def test_a_label_that_differs_where_nothing_was_answered_is_written_as_null(tmp_path: Path) -> None:
    rows = [{"id": "a", "problem": "?", "answer": "7", "samples": ["?", "\\boxed{7}"], "labels": [True, True]}]
    summary = evaluate(jsonl(tmp_path / "null.jsonl", rows), tmp_path / "out", "verifier.extraction=boxed")
    assert summary["labels"]["differing"][0]["answer"] is None


def test_a_lost_sample_counts_as_wrong_and_is_shown(tmp_path: Path) -> None:
    rows = [{"id": "a", "problem": "?", "answer": "7", "samples": ["\\boxed{7}", None]}]
    summary = evaluate(jsonl(tmp_path / "lost.jsonl", rows), tmp_path / "out")
    assert (summary["avg"], summary["lost_samples"]) == (0.5, 1)


def test_labels_are_compared_sample_by_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**TWO[1], "labels": [False, True, True, True]}]
    summary = evaluate(jsonl(tmp_path / "labelled.jsonl", rows), tmp_path / "out")
    assert summary["labels"]["avg"] == 0.75
    (differing,) = summary["labels"]["differing"]
    assert (differing["problem_id"], differing["sample_index"], differing["label"]) == ("b", 1, True)
    assert "b sample 1: label True, verdict wrong (answer '8', gold '7')" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "b", "answer": "1", "samples": ["x"]}, "1 of 2 problems do not have 4 samples ('b' has 1)"),
        ({"id": "b", "samples": ["x"] * 4}, "1 problems have no gold answer (first: 'b'); golds=FILE.jsonl"),
        ({"id": "b", "answer": "1", "samples": [1, 2, 3, 4]}, "line 2: samples must be a list of texts"),
        ({"id": "b", "answer": "1", "samples": [""] * 4, "labels": [True]}, "labels has 1 entries for 4"),
        ({"id": "b", "answer": "1", "samples": [""] * 4, "labels": True}, "line 2: labels must be a list"),
        (
            {"id": "b", "answer": "1", "samples": [""] * 4, "finish_reasons": ["eos"] * 4},
            "finish_reasons has 'eos'; say stop",
        ),
        ({"id": "b", "answer": "1", "samples": []}, "line 2: samples is empty"),
        ({"id": "b", "answer": {"x": 1}, "samples": [""] * 4}, "line 2: the gold answer must be a text or a number"),
        ({"id": "b", "answer": "1", "samples": ["x"], "labels": ["wrong"]}, "line 2: labels has 'wrong'; say true"),
    ],
)
def test_a_malformed_line_is_one_error_with_its_number(
    tmp_path: Path, said: Said, row: dict[str, Any], words: str
) -> None:
    path = jsonl(tmp_path / "bad.jsonl", [TWO[0], row])
    assert words in said("evaluate", f"samples={path}", f"out={tmp_path / 'out'}", code=2)
    assert not (tmp_path / "out").exists()


def test_the_first_of_several_gold_answers_counts(tmp_path: Path) -> None:
    rows = [{"id": "a", "answer": ["2", "two"], "samples": [r"\boxed{2}"]}]
    assert evaluate(jsonl(tmp_path / "list.jsonl", rows), tmp_path / "out")["avg"] == 1.0
    assert pq.read_table(tmp_path / "out" / "samples.parquet")["gold"].to_pylist() == ["2"]


def test_problems_that_are_null_are_not_one_problem(tmp_path: Path) -> None:
    rows = [{"id": name, "problem": None, "answer": "7", "samples": ["7"]} for name in "ab"]
    assert evaluate(jsonl(tmp_path / "null.jsonl", rows), tmp_path / "out")["n_problems"] == 2


def test_labels_that_are_null_are_absent(tmp_path: Path) -> None:
    rows = [{**row, "labels": None, "finish_reasons": None} for row in TWO]
    summary = evaluate(jsonl(tmp_path / "null.jsonl", rows), tmp_path / "out")
    assert not {"labels", "unlabelled_samples"} & set(summary)


def test_labels_of_which_some_are_null_are_not_compared_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(jsonl(tmp_path / "some.jsonl", [{**TWO[1], "labels": [False, None, None, True]}]), tmp_path / "out")
    assert "labels: not compared, 2 samples have none" in capsys.readouterr().out


def test_a_file_of_another_encoding_is_one_error_with_its_line(tmp_path: Path, said: Said) -> None:
    path = jsonl(tmp_path / "latin.jsonl", TWO)
    path.write_bytes(path.read_bytes() + '{"id": "é"}\n'.encode("latin-1"))
    assert "latin.jsonl line 3 is not UTF-8" in said("evaluate", f"samples={path}", f"out={tmp_path / 'out'}", code=2)


def test_figures_are_drawn_by_a_process_of_their_own(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "two.jsonl", TWO)
    assert main(["evaluate", f"samples={path}", f"out={tmp_path / 'out'}"]) == 0
    drawn = sorted(item.name for item in (tmp_path / "out" / "figures").iterdir())
    assert drawn == [f"k_curves_samples.{suffix}" for suffix in ("pdf", "png", "svg")]


def test_regrading_names_what_changes_and_keeps_the_stored_samples(tmp_path: Path, said: Said) -> None:
    rows = [{"id": "a", "problem": "?", "answer": "7", "samples": ["The answer is 7.", "\\boxed{7}"]}]
    evaluate(jsonl(tmp_path / "one.jsonl", rows), tmp_path / "out", "verifier.extraction=boxed")
    before = (tmp_path / "out" / "samples.parquet").read_bytes()
    changes = tmp_path / "changes.csv"
    command = ["evaluate", f"regrade={tmp_path / 'out'}", "verifier=answer_line", f"out={changes}"]
    told = said(*command)
    assert "1 of 2 verdicts changed; avg 50.00 % → 100.00 %" in told
    assert "no_answer → right: 1" in told
    assert "a sample 0: no_answer (no answer) → right ('7'), gold '7'" in told
    assert (tmp_path / "out" / "samples.parquet").read_bytes() == before
    assert len(changes.read_text().splitlines()) == 2


def test_regrading_needs_rules_and_samples(tmp_path: Path, said: Said) -> None:
    regrade = ["evaluate", f"regrade={tmp_path}"]
    assert "needs new rules: verifier=answer_line | any | boxed" in said(*regrade, code=2)
    assert "needs new rules" in said(*regrade, "verifier.form=value", code=2)
    assert "no stored samples there" in said(*regrade, "verifier=any", code=2)
    assert "did you mean 'any'" in said(*regrade, "verifier=anny", code=2)


def test_a_line_a_case_is_graded_with_the_verifiers_settings_and_mistakes_are_named(tmp_path: Path, said: Said) -> None:
    lines = [
        {"id": 1, "gold": "42", "response": "The answer is 42"},
        {"id": 2, "gold": "43", "response": "The answer is 42"},
    ]
    cases, out = jsonl(tmp_path / "cases.jsonl", lines), tmp_path / "out"
    command = ["evaluate", f"samples={cases}", f"out={out}", "figures=false"]
    for rules, verdicts in ((), ["right", "wrong"]), (("verifier.extraction=boxed",), ["no_answer"] * 2):
        assert main([*command, *rules]) == 0
        assert pd.read_parquet(out / "samples.parquet")["verdict"].tolist() == verdicts
    for argument, words in (
        ("verifier.extraction=box", "verifier.extraction is 'box'"),
        ("verifier.extracton=any", "did you mean 'verifier.extraction'"),
        ("verifier=anny", "did you mean 'any'"),
    ):
        assert words in said(*command, argument, code=2)


def test_one_prompt_with_two_golds_is_two_problems(tmp_path: Path) -> None:
    """A dump of image problems has one text for many of them; together they were one problem that Maj@4 always solved."""
    rows = [
        {"input": "Find $x$.", "output": rf"\boxed{{{answer}}}", "gts": gold, "score": float(answer == gold), "step": 1}
        for gold, answer in (("7", "7"), ("7", "8"), ("9", "9"), ("9", "1"))
    ]
    summary = evaluate(jsonl(tmp_path / "1.jsonl", rows), tmp_path / "out")
    assert (summary["n_problems"], summary["samples_per_problem"], summary["maj_at"]["2"]) == (2, 2, 0.5)


def test_rows_of_one_prompt_and_gold_are_samples_of_one_problem(tmp_path: Path, said: Said) -> None:
    """Three problems in 32 rows each were 96 problems, with an interval of a fifth of the width."""
    rows = [
        {
            "id": f"{problem}-{copy}",
            "problem": f"{problem}?",
            "answer": "7",
            "samples": [rf"\boxed{{{7 + (problem == 1)}}}"],
        }
        for copy in range(32)
        for problem in range(3)
    ]
    path, out = jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "out"
    told = said("evaluate", f"samples={path}", f"out={out}", "figures=false")
    assert "3 problems stand under several ids ('0-0' under 32)" in told
    assert "66.67 [0.00, 100.00]" in told


def test_a_repeated_problem_with_as_many_samples_as_the_others_stays_apart(tmp_path: Path, said: Said) -> None:
    rows = [
        {"id": name, "problem": text, "answer": "7", "samples": ["7", "8"]}
        for name, text in zip("abc", "ppq", strict=True)
    ]
    told = said(
        "evaluate", f"samples={jsonl(tmp_path / 'rows.jsonl', rows)}", f"out={tmp_path / 'out'}", "figures=false"
    )
    assert "1 problems stand under several ids ('a' under 2), and each id counts as a problem" in told
    assert "3 problems\n" in told
    rows.append({"id": "d", "problem": "r", "answer": "7", "samples": ["7"]})
    told = said("evaluate", f"samples={jsonl(tmp_path / 'more.jsonl', rows)}", f"out={tmp_path / 'more'}", code=2)
    assert "several ids ('a' under 2)" in told
    assert "2 of 3 problems do not have" in told


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"problem": "p", "answer": "9"}, "id 'a' stands for two golds, '7' and '9'"),
        ({"problem": "q", "answer": "7"}, "id 'a' stands for two prompts, 'p' and 'q'"),
        ({"problem": "p", "answer": " "}, "1 problems have no gold answer"),
    ],
)
def test_an_id_of_two_problems_is_refused(tmp_path: Path, second: dict[str, str], words: str, said: Said) -> None:
    rows = [{"id": "a", "problem": "p", "answer": "7", "response": "7"}, {"id": "a", **second, "response": "7"}]
    assert words in said("evaluate", f"samples={jsonl(tmp_path / 'x.jsonl', rows)}", f"out={tmp_path / 'o'}", code=2)
