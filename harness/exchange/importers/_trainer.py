"""A trainer's metric names, and the trainer that a log's names are of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.configuration.error import require
from harness.configuration.registry import kinds, member

FAMILY = "harness.exchange.importers"
EVALUATION = "evaluation"  # columns `evaluation/<benchmark>/<metric>` are scores; values are fractions of 1
_ANYONES = {
    "accuracy",
    "entropy",
    "grad_norm",
    "kl",
    "learning_rate",
    "loss",
    "lr",
    "reward",
}  # no mark of one trainer
Values = Mapping[str, float]


@dataclass(frozen=True)
class Score:
    """Evaluation scores by the pattern of their names, with groups `benchmark` (optional), `metric` and `n` (optional)."""

    pattern: re.Pattern[str]
    metrics: Mapping[str, str]

    def column(self, name: str) -> str | None:
        """Return `evaluation/aime24/avg@32` for `val-core/aime24/acc/mean@32`; None for what is no score."""
        match = self.pattern.fullmatch(name)
        if match is None or match["metric"] not in self.metrics:
            return None
        found = match.groupdict()
        metric = self.metrics[match["metric"]] + (f"@{found['n']}" if found.get("n") else "")
        return f"{EVALUATION}/{path_safe(found.get('benchmark') or 'eval')}/{metric}"


def _as_they_are(values: Values) -> dict[str, float]:
    return dict(values)


@dataclass(frozen=True)
class Trainer:
    """What a trainer's names mean.

    Attributes:
        name: the trainer; empty for names that no trainer here has.
        metrics: its names of what the store has columns for.
        scores: its names of evaluation scores.
        remarks: what does not mean the same as ours.
        steps: its names of the step; where several are logged, the first counts.
        own: one logged row under the names of the tables above, with what can be computed from it.
        means: a line has the means of the steps since the last line, not one step's values.
    """

    name: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    scores: Sequence[Score] = ()
    remarks: Sequence[str] = ()
    steps: Sequence[str] = ()
    own: Callable[[Values], dict[str, float]] = _as_they_are
    means: bool = False

    def score(self, name: str) -> str | None:
        """Return the evaluation column of a name, None for what is no score."""
        return next((found for score in self.scores if (found := score.column(name))), None)

    def knows(self, values: Values) -> set[str]:
        """Return those names of a row that mean something here."""
        return {name for name in self.own(values) if name in self.metrics or self.score(name)}


def trainers() -> list[str]:
    """Return the members whose names are known here."""
    return [name for name in kinds(FAMILY) if hasattr(member(FAMILY, name), "TRAINER")]


def trainer_of(rows: Iterable[Values], named: str | None = None) -> Trainer:
    """Return the trainer that knows most of the names in a log, one without names where none knows any that others do not use.

    Raises:
        ConfigError: `named` is no trainer.
    """
    if named is not None:
        require("trainer", named, trainers())
        found: Trainer = member(FAMILY, named).TRAINER
        return found
    together = {name: value for row in rows for name, value in row.items()}
    tables: list[Trainer] = [member(FAMILY, name).TRAINER for name in trainers()]
    marks = {
        one.name: sum(bool(one.knows({name: together[name]})) for name in together.keys() - _ANYONES)
        for one in tables
    }
    best = max(tables, key=lambda one: (marks[one.name], len(one.knows(together))))
    return best if marks[best.name] else Trainer()


def path_safe(name: str) -> str:
    """Return a name that can stand in a path and in a column name: `HuggingFaceH4/aime_2024` -> `HuggingFaceH4-aime_2024`."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name).strip("-.") or "eval"
