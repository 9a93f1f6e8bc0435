"""What the testbed found of each comparison beside what a language model shows: the table, the figure, and how often they agree.

python experiments/language_transfer/transfer.py ROOT... [--predictions FILE] [--out FOLDER]

The testbed's side is predictions.csv here, or the test's predictions_test.csv, both written before the runs. The language
model's side is read from the experiments that it names, each from the first ROOT that has it; where none has NAME_gpu, NAME counts.
A file with the columns `predicted` and `wrong_reward` is a test: its predictions are scored beside two trivial rivals.
"""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binomtest, spearmanr

from analysis import difference, load, save_figure
from analysis.api import NoValueError
from analysis.colours import is_hollow, look_of
from analysis.figures.drawing import figure_style, label_rows, new_figure
from analysis.results import Results
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text, to_markdown
from harness.experiment.plan import PlanError
from harness.statistics.intervals import Estimate, Verdict
from harness.store import ResultStore

sys.path.append(str(Path(__file__).resolve().parents[1]))

from table_script import write_table

PREDICTIONS = Path(__file__).with_name("predictions.csv")
MARGIN = 3.0  # points, on both sides
AXIS = -28.0, 14.0  # points; an effect that lies outside has an arrow and its number
_DIRECTIONS = {"higher": 1, "lower": -1}


@dataclass(frozen=True)
class Pair:
    """One comparison on both sides, in points of accuracy: the testbed's estimate with its verdict, and the language model's.

    A test has two predictions of the language model's effect, too: by the testbed, scaled, and by "nothing matters but a wrong reward".
    """

    label: str
    testbed: Estimate
    word: str
    language: Estimate
    scaled: float = math.nan
    wrong_reward: float = math.nan

    @property
    def direction_holds(self) -> bool | None:
        """True where the language model moves as the testbed says, by sign alone; None where the testbed says no direction."""
        sign = _DIRECTIONS.get(self.word)
        return None if sign is None else sign * self.language.value > 0


def pairs_of(roots: Sequence[Path], predictions: pd.DataFrame) -> list[Pair]:
    """Read the predicted comparisons that have finished runs on both sides; each experiment from the first results root that has it."""
    results_by_name: dict[str, Results | None] = {}
    pairs = []
    for row in predictions.to_dict("records"):
        name = row["experiment"]
        if name not in results_by_name:
            names = dict.fromkeys([name, name.removesuffix("_gpu")])  # the same question on CPU cores
            places = [(root, each) for each in names for root in roots if each in ResultStore(root).plans()]
            if not places:
                sys.stderr.write(f"{name}: in none of {', '.join(map(str, roots))}\n")
            results_by_name[name] = load(*places[0]) if places else None
        results = results_by_name[name]
        if results is None:
            continue
        try:
            metric = row.get("metric", "avg")
            language = difference(results, row["arm"], row["reference"], metric)
        except (NoValueError, PlanError):  # nothing of it has run, or the plan has fewer arms
            continue
        if math.isnan(language.value):
            continue
        testbed = Estimate(row["effect"], row["low"], row["high"], margin=MARGIN)
        plan = results.experiment.plan
        label = f"{plan.arm(row['arm']).label.removeprefix('+ ')} against {plan.arm(row['reference']).label.removeprefix('+ ')}"
        label += "" if metric == "avg" else f", {metric.capitalize()}"
        predicted = (row.get("predicted", math.nan), row.get("wrong_reward", math.nan))
        pairs.append(Pair(label, testbed, row["word"], language, *predicted))
    return pairs


def ordered(pairs: Sequence[Pair]) -> list[Pair]:
    """The testbed's largest effects first."""
    return sorted(pairs, key=lambda pair: -abs(pair.testbed.value))


def transfer_table(pairs: Sequence[Pair]) -> Table:
    """One row a comparison, the testbed's largest effects first."""
    rows: list[Mapping[str, Cell]] = [
        {
            "comparison": pair.label,
            "testbed": _text(pair.testbed),
            "predicted": pair.word,
            "language": _text(pair.language),
            "found": "one seed" if math.isnan(pair.language.low) else pair.language.words(),
            "seeds": pair.language.seeds,
            "sign": {None: "", True: "same", False: "other"}[pair.direction_holds],
        }
        for pair in ordered(pairs)
    ]
    columns = (
        Column("comparison", "comparison"),
        Column("testbed", "testbed, points"),
        Column("predicted", "predicted verdict"),
        Column("language", "language model, points"),
        Column("found", "verdict"),
        Column("seeds", "seeds", 0),
        Column("sign", "sign"),
    )
    return Table("transfer", "From the testbed to a language model", columns, rows, tuple(agreement(pairs)))


def agreement(pairs: Sequence[Pair]) -> list[str]:
    """Say how often the sign agrees where the testbed gives one, with an exact interval, and how the effects are ranked."""
    signs = [pair.direction_holds for pair in pairs if pair.direction_holds is not None]
    lines = []
    if signs:
        ends = binomtest(sum(signs), len(signs)).proportion_ci()
        lines.append(
            f"Sign: {sum(signs)} of {len(signs)} comparisons to which the testbed gives a direction go the same way here "
            f"({100 * sum(signs) / len(signs):.0f} %, 95 % Clopper-Pearson {100 * ends.low:.0f} to {100 * ends.high:.0f}). "
            "Comparisons share arms, so they are not independent."
        )
    cases = [pair for pair in pairs if pair.language.verdict is not Verdict.NOT_RESOLVED and pair.language.seeds > 2]
    if cases:
        matches = sum(pair.language.verdict.value.startswith(pair.word) for pair in cases)
        ends = binomtest(matches, len(cases)).proportion_ci()
        lines.append(
            f"Verdict: {matches} of {len(cases)} comparisons that more than two seeds decide here have the testbed's "
            f"({100 * matches / len(cases):.0f} %, {100 * ends.low:.0f} to {100 * ends.high:.0f}); {len(pairs) - len(cases)} are open."
        )
    if len(pairs) > 2:
        rank = spearmanr([pair.testbed.value for pair in pairs], [pair.language.value for pair in pairs])
        lines.append(f"Rank correlation of the effects (Spearman): {rank.statistic:.2f}, {len(pairs)} comparisons.")
    gaps = [abs(pair.testbed.value - pair.language.value) for pair in pairs]
    distance, nothing = sum(gaps) / len(gaps), sum(abs(pair.language.value) for pair in pairs) / len(pairs)
    lines.append(
        f'Distance of the two effects: {distance:.1f} points on average, {max(gaps):.1f} at most; of "nothing matters" {nothing:.1f}.'
    )
    lines += score(pairs)
    lines.append(
        "Points of accuracy. Testbed: intervals as published there. Language model: 95 %, paired by seed, each alone; none with one seed."
    )
    return lines


def score(pairs: Sequence[Pair]) -> list[str]:
    """The mean absolute error of the testbed and of two trivial rivals, and their verdicts; nothing without a test."""
    if any(math.isnan(pair.scaled) for pair in pairs):
        return []
    cases = [pair for pair in pairs if pair.language.verdict is not Verdict.NOT_RESOLVED]
    rivals = {
        "the testbed, scaled": [(pair.scaled, pair.word) for pair in pairs],
        "the testbed as it is": [(pair.testbed.value, pair.word) for pair in pairs],
        "nothing matters": [(0.0, "equivalent") for _ in pairs],
        "nothing matters but a wrong reward": [
            (pair.wrong_reward, "lower" if pair.wrong_reward < 0 else "equivalent") for pair in pairs
        ],
    }
    lines = []
    for name, predictions in rivals.items():
        errors = [abs(value - pair.language.value) for pair, (value, _) in zip(pairs, predictions, strict=True)]
        words = {pair.label: word for pair, (_, word) in zip(pairs, predictions, strict=True)}
        matches = sum(pair.language.verdict.value.startswith(words[pair.label]) for pair in cases)
        lines.append(
            f"Score of *{name}*: mean absolute error {sum(errors) / len(errors):.1f} points; {matches} of {len(cases)} decided verdicts."
        )
    return lines


def _drawn(pair: Pair) -> Estimate:
    """The testbed's effect in the look of its published word: the file's ends are rounded, and one of them to the margin."""
    if pair.word != "equivalent":
        return pair.testbed
    low, high = (max(-0.999 * MARGIN, min(0.999 * MARGIN, end)) for end in (pair.testbed.low, pair.testbed.high))
    return replace(pair.testbed, low=low, high=high)


def transfer_plot(
    points: Mapping[str, tuple[Estimate, Estimate]],
    label: str,
    limits: tuple[float, float],
    predicted: Sequence[float] = (),
) -> Figure:
    """Draw one row a comparison: the first effect with its interval, faint, below it the second, in the looks of their verdicts.

    ``limits``: the ends of the axis; an effect that lies outside has an arrow. ``predicted``: of the second effects, a tick each.
    """
    figure, axes = new_figure(wide=True, height=0.4 + 0.21 * len(points))
    # Letters are wider where the file is drawn than where the layout measures them.
    figure.set_layout_engine("constrained", w_pad=0.16, h_pad=0.04)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    axes.set_xlim(*limits)
    for row, pair in enumerate(points.values()):
        for estimate, y, alpha in ((pair[0], row - 0.18, 0.45), (pair[1], row + 0.18, 1.0)):
            look = look_of(estimate.verdict)
            axes.plot([estimate.low, estimate.high], [y, y], color=look.colour, alpha=alpha, linewidth=1)
            outside = "<" if estimate.value < limits[0] else ">" if estimate.value > limits[1] else ""
            face = "white" if is_hollow(estimate.verdict) else look.colour
            place = min(max(estimate.value, limits[0]), limits[1])
            axes.plot(
                place, y, outside or look.marker, color=look.colour, markerfacecolor=face, alpha=alpha, clip_on=False
            )
    for row, value in enumerate(predicted):
        axes.plot(value, row + 0.18, "|", color="#000000", markersize=11, zorder=4)
    words = ["\n".join(f"{number_text(e.value, 1, signed=True)} {e.words()}" for e in pair) for pair in points.values()]
    label_rows(axes, [textwrap.fill(name, 34) for name in points], words)
    axes.set_xlabel(label)
    return figure


def _text(effect: Estimate) -> str:
    value = number_text(effect.value, 1, signed=True)
    return value if math.isnan(effect.low) else f"{value} [{', '.join(bounds_text(effect, 1, scale=1))}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown, and write it with its figure where `--out` says; 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("roots", type=Path, nargs="+", help="results roots with the language model's runs")
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS, help="what the testbed found")
    parser.add_argument("--out", type=Path, help="folder for transfer.md, .csv, .tex, .pdf and .png")
    options = parser.parse_args(arguments)
    pairs = pairs_of(options.roots, pd.read_csv(options.predictions))
    if not pairs:
        sys.stderr.write("no finished pair of the predicted comparisons there\n")
        return 2
    table = transfer_table(pairs)
    sys.stdout.write(to_markdown(table))
    if options.out is not None:
        write_table(table, options.out, "transfer")
        with figure_style("paper"):
            points = {pair.label: (_drawn(pair), pair.language) for pair in ordered(pairs)}
            scaled = [pair.scaled for pair in ordered(pairs) if not math.isnan(pair.scaled)]
            tick = "; tick: predicted" * bool(scaled)
            label = f"points of accuracy, 95 % intervals; faint: testbed (0.15M), full: SmolLM2 (135M){tick}"
            figure = transfer_plot(points, label, AXIS, scaled)
            save_figure(figure, options.out, "transfer", style="paper", formats=["pdf", "png"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
