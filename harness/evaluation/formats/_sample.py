"""What every reader returns: samples as the tool recorded them, and what it says of the whole."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.numbers import format_count

Sample = dict[str, Any]
LOST = "lost"
_VERDICTS = {"C": True, "I": False, "N": False}  # Inspect's marks; a partial one (P) is neither


@dataclass
class Foreign:
    """Recorded generations: those of a problem in the order in which they were drawn.

    `tool`: whose file it is. `totals`: by name what the tool says is the mean over problems of its verdicts, those of a problem reduced by
    `reducer`. `notes`: what was chosen or is not there.
    """

    tool: str
    samples: list[Sample]
    totals: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reducer: str = "mean"

    def lines(self) -> list[str]:
        """Say what was read, and whether the tool's totals are those of the verdicts that were read."""
        problems = len({item["problem_id"] for item in self.samples})
        lines = [
            f"read as {self.tool}: {format_count(problems, 'problem')}, {format_count(len(self.samples), 'sample')}",
            *self.notes,
        ]
        labels: dict[str, list[Any]] = {}
        for item in self.samples:
            labels.setdefault(item["problem_id"], []).append(item["label"])
        how = "" if self.reducer == "mean" else f" ({self.reducer} of a problem's samples)"
        for name, total in self.totals.items():
            said = f"its own {name}{how}: {100 * total:.2f} %"
            if any(None in verdicts for verdicts in labels.values()):
                lines.append(f"{said}; not every sample has a verdict to compare")
            elif (reduced := [reduce_verdicts(self.reducer, verdicts) for verdicts in labels.values()])[0] is None:
                lines.append(f"{said}; another reducer than those known here, not compared")
            else:
                mean = sum(value for value in reduced if value is not None) / len(reduced)
                agrees = abs(mean - total) < 5e-4
                word = "agrees" if agrees else "DIFFERS: samples are missing, or it is of another metric"
                lines.append(f"{said}; {self.reducer} of verdicts here: {100 * mean:.2f} %, {word}")
        return lines


def reduce_verdicts(reducer: str, verdicts: Sequence[bool]) -> float | None:
    """One number of the verdicts of a problem, by the name of a reducer of Inspect; None for an unknown one."""
    n, right = len(verdicts), sum(verdicts)
    name, _, text = reducer.rpartition("_")
    k = int(text) if text.isdigit() else 0
    if k and k <= n and name in ("pass_at", "pass_k"):
        some_wrong = 1 - math.comb(right, k) / math.comb(n, k)
        none_right = math.comb(n - right, k) / math.comb(n, k)
        return 1 - (none_right if name == "pass_at" else some_wrong)
    reduced = {
        "mean": right / n,
        "max": float(right > 0),
        "median": statistics.median(map(float, verdicts)),
        "mode": float(statistics.mode(verdicts)),  # of two alike that which came first
        f"at_least_{k}": float(right >= k),
    }
    return reduced.get(reducer)


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
