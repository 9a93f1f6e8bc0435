"""Metrics that a question can be about: name, what it is called, unit, and which direction is better. One number a training seed.

How a metric is computed from a store is the analysis's business (`analysis/evidence/samples.py`); here is what both sides have to
agree on. A name may carry a parameter behind ``@`` (``pass@8``, ``tokens_to@0.8``), or be ``training/`` and a column of the step metrics.
``by second`` behind a name asks the second grader what is right (``avg by second``, ``pass@8 by second``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

HIGHER, LOWER = "higher", "lower"
TRAINING = "training"
POINTS = "points"
BY_SECOND = (
    " by second"  # behind the name of a metric: the same by the second grader (`harness.verify.cross_check`)
)
_GRADED = (
    "avg",
    "pass",
    "maj",
    "length_right",
    "length_wrong",
    "area",
    "steps_to",
    "tokens_to",
    "seconds_to",
)


class UnknownMetric(ValueError):
    """A name that is no metric, or a parameter that cannot be; the message says what can."""


@dataclass(frozen=True)
class Metric:
    """One metric, one number a seed.

    `name` as declared (``tokens_to@0.8``), `title` and `unit` as printed; ``points`` is the unit of a fraction of 1 shown in per cent.
    A stored value times `scale` is shown with `digits` behind the point. `better`: ``higher``, ``lower`` or empty. `kind` is the name
    without `parameter`: k of ``pass@k``, the accuracy of ``tokens_to@0.8`` as a fraction of 1, or the column of ``training/...``.
    """

    name: str
    title: str
    unit: str
    scale: float = 1.0
    digits: int = 1
    better: str = ""
    kind: str = ""
    parameter: float | str | None = None
    by_second: bool = False

    @property
    def percent(self) -> str:
        """`` %`` behind the title of what is shown as a percentage, else nothing."""
        return " %" if self.unit == POINTS else ""

    @property
    def header(self) -> str:
        """Title and unit of a value: ``Pass@8 %``, ``length of wrong answers, tokens``."""
        return f"{self.title}{self.percent or f', {self.unit}'}"

    @property
    def direction(self) -> str:
        """``higher is better``, ``lower is better``, or empty."""
        return f"{self.better} is better" if self.better else ""

    @property
    def file_name(self) -> str:
        """The name as part of a file's name: ``pass@8`` is ``pass_8``."""
        return re.sub(r"[@/ ]", "_", self.name)


PLAIN: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("avg", "avg@n", POINTS, 100.0, 1, HIGHER, "avg"),
        Metric("length", "length of answers", "tokens", digits=2, kind="length"),
        Metric("length_right", "length of right answers", "tokens", digits=2, kind="length_right"),
        Metric("length_wrong", "length of wrong answers", "tokens", digits=2, kind="length_wrong"),
        Metric(
            "length_truncated", "length of truncated answers", "tokens", digits=2, kind="length_truncated"
        ),
        Metric("truncated", "truncated answers", POINTS, 100.0, 1, LOWER, "truncated"),
        Metric("no_answer", "responses without an answer", POINTS, 100.0, 1, LOWER, "no_answer"),
        Metric("entropy", "entropy per token", "nats", 1.0, 3, "", "entropy"),
        Metric("dead_groups", "dead groups in training", POINTS, 100.0, 1, "", "dead_groups"),
        Metric("area", "area under the accuracy curve over steps", POINTS, 100.0, 1, HIGHER, "area"),
        Metric(
            "generated_tokens", "generated tokens of the run", "k tokens", 1e-3, 1, "", "generated_tokens"
        ),
        Metric("seconds", "wall time of the run", "s", 1.0, 1, LOWER, "seconds"),
    )
}
REACHED = ("steps_to", "tokens_to", "seconds_to")
PATTERNS = (
    "pass@K",
    "maj@K",
    *(f"{kind}@ACCURACY" for kind in REACHED),
    f"{TRAINING}/COLUMN",
    f"METRIC{BY_SECOND}",
)


def metric(name: str) -> Metric:
    """The metric of a name. Raises `UnknownMetric` that names the nearest one or all."""
    if name in PLAIN:
        return PLAIN[name]
    if name.endswith(BY_SECOND):
        return _by_second(metric(name.removesuffix(BY_SECOND)))
    kind, mark, text = name.partition("@")
    if mark and kind in _WITH_PARAMETER:
        return _WITH_PARAMETER[kind](kind, text)
    if name.startswith(f"{TRAINING}/") and len(name) > len(TRAINING) + 1:
        return _of_training(name.removeprefix(f"{TRAINING}/"))
    close = difflib.get_close_matches(name, [*PLAIN, *PATTERNS], n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join([*PLAIN, *PATTERNS])}"
    raise UnknownMetric(f"there is no metric {name!r}; {hint}")


def _by_second(first: Metric) -> Metric:
    if first.kind not in _GRADED or first.by_second:
        raise UnknownMetric(
            f"{first.name}{BY_SECOND}: no grader decides {first.title}; ask for {first.name!r}"
        )
    title = f"{first.title} by the second grader"
    return replace(first, name=f"{first.name}{BY_SECOND}", title=title, by_second=True)


def _of_subsets(kind: str, text: str) -> Metric:
    """Pass@k and Maj@k."""
    if re.fullmatch(r"[1-9]\d*", text) is None:
        raise UnknownMetric(f"{kind}@{text}: k must be a whole number from 1, such as {kind}@8")
    return Metric(f"{kind}@{text}", f"{kind.capitalize()}@{text}", POINTS, 100.0, 1, HIGHER, kind, int(text))


def _to_target(kind: str, text: str) -> Metric:
    """Return what a run spends until its accuracy first reaches a target."""
    try:
        target = float(text)
    except ValueError:
        target = 0.0
    if not 0 < target < 1:
        raise UnknownMetric(
            f"{kind}@{text}: the accuracy to reach is a fraction of 1, such as {kind}@0.8 for 80 %"
        )
    what, unit, scale = {
        "steps_to": ("rollout steps", "steps", 1.0),
        "tokens_to": ("generated tokens", "k tokens", 1e-3),
        "seconds_to": ("wall time", "s", 1.0),
    }[kind]
    title = f"{what} to an accuracy of {100 * target:.10g} %"
    return Metric(f"{kind}@{text}", title, unit, scale, 1, LOWER, kind, target)


def _of_training(column: str) -> Metric:
    """The mean of a column of the step metrics over the steps up to the checkpoint; its unit is in its name."""
    unit, scale, digits = next(
        (known for part, known in _UNITS.items() if part in column.split("_")), ("units", 1.0, 4)
    )
    return Metric(
        f"{TRAINING}/{column}",
        f"{column}, mean over training",
        unit,
        scale,
        digits,
        kind=TRAINING,
        parameter=column,
    )


_UNITS = {
    "fraction": (POINTS, 100.0, 2),
    "accuracy": (POINTS, 100.0, 1),
    "nats": ("nats", 1.0, 3),
    "seconds": ("s", 1.0, 3),
    "tokens": ("tokens", 1.0, 1),
    "groups": ("groups", 1.0, 1),
}
_WITH_PARAMETER: Mapping[str, Callable[[str, str], Metric]] = {
    "pass": _of_subsets,
    "maj": _of_subsets,
    **dict.fromkeys(REACHED, _to_target),
}
