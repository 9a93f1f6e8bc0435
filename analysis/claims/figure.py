"""All claims in one figure: effect and interval in units of the claim's margin, colour by verdict, size by engagement."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.claims.judged import Judged
from analysis.figures.style import legend_below, new_figure
from harness.statistics.finding import Finding

COLOURS = {
    Finding.HOLDS: "#009E73",
    Finding.REVERSED: "#D55E00",
    Finding.NOTHING: "#0072B2",
    Finding.OPEN: "#777777",
    Finding.NOT_ENGAGED: "#bbbbbb",
}
_ARROWS = {"higher": "→", "not_lower": "→|", "lower": "←", "not_higher": "|←", "equivalent": "="}
_WIDEST = 6.0  # margins; longer whiskers are cut at the frame


def claims_figure(found: Sequence[Judged]) -> Figure:
    """One row a claim with an interval, by verdict and effect; the arrow after its name is what the source predicts."""
    known = [one for one in found if not math.isnan(one.effect.low)]
    # Verdicts in the order of the legend, the largest effect of each first.
    shown = sorted(known, key=lambda one: (list(Finding).index(one.finding), -one.effect.value / one.margin))
    figure, axes = new_figure(wide=True, height=0.8 + 0.07 * len(shown))
    axes.axvspan(-1, 1, color="#009E73", alpha=0.10, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    ends = [abs(end) / one.margin for one in shown for end in (one.effect.low, one.effect.high)]
    reach = min(_WIDEST, 1.05 * max([1.2, *ends]))
    for y, one in enumerate(shown):
        value, low, high = (b / one.margin for b in (one.effect.value, one.effect.low, one.effect.high))
        colour = COLOURS[one.finding]
        axes.plot([low, high], [y, y], color=colour, linewidth=1.3, zorder=2)
        _second_look(axes, one, y)
        if abs(value) < reach:
            axes.scatter([value], [y], s=_size(one.share), color=colour, zorder=3, linewidths=0)
            continue
        side = math.copysign(1.0, value)  # beyond the frame: an arrow at its edge, and the number
        axes.scatter(
            [0.97 * side * reach], [y], s=20, marker=">" if side > 0 else "<", color=colour, zorder=3
        )
        number, end = f"{value:+.0f}".replace("-", "−"), "right" if side > 0 else "left"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.text(0.94 * side * reach, y, number, ha=end, va="center", fontsize="small", bbox=box)
    titles = [textwrap.shorten(one.title, 42, placeholder=" …") for one in shown]
    labels = [f"{title} {_ARROWS[one.claim['expects']]}" for title, one in zip(titles, shown, strict=True)]
    axes.set_yticks(range(len(shown)), labels)
    for y in range(1, len(shown)):
        if shown[y].finding is not shown[y - 1].finding:
            axes.axhline(y - 0.5, color="#cccccc", linewidth=0.5, zorder=0)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(-reach, reach)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        "effect in margins of the claim, 95 % interval (band: within the margin)\n"
        "larger dot: more engaged; hollow dot: the second look\n"
        "predicted: → higher, ← lower, →| not lower, |← not higher, = none"
    )
    words = [word for word in Finding if any(one.finding is word for one in shown)]
    handles = [axes.scatter([], [], s=22, color=COLOURS[word]) for word in words]
    legend_below(figure, handles, [word.value for word in words])
    return figure


def _second_look(axes: Axes, one: Judged, y: float) -> None:
    """A thin line below that of the first look, with a hollow dot, in the colour of its own word."""
    if one.second is None or math.isnan(one.second.effect.low):
        return
    value, low, high = (
        b / one.margin for b in (one.second.effect.value, one.second.effect.low, one.second.effect.high)
    )
    colour, below = COLOURS[one.second.finding], y + 0.3
    axes.plot([low, high], [below, below], color=colour, linewidth=0.8, zorder=2)
    axes.scatter([value], [below], s=9, facecolors="white", edgecolors=colour, linewidths=0.8, zorder=3)


def _size(share: float) -> float:
    """Area of a dot by the share of the data that the mechanism touched; where nothing measures it, of middle size."""
    return 18.0 if math.isnan(share) else 8.0 + 32.0 * math.sqrt(min(1.0, share))
