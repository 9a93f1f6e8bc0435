"""Findings before a run: golds, duplicates, overlap."""

from __future__ import annotations

from pathlib import Path

from tables import table
from verbs import Said, jsonl

from harness.problems.benchmarks import arithmetic
from harness.problems.benchmarks.dataset import Config
from harness.problems.hygiene import find_overlaps, report
from harness.verify import VerifierConfig, is_no_answer, restore_escapes


def dataset(tmp_path: Path, name: str, *rows: tuple[str, str], template: str = "boxed") -> Config:
    lines = [{"id": f"{name}/{i}", "problem": p, "answer": a} for i, (p, a) in enumerate(rows)]
    path = jsonl(tmp_path / f"{name}.jsonl", lines)
    return Config(name=name, path=str(path), template=template)


def test_a_clean_testbed_has_no_findings() -> None:
    heldout, train = (arithmetic.Config(split=split, problems=50) for split in ("heldout", "train"))
    assert report({"heldout": heldout}, train) == []


def test_a_gold_that_is_no_answer_is_named(tmp_path: Path) -> None:
    config = dataset(tmp_path, "set", ("Fine?", "12"), ("Torn?", r"\frac{1}{0}"))
    (finding,) = report({"set": config})
    assert finding.check == "gold"
    assert "1 of 2 golds cannot be read: set/1" in finding.text


@table(__file__, "golds", "gold, missing")
def test_a_gold_that_stands_where_an_answer_is_missing_is_told_from_an_answer(gold: str, missing: bool) -> None:
    assert is_no_answer(gold) is missing


def test_golds_that_stand_where_an_answer_is_missing_are_named(tmp_path: Path) -> None:
    config = dataset(
        tmp_path, "set", *((f"Problem {number}?", gold) for number, gold in enumerate(("5", "see figure", "?")))
    )
    texts = [finding.text for finding in report({"set": config})]
    assert "2 of 3 golds are no answers: set/1 'see figure', set/2 '?'" in texts


@table(__file__, "escapes", "damaged, whole")
def test_backslashes_that_json_took_for_escapes_are_put_back(damaged: str, whole: str) -> None:
    assert restore_escapes(damaged) == whole
    assert restore_escapes(whole) == whole


def test_lost_backslashes_of_a_data_set_are_named(tmp_path: Path) -> None:
    findings = report({"set": dataset(tmp_path, "set", ("Fine?", "12"), ("Half?", "\x0crac{1}{2}"))})
    assert "of 2 problems have lost backslashes: set/1" in next(one.text for one in findings if one.check == "escapes")


def test_repeats_and_conflicts_are_counted(tmp_path: Path) -> None:
    config = dataset(tmp_path, "set", ("Same?", "1"), ("same? ", "1"), ("Other?", "2"), ("Other?", "3"))
    texts = [finding.text for finding in report({"set": config}) if finding.check == "duplicates"]
    assert len(texts) == 2
    assert "2 repeated prompts (2 surplus rows of 4" in texts[0]
    assert "1 prompt with conflicting answers ('other?' → 2 / 3)" in texts[1]


def test_golds_that_are_left_to_work_out_are_named(tmp_path: Path) -> None:
    golds = ("2^{10}", r"\frac{6}{4}", "3+4", "1024", r"2\sqrt{3}")
    sets = {"test": dataset(tmp_path, "test", *((f"Problem {gold}?", gold) for gold in golds))}
    (found,) = report(sets)
    assert "2 of 5 golds leave something open" in found.text
    assert all(gold in found.text for gold in ("'2^{10}'", "'3+4'"))
    assert report(sets, rules=VerifierConfig(form="value")) == []  # any form counts


def test_a_file_is_checked_by_a_command_that_ends_with_1(tmp_path: Path, said: Said) -> None:
    path = jsonl(tmp_path / "mine.jsonl", [{"id": "a", "problem": "Two to the tenth?", "answer": "see figure"}])
    assert "golds are no answers" in said("evaluate", "check", "task=dataset", f"task.path={path}", code=1)


def test_a_benchmark_named_task_is_checked_beside_the_training_task(tmp_path: Path) -> None:
    train, test = dataset(tmp_path, "train", ("p", "7")), dataset(tmp_path, "task", ("p", "7"))
    (fault,) = report({"task": test}, train)
    assert "1 of 1 problems stand in the training set" in fault.text


def test_overlap_compares_statements_whatever_the_templates(tmp_path: Path) -> None:
    short = "What is one plus one?"
    long = "A train leaves the old station at noon and runs at sixty miles per hour towards the sea"
    train = dataset(tmp_path, "train", (short, "2"), (long + " . When does it arrive?", "5"), template="answer_line")
    test = dataset(tmp_path, "test", (short, "2"), (long + " ; how far is it after a day?", "7"), ("New?", "1"))
    first, second = report({"test": test}, train)
    assert "1 of 3 problems stand in the training set: test/0" in first.text
    assert "1 of 3 problems share over 50 % of their words" in second.text
    assert second.text.endswith("test/1")


def test_the_share_of_covered_words_decides() -> None:
    words = [f"w{i}" for i in range(20)]
    test = [" ".join(words)]
    assert find_overlaps([" ".join(words[:10])], test) == []  # 10 of 20 words: not more than half
    assert find_overlaps(["x", "x " + " ".join(words[:11])], ["y", *test]) == [1]
