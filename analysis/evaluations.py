"""``python -m analysis.evaluations RESULT.json``: draw Pass@k and Maj@k against k of what ``harness evaluate`` wrote."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures.series import draw_band
from analysis.figures.style import (
    FORMATS,
    STYLES,
    WHISKER_ALPHA,
    legend_below,
    looks,
    new_figure,
    save,
    styled,
)

_PANELS = (("pass_at", "Pass@k, %"), ("maj_at", "Maj@k, %"))


def cells_of(result: dict[str, Any], name: str) -> dict[str, list[dict[str, Any]]]:
    """Benchmark to its summaries, one per model: of an ``evaluation.json``, or of one summary alone."""
    cells = result.get("cells", [{"model": name, "benchmark": "samples", **result}])
    grouped: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        title = cell["benchmark"] + (f"_cap_{cell['cap']}" if "cap" in cell else "")
        grouped.setdefault(title, []).append(cell)
    return grouped


def k_curves_figure(cells: Sequence[dict[str, Any]], style: str) -> Figure:
    """Pass@k and Maj@k (side by side) against k; one line per model.

    Bands are t intervals over problems; where all problems score alike, a whisker has Clopper and Pearson's interval.
    """
    figure, axes = new_figure(style, width=1.6, ncols=2, sharey=True)
    looked = looks([cell["model"] for cell in cells])
    for axes_, (kind, title) in zip(axes, _PANELS, strict=True):
        ks: set[int] = set()
        for cell in cells:
            look = looked[cell["model"]]
            values = {int(k): 100 * value for k, value in cell[kind].items()}
            ks |= set(values)
            axes_.plot(
                list(values),
                list(values.values()),
                color=look.colour,
                linestyle=look.line,
                marker=look.marker,
            )
            low, high, alike = _bounds(cell["intervals"][kind], values)
            draw_band(axes_, list(values), low, high, look.colour)
            for k, pair in alike.items():
                axes_.vlines(k, *pair, color=look.colour, linewidth=1, alpha=WHISKER_ALPHA)
        axes_.set_xscale("log", base=2)
        axes_.set_xticks(sorted(ks), [str(k) for k in sorted(ks)])
        axes_.minorticks_off()
        axes_.set_xlabel("k")
        axes_.set_title(title, loc="left")
    handles = [
        Line2D([], [], color=look.colour, linestyle=look.line, marker=look.marker) for look in looked.values()
    ]
    legend_below(figure, handles, list(looked))
    return figure


def _bounds(
    intervals: Mapping[str, Sequence[float] | None], values: Mapping[int, float]
) -> tuple[list[float], list[float], dict[int, tuple[float, float]]]:
    """Ends in % of Student's t interval at every k (NaN where there is none), and by k of the intervals where all problems score alike.

    Where all problems score 0 or all score 1, the interval is Clopper and Pearson's and far wider than Student's t beside it.
    """
    pairs, alike = [], {}
    for k, value in values.items():
        found = intervals.get(str(k)) or (math.nan, math.nan)
        pair = 100 * found[0], 100 * found[1]
        if value in (0.0, 100.0):
            alike[k] = pair
        pairs.append((math.nan, math.nan) if k in alike else pair)
    return [low for low, _ in pairs], [high for _, high in pairs], alike


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error where the result cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m analysis.evaluations", description=__doc__)
    parser.add_argument("result", type=Path, help="summary.json or evaluation.json")
    parser.add_argument("--out", type=Path, help="folder for figures/")
    parser.add_argument("--style", choices=STYLES, default="paper")
    parser.add_argument("--formats", default=",".join(FORMATS), help="comma-separated: pdf,svg,png")
    options = parser.parse_args(arguments)
    out = options.out or options.result.parent
    try:
        grouped = cells_of(json.loads(options.result.read_bytes()), options.result.parent.name or "samples")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cannot read {options.result}: {error}\n")
        return 2
    with styled(options.style):
        for benchmark, cells in grouped.items():
            figure = k_curves_figure(cells, options.style)
            save(figure, out / "figures", f"k_curves_{benchmark}", options.formats.split(","))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
