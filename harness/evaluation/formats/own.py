"""The harness's own: a line a problem, `{"id", "problem", "answer", "samples": [...]}`; without `answer`, golds come from elsewhere."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.evaluation.formats._sample import Foreign, Sample, gold_of, sample, verdict
from harness.problems.problem import rows_of

_LISTS = {"labels": None, "finish_reasons": "stop", "response_tokens": None}  # and what an absent one says


def reads(path: Path, head: Mapping[str, Any]) -> bool:
    return "samples" in head and "eval" not in head


def read(path: Path) -> Foreign:
    """Read it; a sample is a text, or null for one that was lost (it counts, as wrong). Raises `ConfigError` that names the line.

    Optional keys, one entry a sample: `labels` (somebody else's verdict), `finish_reasons` (stop or length) and `response_tokens`.
    """
    samples: list[Sample] = []
    warnings: list[str] = []
    for where, row in rows_of(path, ("id", "samples"), warnings):
        samples += _samples(row, where)
    return Foreign("recorded generations", samples, notes=warnings)


def _samples(row: dict[str, Any], where: str) -> Iterator[Sample]:
    """The samples of a line; keys that are null are absent. Raises ConfigError where its lists are not what they have to be."""
    responses = row["samples"]
    if not isinstance(responses, list) or not all(item is None or isinstance(item, str) for item in responses):
        raise ConfigError(f"{where}: samples must be a list of texts (null for a lost one)")
    if not responses:
        raise ConfigError(f"{where}: samples is empty; write null for each sample that was lost, or leave the line out")
    lists = {key: row[key] for key in _LISTS if row.get(key) is not None}
    for key, values in lists.items():
        if not isinstance(values, list):
            raise ConfigError(f"{where}: {key} must be a list, one entry a sample")
        if len(values) != len(responses):
            raise ConfigError(f"{where}: {key} has {len(values)} entries for {len(responses)} samples")
    try:
        gold = gold_of(row.get("answer"))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    columns = (lists.get(key, [default] * len(responses)) for key, default in _LISTS.items())
    problem = None if row.get("problem") is None else str(row["problem"])
    for response, label, reason, count in zip(responses, *columns, strict=True):
        if response is not None and reason not in ("stop", "length"):
            raise ConfigError(f"{where}: finish_reasons has {reason!r}; say stop or length (the cap cut it)")
        if (correct := verdict(label)) is None and label is not None:
            raise ConfigError(f"{where}: labels has {label!r}; say true or false (or 1 or 0; null for none)")
        yield sample(row["id"], gold, problem, response, label=correct, finish_reason=reason, tokens=count)
