"""A file of cases graded: one JSON object a line in, one a line out, in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.verify.config import VerifierConfig
from harness.verify.verdict import Verdict
from harness.verify.verifier import MathVerifier

CHUNK = 256


@dataclass
class VerifySummary:
    """The outcome of a file of cases.

    Attributes:
        total: lines graded.
        correct: lines whose verdict is `right`.
        verdicts: how many lines got each verdict; malformed lines count as `malformed`.
        malformed: (line number counted from 1, what is wrong with the line).
    """

    total: int = 0
    correct: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    malformed: list[tuple[int, str]] = field(default_factory=list)


def verify_file(
    cases: Path,
    out: Path,
    config: VerifierConfig | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifySummary:
    """Grade a file of cases.

    A line is `{"id", "gold", "response"}`, with the text of the `problem` where it is known; it becomes
    `{"id", "verdict", "correct", "answer", "method", "seconds", "second_correct"}`.
    The order is kept and every input line that is not blank has one output line. A malformed line gets the record
    `{"line", "id": null, "verdict": "malformed", "correct": false, "error"}`, is listed in the summary, and the rest goes on.

    Args:
        cases: JSONL file to read.
        out: JSONL file to write; an existing one is replaced.
        config: the verifier's settings; the default accepts every shape of answer.
        progress: called with (lines done, lines in all) after every chunk.

    Raises:
        OSError: a file cannot be read or written.
    """
    settings = config or VerifierConfig(extraction="any")
    with cases.open(encoding="utf-8", errors="replace", newline="\n") as source:
        lines = [(number, text) for number, text in enumerate(source, start=1) if text.strip()]
    with MathVerifier(settings) as verifier, out.open("w", encoding="utf-8") as sink:
        summary = VerifySummary()
        for start in range(0, len(lines), CHUNK):
            chunk = [_parse(number, text) for number, text in lines[start : start + CHUNK]]
            good = [case for case in chunk if "error" not in case]
            pairs = [(case["response"], case["gold"]) for case in good]
            verdicts = verifier.verify_many(pairs, [case["problem"] for case in good])
            graded = iter(zip(verdicts, verifier.second_many(pairs), strict=True))
            for case in chunk:
                record = (
                    _malformed(case, summary) if "error" in case else _record(case, *next(graded), summary)
                )
                sink.write(json.dumps(record, ensure_ascii=True) + "\n")
            sink.flush()
            if progress is not None:
                progress(min(start + CHUNK, len(lines)), len(lines))
    return summary


def _parse(number: int, text: str) -> dict[str, Any]:
    """The case of a line, or what is wrong with it under `error`."""
    try:
        case = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        return {"line": number, "error": f"not JSON: {error}"}
    if not isinstance(case, dict):
        return {"line": number, "error": f"a JSON object is needed, not {type(case).__name__}"}
    missing = [key for key in ("id", "gold", "response") if key not in case]
    if missing:
        return {"line": number, "error": f"missing {', '.join(missing)}"}
    for key in ("gold", "response"):
        if isinstance(case[key], bool) or not isinstance(case[key], (str, int, float)):
            wrong = f"{key} must be a text or a number, not {type(case[key]).__name__}"
            return {"line": number, "error": wrong}
        case[key] = str(case[key])
    case["problem"] = str(case["problem"]) if case.get("problem") is not None else None
    return case


def _record(
    case: dict[str, Any], verdict: Verdict, second: bool | None, summary: VerifySummary
) -> dict[str, Any]:
    summary.total += 1
    summary.correct += verdict.correct
    summary.verdicts[verdict.verdict] += 1
    return {
        "id": case["id"],
        "verdict": verdict.verdict,
        "correct": verdict.correct,
        "answer": verdict.answer,
        "method": verdict.method,
        "seconds": round(verdict.seconds, 6),
        "second_correct": second,
    }


def _malformed(case: dict[str, Any], summary: VerifySummary) -> dict[str, Any]:
    summary.verdicts["malformed"] += 1
    summary.malformed.append((case["line"], case["error"]))
    return {
        "line": case["line"],
        "id": None,
        "verdict": "malformed",
        "correct": False,
        "error": case["error"],
    }
