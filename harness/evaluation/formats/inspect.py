"""Inspect's logs: `.json`, and `.eval`, which is a zip of JSON (a file an epoch of a sample)."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.evaluation.formats._sample import Foreign, Sample, gold_of, sample, text_of, verdict
from harness.problems.problem import refuse_half_characters

_CUT_REASONS = ("max_tokens", "model_length")
_ATTACHMENT = "attachment://"
_UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def reads(path: Path, head: Mapping[str, Any]) -> bool:
    return path.suffix == ".eval" or ("eval" in head and "plan" in head)


def read(path: Path) -> Foreign:
    """Read the samples of all epochs, with the verdicts of the first scorer; a sample with an error is lost. Raises `ConfigError`."""
    try:
        log = _read_zip(path) if path.suffix == ".eval" else json.loads(path.read_bytes())
        rows = sorted(log.get("samples") or [], key=lambda row: int(row.get("epoch", 1)))
        scores = (log.get("results") or {}).get("scores") or []
        name = next(
            (str(score["name"]) for score in scores), next((key for row in rows for key in row.get("scores") or {}), "")
        )
        samples = [_sample(row, name) for row in rows]
        own = [score for score in scores if str(score["name"]) == name]
        score = next((one for one in own if one.get("reducer") in (None, "mean")), own[0] if own else {})
        metrics, reducer = score.get("metrics") or {}, str(score.get("reducer") or "mean")
        means = {key: metrics[key]["value"] for key in ("accuracy", "mean") if key in metrics}
        totals = {f"{key} of {name}": float(value) for key, value in means.items() if value is not None}
    except ConfigError:  # it is one, and its compression is named
        raise
    except _UNREADABLE as error:
        raise ConfigError(f"{path} is no Inspect log ({error!r}); try `inspect log convert --to json`") from error
    for row in samples:
        refuse_half_characters(row, f"{path}: sample {row['problem_id']!r}")
    if not samples:
        raise ConfigError(f"{path} holds no samples (status: {log.get('status')}); log_samples=true keeps them")
    several = len({str(score["name"]) for score in scores}) > 1
    notes = [f"verdicts are those of its scorer {name}"] if several else []
    targets = sum(isinstance(row["target"], list) and len(row["target"]) > 1 for row in rows)
    notes += [f"{targets} samples have several targets; the first is graded"] if targets else []
    total = (log.get("results") or {}).get("total_samples", len(samples))
    notes += [f"it counts {total} samples, {len(samples)} are in it"] if total != len(samples) else []
    notes += [] if log.get("status") == "success" else [f"the log's status is {log.get('status')}"]
    return Foreign("an Inspect log", samples, totals, notes, reducer)


def _read_zip(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        try:
            header = json.loads(archive.read("header.json" if "header.json" in names else "_journal/start.json"))
            rows = [json.loads(archive.read(name)) for name in sorted(names) if name.startswith("samples/")]
        except NotImplementedError:  # a compression that this Python does not know
            return _read_by_library(path)
    return {**header, "samples": rows}


def _read_by_library(path: Path) -> dict[str, Any]:
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise ConfigError(f"{path} is compressed by zstd: pip install inspect-ai, or `inspect log convert`") from error
    return dict(read_eval_log(str(path)).model_dump(mode="json"))


def _sample(row: Mapping[str, Any], scorer: str) -> Sample:
    attachments = row.get("attachments") or {}

    def resolve_attachment(text: str | None) -> str | None:
        """Long texts stand beside the sample, named by their hash."""
        if text is not None and text.startswith(_ATTACHMENT):
            return str(attachments.get(text.removeprefix(_ATTACHMENT), text))
        return text

    gold, prompt = gold_of(row["target"]), row["input"]
    choices = (row.get("output") or {}).get("choices") or []
    first = choices[0] if choices and not row.get("error") else {}
    text = text_of(first["message"]["content"]) if first else None
    score = ((row.get("scores") or {}).get(scorer) or {}).get("value")
    users = [turn for turn in prompt if turn.get("role") == "user"] if isinstance(prompt, list) else []
    usage = (row.get("output") or {}).get("usage") or {}
    return sample(
        row["id"],
        gold and gold.strip(),
        resolve_attachment(text_of(users[-1]["content"]) if users else text_of(prompt)),
        resolve_attachment(text),
        label=verdict(score) if first else False,
        finish_reason="length" if first and first.get("stop_reason") in _CUT_REASONS else "stop",
        tokens=usage.get("output_tokens"),
    )
