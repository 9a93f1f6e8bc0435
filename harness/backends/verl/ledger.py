"""The ledger that verl's reward workers write (`harness.backends.verl.inside`): what a step generated, the discarded groups included."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Graded(NamedTuple):
    """One graded training response: its step, its group, and what came of it."""

    step: int
    group: str
    tokens: int
    reward: float
    correct: int
    truncated: int


class NewLines:
    """The whole lines that files have gained since they were read last."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def of(self, path: Path) -> list[bytes]:
        """Return the new lines of a file; none where there is no file."""
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            whole = file.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self._read[path] = self._read.get(path, 0) + len(whole) + 1
        return whole.split(b"\n")


class Ledger:
    """The graded responses of each step, as far as the files of a folder tell by now."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._new = folder, NewLines()
        self._steps: dict[int, list[Graded]] = defaultdict(list)

    def step(self, number: int) -> Sequence[Graded]:
        """Return the responses of a step that are known by now."""
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in self._new.of(path):
                graded = Graded(*json.loads(line))
                self._steps[graded.step].append(graded)
        return self._steps.get(number, ())

    def forget(self, number: int) -> None:
        """Free what was kept of a step."""
        self._steps.pop(number, None)


def ledger_columns(graded: Sequence[Graded], kept_groups: int) -> Mapping[str, float]:
    """Return the store's columns of one step, over all groups it generated (verl draws and finishes them whatever their outcome).

    `kept_groups`: groups it trained on; the rest was discarded, dead or surplus.
    """
    if not graded:
        return {}
    tokens = np.array([item.tokens for item in graded], dtype=np.float64)
    correct = np.array([item.correct for item in graded], dtype=bool)
    truncated = np.array([item.truncated for item in graded], dtype=bool)
    groups: dict[str, list[int]] = defaultdict(list)
    for item in graded:
        groups[item.group].append(item.correct)
    shares = np.array([np.mean(outcomes) for outcomes in groups.values()])
    return {
        "reward_mean": float(np.mean([item.reward for item in graded])),
        "accuracy_mean": float(correct.mean()),
        "response_tokens_mean": float(tokens.mean()),
        "response_tokens_p95": float(np.percentile(tokens, 95)),
        "response_tokens_mean_right": _mean(tokens, correct),
        "response_tokens_mean_wrong": _mean(tokens, ~correct),
        "response_tokens_mean_truncated": _mean(tokens, truncated),
        "truncated_fraction": float(truncated.mean()),
        "groups": len(groups),
        "all_right_groups": int((shares == 1).sum()),
        "all_wrong_groups": int((shares == 0).sum()),
        "kept_groups": kept_groups,
        "discarded_groups": max(0, len(groups) - kept_groups),
        "generated_groups": len(groups),
        "generated_tokens": int(tokens.sum()),
    }


def _mean(values: np.ndarray, where: np.ndarray) -> float:
    return float(values[where].mean()) if where.any() else float("nan")
