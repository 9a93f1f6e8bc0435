"""Anybody's final scores judged as an experiment of ours is: differences with intervals that hold together, words, tables, a page.

The estimand is the experiment's own: seeds are the replicates, benchmarks are fixed. All comparisons in the mean over benchmarks are one
family; all comparisons on single benchmarks are another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import headline
from analysis.answer import Answer, Line
from analysis.effects import REFERENCE, Effect, effects_frame
from analysis.figures.drawing import figure_style, save
from analysis.figures.effects import forest_figure
from analysis.frames import groups
from analysis.html.page import Section, answer_html, document, list_html, table_html
from analysis.score_table import ABOVE, ScoreTable, read_file, score_table
from analysis.tables.table import Cell, Column, Table, numbers_text, renderings, write_texts
from analysis.tables.words import seeds_text
from analysis.terminal import answer_text
from harness.evaluation.metrics.names import HIGHER, LOWER, POINTS, Metric
from harness.statistics.aggregates import interquartile_mean, probability_of_improvement
from harness.statistics.intervals import ENOUGH, Difference, Estimate, Independent, Paired, judge_one, mean_interval
from harness.store.foreign_text import csv_text

MEAN = "mean over benchmarks"
SEED, NONE = "seed", "none"
_MOST_COLUMNS = 6  # benchmarks that the main table has beside their mean
_MOST_ROWS = 60  # comparisons that a figure has room for
_MOST_NOTES = 4  # rows of an arm that lack something
Key = tuple[str, str, str, str]  # group, arm, reference, benchmark


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
        ValueError: `better`, `pair` or `margin` is none; as a `TableError` for a table that cannot be read as scores.
    """
    if better not in (HIGHER, LOWER):
        raise ValueError(f"better={better!r} is neither {HIGHER} nor {LOWER}")
    if pair not in (SEED, NONE, None):
        raise ValueError(f"pair={pair!r} is neither {SEED} nor {NONE}")
    if margin is not None and not 0 < margin < math.inf:
        raise ValueError(f"margin={margin} must be a finite number above 0, in the unit that is shown")
    frame = source if isinstance(source, pd.DataFrame) else read_file(Path(source))
    stem = "scores" if isinstance(source, pd.DataFrame) else Path(source).stem
    return Judgement(score_table(frame, **columns), name or stem, margin, pair, better)


@dataclass(frozen=True)
class Judgement:
    """What a table of scores says. `margin` is in the shown unit, `better` is higher or lower."""

    table: ScoreTable
    name: str
    margin: float | None = None
    pair: str | None = None
    better: str = HIGHER

    # ---- scores ----

    @cached_property
    def metric(self) -> Metric:
        """The score with its unit and scale."""
        score = Metric("score", self.table.score, POINTS, better=self.better, kind="avg")
        if self.table.unit == "raw":
            return replace(score, unit="", digits=2)
        return replace(score, scale=100.0 if self.table.unit == "fraction" else 1.0)

    @cached_property
    def scores(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Group and arm → its scores, a row a seed and a column a benchmark."""
        rows = groups(self.table.rows, "group", "arm")
        return {(str(g), str(a)): rows[g, a].pivot(index="seed", columns="benchmark", values="value") for g, a in rows}

    @cached_property
    def arms(self) -> dict[str, list[str]]:
        """Group → its arms, in the order of the table."""
        arms: dict[str, list[str]] = {}
        for group, arm in self.scores:
            arms.setdefault(group, []).append(arm)
        return arms

    @cached_property
    def title(self) -> str:
        """The primary score: the mean over benchmarks where there are several."""
        return MEAN if len(self.table.benchmarks) > 1 else self.table.benchmarks[0]

    @property
    def _subject(self) -> str:
        return f"the {MEAN}" if self.title == MEAN else self.title

    @property
    def _direction(self) -> str:
        """``, lower is better``; that higher is goes without saying."""
        return f", {self.metric.direction}" if self.better == LOWER else ""

    @cached_property
    def benchmarks(self) -> dict[str, list[str]]:
        """Group → the benchmarks that all of its arms have; the primary score is made of them."""
        return {
            group: [name for name in self.table.benchmarks if all(name in self.scores[group, arm] for arm in arms)]
            for group, arms in self.arms.items()
        }

    @cached_property
    def matrices(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The scores [seeds, benchmarks] of the seeds that have all benchmarks of their group."""
        return {key: frame.reindex(columns=self.benchmarks[key[0]]).dropna() for key, frame in self.scores.items()}

    @cached_property
    def means(self) -> dict[tuple[str, str], pd.Series]:
        """The primary score by seed."""
        return {key: frame.mean(axis=1) for key, frame in self.matrices.items()}

    def _level(self, scores: pd.Series) -> Estimate:
        """The mean over seeds; the interval of a share holds no impossible value."""
        bounds = {"fraction": (0.0, 1.0), "percent": (0.0, 100.0)}
        return mean_interval(scores, within=bounds.get(self.table.unit, (-math.inf, math.inf)))

    # ---- differences ----

    @cached_property
    def comparisons(self) -> list[tuple[str, str, str]]:
        """Group, arm and the arm that it is compared with."""
        pairs = []
        for group, arms in self.arms.items():
            baseline = self.table.baselines[group]
            references = [arms[0], *arms] if baseline == ABOVE else [baseline] * len(arms)
            pairs += [(group, *pair) for pair in zip(arms, references, strict=False) if pair[0] != pair[1]]
        return pairs

    def _aligned(self, a: Any, b: Any) -> tuple[Any, Any, bool]:
        """The two as they are compared, and whether seed by seed: where both have the same seeds, or those that both have are asked for."""
        a, b = a.dropna(), b.dropna()
        shared = a.index.intersection(b.index)
        same = len(shared) == len(a) == len(b)
        paired = self.table.seeded and self.pair != NONE and (same or (self.pair == SEED and len(shared) > 0))
        return (a.loc[shared], b.loc[shared], True) if paired else (a, b, False)

    def _difference(self, a: pd.Series, b: pd.Series) -> Difference:
        first, other, paired = self._aligned(a, b)
        return Paired((first - other).tolist()) if paired else Independent(first.tolist(), other.tolist())

    def _judge(self, differences: Mapping[Key, Difference], family: int) -> list[Effect]:
        margin = None if self.margin is None else self.margin / self.metric.scale
        return [
            Effect(
                REFERENCE, self.metric, judge_one(difference, family=family, margin=margin), arm, reference,
                f"{arm} against {reference}", benchmark, group,
            )
            for (group, arm, reference, benchmark), difference in differences.items()
        ]  # fmt: skip

    @cached_property
    def _primary(self) -> dict[Key, Difference]:
        means = self.means
        return {(g, a, r, self.title): self._difference(means[g, a], means[g, r]) for g, a, r in self.comparisons}

    @cached_property
    def primary(self) -> list[Effect]:
        """Every comparison in the primary score; they hold together."""
        return self._judge(self._primary, max(1, len(self._primary)))

    @cached_property
    def alone(self) -> list[Effect]:
        """The same, each judged alone."""
        return self._judge(self._primary, 1)

    @cached_property
    def by_benchmark(self) -> list[Effect]:
        """Every comparison on every benchmark that both arms have; none with one benchmark. They hold together."""
        differences = {
            (group, arm, reference, name): self._difference(first[name], other[name])
            for group, arm, reference in (self.comparisons if len(self.table.benchmarks) > 1 else ())
            for first, other in [(self.scores[group, arm], self.scores[group, reference])]
            for name in self.table.benchmarks
            if name in first and name in other
        }
        return self._judge(differences, max(1, len(differences)))

    def interquartile(self, effect: Effect) -> float:
        """The difference in the interquartile mean over seeds and benchmarks (arXiv:2108.13264); no interval is valid at few seeds."""
        a, b, _ = self._aligned(self.matrices[effect.group, effect.arm], self.matrices[effect.group, effect.reference])
        return interquartile_mean(a.to_numpy()) - interquartile_mean(b.to_numpy()) if a.size and b.size else math.nan

    def improvement(self, effect: Effect) -> float:
        """The probability that a run of the arm scores better than one of the reference, over the benchmarks."""
        arms = (effect.arm, effect.reference) if self.better == HIGHER else (effect.reference, effect.arm)
        a, b = (self.matrices[effect.group, name].to_numpy() for name in arms)
        return probability_of_improvement(a, b) if a.size and b.size else math.nan

    @cached_property
    def effects(self) -> pd.DataFrame:
        """All effects as a tidy frame (docs/frames.md)."""
        return effects_frame([*self.primary, *self.by_benchmark])

    # ---- words ----

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
        fewest = min(line.estimate.seeds for line in lines)
        survey = f"But {fewest} seeds are a survey: where seeds collapse, fewer than {ENOUGH} are no evidence."
        caveats = [survey] if 1 < fewest < ENOUGH else []
        single = sum(line.estimate.seeds < 2 for line in lines)
        if single:
            caveats = [f"{single} of {len(lines)} have a single seed on a side: with one seed nothing is resolved."]
        return Answer(
            [f"On {self._subject}{self._direction}: {first}", *rest], self._small(lines), caveats, head, lines, ""
        )

    def _small(self, lines: Sequence[Line]) -> list[str]:
        """What the intervals are, and what they cost: how many exclude zero alone and together."""
        pairings = [isinstance(difference, Paired) for difference in self._primary.values()]
        some = (
            "paired where arms have the same seeds, else Welch's" if any(pairings) else "Welch's, seeds are independent"
        )
        test = "paired by seed" if all(pairings) else some
        sentences = [
            f"Intervals: 95 %, Student's t over training seeds, {test}; {seeds_text([line.estimate.seeds for line in lines])}."
        ]
        if self.margin is not None:
            sentences.append(f"Words: with the margin given, {self.margin:g} {self.metric.unit}".rstrip() + ".")
        if (size := len(self.primary)) > 1:
            alone = [effect for effect in self.alone if effect.estimate.resolved]
            together = sum(effect.estimate.resolved for effect in self.primary)
            sentences.append(
                f"All {size} hold together at 95 % (Šidák): {together} exclude zero, and {len(alone)} would alone, where "
                f"{0.05 * size:.1f} do by chance."
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
    def notes(self) -> list[str]:
        """How the table was read."""
        lines = [*self.table.notes, *(line for group in self.arms for line in self._uneven_notes(group))]
        if self.margin is not None and self.table.unit == "fraction" and self.margin < 1:
            lines.append(f"margin={self.margin:g} is in points; fractions are shown in per cent, so 3 means 0.03 of 1")
        return [f"{line[:1].upper()}{line[1:]}." for line in lines]

    def _uneven_notes(self, group: str) -> list[str]:
        """Arms whose seeds or benchmarks are not those of the others."""
        seeds = {arm: set(self.scores[group, arm].index) for arm in self.arms[group]}
        all_seeds, prefix = set().union(*seeds.values()), f"in {group}, " if group else ""
        lines = []
        for arm in self.arms[group] if self.table.seeded else ():
            if missing := sorted(all_seeds - seeds[arm], key=lambda seed: (isinstance(seed, str), seed)):
                more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
                lines.append(f"{prefix}arm {arm} lacks seed {', '.join(map(str, missing[:10]))}{more}")
        for arm in self.arms[group]:
            rows = self.scores[group, arm].reindex(columns=self.benchmarks[group]).isna()
            for seed, row in rows[rows.any(axis=1)].head(_MOST_NOTES).iterrows():
                lines.append(f"{prefix}arm {arm}, seed {seed} lacks {', '.join(map(str, row.index[row]))}")
        have = {name for arm in self.arms[group] for name in self.scores[group, arm]} - {*self.benchmarks[group]}
        absent = [name for name in self.table.benchmarks if name in have]
        return [*lines, *[f"{prefix}not in the mean, since an arm lacks it: {', '.join(absent)}"] * bool(absent)]

    # ---- tables, figure, page ----

    @cached_property
    def tables(self) -> list[Table]:
        """Scores with differences; with several benchmarks also scores and differences on each."""
        return [self._main_table(), *(self._benchmark_tables() if self.by_benchmark else ())]

    def _table(
        self, key: str, title: str, columns: Sequence[Column], cells: Mapping[tuple[str, str], Mapping[str, Cell]], *notes: str
    ) -> Table:  # fmt: skip
        """A table with a row for each arm that has cells, its group first where there are several."""
        labels = [Column("group", "group"), Column("arm", "arm")][len(self.arms) < 2 :]
        rows = [{"group": place[0], "arm": place[1], **cells[place]} for place in self.scores if place in cells]
        return Table(f"{self.name}{key}", f"{self.name}: {title}", [*labels, *columns], rows, notes, notes[:1])

    def _column(self, key: str, header: str, *, words: bool = False, signed: bool = False) -> Column:
        return Column(key, header, self.metric.digits, self.metric.scale, signed=words or signed, words=words)

    def _main_table(self) -> Table:
        effects = {
            (effect.group, effect.arm): (effect, one) for effect, one in zip(self.primary, self.alone, strict=True)
        }
        names = self.table.benchmarks if 1 < len(self.table.benchmarks) <= _MOST_COLUMNS else []
        cells: dict[tuple[str, str], Mapping[str, Cell]] = {}
        for key, means in self.means.items():
            row: dict[str, Cell] = {
                f"on:{name}": float(self.scores[key][name].mean()) for name in names if name in self.scores[key]
            }
            row |= {"score": self._level(means), "seeds": len(means)}
            if key in effects:
                effect, alone = effects[key]
                row |= {"delta": effect.estimate, "alone": alone.estimate}
                row |= {"iqm": self.interquartile(effect), "improvement": self.improvement(effect)}
            cells[key] = row
        several = len(self.primary) > 1
        reference = "arm above" if ABOVE in self.table.baselines.values() else "baseline"
        columns = [
            *(self._column(f"on:{name}", f"{name}{self.metric.percent}") for name in names),
            self._column("score", f"{self.title}{self.metric.percent} (95 % interval)"),
            self._column("delta", f"Δ to {reference} (95 % {'simultaneous' if several else 'interval'})", words=True),
            *([self._column("alone", "Δ judged alone", words=True)] if several else []),
            self._column("iqm", "Δ interquartile mean", signed=True),
            Column("improvement", "P(improvement) %", scale=100),
            Column("seeds", "seeds", digits=0),
        ]
        suffix = (
            f" Equivalent: it lies within the margin given, ±{self.margin:g} {self.metric.unit}." if self.margin else ""
        )
        side = "above" if self.better == HIGHER else "below"
        notes = [
            " ".join(self.answer.small),
            f"Higher, lower: the interval lies above or below zero. Not resolved: it contains zero.{suffix}",
            f"Interquartile mean: of all seeds and benchmarks together. P(improvement): a run of the arm scores {side} one of the "
            "reference (arXiv:2108.13264).",
        ]
        return self._table("", self.title, columns, cells, *notes, *self.notes)

    def _benchmark_tables(self) -> Iterable[Table]:
        names = self.table.benchmarks
        means = {key: {str(name): self._level(wide[name]) for name in wide} for key, wide in self.scores.items()}
        columns = [self._column(name, f"{name}{self.metric.percent}") for name in names]
        yield self._table(
            "-benchmarks", "scores by benchmark", columns, means, "Means over seeds, 95 % intervals, each alone."
        )
        deltas: dict[tuple[str, str], dict[str, Cell]] = {}
        for effect in self.by_benchmark:
            deltas.setdefault((effect.group, effect.arm), {})[effect.benchmark] = effect.estimate
        note = (
            f"All {len(self.by_benchmark)} differences of this table hold together at 95 % (Šidák); those in {self._subject} are a family "
            "of their own."
        )
        columns = [self._column(name, f"Δ {name}", words=True) for name in names]
        yield self._table("-benchmark-differences", "differences by benchmark", columns, deltas, note)

    def figure(self) -> Figure | None:
        """Every primary comparison with its interval, its word and the margin; None where nothing can be compared, or too much."""
        known_effects = [effect for effect in self.primary if not math.isnan(effect.estimate.value)]
        unit = f", {self.metric.unit}" if self.metric.unit else ""
        label = f"difference in {self._subject}{unit}{self._direction}"
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

    def text(self, width: int = 160) -> str:
        """The answer as a terminal shows it, and how the table was read."""
        return "\n".join([answer_text(self.answer, width), *self.notes])

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
