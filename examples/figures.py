"""A figure of a report in a style of one's own.

python examples/figures.py RESULTS EXPERIMENT [FIGURE]
"""

import sys

from analysis import figure_of, load, save_figure


def main(root: str, experiment: str, name: str = "accuracy") -> None:
    """Draw a figure of the report as wide as a page of ICLR, in another family and with other colours, and save it."""
    own = {"figure.figsize": (2.648, 2.0), "font.family": "DejaVu Serif", "axes.grid": False}
    figure = figure_of(load(root, experiment), name, style="paper", rc=own)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(True)
        for line in axes.lines:
            line.set_linewidth(0.8)
    stem = f"{experiment}-{name.replace('/', '-')}"
    print(*save_figure(figure, "figures", stem, style="paper"), sep="\n")


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
