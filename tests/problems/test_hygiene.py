"""Findings before a run: golds, duplicates, overlap."""

from __future__ import annotations

from pathlib import Path

from verbs import Said, jsonl

from harness.problems.benchmarks import arithmetic
from harness.problems.benchmarks.dataset import Config
from harness.problems.hygiene import find_overlaps, report


def dataset(tmp_path: Path, name: str, *rows: tuple[str, str], template: str = "boxed") -> Config:
    lines = [{"id": f"{name}/{i}", "problem": p, "answer": a} for i, (p, a) in enumerate(rows)]
    path = jsonl(tmp_path / f"{name}.jsonl", lines)
    return Config(name=name, path=str(path), template=template)


def test_a_clean_testbed_has_no_findings() -> None:
    heldout, train = (arithmetic.Config(split=split, problems=50) for split in ("heldout", "train"))
    assert report({"heldout": heldout}, train) == []


def test_golds_that_are_no_answers_are_named(tmp_path: Path) -> None:
    golds = ("12", r"\boxed{", "see figure", "N/A", "?", "None", "none", "...")
    config = dataset(tmp_path, "set", *((f"Problem {place}?", gold) for place, gold in enumerate(golds)))
    (finding,) = report({"set": config})
    assert finding.check == "gold"
    assert "6 of 8 golds are no answers that can be read: set/1" in finding.text


def test_repeats_and_conflicts_are_counted(tmp_path: Path) -> None:
    config = dataset(tmp_path, "set", ("Same?", "1"), ("same? ", "1"), ("Other?", "2"), ("Other?", "3"))
    texts = [finding.text for finding in report({"set": config}) if finding.check == "duplicates"]
    assert len(texts) == 2
    assert "2 prompts are repeated (2 surplus rows of 4" in texts[0]
    assert "1 prompts have conflicting answers ('other?' → 2 / 3)" in texts[1]


def test_a_set_without_a_name_is_written_under_that_of_its_file(tmp_path: Path, said: Said) -> None:
    path = jsonl(tmp_path / "mine.jsonl", [{"id": "a", "problem": "Two to the tenth?", "answer": "see figure"}])
    check = ("evaluate", "check", "task=dataset", f"task.path={path}")
    assert "no answers that can be read" in said(*check, f"out={tmp_path / 'out'}", code=1)
    assert [item.name for item in (tmp_path / "out").iterdir()] == ["mine.jsonl"]
    assert "would write over" in said(*check, f"out={tmp_path}", code=2)
    assert "'ks'" in said(*check, "ks=[1]", code=2)


def test_a_benchmark_named_task_is_checked_beside_the_training_task(tmp_path: Path, said: Said) -> None:
    train, test = dataset(tmp_path, "train", ("p", "7")), dataset(tmp_path, "task", ("p", "7"))
    (fault,) = report({"task": test}, train)
    assert "1 of 1 problems stand in the training set" in fault.text
    paths = [tmp_path / part / "problems.jsonl" for part in ("train", "test")]
    for path in paths:
        path.parent.mkdir()
        jsonl(path, [{"id": "a", "problem": path.parent.name, "answer": "7"}])
    check = ("evaluate", "check", f"data.path={paths[1]}", "task=dataset", f"task.path={paths[0]}")
    assert "two sets are named problems" in said(*check, f"out={tmp_path / 'out'}", code=2)


def test_overlap_compares_statements_whatever_the_templates(tmp_path: Path) -> None:
    short = "What is one plus one?"
    long = "A train leaves the old station at noon and runs at sixty miles per hour towards the sea"
    train = dataset(tmp_path, "train", (short, "2"), (long + " . When does it arrive?", "5"), template="answer_line")
    test = dataset(tmp_path, "test", (short, "2"), (long + " ; how far is it after a day?", "7"), ("New?", "1"))
    first, second = report({"test": test}, train)
    assert "1 of 3 problems stand in the training set: test/0" in first.text
    assert "1 of 3 problems share more than 50% of their words" in second.text
    assert second.text.endswith("test/1")


def test_the_share_of_covered_words_decides() -> None:
    words = [f"w{i}" for i in range(20)]
    test = [" ".join(words)]
    assert find_overlaps([" ".join(words[:10])], test) == []  # 10 of 20 words: not more than half
    assert find_overlaps(["x", "x " + " ".join(words[:11])], ["y", *test]) == [1]
