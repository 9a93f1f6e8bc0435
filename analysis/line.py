"""One comparison as answers say it: its name, its difference as text, and what its arms differ in affected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from analysis.engagement import Engagement, Untested
from analysis.tables.table import bounds_text, number_text
from harness.evaluation.metrics.names import Metric
from harness.statistics.intervals import Estimate


@dataclass(frozen=True)
class Line:
    """A row of an answer: its name in a sentence, its estimate in the stored unit of the metric, and what it affected.

    ``arm``: its name where it is one arm against its reference; ``so_far``: runs go on, and nothing corrects for looking before they end.
    """

    name: str
    estimate: Estimate
    metric: Metric
    engagement: Engagement = field(default_factory=Engagement)
    arm: str = ""
    so_far: bool = False

    @property
    def known(self) -> bool:
        """True where there is a value."""
        return not math.isnan(self.estimate.value)

    @property
    def points(self) -> str:
        """``+3.6``, or a dash."""
        metric = self.metric
        return number_text(metric.scale * self.estimate.value, metric.digits, signed=True) if self.known else "–"

    @property
    def with_unit(self) -> str:
        """``+3.6 points``."""
        return f"{self.points} {self.metric.unit}".rstrip()

    @property
    def interval(self) -> str:
        """``+2.3 to +4.9``; empty where there is none."""
        if math.isnan(self.estimate.low):
            return ""
        return " to ".join(bounds_text(self.estimate, self.metric.digits, scale=self.metric.scale))

    @property
    def verdict(self) -> str:
        """``equivalent within 3``, ``higher so far``, ``not tested: 0.02 % of tokens``, or why there is no comparison."""
        if not self.known:
            return self.estimate.absent or "no comparison"
        share = f": {self.untested}" * bool(self.untested)
        return self.estimate.words(self.metric.scale) + share + " so far" * self.so_far

    @property
    def untested(self) -> str:
        """What a mechanism affected that hardly acted, where nothing is resolved; else empty."""
        return self.engagement.text(resolved=True) if isinstance(self.estimate, Untested) else ""

    @property
    def affected(self) -> str:
        """What of the data the difference affected; empty where nothing is known."""
        return self.engagement.text(self.estimate.resolved)

    @property
    def bound(self) -> str:
        """The margin as shown where the difference is shown to lie inside it: ``less than 3``."""
        estimate = self.estimate
        return f"less than {self.margin}" if estimate.resolved and estimate.inside_margin else ""

    @property
    def margin(self) -> str:
        """The margin as shown; 0 where there is none."""
        return f"{self.metric.scale * (self.estimate.margin or 0.0):g}"


def interval_limits(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """The ends of an axis for these intervals: those of two replicates do not set it, and end in arrows where they leave it."""
    estimates = [each for each in estimates if not math.isnan(each.value)]
    # Student's quantile is 12.7 at one degree of freedom, 4.3 at two. An estimate that tells no degrees counts.
    ends = [end for each in estimates if not each.degrees < 2 for end in (each.low, each.high) if not math.isnan(end)]
    if not ends:
        ends = [end for each in estimates for end in (2 * each.value, -each.value)]
    ends += [0.0, *(each.value for each in estimates)]
    ends += [end for each in estimates if each.margin is not None for end in (-1.2 * each.margin, 1.2 * each.margin)]
    low, high = min(ends), max(ends)
    pad = 0.05 * (high - low) if high - low > 1e-9 else 1.0  # what float rounding leaves of equal arms is no scale
    return low - pad, high + pad


def axis_ticks(limits: tuple[float, float], margin: float) -> list[tuple[float, str]]:
    """Values of such an axis with their texts, what matters most first: zero, the margin, and near the ends."""
    ends = (float(f"{0.85 * end:.1g}") for end in limits)
    values = dict.fromkeys(value for value in (0.0, margin, -margin, *ends) if limits[0] <= value <= limits[1])
    # All the digits it has: a margin of entropy is 0.02.
    return [(v, f"{v:+,.10g}".replace("-", "−").replace(",", "\u2009") if v else "0") for v in values]
