"""Recorded generations of other tools: small files in the shapes that the tools write."""

from __future__ import annotations

import codecs
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tables import table
from verbs import Said, jsonl

from harness.configuration.error import ConfigError
from harness.evaluation.formats._sample import Foreign
from harness.evaluation.recorded import read_recorded

DATE = "2026-01-21T03-44-18.458309"


def column(found: Foreign, name: str) -> list[Any]:
    return [one[name] for one in found.samples]


def lm_eval_row(number: int, response: str | list[str], right: float, mark: str = "strict-match") -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"question": f"What is {number} + 1?", "answer": f"so\n#### {number + 1}"},
        "target": f"so\n#### {number + 1}",
        "arguments": {"gen_args_0": {"arg_0": "few shots and the question", "arg_1": {"until": ["Q:"]}}},
        "resps": [response if isinstance(response, list) else [response]],
        "filtered_resps": ["?"],
        "filter": mark,
        "metrics": ["exact_match"],
        "doc_hash": "d",
        "exact_match": right,
    }


def test_lm_eval_has_the_verdicts_of_one_filter_and_its_total(tmp_path: Path, said: Said) -> None:
    rows = [lm_eval_row(0, "#### 1", 1.0), lm_eval_row(1, "it is 2", 0.0)]
    rows += [lm_eval_row(0, "#### 1", 1.0, "flexible-extract"), lm_eval_row(1, "it is 2", 1.0, "flexible-extract")]
    path = jsonl(tmp_path / f"samples_gsm8k_cot_{DATE}.jsonl", rows)
    results = {"results": {"gsm8k_cot": {"exact_match,strict-match": 0.5, "exact_match,flexible-extract": 1.0}}}
    (tmp_path / f"results_{DATE}.json").write_text(json.dumps(results))
    found = read_recorded(path)
    assert column(found, "label") == [True, False]
    assert column(found, "problem") == ["What is 0 + 1?", "What is 1 + 1?"]
    told = said("evaluate", f"samples={path}", f"out={tmp_path / 'out'}")
    assert "exact_match,strict-match" in told
    assert "mean of verdicts here: 50.00 %, agrees" in told
    assert "1 differ" in told  # ours takes the last number
    (tmp_path / f"results_{DATE}.json").write_text(json.dumps(results).replace("0.5", "0.75"))
    assert "DIFFERS" in "\n".join(read_recorded(path).lines())


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "answer": "1", "samples": ["1", "2"]},
        lm_eval_row(0, ["1", "2"], 1.0),
        {"id": "a", "problem": "p", "answer": "1", "response": "1"},
    ],
)
def test_of_a_file_that_ends_within_a_line_the_whole_lines_are_read(tmp_path: Path, row: dict[str, Any]) -> None:
    path = jsonl(tmp_path / "samples_x.jsonl", [row])
    whole = read_recorded(path)
    path.write_text(path.read_text() + '{"id": "b", "ans')
    torn = read_recorded(path)
    assert torn.samples == whole.samples
    assert torn.notes == ["the file ends within line 2, which is left out", *whole.notes]
    path.write_text('{"id": "b", "ans\n' + json.dumps(row) + "\n")
    with pytest.raises(ConfigError, match=r"line 1 is not JSON|no answer"):
        read_recorded(path)


def test_totals_of_lm_eval_are_no_samples(tmp_path: Path) -> None:
    (tmp_path / "results_x.json").write_text(json.dumps({"results": {}, "configs": {}}))
    with pytest.raises(ConfigError, match=r"lm_eval: samples_\*\.jsonl"):
        read_recorded(tmp_path / "results_x.json")


def inspect_row(identifier: int, epoch: int, said: Any, score: Any, **more: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": said}, "stop_reason": "stop"}
    return {
        "id": identifier,
        "epoch": epoch,
        "input": [{"role": "system", "content": "s"}, {"role": "user", "content": f"Question {identifier}?"}],
        "target": str(identifier),
        "output": {"choices": [choice], "usage": {"output_tokens": 5}},
        "scores": {"match": {"value": score}},
        **more,
    }


ROWS = [
    inspect_row(2, 2, "attachment://abc", "I", attachments={"abc": "it is 7"}),
    inspect_row(1, 1, "it is 1", "C"),
    inspect_row(1, 2, [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "it is 1"}], 1.0),
    {**inspect_row(2, 1, "", "N"), "output": {"choices": []}, "error": {"message": "boom"}},
]


def inspect_log(path: Path, rows: list[dict[str, Any]], accuracy: float, reducer: str = "mean") -> Path:
    scores = [{"name": "match", "reducer": reducer, "metrics": {"accuracy": {"value": accuracy}}}]
    log = {"version": 2, "status": "success", "eval": {}, "plan": {}, "results": {"scores": scores}}
    if path.suffix == ".json":
        path.write_text(json.dumps({**log, "samples": rows}, indent=1))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log))
        for row in rows:
            archive.writestr(f"samples/{row['id']}_epoch_{row['epoch']}.json", json.dumps(row))
    return path


@pytest.mark.parametrize("name", ["log.json", "log.eval"])
def test_inspect_epochs_are_samples_and_errors_are_lost(tmp_path: Path, name: str) -> None:
    found = read_recorded(inspect_log(tmp_path / name, ROWS, 0.5))
    by_place = {(one["problem_id"], one["sample_index"]): one for one in found.samples}
    assert [by_place[place]["response"] for place in (("1", 0), ("1", 1), ("2", 0), ("2", 1))] == [
        "it is 1",
        "it is 1",
        None,
        "it is 7",
    ]
    assert sorted(column(found, "label")) == [False, False, True, True]
    assert by_place["2", 1]["problem"] == "Question 2?"
    assert by_place["1", 0]["response_tokens"] == 5
    assert found.lines()[-1].endswith("mean of verdicts here: 50.00 %, agrees")


@table(__file__, "reducers", "reducer, accuracy, words")
def test_a_total_by_another_reducer_is_compared_with_that_reducer(
    tmp_path: Path, reducer: str, accuracy: float, words: str
) -> None:
    """`max` and `pass_at_2` were called DIFFERS, as a wrong mean is."""
    right = {1: "CCII", 2: "ICII"}
    rows = [inspect_row(p, epoch, "x", mark) for p, marks in right.items() for epoch, mark in enumerate(marks, 1)]
    assert words in read_recorded(inspect_log(tmp_path / "log.json", rows, accuracy, reducer)).lines()[-1]


def test_a_partial_score_is_no_verdict_and_a_log_without_samples_is_named(tmp_path: Path) -> None:
    found = read_recorded(inspect_log(tmp_path / "log.json", [inspect_row(1, 1, "1", "P")], 0.5))
    assert column(found, "label") == [None]
    assert "not every sample has a verdict" in found.lines()[-1]
    with pytest.raises(ConfigError, match="holds no samples"):
        read_recorded(inspect_log(tmp_path / "log.json", [], 0.5))
    (tmp_path / "torn.eval").write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigError, match="is no Inspect log"):
        read_recorded(tmp_path / "torn.eval")
    damaged = inspect_log(tmp_path / "damaged.eval", ROWS, 0.5)
    content = bytearray(damaged.read_bytes())
    content[content.index(b"header.json") + len("header.json")] = 0xFF  # no deflate stream begins so
    damaged.write_bytes(content)
    with pytest.raises(ConfigError, match="is no Inspect log"):
        read_recorded(damaged)


def test_a_compression_that_needs_inspects_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> bytes:
        raise NotImplementedError

    monkeypatch.setattr(zipfile.ZipFile, "read", unknown)
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(ConfigError, match=r"^\S+log.eval is compressed by zstd"):
        read_recorded(inspect_log(tmp_path / "log.eval", ROWS, 0.5))


def test_an_inspect_log_may_lack_its_mean_and_holds_no_half_characters(tmp_path: Path) -> None:
    log = {"status": "success", "eval": {}, "plan": {}, "samples": ROWS[1:2]}
    scores = [{"name": "match", "metrics": {"accuracy": {"value": None}}}]
    (tmp_path / "log.json").write_text(json.dumps({**log, "results": {"scores": scores}}))
    assert read_recorded(tmp_path / "log.json").totals == {}
    with pytest.raises(ConfigError, match=r"sample '1' holds half of a surrogate pair"):
        read_recorded(inspect_log(tmp_path / "half.json", [inspect_row(1, 1, "it is \ud83d", "C")], 1.0))


def test_openai_lines_take_golds_from_a_file(tmp_path: Path) -> None:
    def batch(identifier: str, *texts: str) -> dict[str, Any]:
        choices = [{"message": {"content": text}, "finish_reason": "length"} for text in texts]
        body = {"choices": choices, "usage": {"completion_tokens": 9}}
        return {"id": f"batch_{identifier}", "custom_id": identifier, "response": {"status_code": 200, "body": body}}

    path = jsonl(tmp_path / "batch.jsonl", [batch("p1", "7"), batch("p2", "8")])
    with pytest.raises(ConfigError, match=r"2 problems have no gold .*golds=FILE"):
        read_recorded(path)
    golds = jsonl(tmp_path / "golds.jsonl", [{"id": f"p{n}", "problem": "?", "answer": str(n)} for n in (1, 2)])
    found = read_recorded(path, golds)
    assert column(found, "gold") == ["1", "2"]
    assert column(found, "finish_reason") == ["length"] * 2
    assert column(found, "response_tokens") == [9, 9]
    two = [{"id": name, "problem": "Q?", "answer": name} for name in "78"]
    bare = jsonl(tmp_path / "bare.jsonl", [{"prompt": "q?", "response": "8"}])
    with pytest.raises(ConfigError, match="1 problems have no gold"):  # one text, two answers
        read_recorded(bare, jsonl(tmp_path / "two.jsonl", two))
    # The golds' numbers are of other problems than the places of lines without ids.
    sums = [{"id": n, "problem": f"{a}+{b}", "answer": a + b} for n, (a, b) in enumerate([(1, 0), (2, 3), (4, 4)])]
    lines = [{"prompt": text, "response": "?"} for text in ("2+3", "4+4")]
    several = read_recorded(jsonl(tmp_path / "lines.jsonl", lines), jsonl(tmp_path / "sums.jsonl", sums))
    assert column(several, "gold") == ["5", "8"]
    nameless = jsonl(tmp_path / "nameless.jsonl", [{"id": "a", "problem": "", "answer": "7"}])
    with pytest.raises(ConfigError, match=r"1 problems have no gold \(first: 'b'\)"):  # no text is no match
        read_recorded(jsonl(tmp_path / "b.jsonl", [{"id": "b", "samples": ["7"]}]), nameless)
    # The harness's own lines may leave the answer to a file of golds; one of their own counts, and another one is told.
    own = [
        {"id": "a", "problem": "2+3", "samples": ["5"]},
        {"id": "b", "problem": "4+4", "answer": "9", "samples": ["8"]},
    ]
    several = read_recorded(jsonl(tmp_path / "own.jsonl", own), tmp_path / "sums.jsonl")
    assert column(several, "gold") == ["5", "9"]
    assert "1 problems have another gold in golds=" in several.lines()[1]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"id": "a", "answer": "7", "response": "7"}])
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert column(read_recorded(path), "problem_id") == ["a"]
