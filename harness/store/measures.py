"""How much of a run's data the difference between two arms touched: what a plan says of it, and how it is read off the step metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # as in `reader`
    import pandas as pd

ALWAYS = "always"
HARDLY = "hardly engaged"


@dataclass(frozen=True)
class Measure:
    """One measure of a difference between an arm and its reference, as recorded in `plan.json`.

    Attributes:
        name: what is counted, for a reader (`tokens released by the upper bound`); `always` where the difference touches everything,
            empty where nothing measures it.
        keys: the differing configuration keys it stands for.
        unit: what follows the percentage (`of tokens`).
        fields: the step metrics whose sum it is, fractions each; none for `always` and for what is not measured.
        threshold: the fraction under which the difference is hardly engaged.
        arm: the arm of the plan whose runs show it.
    """

    name: str
    keys: tuple[str, ...]
    unit: str = ""
    fields: tuple[str, ...] = ()
    threshold: float = 0.0
    arm: str = ""

    @classmethod
    def of_record(cls, raw: Mapping[str, Any]) -> Measure:
        """Read what `record` wrote; absent values are those of nothing measured."""
        return cls(
            name=str(raw.get("name") or ""),
            keys=tuple(raw.get("keys") or ()),
            unit=str(raw.get("unit") or ""),
            fields=tuple(raw.get("fields") or ()),
            threshold=float(raw.get("threshold") or 0.0),
            arm=str(raw.get("arm") or ""),
        )

    def record(self) -> dict[str, Any]:
        """The measure as plain JSON values."""
        return {**asdict(self), "keys": list(self.keys), "fields": list(self.fields)}

    def value(self, runs: Sequence[pd.DataFrame]) -> float:
        """Mean over each run's steps, then over runs; NaN where no run has the fields (an older store, a step without updates)."""
        means = []
        for steps in runs:
            if self.fields and set(self.fields) <= set(steps.columns):
                total = steps[list(self.fields)].astype("float64").sum(axis=1, skipna=False)
                means.append(float(total.mean()))  # NaN steps had nothing to touch
        known = [mean for mean in means if not math.isnan(mean)]
        return sum(known) / len(known) if known else math.nan

    def hardly(self, value: float) -> bool:
        """Whether the value lies under the documented threshold; never for what is not measured."""
        return bool(self.fields) and value < self.threshold

    def text(self, value: float, mark: bool = True) -> str:
        """`0.3 % of tokens`, with `, hardly engaged` where it is; `always`; empty where nothing is known."""
        if not self.fields:
            return self.name
        if math.isnan(value):
            return ""
        return f"{percent(value)} {self.unit}" + (f", {HARDLY}" if mark and self.hardly(value) else "")


def percent(fraction: float) -> str:
    """`14 %`, `1.4 %`, `0.02 %`: two digits, no more than whole percents, `< 0.001 %` under a hundred-thousandth."""
    value = 100 * fraction
    if abs(value) < 1e-7:  # rounding
        return "0 %"
    if value < 1e-3:
        return "< 0.001 %"
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"
