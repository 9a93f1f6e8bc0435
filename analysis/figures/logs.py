"""Curves of other trainers' logs: reward, accuracy, response length and entropy over steps."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures import drawing

_LABELS = {
    "reward_mean": "mean reward", "accuracy": "accuracy", "response_tokens_mean": "mean response tokens", "entropy_nats": "entropy, nats",
}  # fmt: skip


def logs_figure(runs: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw a panel for each quantity that a log has, a line a run; values are points of step and value, as their trainers logged them."""
    quantities = [name for name in _LABELS if any(name in curves for curves in runs.values())]
    looks = drawing.appearances([*runs])
    figure, axes = drawing.new_panels(len(quantities), min(2, len(quantities)), 0.9)
    for panel, quantity in zip(axes.flat, quantities, strict=False):
        for run, curves in runs.items():
            if points := curves.get(quantity):
                panel.plot(*zip(*points, strict=True), **looks[run].pen(), markevery=max(1, len(points) // 10))
        panel.set_xlabel("step of the log")
        panel.set_ylabel(_LABELS[quantity])
    drawing.legend_below(figure, [Line2D([], [], **look.pen()) for look in looks.values()], [*looks])
    return figure
