"""Anybody's final scores judged as an experiment of ours is: an answer in words, tables, a figure, a page."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import headline
from analysis.answer import Answer
from analysis.figures.drawing import figure_style, save
from analysis.figures.effects import forest_figure
from analysis.html.page import Section, answer_html, document, list_html, table_html
from analysis.judged_scores import NONE, SEED, JudgedScores
from analysis.line import Line
from analysis.score_table import ABOVE, UNITS, read_file, score_table
from analysis.tables.judged import judged_tables
from analysis.tables.table import Table, numbers_text, renderings, write_texts
from analysis.tables.words import seeds_text
from analysis.terminal import answer_text
from harness.configuration.error import require
from harness.configuration.numbers import format_amount
from harness.evaluation.metrics.names import HIGHER, LOWER
from harness.statistics.intervals import Paired, judge_one, survey_text
from harness.store.foreign_text import csv_text

_MOST_ROWS = 60  # comparisons that a figure has room for


def require_margin(margin: float | None) -> None:
    """Raises `ValueError` for a margin, in the unit that is shown, that is no finite number above 0."""
    if margin is not None and not 0 < margin < math.inf:
        raise ValueError(f"margin={margin} must be a finite number above 0, in the unit that is shown")


def judge(
    source: pd.DataFrame | Path | str,
    *,
    name: str = "",
    margin: float | None = None,
    pair: str | None = None,
    better: str = HIGHER,
    **columns: Any,
) -> Judgement:
    """Judge a table of scores.

    Args:
        source: a frame or a file (`analysis.score_table.read_file`).
        name: of the tables and files; that of the file unless given.
        margin: the difference that does not matter, in the shown unit; None for none.
        pair: ``seed`` compares arms over the seeds that both have, ``none`` as independent samples; None: seed by seed where both have the
            same seeds, else as independent samples.
        better: ``higher`` or ``lower`` scores. Signs and words stay those of the numbers, and what is better is told beside them.
        columns: what `analysis.score_table.score_table` takes: arm, seed, score, baseline, by, benchmark, where, unit, evaluation_seed.

    Raises:
        ValueError: `better`, `pair`, `unit` or `margin` is none; as a `TableError` for a table that cannot be read as scores.
    """
    require("better", better, (HIGHER, LOWER))
    require("pair", pair or SEED, (SEED, NONE))
    require("unit", columns.get("unit") or UNITS[0], UNITS)
    require_margin(margin)
    frame = source if isinstance(source, pd.DataFrame) else read_file(Path(source))
    stem = "scores" if isinstance(source, pd.DataFrame) else Path(source).stem
    return Judgement(score_table(frame, **columns), name or stem, margin, pair, better)


@dataclass(frozen=True)
class Judgement(JudgedScores):
    """What a table of scores says."""

    @cached_property
    def answer(self) -> Answer:
        """What the table says, in the form of an experiment's answer."""
        references = set(self.table.baselines.values())
        one = len(references) == 1 and ABOVE not in references
        lines = [
            Line(f"{e.group}: {name}" if e.group else name, e.estimate, self.metric)
            for e in self.primary
            if not math.isnan(e.estimate.value)
            for name in [e.arm if one else e.comparison]
        ]
        if not lines:
            return Answer([self._nothing()], [], [], "comparison", [], "")
        against = references.pop() if one else ""
        wording = headline.Wording("arm" if one else "comparison", against, identifiers=True)
        first, *rest = headline.sentences(lines, wording)
        head = f"against {against}" if one else "comparison"
        single = sum(line.estimate.seeds < 2 for line in lines)
        lonely = f"{single} of {len(lines)} {'has' if single == 1 else 'have'} a single seed on a side: with one seed nothing is resolved."
        survey = survey_text(line.estimate.seeds for line in lines)
        caveats = [*[lonely] * bool(single), *[f"But {survey}"] * bool(survey)]
        sentences = [f"On {self.subject}{self.direction}: {first}", *rest]
        return Answer(sentences, self._small(lines), caveats, head, lines, "")

    def _small(self, lines: Sequence[Line]) -> list[str]:
        """What the intervals are, and what they cost: how many exclude zero alone and together."""
        pairings = [isinstance(difference, Paired) for difference in self.differences.values()]
        where = "paired where arms have the same seeds, else " * any(pairings)
        test = "paired by seed" if all(pairings) else f"{where}Welch's, of independent seeds"
        sentences = [
            f"Intervals: 95 %, Student's t over training seeds, {test}; {seeds_text([line.estimate.seeds for line in lines])}."
        ]
        if self.margin is not None:
            sentences.append(f"Verdicts: with the margin given, {format_amount(self.margin, self.metric.unit)}.")
        if (size := len(self.primary)) > 1:
            alone = sum(judge_one(difference).resolved for difference in self.differences.values())
            together = sum(effect.estimate.resolved for effect in self.primary)
            sentences.append(
                f"All {size} are simultaneous at 95 % (Šidák). Without zero: {together}; of single intervals {alone}, and "
                f"{0.05 * size:.2g} by chance alone."
            )
        if flat := [line.name for line in lines if line.estimate.seeds > 1 and math.isnan(line.estimate.low)]:
            sentences.append(f"Differences do not vary over the seeds, so there is no interval: {', '.join(flat[:3])}.")
        return sentences

    def _nothing(self) -> str:
        if all(math.isnan(effect.estimate.value) for effect in self.by_benchmark):
            return "No two arms have scores to compare."
        some = any(self.benchmarks.values())
        reason = "No seed has all benchmarks" if some else "No benchmark is common to all arms"
        return f"{reason}, so there is no mean; the differences stand in the table by benchmark."

    @property
    def sentences(self) -> list[str]:
        """The answer in sentences."""
        return self.answer.sentences

    @cached_property
    def tables(self) -> list[Table]:
        """Scores with differences; with several benchmarks also scores and differences on each."""
        return judged_tables(self, " ".join(self.answer.small))

    def figure(self) -> Figure | None:
        """Every primary comparison with its interval, its word and the margin; None where nothing can be compared, or too much."""
        known_effects = [effect for effect in self.primary if not math.isnan(effect.estimate.value)]
        unit = f", {self.metric.unit}" if self.metric.unit else ""
        label = f"difference in {self.subject}{unit}{self.direction}"
        drawn = 0 < len(known_effects) <= _MOST_ROWS
        return forest_figure(known_effects, label, self.margin) if drawn else None

    def page(self) -> str:
        """The judgement as one HTML file."""
        sections = [
            Section("answer", "Answer", answer_html(self.answer)),
            Section("tables", "Tables", "".join(table_html(table, fold_notes=True) for table in self.tables)),
            Section("reading", "How the table was read", list_html(self.notes, len(self.notes), ""), folded=True),
        ]
        return document(self.name, "", sections, {}, ())

    def text(self) -> str:
        """The answer as this terminal shows it, and how the table was read."""
        width = shutil.get_terminal_size((160, 24)).columns
        return "\n".join([answer_text(self.answer, width), *(textwrap.fill(note, width) for note in self.notes)])

    def write(self, folder: Path, *, formats: Sequence[str] = ("pdf",), columns: Sequence[str] = ()) -> list[Path]:
        """Write tables, figure, numbers, frames, answer and page; returns their paths. `columns` are those of LaTeX tables.

        Tables of the same name that were judged before are replaced: a paper never has half of one judgement.
        """
        texts = renderings(self.tables, columns) | {
            "numbers.tex": numbers_text(self.tables, {}),
            "answer.md": f"{self.answer.markdown}\n\n" + "".join(f"- {line}\n" for line in self.notes),
            "effects.csv": csv_text(self.effects),
            "scores.csv": csv_text(self.table.rows),
            "report.html": self.page(),
        }
        for key in ("-benchmarks", "-benchmark-differences"):
            for suffix in ("md", "csv", "tex"):
                (folder / f"{self.name}{key}.{suffix}").unlink(missing_ok=True)
        with figure_style("paper"), np.errstate(all="ignore"):
            figure_paths = [] if (figure := self.figure()) is None else save(figure, folder, "differences", formats)
        return [*write_texts(folder, texts), *figure_paths]
