"""Look of every figure, colours of the arms, and saving with reproducible bytes."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from fontTools.subset import Options
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.typing import LineStyleType

_DROPPED = "_drop_tables_default"  # fontTools' own name; where another version has none, PDFs take longer

STYLES = ("paper", "screen")
FORMATS = ("pdf", "svg", "png")

# Okabe-Ito without its yellow (too light on white) and with two darker shades, in an order where neighbours
# differ in lightness as well as hue; markers tell the arms apart without colour.
PALETTE = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7F3C8D", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
SEED_ALPHA, BAND_ALPHA, WHISKER_ALPHA = 0.28, 0.16, 0.6

_SIZES = {"paper": (3.4, 2.3, 7.0), "screen": (6.4, 4.0, 10.0)}


@dataclass(frozen=True)
class Look:
    """Colour, line and marker of one arm, the same in every figure of its experiment."""

    colour: str
    line: LineStyleType
    marker: str


def looks(names: Sequence[str]) -> dict[str, Look]:
    """The look of each arm in the order of the plan; lines change where the palette starts again."""
    size = len(PALETTE)
    return {
        name: Look(PALETTE[i % size], LINES[i // size % len(LINES)], MARKERS[(i + i // size) % len(MARKERS)])
        for i, name in enumerate(names)
    }


@contextmanager
def styled(style: str) -> Iterator[None]:
    """Matplotlib settings of ``paper`` (3.4 in column, TrueType fonts) or ``screen``."""
    if style not in STYLES:
        raise ValueError(f"unknown figure style {style!r}; known: {', '.join(STYLES)}")
    font = _SIZES[style][2]
    settings: Any = {
        "font.size": font,
        "font.family": "DejaVu Sans",
        "axes.titlesize": font,
        "axes.labelsize": font,
        "xtick.labelsize": font - 1,
        "ytick.labelsize": font - 1,
        "legend.fontsize": font - 1.5,
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
        "lines.markersize": 3 if style == "paper" else 5,
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.hashsalt": "rlvr-harness",
        "svg.fonttype": "path",
        "savefig.dpi": 200 if style == "paper" else 120,
        "figure.dpi": 100,
    }
    with mpl.rc_context(mpl.rcParamsDefault):
        mpl.rcParams.update(settings)
        yield


def new_figure(style: str, *, width: float = 1.0, height: float = 1.0, **subplots: Any) -> tuple[Figure, Any]:
    """A figure ``width`` columns wide with a constrained layout, and its axes (as ``plt.subplots``)."""
    base_width, base_height, _ = _SIZES[style]
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.05)
    figure = Figure(figsize=(base_width * width, base_height * height), layout=layout)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**subplots)


def save(figure: Figure, directory: Path, name: str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figure in every format without dates, so that the same data gives the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    _settle(figure)
    paths = []
    for suffix in formats:
        path = directory / f"{name}.{suffix}"
        _PRINT[suffix](figure, path)
        paths.append(path)
    return paths


def svg_bytes(figure: Figure) -> bytes:
    """The figure as an SVG document, for embedding."""
    _settle(figure)
    buffer = io.BytesIO()
    _print_svg(figure, buffer)
    return buffer.getvalue()


def _settle(figure: Figure) -> None:
    """Lay out once, not per format; the second pass is for the tick labels, which the first one moves."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        engine.execute(figure)
    figure.set_layout_engine("none")


# The canvases' own print methods: Figure.savefig would draw everything a second time to look for a layout.
def _print_pdf(figure: Figure, path: Path | io.BytesIO) -> None:
    no_dates = {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None}
    canvas: Any = FigureCanvasPdf(figure)
    with _glyphs_alone():
        canvas.print_pdf(path, metadata=no_dates)


@contextmanager
def _glyphs_alone() -> Iterator[None]:
    """Embed fonts without their tables for laying out text, whose subset takes longest: a PDF's text is laid out already."""
    kept = list(getattr(Options, _DROPPED, ()))  # matplotlib makes the options itself, from these defaults
    setattr(Options, _DROPPED, [*kept, "GDEF", "GPOS", "GSUB"])
    try:
        yield
    finally:
        setattr(Options, _DROPPED, kept)


def _print_svg(figure: Figure, path: Path | io.BytesIO) -> None:
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(path, metadata={"Date": None, "Creator": None})


def _print_png(figure: Figure, path: Path | io.BytesIO) -> None:
    figure.set_dpi(float(mpl.rcParams["savefig.dpi"]))
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path, metadata={"Software": None})


_PRINT = {"pdf": _print_pdf, "svg": _print_svg, "png": _print_png}


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """One legend under the axes, outside the data, as many columns as fit; the figure grows with its rows."""
    width, height = figure.get_size_inches()
    font_inches = float(mpl.rcParams["legend.fontsize"]) / 72
    wrapped = [textwrap.fill(label, int(width / font_inches / 0.6) - 6) for label in labels]
    longest = max((len(line) for label in wrapped for line in label.split("\n")), default=1)
    columns = max(1, min(len(labels), int(width / ((longest * 0.55 + 4.5) * font_inches))))
    lines = sum(label.count("\n") + 1 for label in wrapped) / columns
    figure.set_size_inches(width, height + max(0.0, lines - 3) * 1.75 * font_inches)
    figure.legend(
        handles, wrapped, loc="outside lower center", ncols=columns, handlelength=1.8, columnspacing=1.2
    )
