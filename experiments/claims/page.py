"""The list and the figure of many claims, from their effects.

python experiments/claims/page.py results --out DIR    # claims.md, effects.csv and figures/claims.* of the claims that a results root holds
python experiments/claims/page.py --out DIR            # list and figure of the published effects.csv beside this file

The published effects.csv is of two looks at each decided claim, as they were made before a second look became a claim file of its own.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.answer import finding_of
from analysis.colours import VERDICTS
from analysis.effects import declared_effects
from analysis.figures.drawing import figure_style, legend_below, new_figure, save
from analysis.frames import load_experiment
from analysis.headline import shorten
from analysis.results import results_of
from harness.store import ResultStore
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text, markdown

HERE = Path(__file__).parent
COLOURS = {
    "holds here": VERDICTS["higher"].colour, "holds here, too small to matter": VERDICTS["higher"].colour,
    "reversed here": VERDICTS["lower"].colour, "reversed here, too small to matter": VERDICTS["lower"].colour,
    "equivalent to nothing": VERDICTS["equivalent"].colour, "no effect": VERDICTS["equivalent"].colour,
    "open": "#777777", "not resolved": "#777777", "not engaged": "#bbbbbb",
}  # fmt: skip
_ARROWS = {"higher": "→", "not_lower": "→|", "lower": "←", "not_higher": "|←", "equivalent": "="}
_WIDEST = 6.0  # margins; longer whiskers are cut at the frame


def effects_of(root: Path) -> pd.DataFrame:
    """One row a claim that the results root holds, values as shown (``unit``)."""
    store, rows = ResultStore(root), []
    for name in store.plans():
        if not store.plan(name).get("claim"):
            continue
        results = results_of(load_experiment(root, name, curves=False))
        plan, effect = results.experiment.plan, declared_effects(results)[0]
        row = {"experiment": name, "title": plan.title, **effect.row, "effect": effect.row["value"]}
        rows.append(row | {"words": str(finding_of(results)), **(plan.claim or {}), "notes": " | ".join(plan.notes)})
    return pd.DataFrame(rows)


def list_text(looks: pd.DataFrame) -> str:
    """The claims as a Markdown table, first looks with their second ones, and how often each word was said."""
    lines = ["# All claims", "", "| claim | title | effect (95 % interval) | verdict |", "|---|---|---|---|"]
    for _, row in looks.iterrows():
        name = str(row["experiment"]).removeprefix("claim_") + ", again" * (row.get("look") == "second")
        ends = "" if pd.isna(row["low"]) else f" [{row['low']:+.1f}, {row['high']:+.1f}]"
        effect = f"{row['effect']:+.1f}{ends} {row['unit']}".replace("-", "−")
        lines.append(f"| `{name}` | {markdown(row['title'])} | {effect} | {row['words']} |")
    counts = Counter(looks["words"]).most_common()
    return "\n".join([*lines, "", f"{len(looks)}: {', '.join(f'{count} {word}' for word, count in counts)}."]) + "\n"


def claims_figure(looks: pd.DataFrame) -> Figure:
    """One row a claim, by verdict and effect in its margins; the arrow after its name is what the source predicts."""
    looks = looks.dropna(subset="low")
    looks = looks.assign(**looks[["effect", "low", "high"]].div(looks["margin"], axis=0))
    second = looks["look"] == "second" if "look" in looks else np.zeros(len(looks), dtype=bool)
    firsts, seconds = looks[~second], looks[second].set_index("experiment")
    # Verdicts in the order of the legend, the largest effect of each first.
    firsts = firsts.assign(order=firsts["words"].map([*COLOURS].index))
    firsts = firsts.sort_values(["order", "effect"], ascending=[True, False], kind="stable")
    figure, axes = new_figure(wide=True, height=0.8 + 0.07 * len(firsts))
    axes.axvspan(-1, 1, color=VERDICTS["equivalent"].colour, alpha=0.10, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    reach = min(_WIDEST, 1.05 * float(firsts[["low", "high"]].abs().to_numpy().max(initial=1.2)))
    for y, (_, first) in enumerate(firsts.iterrows()):
        _draw(axes, first, y, reach)
        if first["experiment"] in seconds.index:
            _draw(axes, seconds.loc[first["experiment"]], y + 0.3, reach, second=True)
    labels = [f"{shorten(one['title'], 42)} {_ARROWS[one['expects']]}" for _, one in firsts.iterrows()]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(-reach, reach)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        "effect in margins of the claim, 95 % interval of each alone (band: within the margin; hollow: the second look)\n"
        "predicted: → higher, ← lower, →| not lower, |← not higher, = none; triangle: beyond the frame"
    )
    words = firsts["words"].unique().tolist()
    legend_below(figure, [axes.scatter([], [], s=22, color=COLOURS[word]) for word in words], words)
    return figure


def _draw(axes: Axes, look: pd.Series, y: float, reach: float, *, second: bool = False) -> None:
    """A line with a dot in the colour of the word, beyond ``reach`` an arrow; a second look is thin and hollow."""
    value, colour = look["effect"], COLOURS[look["words"]]
    axes.plot([look["low"], look["high"]], [y, y], color=colour, linewidth=0.8 if second else 1.3, zorder=2)
    marker = "o" if abs(value) < reach else ">" if value > 0 else "<"
    face, size = ("white", 9) if second else (colour, 18)
    place = min(max(value, -0.97 * reach), 0.97 * reach)
    axes.scatter([place], [y], s=size, marker=marker, facecolors=face, edgecolors=colour, linewidths=0.8, zorder=3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write list and figure, and with a results root its effects; 0, or 2 where it holds no claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, help="results root")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is written")
    options = parser.parse_args(arguments)
    looks = pd.read_csv(HERE / "effects.csv") if options.root is None else effects_of(options.root)
    if not len(looks):
        parser.exit(2, f"{options.root} holds no claim that has been run; run one with: harness run claim=NAME\n")
    if options.root is not None:
        write_file(options.out / "effects.csv", csv_text(looks).encode())
    write_file(options.out / "claims.md", list_text(looks).encode())
    with figure_style("paper"):
        save(claims_figure(looks), options.out / "figures", "claims", ("pdf", "png"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
