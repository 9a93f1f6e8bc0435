"""All claims in one figure: effect and interval in units of the claim's margin, colour by verdict, size by engagement."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.claims.judged import JudgedClaim, Look
from analysis.figures.style import legend_below, new_figure
from harness.statistics.intervals import Finding

COLOURS = {
    Finding.HOLDS: "#009E73",
    Finding.REVERSED: "#D55E00",
    Finding.NOTHING: "#0072B2",
    Finding.OPEN: "#777777",
    Finding.NOT_ENGAGED: "#bbbbbb",
}
_ARROWS = {"higher": "→", "not_lower": "→|", "lower": "←", "not_higher": "|←", "equivalent": "="}
_WIDEST = 6.0  # margins; longer whiskers are cut at the frame


def claims_figure(claims: Sequence[JudgedClaim]) -> Figure:
    """One row a claim with an interval, by verdict and effect; the arrow after its name is what the source predicts."""
    known = [claim for claim in claims if not math.isnan(claim.first.effect.low)]
    # Verdicts in the order of the legend, the largest effect of each first.
    order = list(Finding)
    known.sort(key=lambda claim: (order.index(claim.first.finding), -_in_margins(claim.first)[0]))
    figure, axes = new_figure(wide=True, height=0.8 + 0.07 * len(known))
    axes.axvspan(-1, 1, color="#009E73", alpha=0.10, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    ends = [abs(end) for claim in known for end in _in_margins(claim.first)[1:]]
    reach = min(_WIDEST, 1.05 * max([1.2, *ends]))
    for y, claim in enumerate(known):
        _first_look(axes, claim.first, y, reach)
        if claim.second is not None and not math.isnan(claim.second.effect.low):
            _second_look(axes, claim.second, y + 0.3)
        if y and claim.first.finding is not known[y - 1].first.finding:
            axes.axhline(y - 0.5, color="#cccccc", linewidth=0.5, zorder=0)
    looks = [claim.first for claim in known]
    titles = [textwrap.shorten(look.title, 42, placeholder=" …") for look in looks]
    labels = [f"{title} {_ARROWS[look.claim['expects']]}" for title, look in zip(titles, looks, strict=True)]
    axes.set_yticks(range(len(known)), labels)
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlim(-reach, reach)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        "effect in margins of the claim, 95 % interval (band: within the margin)\n"
        "larger dot: more engaged; hollow dot: the second look\n"
        "predicted: → higher, ← lower, →| not lower, |← not higher, = none"
    )
    words = [word for word in Finding if any(look.finding is word for look in looks)]
    handles = [axes.scatter([], [], s=22, color=COLOURS[word]) for word in words]
    legend_below(figure, handles, [word.value for word in words])
    return figure


def _in_margins(look: Look) -> tuple[float, float, float]:
    """Value and ends of the interval, in margins of the claim."""
    effect = look.effect
    return effect.value / look.margin, effect.low / look.margin, effect.high / look.margin


def _first_look(axes: Axes, look: Look, y: float, reach: float) -> None:
    value, low, high = _in_margins(look)
    colour = COLOURS[look.finding]
    axes.plot([low, high], [y, y], color=colour, linewidth=1.3, zorder=2)
    if abs(value) < reach:
        # The dot's area says how much of the data the mechanism touched; where nothing measures it, it is of middle size.
        area = 18.0 if math.isnan(look.share) else 8.0 + 32.0 * math.sqrt(min(1.0, look.share))
        axes.scatter([value], [y], s=area, color=colour, zorder=3, linewidths=0)
        return
    side = math.copysign(1.0, value)  # beyond the frame: an arrow at its edge, and the number
    axes.scatter([0.97 * side * reach], [y], s=20, marker=">" if side > 0 else "<", color=colour, zorder=3)
    number, end = f"{value:+.0f}".replace("-", "−"), "right" if side > 0 else "left"
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    axes.text(0.94 * side * reach, y, number, ha=end, va="center", fontsize="small", bbox=box)


def _second_look(axes: Axes, look: Look, y: float) -> None:
    """A thin line with a hollow dot, in the colour of its own word."""
    value, low, high = _in_margins(look)
    colour = COLOURS[look.finding]
    axes.plot([low, high], [y, y], color=colour, linewidth=0.8, zorder=2)
    axes.scatter([value], [y], s=9, facecolors="white", edgecolors=colour, linewidths=0.8, zorder=3)
