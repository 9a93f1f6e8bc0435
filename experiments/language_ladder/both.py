"""The rungs of the ladder on the testbed and on the language model, in one figure: what stands in two published tables.

python experiments/language_ladder/both.py [--published FOLDER] --out FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import save_figure
from analysis.figures.drawing import styled
from analysis.figures.effects import transfer_plot
from harness.statistics.intervals import Estimate

PUBLISHED = Path(__file__).parents[2] / "results" / "published"
TESTBED, LANGUAGE = "dapo_ladder", "language_ladder_gpu"


def differences(folder: Path) -> dict[str, Estimate]:
    """Each rung's difference to the rung below, in points, as the experiment's main table in `folder` has it."""
    table = pd.read_csv(folder / "tables" / f"{folder.name}.csv").dropna(subset="delta")
    return {
        row["arm"].removeprefix("+ "): Estimate(
            row["delta"], row["delta_low"], row["delta_high"], int(row["delta_seeds"]), margin=row["delta_margin"]
        ).scaled(100)
        for row in table.to_dict("records")
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write ladders.png and ladders.pdf."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    testbed, language = (differences(options.published / name) for name in (TESTBED, LANGUAGE))
    with styled("paper"):
        pairs = {name: (effect, language[name]) for name, effect in testbed.items()}
        figure = transfer_plot(pairs, "policy of 154 thousand parameters, points", "SmolLM2 135M, points")
        save_figure(figure, options.out, "ladders", style="paper", formats=["pdf", "png"])


if __name__ == "__main__":
    main()
