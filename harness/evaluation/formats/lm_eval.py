"""lm-evaluation-harness: `samples_TASK_DATE.jsonl` of `--log_samples`, with `results_DATE.json` beside it.

A line is a document under one filter, so that a task with two filters has every document twice.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.evaluation.formats._sample import Foreign, Sample, gold_of, sample, verdict
from harness.problems.problem import lines_of

_NAME = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?")
_TEXTS = ("question", "problem", "query", "input", "prompt")
_NO_METRIC = ("doc_id", "doc_hash", "prompt_hash", "target_hash")


def reads(path: Path, head: Mapping[str, Any]) -> bool:
    return "doc_id" in head and "resps" in head


def read(path: Path) -> Foreign:
    """Read the generations, with the verdicts of the first filter. Raises `ConfigError`."""
    samples: list[Sample] = []
    filters: list[str] = []
    warnings: list[str] = []
    document_keys: set[tuple[str, str]] = set()
    metric = ""
    for where, row in lines_of(path, ("doc_id", "resps", "target"), warnings):
        mark = str(row.get("filter", "none"))
        if mark not in filters:
            filters.append(mark)
        key = str(row["doc_id"]), mark
        if key in document_keys:
            raise ConfigError(f"{where} repeats doc_id {row['doc_id']}: two evaluations are in this file; keep one")
        document_keys.add(key)
        if mark != filters[0]:
            continue
        metric = metric or _metric(row)
        try:
            texts, gold = _texts(row), gold_of(row["target"])
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error
        # With several samples the filter votes or picks, and its verdict is of no sample.
        label = verdict(row.get(metric)) if len(texts) == 1 else None
        samples += [sample(row["doc_id"], gold, _problem(row), text, label=label) for text in texts]
    if filters[1:]:
        warnings.append(f"verdicts are those of its filter {filters[0]}; it has {', '.join(filters[1:])} as well")
    totals, remarks = _totals(path, metric, filters[0] if filters else "none")
    return Foreign("lm-evaluation-harness", samples, totals, [*warnings, *remarks])


def _texts(row: Mapping[str, Any]) -> list[str]:
    """The generations of the one request of a document. Raises ValueError where there are none."""
    requests = row["resps"]
    texts = requests[0] if isinstance(requests, list) and len(requests) == 1 else None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("the task scores choices by their likelihood; there is no text to grade")
    return texts


def _problem(row: Mapping[str, Any]) -> str | None:
    doc = row.get("doc")
    texts = [doc[key] for key in _TEXTS if isinstance(doc.get(key), str)] if isinstance(doc, dict) else []
    if texts:
        return texts[0]
    arguments = row.get("arguments")
    request = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    first = request.get("arg_0") if isinstance(request, dict) else None
    return first if isinstance(first, str) else None


def _metric(row: Mapping[str, Any]) -> str:
    """The first metric that is right or wrong; versions before 0.4.3 do not list them."""
    listed = row.get("metrics")
    names = listed if isinstance(listed, list) and listed else [key for key in row if key not in _NO_METRIC]
    return next((name for name in map(str, names) if verdict(row.get(name)) is not None), "")


def _totals(path: Path, metric: str, mark: str) -> tuple[dict[str, float], list[str]]:
    match = _NAME.fullmatch(path.stem)
    task, date = (match["task"], match["date"]) if match else ("", None)
    candidates = [path.with_name(f"results_{date}.json")] if date else sorted(path.parent.glob("results*.json"))
    files = [file for file in candidates if file.is_file()]
    if len(files) != 1:
        return {}, ["no results file of its evaluation is beside it"]
    try:
        value = json.loads(files[0].read_bytes())["results"][task][f"{metric},{mark}"]
        return {f"{metric},{mark} in {files[0].name}": float(value)}, []
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}, [f"{files[0].name} has no {metric},{mark} of task {task}"]
