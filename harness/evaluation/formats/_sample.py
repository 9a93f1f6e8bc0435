"""What every reader returns: samples as the tool recorded them, and what it says of the whole."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Sample = dict[str, Any]
LOST = "lost"
_VERDICTS = {"C": True, "I": False, "N": False}  # Inspect's marks; a partial one (P) is neither


@dataclass
class Foreign:
    """Recorded generations: those of a problem in the order in which they were drawn.

    `tool`: whose file it is. `totals`: by name what the tool says is the mean of its verdicts. `notes`: what was chosen or is not there.
    """

    tool: str
    samples: list[Sample]
    totals: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Say what was read, and whether the tool's totals are those of the verdicts that were read."""
        problems = len({item["problem_id"] for item in self.samples})
        lines = [f"read as {self.tool}: {problems} problems, {len(self.samples)} samples", *self.notes]
        labels = [item["label"] for item in self.samples]
        for name, total in self.totals.items():
            if None in labels:
                lines.append(f"its own {name}: {100 * total:.2f} %; not every sample has a verdict to compare")
                continue
            mean = sum(labels) / len(labels)
            agreement = (
                "agrees" if abs(mean - total) < 5e-4 else "DIFFERS: samples are missing, or it is of another metric"
            )
            lines.append(f"its own {name}: {100 * total:.2f} %; mean of verdicts here: {100 * mean:.2f} %, {agreement}")
        return lines


def sample(
    problem_id: object,
    gold: object,
    problem: str | None,
    response: str | None,
    *,
    label: bool | None = None,
    finish_reason: str = "stop",
    tokens: int | None = None,
) -> Sample:
    """One recorded sample; `response` None is a lost one, `gold` None is not in the file."""
    return {
        "problem_id": str(problem_id),
        "gold": None if gold is None else str(gold),
        "problem": problem,
        "response": response,
        "finish_reason": LOST if response is None else finish_reason,
        "label": label,
        "response_tokens": tokens,
    }


def verdict(value: object) -> bool | None:
    """A recorded score as right or wrong, None where it is neither 0 nor 1."""
    if isinstance(value, str):
        return _VERDICTS.get(value)
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def gold_of(value: object) -> str | None:
    """A recorded gold answer, the first of several; None where there is none. Raises ValueError for what is no text and no number."""
    first = value[0] if isinstance(value, list) and value else value
    is_number = isinstance(first, int | float) and not isinstance(first, bool) and math.isfinite(first)
    if not (first is None or isinstance(first, str) or is_number):
        raise ValueError(f"the gold answer must be a text or a number, not {json.dumps(first)[:40]}")
    return None if first is None else str(first)


def text_of(content: object) -> str | None:
    """The text of a chat message: a text, None, or the parts of a list that are text. Raises ValueError for anything else."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise ValueError(f"it has {json.dumps(content)[:40]} where a text is due")
