"""Style of every figure, colours of the arms, and saving with reproducible bytes."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import LineStyleType

STYLES = ("paper", "screen")
FORMATS = ("pdf", "svg", "png")
WRITTEN_FORMATS = ("pdf", "png")  # by a report, unless others are asked for

# Okabe-Ito without its yellow (too light on white) and with two darker shades, in an order where neighbours
# differ in lightness as well as hue; markers tell the arms apart without colour.
PALETTE = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7F3C8D", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
SEED_ALPHA, BAND_ALPHA, WHISKER_ALPHA = 0.28, 0.16, 0.6

_COUNTED = ("rollout steps", "optimiser updates")
_PERCENT = re.compile(r"(^|, |@\d+ )%")
_CANVASES = {"pdf": FigureCanvasPdf, "svg": FigureCanvasSVG, "png": FigureCanvasAgg}
# What matplotlib would write of the time and of itself.
_DATED = {
    "pdf": ("CreationDate", "ModDate", "Producer", "Creator"),
    "svg": ("Date", "Creator"),
    "png": ("Software",),
}
# Width of a narrow figure and height of a panel in inches, size of type in points, its family and that of mathematics.
_SIZES = {
    "paper": (245 / 72.27, 2.1, 8.0, "STIXGeneral", "stix"),
    "screen": (5.8, 3.6, 10.0, "DejaVu Sans", "dejavusans"),
}
WIDE = 505 / 245  # a page of a two-column paper is 505 TeX points wide, a column 245


@dataclass(frozen=True)
class Appearance:
    """Colour, line and marker of one arm, the same in every figure of its experiment."""

    colour: str
    line: LineStyleType
    marker: str

    def pen(self) -> dict[str, Any]:
        """Return matplotlib's arguments of a line."""
        return {"color": self.colour, "linestyle": self.line, "marker": self.marker}


def appearances(names: Sequence[str]) -> dict[str, Appearance]:
    """Give each arm its appearance, in the order of the plan; lines change where the palette starts again."""
    size = len(PALETTE)
    return {
        name: Appearance(
            PALETTE[i % size], LINES[i // size % len(LINES)], MARKERS[(i + i // size) % len(MARKERS)]
        )
        for i, name in enumerate(names)
    }


@contextmanager
def styled(style: str, rc: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Set matplotlib to ``paper`` (a column or a page wide, TrueType fonts) or ``screen``; ``rc`` go over those of the style."""
    if style not in STYLES:
        raise ValueError(f"unknown figure style {style!r}; known: {', '.join(STYLES)}")
    width, height, font, family, mathematics = _SIZES[style]
    settings: Any = {
        "figure.figsize": (width, height),
        "font.size": font,
        "font.family": family,
        "mathtext.fontset": mathematics,
        "axes.titlesize": font,
        "axes.labelsize": font,
        "xtick.labelsize": font - 1,
        "ytick.labelsize": font - 1,
        "legend.fontsize": font - 1,
        "legend.title_fontsize": font - 1,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.4,
        "axes.axisbelow": True,
        "lines.linewidth": 1.2 if style == "paper" else 1.8,
        "lines.markersize": 3.5 if style == "paper" else 5,
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.hashsalt": "rlvr-harness",
        "svg.fonttype": "path",
        "savefig.dpi": 200 if style == "paper" else 120,
        "figure.dpi": 100,
    }
    with mpl.rc_context(mpl.rcParamsDefault):
        mpl.rcParams.update(settings | dict(rc or {}))
        yield


def new_figure(*, wide: bool = False, height: float = 1.0, **subplots: Any) -> tuple[Figure, Any]:
    """Return a figure as wide as a column of the style that is set, or as a page, with its axes (as ``plt.subplots``).

    ``height`` is in panels of one row.
    """
    width, panel = mpl.rcParams["figure.figsize"]
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
    """Keep axes of percentages within 0 and 100, tick whole steps, and break labels and titles that are longer than their axes."""
    for axes in figure.axes:
        if axes.get_xlabel() in _COUNTED:
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        for label, limits, limit in (
            (axes.get_xlabel(), axes.get_xlim, axes.set_xlim),
            (axes.get_ylabel() or axes.get_title(loc="left"), axes.get_ylim, axes.set_ylim),
        ):
            low, high = limits()
            if _PERCENT.search(label) and low < high:
                limit(max(low, 0.0), min(high, 100.0))
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    width = figure.bbox.width
    for axes in figure.axes:
        box = axes.get_window_extent()
        middle = (box.x0 + box.x1) / 2
        alone = len({round(other.get_position().x0, 2) for other in figure.axes}) == 1
        across = 1.9 * min(middle, width - middle) if alone else box.width
        _break(axes.xaxis.label, across, 0)
        _break(axes.yaxis.label, 1.05 * box.height, 1)
        if title := axes.get_title(loc="left"):
            _break(axes.set_title(title, loc="left"), width - box.x0 if alone else box.width, 0)
    return figure


def _break(text: Text, room: float, side: int) -> None:
    """Break the lines of a text that is longer than its room in pixels along one side."""
    box = text.get_window_extent()
    length = (box.width, box.height)[side]
    if text.get_text() and length > room:
        lines = text.get_text().split("\n")
        longest = max(map(len, lines))
        fitting = max(8, int(longest * room / length))
        text.set_text("\n".join(textwrap.fill(line, fitting) for line in lines))


def save(figure: Figure, directory: Path, name: str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figure in every format without dates, so that the same data gives the same bytes.

    Raises:
        ValueError: a format that is none of ``FORMATS``, or one string instead of a sequence of them.
    """
    if isinstance(formats, str) or (unknown := [name for name in formats if name not in FORMATS]):
        named = formats if isinstance(formats, str) else ", ".join(unknown)
        raise ValueError(f"formats: {named!r} is no list of figure formats; choose from {list(FORMATS)}")
    directory.mkdir(parents=True, exist_ok=True)
    _settle(figure)
    paths = [directory / f"{name}.{suffix}" for suffix in formats]
    for path in paths:
        _print(figure, path, path.suffix[1:])
    return paths


def svg_bytes(figure: Figure) -> bytes:
    """Return the figure as an SVG document, for embedding."""
    _settle(figure)
    buffer = io.BytesIO()
    _print(figure, buffer, "svg")
    return buffer.getvalue()


def _settle(figure: Figure) -> None:
    """Lay out once, not per format; the second pass is for the labels that the first one moves or breaks."""
    tidy(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def _print(figure: Figure, file: Path | io.BytesIO, suffix: str) -> None:
    if suffix == "png":
        figure.set_dpi(float(mpl.rcParams["savefig.dpi"]))
    canvas: Any = _CANVASES[suffix](figure)
    # The canvas' own method: Figure.savefig would draw everything a second time to look for a layout.
    getattr(canvas, f"print_{suffix}")(file, metadata=dict.fromkeys(_DATED[suffix]))


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw one legend under the axes, outside the data, as many columns as fit; the figure grows with its rows."""
    width, height = figure.get_size_inches()
    font_inches = float(mpl.rcParams["legend.fontsize"]) / 72
    wrapped = [textwrap.fill(label, int(width / font_inches / 0.6) - 6) for label in labels]
    longest = max((len(line) for label in wrapped for line in label.split("\n")), default=1)
    columns = max(1, min(len(labels), int(width / ((longest * 0.47 + 4.5) * font_inches))))
    lines = sum(label.count("\n") + 1 for label in wrapped) / columns
    figure.set_size_inches(width, height + max(0.0, lines - 3) * 1.75 * font_inches)
    figure.legend(
        handles, wrapped, loc="outside lower center", ncols=columns, handlelength=1.8, columnspacing=1.2
    )
