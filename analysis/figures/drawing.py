"""Parts that figures share: curves with their bands and seeds, intervals in rows, legends of arms."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator
from matplotlib.typing import LineStyleType

from analysis.frames import Frames
from analysis.results import Results
from analysis.samples import Floats, total_at
from analysis.tables.spending import read_curve, seed_curves
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import replicate_of, t_band
from harness.store.atomic import write_file
from harness.store.foreign_text import visible

FEW = 4  # arms whose bands can be told apart in one set of axes
COUNTS = EngFormatter(sep="")  # 200k, not 2 x 10^5: no second font to embed


def score_label(plan: Plan) -> str:
    """Name the score on an axis: ``accuracy, %, cap 32``."""
    return f"accuracy, %, cap {plan.primary_cap}"


def draw_series(axes: Any, series: Series, appearance: Appearance, *, label: str = "", spread: bool = True) -> None:
    """Draw thin seeds below, then the band, then the mean; without ``spread`` the mean alone.

    Where a seed collapsed, each seed is drawn to be seen, and no band: it would be one of two kinds of runs together.
    """
    colour = appearance.colour
    if len(series.seed_y) and (spread or series.collapsed):
        lines = [np.column_stack([series.x, seed]) for seed in series.seed_y]
        alpha, width = (0.8, 0.7) if series.collapsed else (SEED_ALPHA, 0.5)
        axes.add_collection(LineCollection(lines, colors=colour, alpha=alpha, linewidths=width, zorder=1))
    if spread and not series.collapsed:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=BAND_ALPHA, linewidth=0)
    mark_every = None if np.isfinite(series.mean).sum() <= 16 else (0.05, 0.2)  # of the length of the axes
    axes.plot(series.x, series.mean, **appearance.pen(), markevery=mark_every, label=label, zorder=3)


def label_rows(axes: Any, labels: Sequence[str], numbers: Sequence[str]) -> None:
    """Name the rows on the left from top to bottom, and write their numbers on the right."""
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(numbers)), numbers)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def name_lines(figure: Figure, experiment: Frames, *, first: Sequence[Line2D] = ()) -> None:
    """Name the arms in a legend below, after the labelled lines ``first``; bands and thin lines too where they are drawn."""
    looks, arms = appearances(experiment.plan.arms), experiment.plan.arms
    handles: list[Any] = [*first, *(Line2D([], [], label=arm.label, **looks[arm.name].pen()) for arm in arms)]
    if len(arms) <= FEW and max(experiment.plan.seed_counts) > 1:
        label = f"95 % t interval over {experiment.plan.replicate_name}, pointwise"
        handles.append(Patch(color="#000000", alpha=BAND_ALPHA, linewidth=0, label=label))
        handles.append(Line2D([], [], color="#000000", alpha=SEED_ALPHA, linewidth=0.8, label="one seed"))
    if any(has_collapsed(experiment, arm.name) for arm in arms):
        label = "one seed of an arm with a collapsed one"
        handles.append(Line2D([], [], color="#000000", alpha=0.8, linewidth=0.7, label=label))
    legend_below(figure, handles, [str(handle.get_label()) for handle in handles])


_COUNTED = {"step": "rollout steps", "updates": "optimiser updates"}
AXES = _COUNTED | {"tokens": "generated tokens (discarded included)"}
_TOTALS = {"updates": "updates", "tokens": "generated_tokens_total"}
Curve = tuple[Floats, Floats, Floats]  # of one seed: which point, its place on the axis, its value


@dataclass(frozen=True)
class Panel:
    """A column of the step metrics (over ``per``), or of the evaluations where ``evaluated``; ``zero``: the axis begins near zero."""

    column: str
    label: str
    per: str | None = None
    scale: float = 1.0
    zero: bool = False
    evaluated: bool = False


@dataclass(frozen=True)
class Series:
    """One quantity of one arm: ``seed_y`` [seeds, points] with NaN outside a seed's range, mean and band.

    Mean and band are over replicates: seeds, or the means of those that share a base policy. The band is NaN where fewer than two are
    left. ``collapsed``: a seed of the arm collapsed, so that single seeds tell more.
    """

    x: Floats
    seed_y: Floats
    mean: Floats
    low: Floats
    high: Floats
    collapsed: bool = False

    @classmethod
    def from_seeds(cls, x: Floats, seed_y: Floats, replicates: Sequence[int]) -> Series:
        """Make the series of these seeds, with mean and band; ``replicates``: what each is one of, equal for those of one base policy."""
        mean, half = t_band(pd.DataFrame(seed_y).groupby(np.asarray(replicates), sort=False).mean().to_numpy(), axis=0)
        return cls(x, seed_y, mean, mean - half, mean + half)

    def __len__(self) -> int:
        return len(self.x)


EMPTY = Series(*(np.empty(0), np.empty((0, 0)), np.empty(0), np.empty(0), np.empty(0)))


def is_logged(experiment: Frames, panel: Panel) -> bool:
    """Tell whether any run has a value in the column of this panel."""
    frame = experiment.cells if panel.evaluated else experiment.steps
    return panel.column in frame and bool(frame[panel.column].notna().any())


def panel_series(experiment: Frames, arm: str, panel: Panel, axis: str) -> Series:
    """Make the line of one arm in a panel against a key of ``AXES``; logged columns are averaged over about 4 % of the run.

    There is a point a step, or an evaluation at the primary cap, at the mean of what the seeds have spent by then: nothing is drawn where
    nothing was measured, and the line ends at the table's mean.
    """
    runs = experiment.runs[experiment.runs["arm"] == arm].sort_values("seed")
    logs = [experiment.training.get((run_id, arm), experiment.steps.iloc[:0]) for run_id in runs["run_id"]]
    window = 1 if panel.evaluated else max(1, max(map(len, logs), default=0) // 25)
    curves, seeds = list[Curve](), list[int]()
    for seed, run_id, log in zip(runs["seed"], runs["run_id"], logs, strict=True):
        rows = experiment.evaluations.get((run_id, arm, experiment.plan.primary_cap)) if panel.evaluated else log
        if rows is None or not len(rows):
            continue
        y = rows[panel.column] / rows[panel.per] if panel.per else rows[panel.column]
        if window > 1:  # it is shorter at the ends and leaves missing values out
            y = y.rolling(window, center=True, min_periods=1).mean()
        values, steps = panel.scale * y.to_numpy(dtype=np.float64), rows["step"].to_numpy(dtype=np.float64)
        spent = steps if axis == "step" else total_at(log, _TOTALS[axis], steps)
        curves.append((steps, spent, np.where(np.isfinite(values), values, np.nan)))
        seeds.append(int(seed))
    return _cut_shares(
        replace(_series(experiment, seeds, curves), collapsed=has_collapsed(experiment, arm)), panel.scale
    )


def _cut_shares(series: Series, scale: float = 100.0) -> Series:
    """The series with a band that holds no impossible value where it is shown in per cent, as intervals in tables."""
    low, high = (np.clip(ends, 0.0, 100.0) if scale == 100.0 else ends for ends in (series.low, series.high))
    return replace(series, low=low, high=high)


def difference_series(results: Results, arm: PlannedArm, axis: str) -> Series:
    """Arm minus reference in the metric against ``step`` or ``tokens``, paired by seed; empty where there is no pair.

    Both are read where the one that spent less was evaluated: the last point against tokens is the difference at equal tokens.
    """
    plan, reference = results.experiment.plan, results.experiment.plan.reference_of(arm)
    if reference is None or not plan.paired:
        return EMPTY
    own, other = (seed_curves(results, one, plan.seeds, axis) for one in (arm, reference))
    seeds, curves = sorted(own.keys() & other.keys()), list[Curve]()
    smaller = min((own, other), key=lambda side: sum(side[seed][0][-1] for seed in seeds))
    for seed in seeds:
        spent = np.minimum(smaller[seed][0], min(own[seed][0][-1], other[seed][0][-1]))
        read = np.array([read_curve(own[seed], place) - read_curve(other[seed], place) for place in spent])
        curves.append((np.arange(len(spent), dtype=np.float64), spent, results.metric.scale * read))
    return _series(results.experiment, seeds, curves)


def _series(experiment: Frames, seeds: Iterable[int], curves: Sequence[Curve]) -> Series:
    """Put the curves of several seeds on the union of their points, each at the mean of its places."""
    if not any(len(points) for points, _, _ in curves):
        return EMPTY
    places, values = (
        pd.DataFrame([dict(zip(curve[0], curve[part], strict=True)) for curve in curves])
        .sort_index(axis="columns")
        .to_numpy(np.float64)
        for part in (1, 2)
    )
    return Series.from_seeds(t_band(places, axis=0)[0], values, _replicates(experiment, seeds))


def _replicates(experiment: Frames, seeds: Iterable[int]) -> list[int]:
    return [replicate_of(seed, experiment.plan.base_policies) for seed in seeds]


def has_collapsed(experiment: Frames, arm: str) -> bool:
    """Tell whether a seed of the arm collapsed."""
    return any(name == arm for name, _ in experiment.collapses)


def k_curves(results: Results, arm_name: str | None) -> dict[str, Series]:
    """Make ``pass`` and ``maj`` (in %) against k at the checkpoint of an arm, or before RL for None; empty without evaluations."""
    frame = results.before if arm_name is None else results.per_seed
    if not len(frame):
        return {}
    rows = frame[frame["cap"] == results.experiment.plan.primary_cap]
    rows = rows if arm_name is None else rows[rows["arm"] == arm_name]
    curves = {}
    for kind in ("pass", "maj"):
        scores = rows.filter(regex=rf"^{kind}@\d+$").dropna(axis="columns", how="all")
        scores = scores.rename(columns=lambda name: int(name.partition("@")[2])).sort_index(axis="columns")
        x, seed_y = (part.to_numpy(dtype=np.float64) for part in (scores.columns, 100 * scores))
        replicates = range(len(rows)) if arm_name is None else _replicates(results.experiment, rows["seed"])
        curves[kind] = _cut_shares(Series.from_seeds(x, seed_y, replicates))
    return curves


# Inches of a column; where the text has one column, of half of it.
VENUES = {"icml": 3.25, "acl": 3.03, "neurips": 2.648, "iclr": 2.648}
STYLES = ("paper", "screen", *VENUES)
FORMATS = ("pdf", "svg", "png")
WRITTEN_FORMATS = ("pdf", "png")  # by a report, unless others are asked for

# None is near a verdict's blue, vermilion, green or grey (`analysis.colours`). Neighbours differ in lightness, line and marker.
PALETTE = ("#000000", "#B8860B", "#6A2C91", "#D45A9F", "#7A5C00", "#9A76CC", "#8E1B4B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
SEED_ALPHA, BAND_ALPHA = 0.28, 0.16

_PERCENT = re.compile(r"^(?!difference)(.*(, |@\d+ ))?%")
# What matplotlib would write of the time and of itself.
_UNDATED: dict[str, Any] = {
    "pdf": dict.fromkeys(("CreationDate", "ModDate", "Producer", "Creator")),
    "svg": dict.fromkeys(("Date", "Creator")),
    "png": {"Software": None},
}
WIDE = 6.75 / 3.25  # inches of a page and a column of a two-column paper


@dataclass(frozen=True)
class Appearance:
    """Colour, line and marker of one arm, the same in every figure of its experiment."""

    colour: str
    line: LineStyleType
    marker: str

    def pen(self) -> dict[str, Any]:
        """Return matplotlib's arguments of a line."""
        return {"color": self.colour, "linestyle": self.line, "marker": self.marker}


def appearances(arms: Iterable[str | PlannedArm]) -> dict[str, Appearance]:
    """Give each arm its appearance, in the order of the plan: a colour, a line and a marker that its neighbours have not."""
    lists: tuple[Sequence[Any], ...] = (PALETTE, LINES, MARKERS)
    names = (arm if isinstance(arm, str) else arm.name for arm in arms)
    return {name: Appearance(*(each[i % len(each)] for each in lists)) for i, name in enumerate(names)}


@contextmanager
def figure_style(style: str, rc: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Set matplotlib to ``paper`` (a column or a page wide, TrueType fonts), that of a venue, or ``screen``; ``rc`` go over the style."""
    if style not in STYLES:
        raise ValueError(f"unknown figure style {style!r}; known: {', '.join(STYLES)}")
    files = [Path(__file__).with_name(f"{name}.mplstyle") for name in ("shared", "paper" if style in VENUES else style)]
    with matplotlib.style.context([*files, dict(rc or {})], after_reset=True):
        if style in VENUES:
            rcParams["figure.figsize"] = (VENUES[style], rcParams["figure.figsize"][1])
        yield


def new_figure(*, wide: bool = False, height: float = 1.0, **subplots: Any) -> tuple[Figure, Any]:
    """Return a figure as wide as a column of the style that is set, or as a page, with its axes (as ``plt.subplots``).

    ``height`` is in panels of one row.
    """
    width, panel = rcParams["figure.figsize"]
    layout = ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.04)
    figure = Figure(figsize=(WIDE * width if wide else width, panel * height), layout=layout)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**subplots)


def new_panels(count: int, columns: int, height: float, **subplots: Any) -> tuple[Figure, Any]:
    """Return a figure with ``count`` panels, ``columns`` in a row of this height, and all its axes; those left over are off."""
    rows = -(-count // columns)
    figure, axes = new_figure(
        wide=columns > 1, height=height * rows, nrows=rows, ncols=columns, squeeze=False, **subplots
    )
    for panel in axes.flat[count:]:
        panel.set_axis_off()
    return figure, axes


def tidy(figure: Figure) -> Figure:
    """Keep axes of percentages within 0 and 100, tick whole steps, and let labels and titles break at the border."""
    for axes in figure.axes:
        if axes.get_xlabel() in _COUNTED.values():
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if _PERCENT.search(axes.get_xlabel()):
            axes.set_xlim(*np.clip(axes.get_xlim(), 0, 100).tolist())
        if _PERCENT.search(axes.get_ylabel() or axes.get_title(loc="left")):
            axes.set_ylim(*np.clip(axes.get_ylim(), 0, 100).tolist())
        for text in (axes.xaxis.label, axes.yaxis.label, axes.set_title(axes.get_title(loc="left"), loc="left")):
            text.set_wrap("$" not in text.get_text())  # matplotlib measures what it wraps as a formula
    return figure


def save(figure: Figure, directory: Path, name: str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figure in every format without dates, so that the same data gives the same bytes.

    Raises `ValueError` for a format that is none of ``FORMATS`` and for one string instead of a sequence, `StoreFull` and `StoreReadOnly`.
    """
    bad_formats = formats if isinstance(formats, str) else ", ".join(name for name in formats if name not in FORMATS)
    if bad_formats or isinstance(formats, str):
        raise ValueError(f"formats: {bad_formats!r} is no list of figure formats; choose from {list(FORMATS)}")
    paths = {suffix: directory / f"{name}.{suffix}" for suffix in formats}
    for suffix, path in paths.items():
        write_file(path, drawn_bytes(figure, suffix), durable=False)
    return list(paths.values())


def drawn_bytes(figure: Figure, suffix: str) -> bytes:
    """The figure as the content of a file: on a full disk Matplotlib's own files end in errors of other kinds."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # of a label, drawn as a box
        if (engine := figure.get_layout_engine()) is not None:  # laid out once, not per format
            engine.execute(tidy(figure))
            figure.set_layout_engine(None)  # "none" would leave one in place, for which saving draws everything twice
        figure.savefig(buffer, format=suffix, metadata=_UNDATED[suffix])
    return visible(buffer.getvalue().decode()).encode() if suffix == "svg" else buffer.getvalue()


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw one legend under the axes, outside the data, as many columns as fit; the figure grows with its rows."""
    width, height = figure.get_size_inches()
    font_inches = float(rcParams["legend.fontsize"]) / 72
    room = int(width / font_inches / 0.55)  # characters of a line
    texts = [textwrap.fill(label, room - 8) for label in labels]
    longest = max(len(line) for text in texts for line in text.split("\n"))
    columns = max(1, min(len(texts), room // (longest + 8)))
    rows = sum(text.count("\n") + 1 for text in texts) / columns
    figure.set_size_inches(width, height + max(0.0, rows - 3) * 1.75 * font_inches)
    figure.legend(handles, texts, loc="outside lower center", ncols=columns, handlelength=1.8, columnspacing=1.2)
