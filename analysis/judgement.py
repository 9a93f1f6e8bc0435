"""Anybody's final scores judged as an experiment of ours is: differences with intervals that hold together, words, tables, a page.

The estimand is the experiment's own: seeds are the replicates, benchmarks are fixed. All comparisons in the mean over benchmarks are one
family; all comparisons on single benchmarks are another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import headline
from analysis.answer import describe
from analysis.colours import FEW_SEEDS
from analysis.effects import REFERENCE, Effect, effects_frame
from analysis.figures.drawing import figure_style, save
from analysis.figures.effects import forest_figure
from analysis.frames import groups
from analysis.html.page import Section, document, list_html, picture, table_html
from analysis.tables.table import Cell, Column, Table, number_text, numbers_text, renderings, to_terminal, write_texts
from harness.evaluation.metrics.names import HIGHER, LOWER, POINTS, Metric
from harness.exchange.score_table import ABOVE, ScoreTable, read_file, score_table
from harness.statistics.aggregates import interquartile_mean, probability_of_improvement
from harness.statistics.bands import simultaneous_band
from harness.statistics.intervals import Difference, Independent, Paired, judge_one, mean_interval, tested_count
from harness.store.foreign_text import csv_text, markdown

MEAN = "mean over benchmarks"
_MOST_COLUMNS = 6  # benchmarks that the main table has beside their mean
_PASS = re.compile(r"pass@(\d+)", re.IGNORECASE)
Key = tuple[str, str, str, str]  # group, arm, reference, benchmark
Differences = Mapping[Key, Difference]
Cells = Mapping[tuple[str, str], Mapping[str, Cell]]  # by group and arm


def judge(
    source: pd.DataFrame | Path | str,
    *,
    name: str = "",
    margin: float | None = None,
    pair: bool = True,
    better: str = HIGHER,
    **columns: Any,
) -> Judgement:
    """Judge a table of scores.

    Args:
        source: a frame or a file (`harness.exchange.score_table.read_file`).
        name: of the tables and files; that of the file unless given.
        margin: the difference that does not matter, in the shown unit; None for none.
        pair: compare arms seed by seed where they share seeds; else as independent samples.
        better: ``higher`` or ``lower`` scores. Signs and words stay those of the numbers, and what is better is told beside them.
        columns: what `harness.exchange.score_table.score_table` takes: arm, seed, score, baseline, by, benchmark, where, unit.

    Raises:
        ValueError: `better` or `margin` is none; as a `TableError` for a table that cannot be read as scores.
    """
    if better not in (HIGHER, LOWER):
        raise ValueError(f"better={better!r} is neither {HIGHER} nor {LOWER}")
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
    pair: bool = True
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
        return {group: [arm for owner, arm in self.scores if owner == group] for group, _ in self.scores}

    @cached_property
    def ks(self) -> dict[int, str]:
        """Each k with its benchmark, where all benchmarks are Pass@k: no mean is taken over k. Else nothing."""
        matches = {name: _PASS.fullmatch(name) for name in self.table.benchmarks}
        ks = {int(match[1]): name for name, match in matches.items() if match}
        return dict(sorted(ks.items())) if len(ks) == len(matches) > 1 else {}

    @cached_property
    def title(self) -> str:
        """The primary score: the mean over benchmarks where there are several; of Pass@k that of the smallest k."""
        several = len(self.table.benchmarks) > 1
        return next(iter(self.ks.values())) if self.ks else MEAN if several else self.table.benchmarks[0]

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
        names = [self.title] if self.ks else self.table.benchmarks
        return {
            group: [name for name in names if all(name in self.scores[group, arm] for arm in arms)]
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

    def _align(self, a: pd.Series | pd.DataFrame, b: pd.Series | pd.DataFrame) -> tuple[Any, Any, bool]:
        """The two as they are compared, and whether seed by seed: where two seeds are shared, or one is all that a side has."""
        a, b = a.dropna(), b.dropna()
        index = a.index if a.index.equals(b.index) else a.index.intersection(b.index)
        paired = self.pair and self.table.seeded and (len(index) > 1 or (min(len(a), len(b)) == 1 and len(index) == 1))
        return (a.loc[index], b.loc[index], True) if paired and index is not a.index else (a, b, paired)

    def _difference(self, a: pd.Series, b: pd.Series) -> Difference:
        first, other, paired = self._align(a, b)
        return Paired((first - other).tolist()) if paired else Independent(first.tolist(), other.tolist())

    def _judge_family(self, differences: Differences, family: int | None = None) -> list[Effect]:
        """The effects of these comparisons as one family; of `family` where it is given."""
        size = family or tested_count(differences.values())
        margin = None if self.margin is None else self.margin / self.metric.scale
        effects = []
        for (group, arm, reference, benchmark), difference in differences.items():
            estimate = judge_one(difference, family=size, margin=margin)
            labels = f"{arm} against {reference}", benchmark, group
            effects.append(Effect(REFERENCE, self.metric, estimate, arm, reference, *labels))
        return effects

    @cached_property
    def _primary(self) -> dict[Key, Difference]:
        means = self.means
        return {(g, a, r, self.title): self._difference(means[g, a], means[g, r]) for g, a, r in self.comparisons}

    @cached_property
    def primary(self) -> list[Effect]:
        """Every comparison in the primary score; they hold together."""
        return self._judge_family(self._primary)

    @cached_property
    def by_benchmark(self) -> list[Effect]:
        """Every comparison on every benchmark that both arms have; none with one benchmark. They hold together."""
        several = len(self.table.benchmarks) > 1
        differences = {
            (group, arm, reference, name): self._difference(first[name], other[name])
            for group, arm, reference in (self.comparisons if several else ())
            for first, other in [(self.scores[group, arm], self.scores[group, reference])]
            for name in self.table.benchmarks
            if name in first and name in other
        }
        return self._judge_family(differences)

    def interquartile(self, effect: Effect) -> float:
        """The difference in the interquartile mean over seeds and benchmarks (arXiv:2108.13264); no interval is valid at few seeds."""
        a, b, _ = self._align(self.matrices[effect.group, effect.arm], self.matrices[effect.group, effect.reference])
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

    @cached_property
    def families(self) -> dict[str, list[Effect]]:
        """The primary comparisons judged alone, in the family of their group, and all together."""
        parts = [{key: value for key, value in self._primary.items() if key[0] == group} for group in self.arms]
        group_effects = [effect for part in parts for effect in self._judge_family(part)]
        of_groups = {"in the family of their group": group_effects} if len(self.arms) > 1 else {}
        return {"alone": self._judge_family(self._primary, 1), **of_groups, "all together": self.primary}

    # ---- words ----

    @cached_property
    def sentences(self) -> list[str]:
        """The headline, what the family costs, where Pass@k parts, and each word."""
        effects = [effect for effect in self.primary if not math.isnan(effect.estimate.value)]
        if not effects and all(math.isnan(effect.estimate.value) for effect in self.by_benchmark):
            return ["No two arms have scores to compare."]
        if not effects:
            reason = (
                "No seed has all benchmarks" if any(self.benchmarks.values()) else "No benchmark is common to all arms"
            )
            return [f"{reason}, so there is no mean; the differences stand in the table by benchmark."]
        references = set(self.table.baselines.values())
        one = len(references) == 1 and ABOVE not in references
        rows = [headline.Row(_name(e, arm_alone=one), e.estimate, self.metric) for e in effects]
        wording = headline.Wording(*(("arm", references.pop()) if one else ("comparison", "")), identifiers=True)
        head = f"On {self._subject}{self._direction}: {' '.join(headline.sentences(rows, wording))}"
        lines = (f"- {_name(effect)}: {describe(effect.estimate, self.metric)}." for effect in effects)
        return [head, *self._cost(effects), *self._open_effects(effects), *self._k_ranges(), *lines]

    def _cost(self, effects: Sequence[Effect]) -> list[str]:
        """How many intervals exclude zero alone and together, and how much wider the family makes them."""
        family = [effect for effect in effects if not math.isnan(effect.estimate.low)]
        if len(family) < 2:
            return []
        resolved_effects = {name: [e for e in part if e.estimate.resolved] for name, part in self.families.items()}
        counts = ", ".join(f"{name} {len(part)}" for name, part in resolved_effects.items())
        widths = {_name(e): e.estimate.high - e.estimate.low for e in self.families["alone"]}
        factor = np.median([(e.estimate.high - e.estimate.low) / widths[_name(e)] for e in family])
        together = set(map(_name, resolved_effects["all together"]))
        losses = [effect for effect in resolved_effects["alone"] if _name(effect) not in together][:3]
        values = (f"{_name(e)} {number_text(e.shown_estimate.value, self.metric.digits, signed=True)}" for e in losses)
        return [
            f"Intervals without zero, of {len(family)}: {counts}; where nothing differs, {0.05 * len(family):.1f} alone are expected. "
            f"Holding together makes an interval {factor:.1f} times as wide."
            + (f" Alone only: {'; '.join(values)}." if losses else "")
        ]

    def _open_effects(self, effects: Sequence[Effect]) -> list[str]:
        """Where seeds are too few, or do not vary."""
        lines, single = [], sum(effect.estimate.seeds < 2 for effect in effects)
        if single:
            lines.append(f"{single} of {len(effects)} have a single seed on a side: with one seed nothing is resolved.")
        elif effects and (fewest := min(effect.estimate.seeds for effect in effects)) < FEW_SEEDS:
            lines.append(f"But {_seeds(fewest)} are too few to trust an interval.")
        if flat := [_name(e) for e in effects if e.estimate.seeds > 1 and math.isnan(e.estimate.low)]:
            lines.append(f"Differences do not vary over the seeds, so there is no interval: {', '.join(flat[:3])}.")
        return lines

    def _k_ranges(self) -> list[str]:
        """At which k the Pass@k of two arms part; bands hold together over all k of the table."""
        lines = []
        for group, arm, reference in self.comparisons if self.ks else ():
            ours, theirs = self.scores[group, arm], self.scores[group, reference]
            ks = {k: name for k, name in self.ks.items() if name in ours and name in theirs}
            a, b, paired = self._align(ours[[*ks.values()]], theirs[[*ks.values()]])
            arrays = a.to_numpy(), b.to_numpy()
            band = simultaneous_band(*([np.subtract(*arrays)] if paired else arrays))
            sides = {"higher": band.low_K > 0, "lower": band.high_K < 0}
            ranges = {word: ", ".join(map(str, np.array([*ks])[mask])) for word, mask in sides.items() if mask.any()}
            fallback = "no k at which they part" if np.isfinite(band.low_K).any() else "no band, for want of seeds"
            ranges_text = "; ".join(f"{word} at k {text}" for word, text in ranges.items()) or fallback
            comparison = f"{f'{group}: ' * bool(group)}{arm} against {reference}"
            lines.append(f"Pass@k, {comparison}: {ranges_text} (one band over all k).")
        return lines

    @cached_property
    def notes(self) -> list[str]:
        """What the intervals are, and how the table was read."""
        pairings = [isinstance(difference, Paired) for difference in self._primary.values()]
        test = "paired where seeds are shared" if any(pairings) else "of independent seeds (Welch)"
        size = max((effect.estimate.family for effect in self.primary), default=1)
        family = f"; simultaneous for {size} (Šidák)" if size > 1 else ""
        intervals = f"95 %, Student's t over training seeds, {'paired by seed' if all(pairings) else test}{family}"
        uneven = [line for group in self.arms for line in self._uneven_notes(group)]
        lines = [
            f"intervals: {intervals}; benchmarks fixed{self._direction}",
            *self._margin_notes(),
            *self.table.notes,
            *uneven,
        ]
        return [f"{line[:1].upper()}{line[1:]}." for line in lines]

    def _margin_notes(self) -> list[str]:
        """The margin in the shown unit, and where it may be meant in another."""
        if self.margin is None:
            return []
        unit = self.metric.unit.removesuffix("s") if self.margin == 1 else self.metric.unit
        may_be_fraction = self.table.unit == "fraction" and self.margin < 1
        hint = "; fractions are shown in per cent, so 3 means 0.03 of 1" if may_be_fraction else ""
        return [f"margin: {self.margin:g} {unit}{hint}"]

    def _uneven_notes(self, group: str) -> list[str]:
        """Arms whose seeds or benchmarks are not those of the others."""
        seeds = {arm: set(self.scores[group, arm].index) for arm in self.arms[group]}
        all_seeds, prefix = set().union(*seeds.values()), f"in {group}, " if group else ""
        missing = {
            arm: sorted(all_seeds - own, key=lambda seed: (isinstance(seed, str), seed))  # numbers before names
            for arm, own in seeds.items()
            if self.table.seeded and all_seeds - own
        }
        lines = [f"{prefix}arm {arm} lacks seed {', '.join(map(str, numbers))}" for arm, numbers in missing.items()]
        for arm in self.arms[group]:
            rows = self.scores[group, arm].reindex(columns=self.benchmarks[group]).isna()
            short = {seed: list(row.index[row]) for seed, row in rows.iterrows() if row.any()}
            lacks = [f"seed {seed} lacks {', '.join(map(str, names))}" for seed, names in short.items()]
            lines += [f"{prefix}arm {arm}, {text}" for text in lacks[:4]]
        for _, arm, reference in [pair for pair in self.comparisons if pair[0] == group]:
            ours, _, paired = self._align(self.means[group, arm], self.means[group, reference])
            if paired and len(ours) < min(len(self.means[group, arm]), len(self.means[group, reference])):
                lines.append(f"{prefix}{arm} against {reference}: over the {len(ours)} seeds that both have")
        have = {name for arm in self.arms[group] for name in self.scores[group, arm]} - {*self.benchmarks[group]}
        absent = [] if self.ks else [name for name in self.table.benchmarks if name in have]
        return [*lines, *[f"{prefix}not in the mean, since an arm lacks it: {', '.join(absent)}"] * bool(absent)]

    # ---- tables, figure, page ----

    @cached_property
    def tables(self) -> list[Table]:
        """Scores with differences; with several benchmarks also scores and differences on each; other readings."""
        return [self._main_table(), *(self._benchmark_tables() if self.by_benchmark else ()), self._robust_table()]

    def _table(self, key: str, title: str, columns: Sequence[Column], cells: Cells, *notes: str) -> Table:
        """A table with a row for each arm that has cells, its group first where there are several."""
        labels = [Column("group", "group"), Column("arm", "arm")][len(self.arms) < 2 :]
        rows = [{"group": place[0], "arm": place[1], **cells[place]} for place in self.scores if place in cells]
        return Table(f"{self.name}{key}", f"{self.name}: {title}", [*labels, *columns], rows, notes, notes[:1])

    def _column(self, key: str, header: str, *, words: bool = False) -> Column:
        return Column(key, header, digits=self.metric.digits, scale=self.metric.scale, signed=words, words=words)

    def _main_table(self) -> Table:
        effects = {(effect.group, effect.arm): effect for effect in self.primary}
        cells: dict[tuple[str, str], Mapping[str, Cell]] = {}
        names = self.table.benchmarks if 1 < len(self.table.benchmarks) <= _MOST_COLUMNS else []
        for key, means in self.means.items():
            effect = effects.get(key)
            delta = None if effect is None else effect.estimate
            row = {f"on:{name}": float(self.scores[key][name].mean()) for name in names if name in self.scores[key]}
            cells[key] = {**row, "score": mean_interval(means), "delta": delta, "seeds": len(means)}
        size = max((effect.estimate.family for effect in self.primary), default=1)
        reference = "arm above" if ABOVE in self.table.baselines.values() else "baseline"
        columns = [
            *(self._column(f"on:{name}", f"{name}{self.metric.percent}") for name in names),
            self._column("score", f"{self.title}{self.metric.percent} (95 % interval)"),
            self._column("delta", f"Δ to {reference} (95 % {'simultaneous' if size > 1 else 'interval'})", words=True),
            Column("seeds", "seeds", digits=0),
        ]
        suffix = f" Equivalent: it does, and lies within ±{self.margin:g} {self.metric.unit}." if self.margin else ""
        words = f"Higher, lower: the interval lies above or below zero. Not resolved: it contains zero.{suffix}"
        return self._table("", self.title, columns, cells, *self.notes, words)

    def _benchmark_tables(self) -> Iterable[Table]:
        names, percent = self.table.benchmarks, self.metric.percent
        means = {key: {str(name): mean_interval(wide[name]) for name in wide} for key, wide in self.scores.items()}
        columns = [self._column(name, f"{name}{percent}") for name in names]
        note = "Means over seeds, 95 % intervals, each by itself."
        yield self._table("-benchmarks", "scores by benchmark", columns, means, note)
        deltas: dict[tuple[str, str], dict[str, Cell]] = {}
        for effect in self.by_benchmark:
            deltas.setdefault((effect.group, effect.arm), {})[effect.benchmark] = effect.estimate
        size = self.by_benchmark[0].estimate.family
        note = f"All {size} differences of this table hold together at 95 % (Šidák); those in {self._subject} are a family of their own."
        columns = [self._column(name, f"Δ {name}", words=True) for name in names]
        yield self._table("-benchmark-differences", "differences by benchmark", columns, deltas, note)

    def _robust_table(self) -> Table:
        cells: dict[tuple[str, str], Mapping[str, Cell]] = {}
        for effect in self.families["alone"]:
            readings: dict[str, Cell] = {"against": effect.reference, "alone": effect.estimate}
            readings |= {"iqm": self.interquartile(effect), "improvement": self.improvement(effect)}
            cells[effect.group, effect.arm] = readings
        columns = [
            Column("against", "against"),
            self._column("alone", "Δ judged alone (95 % interval)", words=True),
            Column("iqm", "Δ interquartile mean", digits=self.metric.digits, scale=self.metric.scale, signed=True),
            Column("improvement", "P(improvement) %", scale=100),
        ]
        note = (
            "Alone: corrected for nothing. Interquartile mean: of all seeds and benchmarks together; it has no interval at few seeds. "
            f"P(improvement): a run of the arm scores {'above' if self.better == HIGHER else 'below'} one of the reference, mean over "
            "benchmarks (arXiv:2108.13264)."
        )
        return self._table("-robust", "other readings", columns, cells, note)

    def figure(self, *, wide: bool = True) -> Figure | None:
        """Every primary comparison with its interval, its word and the margin; None where nothing can be compared."""
        known_effects = [effect for effect in self.primary if not math.isnan(effect.estimate.value)]
        unit = f", {self.metric.unit}" if self.metric.unit else ""
        label = f"difference in {self._subject}{unit}{self._direction}"
        return forest_figure(known_effects, label, self.margin, wide=wide) if known_effects else None

    def page(self) -> str:
        """The judgement as one HTML file."""
        head, *rest = self.sentences
        words = [line for line in rest if line.startswith("- ")]
        lines = [line for line in rest if line not in words]
        captions = "Differences, intervals and words.", "All intervals hold together at 95 %."
        with figure_style("screen"):
            figure_html = "" if (figure := self.figure(wide=False)) is None else picture(figure, *captions)
        parts = [f'<p class="headline">{escape(head)}</p>', list_html(lines, len(lines), ""), figure_html]
        parts += [table_html(self.tables[0], fold_notes=True), list_html(words, 0, "Every comparison in words")]
        sections = [
            Section("answer", "Answer", "".join(parts)),
            Section("tables", "Further tables", "".join(map(table_html, self.tables[1:])), folded=True),
            Section("reading", "How the table was read", list_html(self.notes, len(self.notes), ""), folded=True),
        ]
        return document(self.name, "", sections, {}, ())

    def text(self, width: int = 160) -> str:
        """The main table and the sentences as a terminal shows them."""
        lines = [line for line in self.sentences if not line.startswith("- ")]
        return "\n".join([to_terminal(replace(self.tables[0], notes=()), width), *lines, *self.notes])

    def write(self, folder: Path, *, formats: Sequence[str] = ("pdf",), columns: Sequence[str] = ()) -> list[Path]:
        """Write tables, figure, numbers, frames, sentences and page; returns their paths. `columns` are those of LaTeX tables."""
        texts = renderings(self.tables, columns) | {
            "numbers.tex": numbers_text(self.tables, {}),
            "answer.md": "\n".join(map(markdown, self.sentences)) + "\n",
            "effects.csv": csv_text(self.effects),
            "scores.csv": csv_text(self.table.rows),
            "report.html": self.page(),
        }
        with figure_style("paper"):
            figure_paths = [] if (figure := self.figure()) is None else save(figure, folder, "differences", formats)
        return [*write_texts(folder, texts), *figure_paths]


def _name(effect: Effect, *, arm_alone: bool = False) -> str:
    name = effect.arm if arm_alone else effect.comparison
    return f"{effect.group}: {name}" if effect.group else name


def _seeds(count: float) -> str:
    return "more than 10,000 seeds" if math.isinf(count) else f"{count:.0f} seeds"
