"""Measures of what a difference between two arms touched: thresholds, values off the step metrics, words (docs/objective/engagement.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # planning needs no data frames
    import pandas as pd

ALWAYS = "always"
HARDLY = "hardly engaged"
SHARE = 0.003  # of tokens, responses or groups: the one published threshold
CHANGE = 0.05  # of weights: what leaves about as much of an update as SHARE does, √0.003


@dataclass(frozen=True)
class Measure:
    """One measure of a difference between an arm and its reference, as recorded in `plan.json`.

    Attributes:
        name: what is counted, for a reader (`tokens released by the upper bound`); `always` where the difference touches everything,
            empty where nothing measures it.
        keys: the differing configuration keys it stands for; none while it is not yet of a difference.
        unit: what follows the percentage (`of tokens`).
        fields: the step metrics whose sum it is, fractions each; none for `always` and for what is not measured.
        threshold: the fraction under which the difference is hardly engaged.
        arm: the arm of the plan whose runs show it.
    """

    name: str
    keys: tuple[str, ...] = ()
    unit: str = ""
    fields: tuple[str, ...] = ()
    threshold: float = 0.0
    arm: str = ""

    @classmethod
    def of_record(cls, raw: Mapping[str, Any]) -> Measure:
        """Read what `record` wrote; absent values are those of nothing measured."""
        known = {item.name: raw[item.name] for item in dataclasses.fields(cls) if item.name in raw}
        listed = {key: tuple(known.get(key, ())) for key in ("keys", "fields")}
        return cls(**{"name": "", **known, **listed})

    def record(self) -> dict[str, Any]:
        """Return the measure as plain JSON values."""
        return {**dataclasses.asdict(self), "keys": list(self.keys), "fields": list(self.fields)}

    def value(self, runs: Sequence[pd.DataFrame]) -> float:
        """Average over each run's steps, then over runs; NaN where no run has the fields (an older store, a step without updates)."""
        means = []
        for steps in runs:
            if self.fields and set(self.fields) <= set(steps.columns):
                total = steps[list(self.fields)].astype("float64").sum(axis=1, skipna=False)
                means.append(float(total.mean()))  # NaN steps had nothing to touch
        known = [mean for mean in means if not math.isnan(mean)]
        return sum(known) / len(known) if known else math.nan

    def hardly(self, value: float) -> bool:
        """Say if the value lies under the threshold; never for what is not measured."""
        return bool(self.fields) and value < self.threshold

    def text(self, value: float, mark: bool = True) -> str:
        """`0.3 % of tokens`, with `, hardly engaged` where it is; `always`; empty where nothing is known."""
        if not self.fields:
            return self.name
        if math.isnan(value):
            return ""
        if not self.hardly(value):
            return f"{percent(value)} {self.unit}"
        # Rounded, it may read as the threshold itself.
        less = percent(self.threshold)
        shown = f"< {less}" if percent(value) == less else percent(value)
        return f"{shown} {self.unit}" + f", {HARDLY}" * mark


def percent(fraction: float) -> str:
    """`14 %`, `1.4 %`, `0.02 %`: two digits, no more than whole percents, `< 0.001 %` under a hundred-thousandth."""
    value = 100 * fraction
    if abs(value) < 1e-7:  # rounding
        return "0 %"
    if value < 1e-3:
        return "< 0.001 %"
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def _share(name: str, unit: str, *fields: str) -> Measure:
    return Measure(name, unit=unit, fields=fields, threshold=SHARE)


def _change(name: str, unit: str, field: str) -> Measure:
    return Measure(name, unit=unit, fields=(field,), threshold=CHANGE)


def weights_against(aggregation: str) -> Measure:
    """The change of the responses' weights against those of another aggregation."""
    unit = "change of response weights"
    return _change(f"responses' weights against {aggregation}", unit, f"weight_change_{aggregation}")


_CLIPPED = ("clip_fraction_low", "clip_fraction_high")
RELEASED = _share("tokens released by the wider upper bound", "of tokens", "clip_released_fraction")
CLIPPED_HIGH = _share("tokens clipped above by the narrower bound", "of tokens", "clip_fraction_high")
CLIPPED_LOW = _share("tokens clipped below by the narrower bound", "of tokens", "clip_fraction_low")
CLIPPED = _share("tokens clipped", "of tokens", *_CLIPPED)
STOPPED = _share("tokens stopped", "of tokens", *_CLIPPED)
SELECTED = _share("tokens chosen by covariance", "of tokens", "selected_fraction")
OFF_POLICY = _share("tokens of off-policy responses", "of tokens", "off_policy_masked_fraction")
MASKED = _share("responses without loss", "of responses", "masked_fraction")
PUNISHED = _share("responses in the soft ramp", "of responses", "punished_fraction")
TRUNCATED = _share("responses at the smaller cap", "of responses", "truncated_fraction")
FLIPPED = _share("verdicts turned round", "of verdicts", "flipped_verdicts_fraction")
REFILLED = _share("dead groups replaced", "of groups", "refilled_fraction")
REMOVED = _share("dead groups removed", "of groups", "removed_fraction")
GRADIENT_CLIPPED = _share("updates clipped in norm", "of updates", "gradient_clipped_fraction")
SIGMA = _change("weight moved between groups by σ", "change of group weights", "sigma_weight_change")
CORRECTION = _change("engine weights", "change of token weights", "correction_change_mean")
GAP = _change("sampler's log-probabilities replaced", "change of token ratios", "sampler_log_prob_gap_mean")
KL = _change("KL term", "of the loss's pull", "kl_share")
ENTROPY = _change("entropy bonus", "of the loss's pull", "entropy_share")
LIKELIHOOD = _change("likelihood term", "of the loss's pull", "nll_share")

Found = Iterator[tuple[str, Measure, bool]]
"""Measures of a difference: the differing keys' common prefix, what to measure, and if the new configuration's own runs show it."""
