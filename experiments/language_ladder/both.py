"""The rungs of the ladder on the testbed and on the language model, in one figure: what stands in two published tables.

python experiments/language_ladder/both.py [--published FOLDER] --out FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import save_figure
from analysis.figures.drawing import figure_style
from analysis.figures.effects import transfer_plot
from harness.statistics.intervals import Estimate

PUBLISHED = Path(__file__).parents[2] / "results" / "published"
TESTBED, LANGUAGE = "dapo_ladder", "language_ladder_gpu"
SIZES = "0.15M", "135M"  # parameters


def differences(folder: Path) -> dict[str, Estimate]:
    """Each rung's difference to the rung below, in points, as the experiment's main table in `folder` has it."""
    table = pd.read_csv(folder / "tables" / f"{folder.name}.csv").dropna(subset="delta")
    return {
        row["arm"].removeprefix("+ "): Estimate(
            row["delta"], row["delta_low"], row["delta_high"], int(row["delta_seeds"]), margin=row["delta_margin"]
        ).rescale(100)
        for row in table.to_dict("records")
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write ladders.png and ladders.pdf."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    testbed, language = (differences(options.published / name) for name in (TESTBED, LANGUAGE))
    pairs = {f"{rung}  {name}": (effect, language[name]) for rung, (name, effect) in enumerate(testbed.items(), 1)}
    with figure_style("paper"):
        figure = transfer_plot(pairs, *SIZES)
        axes = figure.axes[0]
        axes.set_xlabel("what adding the trick changes at equal steps, points of accuracy (95 % interval, 8 seeds)")
        for row, pair in enumerate(pairs.values()):
            for side, (size, effect) in enumerate(zip(SIZES, pair, strict=True)):
                place, look = (effect.low, row + 0.36 * side - 0.18), {"size": "x-small", "color": "#595959"}
                axes.annotate(size, place, (-4, 0), textcoords="offset points", ha="right", va="center", **look)
        axes.set_xlim(left=axes.get_xlim()[0] - 1)  # room for the sizes
        save_figure(figure, options.out, "ladders", style="paper", formats=["pdf", "png"])


if __name__ == "__main__":
    main()
