"""Evaluation of generations made elsewhere: a file of any of `harness.evaluation.formats` in, a folder of results out."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member
from harness.evaluation.formats import own
from harness.evaluation.formats._sample import LOST, Foreign
from harness.evaluation.result import code_samples, graders_of, graders_text, result_of
from harness.problems.problem import deduplicate, normalise, read_jsonl
from harness.store.atomic import publish_file, write_file
from harness.verify import MathVerifier, Verdict, is_no_answer, restore_escapes

SAMPLES_FILE, SUMMARY_FILE = "samples.parquet", "summary.json"
LENGTH = "response_characters"
_CHUNK = 512
_FORMATS = "harness.evaluation.formats"
_EXAMPLES = 20
SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample_index", pa.int32(), nullable=False),
        pa.field("correct", pa.bool_(), nullable=False),
        pa.field("answer", pa.string()),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("gold", pa.string(), nullable=False),
        pa.field(LENGTH, pa.int64(), nullable=False),
        pa.field("label", pa.bool_()),
        pa.field("response", pa.string()),
        pa.field("second_correct", pa.bool_()),
        pa.field("problem", pa.string()),
        pa.field("response_tokens", pa.int64()),
    ]
)


def read_recorded(path: Path, golds: Path | None = None) -> Foreign:
    """Read recorded generations, ours or another tool's (`harness.evaluation.formats`), with `sample_index`.

    `golds`: a JSONL file of problems, for generations without gold answers; found by text, else by id. Raises `ConfigError`.
    """
    head = _head(path)
    claims = (tool for tool in (member(_FORMATS, kind) for kind in kinds(_FORMATS)) if tool.reads(path, head))
    module = next(claims, own)
    if module is own and path.suffix == ".json" and path.is_file():
        raise ConfigError(f"{path} is no known evaluation: {', '.join(kinds(_FORMATS))} (lm_eval: samples_*.jsonl)")
    foreign: Foreign = module.read(path)
    if not foreign.samples:
        raise ConfigError(f"samples={path} holds no samples")
    foreign.notes += _restore(foreign.samples)
    foreign.notes += _add_golds(path, foreign.samples, golds)
    for row in foreign.samples:
        count = 0 if row["response_tokens"] is None else row["response_tokens"]
        whole = isinstance(count, int | float) and not isinstance(count, bool) and count % 1 == 0
        if not whole or not 0 <= count < 2**63:
            raise ConfigError(f"{path}: response_tokens of {row['problem_id']!r} is {count!r}; say how many, or null")
    foreign.notes += _group(path, foreign.samples)
    counts: Counter[str] = Counter()
    for row in foreign.samples:
        row["sample_index"] = counts[row["problem_id"]]
        counts[row["problem_id"]] += 1
    sizes = Counter(counts.values())
    usual = max(sizes, key=lambda size: (sizes[size], size))
    if uneven := [name for name, count in counts.items() if count != usual]:
        notes = f" ({'; '.join(foreign.notes)})" if foreign.notes else ""
        raise ConfigError(
            f"{path}: {len(uneven)} of {len(counts)} problems do not have {usual} samples ({uneven[0]!r} has {counts[uneven[0]]}); write "
            f"null for each that was lost{notes}"
        )
    return foreign


def _restore(samples: list[dict[str, Any]]) -> list[str]:
    """Put back the backslashes that JSON or Python took for escapes, and say so."""
    count = 0
    for row in samples:
        for key in ("response", "gold", "problem"):
            if row[key] and (text := restore_escapes(row[key])) != row[key]:
                row[key], count = text, count + 1
    return [f"{count} texts had lost backslashes (a form feed and `rac` is \\frac), which are put back"] * bool(count)


def _head(path: Path) -> dict[str, Any]:
    """The first JSON object of a text file: the whole of a `.json`, else the first line that is not blank; empty where there is none."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read() if path.suffix == ".json" else next((line for line in file if line.strip()), "")
        head = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    return head if isinstance(head, dict) else {}


def _add_golds(path: Path, samples: list[dict[str, Any]], golds: Path | None) -> list[str]:
    """Fill in the golds that a file does not have; says where it has others than `golds`. Raises `ConfigError` where one is missing."""
    records = [] if golds is None else read_jsonl(golds)
    distinct, _ = deduplicate(records)  # a text with two answers has none
    by_text = {normalise(record.prompt): record.gold for record in distinct if record.prompt.strip()}
    by_id = {record.id: record.gold for record in records}
    others = set()
    for row in samples:
        # The text first: ids of two files may number other problems.
        given_gold = by_text.get(normalise(row["problem"] or "")) or by_id.get(row["problem_id"])
        if not (row["gold"] or "").strip():
            row["gold"] = given_gold
        elif given_gold and normalise(given_gold) != normalise(row["gold"]):
            others.add(row["problem_id"])
    if missing := {row["problem_id"] for row in samples if not (row["gold"] or "").strip()}:
        raise ConfigError(f"{path}: {len(missing)} problems have no gold (first: {min(missing)!r}); golds=FILE.jsonl")
    notes = [f"{len(others)} problems have another gold in golds={golds}; the file's counts"] * bool(others)
    no_answers = {row["problem_id"]: row["gold"] for row in samples if is_no_answer(row["gold"])}
    texts = ", ".join(f"{name} {gold!r}" for name, gold in list(no_answers.items())[:_EXAMPLES])
    return [*notes, *[f"{len(no_answers)} golds are no answers: {texts}"] * bool(no_answers)]


def _group(path: Path, samples: list[dict[str, Any]]) -> list[str]:
    """Make samples of one prompt with one gold those of one problem, whatever their ids, and say so; without a prompt the id decides.

    A repeated problem whose ids have as many samples as the others stays apart. Raises `ConfigError`: one id stands for two prompts, or
    for two golds.
    """
    problems: dict[tuple[str, str], str] = {}
    name_of: dict[str, str] = {}
    content_of: dict[str, tuple[str, str]] = {}
    copies: dict[str, set[str]] = {}
    for row in samples:
        name, text = row["problem_id"], normalise(row["problem"] or "")
        content = text, row["gold"]
        if content_of.setdefault(name, content) != content:
            what = "golds" if content_of[name][0] == text else "prompts"
            pair = zip(content_of[name], content, strict=True)
            first, second = next((a, b) for a, b in pair if a != b)
            raise ConfigError(f"{path}: id {name!r} stands for two {what}, {first[:40]!r} and {second[:40]!r}")
        name_of[name] = problems.setdefault(content, name) if text else name
        copies.setdefault(name_of[name], set()).add(name)
    if not (several := {name: ids for name, ids in copies.items() if len(ids) > 1}):
        return []
    name, ids = next(iter(several.items()))
    apart = Counter(row["problem_id"] for row in samples)
    together = Counter(name_of[row["problem_id"]] for row in samples)
    if min(apart.values()) > 1 == len(set(apart.values())) < len(set(together.values())):
        return [f"{len(several)} problems stand under several ids ({name!r} under {len(ids)}), and each id counts"]
    for row in samples:
        row["problem_id"] = name_of[row["problem_id"]]
    return [f"{len(several)} problems stand under several ids ({name!r} under {len(ids)}), which count as one"]


def verdicts_of(
    responses: Sequence[str | None],
    golds: Sequence[str],
    problems: Sequence[str | None],
    finish_reasons: Sequence[str],
    verifier: MathVerifier,
    progress: Callable[[int, int], None] | None = None,
) -> list[Verdict]:
    """Return the verdict of every response, in order; None is a lost one: wrong, without an answer. One of `length` was cut off."""
    truncated = [reason == "length" for reason in finish_reasons]
    verdicts: list[Verdict] = []
    for start in range(0, len(responses), _CHUNK):
        part = slice(start, start + _CHUNK)
        texts = ["" if response is None else response for response in responses[part]]
        verdicts += verifier.verify_many(list(zip(texts, golds[part], strict=True)), problems[part], truncated[part])
        if progress is not None:
            progress(len(verdicts), len(responses))
    return verdicts


def grade_recorded(
    samples: Sequence[dict[str, Any]], verifier: MathVerifier, progress: Callable[[int, int], None] | None = None
) -> pa.Table:
    """Return every sample with its verdict, in order; columns of `SCHEMA`."""
    responses, golds, problems = ([sample[key] for sample in samples] for key in ("response", "gold", "problem"))
    reasons = [sample["finish_reason"] for sample in samples]
    verdicts = verdicts_of(responses, golds, problems, reasons, verifier, progress)
    second_verdicts = verifier.second_many([(text or "", gold) for text, gold in zip(responses, golds, strict=True)])
    rows = (
        {
            **sample,
            **asdict(verdict),
            "correct": verdict.correct,
            LENGTH: len(sample["response"] or ""),
            "second_correct": second,
        }
        for sample, verdict, second in zip(samples, verdicts, second_verdicts, strict=True)
    )
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def summarise_recorded(table: pa.Table, verifier: MathVerifier, ks: Sequence[int] | None) -> dict[str, Any]:
    """Return the summary of graded samples: `result_of`, the verifier's settings and, where there are labels, how they compare."""
    frame = table.to_pandas()
    result = result_of(code_samples(frame, LENGTH, verifier.equivalent_many), ks, LENGTH)
    result["verifier"] |= {
        "extraction": verifier.config.extraction,
        "answer_must_end": verifier.config.answer_must_end,
        "form": verifier.config.form,
        "percent": verifier.config.percent,
        "fingerprint": verifier.fingerprint(),
    }
    result["graders"] = graders_of(frame)
    result["unusable_golds"] = frame["problem_id"][frame["verdict"] == "gold_unparsable"].unique().tolist()
    unlabelled = int(frame["label"].isna().sum())
    if not unlabelled:
        result["labels"] = compare_labels(frame, ks)
    elif unlabelled < len(frame):
        result["unlabelled_samples"] = unlabelled
    return result


def compare_labels(frame: pd.DataFrame, ks: Sequence[int] | None) -> dict[str, Any]:
    """Return scores of the labels (avg and Pass@k), and the samples on which verdict and label differ."""
    labels = frame["label"].astype(bool)
    samples = code_samples(frame.assign(correct=labels & (frame["finish_reason"] != LOST)), LENGTH, None)
    label_result = result_of(samples, ks, LENGTH)
    disagreements = frame[frame["correct"] != labels]
    columns = ["problem_id", "sample_index", "label", "verdict", "answer", "gold"]
    rows = disagreements[columns].to_dict("records")
    return {
        "avg": label_result["avg"],
        "pass_at": label_result["pass_at"],
        "agreement": 1 - len(disagreements) / len(frame),
        "differing": [{**row, "answer": row["answer"] if isinstance(row["answer"], str) else None} for row in rows],
    }


def write_results(out: Path, table: pa.Table, summary: dict[str, Any]) -> None:
    """Publish `samples.parquet` and `summary.json` in a folder; the summary last, as the mark of completeness."""
    publish_file(out / SAMPLES_FILE, lambda path: pq.write_table(table, path, compression="zstd"))
    write_file(out / SUMMARY_FILE, json.dumps(summary, indent=1, allow_nan=False).encode() + b"\n")


def describe(summary: dict[str, Any]) -> list[str]:
    """Say of a summary what stands in no table: verdicts, graders, golds, labels."""
    verdicts = ", ".join(f"{count} {name}" for name, count in summary["verifier"]["verdicts"].items())
    lines = [f"verdicts: {verdicts}"]
    if summary["graders"]:
        lines.append(graders_text(summary["graders"]))
    if summary["unusable_golds"]:
        lines.append(f"golds that no answer can match: {', '.join(summary['unusable_golds'][:_EXAMPLES])}")
    if "unlabelled_samples" in summary:
        lines.append(f"labels: not compared, {summary['unlabelled_samples']} samples have none")
    if "labels" in summary:
        labels = summary["labels"]
        agreement = f"agreement {100 * labels['agreement']:.2f} % ({len(labels['differing'])} differ)"
        lines.append(f"labels: avg {100 * labels['avg']:.2f} %, {agreement}")
        lines += [
            f"  {item['problem_id']} sample {item['sample_index']}: label {item['label']}, verdict {item['verdict']} "
            f"(answer {item['answer']!r}, gold {item['gold']!r})"
            for item in labels["differing"][:_EXAMPLES]
        ]
    return lines
