"""A line a sample: verl's dumps (`validation_data_dir`, `rollout_data_dir`), and OpenAI-style lines (messages, choices, batch outputs)."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.evaluation.formats._sample import Foreign, Sample, gold_of, sample, text_of
from harness.problems.problem import lines_of

# What is meant → the keys that mean it, the first that is there counts.
_KEYS = {
    "id": ("custom_id", "id", "problem_id", "question_id", "idx", "index"),
    "gold": ("answer", "gts", "ground_truth", "gold", "target", "expected_answer", "reference"),
    "problem": ("problem", "question", "input", "prompt"),
    "response": ("response", "output", "completion", "generation", "generated_text"),
    "label": ("acc", "correct", "is_correct", "score"),
    "tokens": ("response_tokens", "completion_tokens"),
}


def reads(path: Path, head: Mapping[str, Any]) -> bool:
    keys = (*_KEYS["response"], "messages", "choices")
    return any(key in head for key in keys) and "samples" not in head


def read(path: Path) -> Foreign:
    """Read it; lines of one id, or without ids of one prompt and gold, are samples of one problem. Raises ConfigError naming the line."""
    warnings: list[str] = []
    lines = list(lines_of(path, warnings=warnings))
    rows = [row for _, row in lines]
    # Scores are verdicts where they are two levels: 0 and 1, or -1 and 1.
    scores = {_score(row) for row in rows} - {None}
    two_levels = scores <= {0, 1} or scores <= {-1, 1}
    numbers: dict[tuple[str, str], int] = {}
    samples: list[Sample] = []
    for where, row in lines:
        try:
            samples += _samples(row, two_levels, numbers)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error
    notes = [] if two_levels else ["its scores are not of two levels; they are no verdicts"]
    verl = {"input", "output", "score"} <= rows[0].keys() if rows else False
    return Foreign("a dump of verl" if verl else "lines of one sample each", samples, {}, [*warnings, *notes])


def _value_of(row: Mapping[str, Any], what: str) -> Any:
    return next((row[key] for key in _KEYS[what] if row.get(key) is not None), None)


def _score(row: Mapping[str, Any]) -> float | None:
    score = _value_of(row, "label")
    return score if isinstance(score, int | float) else None


def _objects(value: Any, key: str) -> list[Mapping[str, Any]]:
    """The objects of a list, none where there is no list. Raises ValueError for another value."""
    items = value or []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise ValueError(f"{key} must be a list of objects, not {json.dumps(value)[:40]}")
    return items


def _object(value: Any, key: str) -> Mapping[str, Any]:
    """An object, empty where there is none. Raises ValueError for another value."""
    if value and not isinstance(value, Mapping):
        raise ValueError(f"{key} must be an object, not {json.dumps(value)[:40]}")
    return value or {}


def _samples(row: Mapping[str, Any], two_levels: bool, numbers: dict[tuple[str, str], int]) -> Iterator[Sample]:
    """The samples of a line. Raises ValueError that names what has another shape."""
    prompt = row.get("messages") or _value_of(row, "problem")
    turns = _objects(prompt, "messages") if isinstance(prompt, list) else []
    users = [turn for turn in turns if turn.get("role") == "user"]
    problem = text_of(users[-1].get("content") if users else prompt)
    gold, score = gold_of(_value_of(row, "gold")), _score(row)
    identifier = _value_of(row, "id")
    if identifier is None:
        number = numbers.setdefault((problem or "", str(gold)), len(numbers))
        identifier = f"#{number}"  # no id that a file of golds may have
    label = score > 0 if two_levels and score is not None else None
    for text, reason, tokens in _responses(row):
        yield sample(identifier, gold, problem, text, label=label, finish_reason=reason, tokens=tokens)


def _responses(row: Mapping[str, Any]) -> list[tuple[str | None, str, int | None]]:
    """Text, finish reason and tokens of each response of a line."""
    body = _value_of(row, "response")
    if isinstance(body, Mapping):
        body = body.get("body") or body  # of the batch interface
    holder = body if isinstance(body, Mapping) else row
    if choices := _objects(holder.get("choices"), "choices"):
        # Usage is of all choices together.
        tokens = _object(holder.get("usage"), "usage").get("completion_tokens") if len(choices) == 1 else None
        messages = (_object(choice.get("message"), "message").get("content", choice.get("text")) for choice in choices)
        return [(text_of(text), _reason(choice), tokens) for text, choice in zip(messages, choices, strict=True)]
    if body is None:
        turns = [turn for turn in _objects(row.get("messages"), "messages") if turn.get("role") == "assistant"]
        body = turns[-1].get("content") if turns else None
    # An object without choices is a request that failed: its sample is lost.
    return [(None if body is holder else text_of(body), _reason(row), _value_of(row, "tokens"))]


def _reason(holder: Mapping[str, Any]) -> str:
    return "length" if holder.get("finish_reason") == "length" else "stop"
