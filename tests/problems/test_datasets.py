"""Datasets: local files, the Hub at a pinned commit, templates, duplicates, and questions in plain English."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tables import table
from verbs import jsonl

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.evaluation.protocol import Request, task_config
from harness.problems.benchmarks import dataset
from harness.problems.benchmarks.plain_words import KINDS, Config, load
from harness.problems.problem import TEMPLATES, Problem, deduplicate, load_benchmark, read_jsonl, template, write_jsonl

EVALUATION_SETS = [name for name in options("benchmark") if not name.startswith(("arithmetic", "plain", "reasoning"))]
TRAINING_SETS = ["gsm8k_train", "dapo_math_17k"]
REVISION = "0123456789abcdef0123456789abcdef01234567"


def fake_hub(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """A `datasets` that serves these rows; returns the calls it received."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(source: str, subset: str | None, *, split: str, revision: str) -> list[dict[str, Any]]:
        calls.append((source, subset, split, revision))
        return rows

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return calls


def benchmark_config(name: str) -> dataset.Config:
    config = compose_run([f"+benchmark@evaluation.benchmarks.{name}={name}"]).evaluation.benchmarks[name]
    assert isinstance(config, dataset.Config)
    return config


def training_set(name: str) -> dataset.Config:
    config = task_config(Request(overrides=[f"task={name}"]))
    assert isinstance(config, dataset.Config)
    return config


@pytest.mark.parametrize("name", [*EVALUATION_SETS, *TRAINING_SETS])
def test_a_data_set_names_itself_and_pins_a_commit_and_a_training_set_has_no_copies(name: str) -> None:
    training = name in TRAINING_SETS
    config = training_set(name) if training else benchmark_config(name)
    assert (config.name, config.version, len(config.revision or "")) == (name, 1, 40)
    assert config.deduplicate or not training


def test_a_local_file_gives_problems_with_its_ids_and_the_template_around_the_statement(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "mine.jsonl", [{"id": "a", "problem": "1+1?", "answer": 2, "level": 3}])
    loaded = load_benchmark(dataset.Config(path=str(path), template="answer_line"))
    (problem,) = loaded.problems
    assert (loaded.name, loaded.chat) == ("mine", True)
    assert (problem.id, problem.gold) == ("a", "2")
    assert "\n\n1+1?\n\n" in problem.prompt
    assert "Answer: $Answer" in problem.prompt


def test_fields_say_where_a_local_file_keeps_problem_and_answer(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "mine.jsonl", [{"problem": "no", "question": "0+2?", "answer": "0+2=2 #### 2"}])
    fields = dataset.Fields(problem="question", answer_after="####")
    (problem,) = load_benchmark(dataset.Config(path=str(path), template="plain", fields=fields)).problems
    assert (problem.prompt, problem.gold) == ("0+2?", "2")
    written = jsonl(tmp_path / "written.jsonl", [{"id": "gsm8k/7", "problem": "0+2?", "answer": "2"}])
    (problem,) = load_benchmark(dataset.Config(path=str(written), template="plain", fields=fields)).problems
    assert (problem.id, problem.prompt, problem.gold) == ("gsm8k/7", "0+2?", "2")
    with pytest.raises(ConfigError, match="line 1 has no id"):
        load_benchmark(dataset.Config(path=str(jsonl(tmp_path / "bare.jsonl", [{"problem": "0+2?", "answer": "2"}]))))


@table(__file__, "malformed", "line, said")
def test_a_malformed_line_is_named_by_its_number(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "a", "problem": "p", "answer": "1"}\n' + line + "\n")
    with pytest.raises(ConfigError, match=said):
        dataset.load(dataset.Config(path=str(path)))


def test_what_is_exported_is_read_back(tmp_path: Path) -> None:
    records = [Problem("a/0", "Où? \u2028 $\\frac12$", "1/2"), Problem("a/1", "Two", "2")]
    write_jsonl(tmp_path / "a.jsonl", records)
    assert read_jsonl(tmp_path / "a.jsonl") == records


def test_the_hub_is_read_at_the_pinned_commit_and_gsm8k_golds_are_what_follows_the_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"question": "How many? ", "answer": "2*9=<<2*9=18>>18\n#### 18"}]
    calls = fake_hub(monkeypatch, rows)
    loaded = load_benchmark(benchmark_config("gsm8k"))
    assert calls == [("openai/gsm8k", "main", "test", "740312add88f781978c0658806c59bc2815b9866")]
    assert [(p.id, p.gold) for p in loaded.problems] == [("gsm8k/0", "18")]
    assert loaded.problems[0].prompt.startswith("How many?\n\nPlease reason")


def test_dapo_prompts_lose_their_instructions_and_are_kept_once_without_conflicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def row(statement: str, answer: str) -> dict[str, Any]:
        text = TEMPLATES["answer_line"](statement)
        return {"prompt": [{"role": "user", "content": text}], "reward_model": {"ground_truth": answer}}

    one, other = (
        [row("What is $1+1$?", "2"), row("Pick one.", "3")],
        [row("What is  $1+1$?", "2.0"), row("Pick one.", "4")],
    )
    fake_hub(monkeypatch, [*one, *other])
    config = training_set("dapo_math_17k")
    records, report = dataset.load_records(config)
    assert [(record.id, record.prompt) for record in records] == [("dapo_math_17k/0", "What is $1+1$?")]
    assert (report.rows, list(report.copy_counts.values())) == (4, [2, 2])
    assert list(report.conflicts.values()) == [["3", "4"]]
    assert load_benchmark(config).problems[0].prompt == TEMPLATES["answer_line"]("What is $1+1$?")


def test_a_list_of_golds_is_joined_and_a_missing_field_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, [{"question": "q", "final_answer": ["1", "2"]}])
    assert load_benchmark(benchmark_config("olympiadbench")).problems[0].gold == "1, 2"
    fake_hub(monkeypatch, [{"question": "q"}])
    with pytest.raises(ConfigError, match="no field 'final_answer'; its fields are question"):
        load_benchmark(benchmark_config("olympiadbench"))


def test_a_missing_package_and_a_missing_network_are_one_line_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    config = dataset.Config(name="x", source="some/data", revision=REVISION)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[data\]'.*path="):
        dataset.load(config)

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'some/data' on the Hub")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=unreachable))
    with pytest.raises(
        ConfigError,
        match=r"cannot load some/data .*Couldn't reach.*Set revision= to another; without network.*path=",
    ):
        dataset.load(config)


def test_templates_put_the_problem_in_its_slot_and_nothing_else() -> None:
    statement = r"Find \frac{a}{b} for {x} and $\boxed{y}$"
    for made in TEMPLATES.values():
        assert made(statement).count(statement) == 1
    assert template("chat:Q: {problem}").chat
    assert template("Q: {problem}")("2+2") == "Q: 2+2"


def test_a_contest_of_this_year_is_read_from_a_file_in_the_form_of_its_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [{"problem_idx": 1, "answer": 277, "problem": "How many?"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    config = benchmark_config("aime26")
    calls = fake_hub(monkeypatch, rows)
    (online,) = load_benchmark(config).problems
    assert calls == [(config.source, None, "train", config.revision)]
    config.path = str(tmp_path / "train.parquet")
    (offline,) = load_benchmark(config).problems
    assert (offline.gold, offline.prompt) == (online.gold, online.prompt) == ("277", online.prompt)


def test_the_first_copy_of_a_prompt_stays_and_equal_numbers_are_no_conflict() -> None:
    rows = [Problem("0", "What?", "27"), Problem("1", "what? ", "27.0"), Problem("2", "Else?", "1/3")]
    kept, report = deduplicate(rows)
    assert [record.id for record in kept] == ["0", "2"]
    assert (report.rows, report.conflicts) == (3, {})
    assert report.lines()[0].startswith("1 repeated prompt (1 surplus row of 3, up to 2 copies")
    huge = [Problem("0", "What?", "1e999999999"), Problem("1", "What?", "1E999999999"), Problem("2", "What?", "2")]
    assert list(deduplicate(huge)[1].conflicts.values()) == [["1e999999999", "2"]]


def worked(kind: str, text: str) -> int:
    """The answer by the words of the question."""
    numbers = [int(item) for item in re.findall(r"\d+", text)]
    if kind == "largest":
        return max(numbers) if "largest" in text else min(numbers)
    first, second = numbers
    return {"sum": first + second, "difference": abs(first - second), "product": first * second}[kind]


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_answers_follow_from_the_questions(split: str) -> None:
    config = Config(split=split, problems=40, kinds=list(KINDS))
    kinds = []
    for problem in load(config).problems:
        kind = problem.id.split("/")[1]
        kinds.append(kind)
        assert str(worked(kind, problem.prompt)) == problem.gold
        assert not re.search(r"\d\s*[-+*/x]\s*\d", problem.prompt)  # nothing to be repeated
    assert all(kinds.count(kind) == 10 for kind in KINDS)


def test_expressions_say_the_same_questions_with_signs() -> None:
    for problem in load(Config(problems=40, most=40, wording="expressions", split="heldout")).problems:
        kind, text = problem.id.split("/")[1], problem.prompt
        assert str(worked(kind, text)) == problem.gold
        assert bool(re.search(r"What is \d+ [-+x] \d+\?", text)) == (kind != "largest")


def test_problems_are_distinct_and_splits_apart() -> None:
    train = {problem.prompt for problem in load(Config(problems=1500)).problems}
    held_out = {problem.prompt for problem in load(Config(problems=256, split="heldout")).problems}
    assert len(train) == 1500
    assert len(held_out) == 256
    assert not train & held_out
    assert load(Config(problems=10)).content == load(Config(problems=10)).content
    assert load(Config(problems=10, seed=9)).content != load(Config(problems=10)).content


def test_more_problems_than_there_are_is_an_error_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"no 200 distinct problems of kind 'product'.*raise `most`"):
        load(Config(problems=200, kinds=["product"], most=4))


@pytest.mark.parametrize(("what", "text"), [("answer", ""), ("answer", " \n"), ("problem", " ")])
def test_an_empty_gold_or_statement_is_refused(tmp_path: Path, what: str, text: str) -> None:
    """Every response to such a gold was wrong, and the advice was to use easier problems."""
    rows = [{"id": "a", "problem": "p", "answer": "1"}, {"id": "b", "problem": "q", "answer": "2", what: text}]
    with pytest.raises(ConfigError, match=rf"mine.jsonl: the {what} of 'b' is empty \(1 in all\)"):
        load_benchmark(dataset.Config(path=str(jsonl(tmp_path / "mine.jsonl", rows))))


def test_a_file_of_which_no_prompt_is_left_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "mine.jsonl", [{"id": name, "problem": "p", "answer": name} for name in "12"])
    with pytest.raises(ConfigError, match="the copies of every prompt have different answers"):
        load_benchmark(dataset.Config(path=str(path), deduplicate=True))
