"""Anybody's final scores judged as an experiment of ours is: differences with intervals that hold together, words, tables, a page.

The estimand is the experiment's own: seeds are the replicates, benchmarks are fixed. All comparisons in the mean over benchmarks are one
family; all comparisons on single benchmarks are another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.answer import counted, describe
from analysis.effects import REFERENCE, Effect, effects_frame
from analysis.figures.drawing import WRITTEN_FORMATS, save, styled
from analysis.figures.effects import forest_figure
from analysis.html.page import Section, document, listed, picture, table_html
from analysis.score_table import ABOVE, ScoreTable, read_file, score_table
from analysis.tables.table import Cell, Column, Table, number_text, numbers_text, renderings, to_terminal
from harness.evaluation.metrics.names import HIGHER, POINTS, Metric
from harness.statistics.aggregates import interquartile_mean, probability_of_improvement, seeds_to_decide, sign_flip_p
from harness.statistics.intervals import Difference, Estimate, Independent, Paired, judge_one, mean_interval
from harness.store.atomic import write_file

MEAN, IQM = "mean over benchmarks", "interquartile mean"
_SENTENCES = 8
Floats = np.ndarray[Any, np.dtype[np.float64]]


def judge(
    source: pd.DataFrame | Path | str, *, name: str = "", margin: float | None = None, pair: bool = True, **columns: Any
) -> Judgement:
    """Judge a table of scores.

    Args:
        source: a frame or a file (`analysis.score_table.read_file`).
        name: of the tables and files; that of the file unless given.
        margin: the difference that does not matter, in the shown unit; None for none.
        pair: compare arms seed by seed where they share seeds; else as independent samples.
        columns: what `analysis.score_table.score_table` takes: arm, seed, score, baseline, by, benchmark, where, unit.

    Raises:
        TableError: a table that cannot be read as scores.
    """
    frame = source if isinstance(source, pd.DataFrame) else read_file(Path(source))
    stem = "scores" if isinstance(source, pd.DataFrame) else Path(source).stem
    return Judgement(score_table(frame, **columns), name or stem, margin, pair)


@dataclass(frozen=True)
class Judgement:
    """What a table of scores says. `margin` is in the shown unit."""

    table: ScoreTable
    name: str
    margin: float | None = None
    pair: bool = True

    @cached_property
    def metric(self) -> Metric:
        """The score with its unit and scale."""
        unit = self.table.unit
        points = {"unit": POINTS, "scale": 100.0} if unit == "fraction" else {"unit": POINTS}
        return Metric(
            "score",
            self.table.score,
            better=HIGHER,
            kind="avg",
            **(points if unit != "raw" else {"unit": "", "digits": 2}),
        )

    @cached_property
    def title(self) -> str:
        """Name of the primary score: the mean over benchmarks where there are several."""
        return MEAN if len(self.table.benchmarks) > 1 else f"{self.table.benchmarks[0]}"

    @cached_property
    def scores(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Group and arm → its scores, a row a seed and a column a benchmark."""
        parts = self.table.rows.groupby(["group", "arm"], sort=False)
        return {
            (str(g), str(a)): part.pivot(index="seed", columns="benchmark", values="value") for (g, a), part in parts
        }

    @cached_property
    def arms(self) -> dict[str, list[str]]:
        """Group → its arms, in the order of the table."""
        arms: dict[str, list[str]] = {}
        for group, arm in self.scores:
            arms.setdefault(group, []).append(arm)
        return arms

    @cached_property
    def shared(self) -> dict[str, list[str]]:
        """Group → the benchmarks that all of its arms have; the mean is taken over them."""
        have = {group: [set(self.scores[group, arm].columns) for arm in arms] for group, arms in self.arms.items()}
        names = self.table.benchmarks
        return {group: [name for name in names if all(name in own for own in sets)] for group, sets in have.items()}

    @cached_property
    def whole(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The scores of the seeds that have all shared benchmarks."""
        return {key: frame.reindex(columns=self.shared[key[0]]).dropna() for key, frame in self.scores.items()}

    @cached_property
    def means(self) -> dict[tuple[str, str], pd.Series]:
        """Mean over the shared benchmarks by seed, of the seeds that have all of them."""
        return {key: frame.mean(axis=1) for key, frame in self.whole.items()}

    @cached_property
    def comparisons(self) -> list[tuple[str, str, str]]:
        """Group, arm and the arm that it is compared with."""
        pairs = []
        for group in self.arms:
            arms, baseline = self.arms[group], self.table.baselines[group]
            others = (
                zip(arms[1:], arms, strict=False)
                if baseline == ABOVE
                else ((arm, baseline) for arm in arms if arm != baseline)
            )
            pairs += [(group, arm, reference) for arm, reference in others]
        return pairs

    def _difference(self, a: pd.Series, b: pd.Series) -> Difference:
        """Paired where both have at least two seeds in common, or one each; else independent."""
        a, b = a.dropna(), b.dropna()
        both = a.index.intersection(b.index)
        if self.pair and self.table.seeded and (len(both) > 1 or (min(len(a), len(b)) < 2 and len(both))):
            return Paired((a[both] - b[both]).tolist())
        return Independent(a.tolist(), b.tolist())

    def _judged(
        self, differences: Mapping[tuple[str, str, str, str], Difference], family: int | None = None
    ) -> list[Effect]:
        """The effects of these comparisons (group, arm, reference, benchmark) as one family; of `family` where it is given."""
        testable = sum(_testable(difference) for difference in differences.values())
        margin = None if self.margin is None else self.margin / self.metric.scale
        effects = []
        for (group, arm, reference, benchmark), difference in differences.items():
            estimate = judge_one(difference, family=family or max(1, testable), margin=margin)
            p = sign_flip_p(difference.differences) if isinstance(difference, Paired) else math.nan
            text = f"{arm} against {reference}"
            effects.append(
                Effect(REFERENCE, self.metric, estimate, arm, reference, text, benchmark, group, sign_flip_p=p)
            )
        return effects

    @cached_property
    def _primary(self) -> dict[tuple[str, str, str, str], Difference]:
        return {
            (g, a, r, self.title): self._difference(self.means[g, a], self.means[g, r]) for g, a, r in self.comparisons
        }

    @cached_property
    def primary(self) -> list[Effect]:
        """Every comparison in the mean over benchmarks (or on the only one); they hold together."""
        return self._judged(self._primary)

    @cached_property
    def by_benchmark(self) -> list[Effect]:
        """Every comparison on every benchmark that both arms have; none with one benchmark. They hold together."""
        if len(self.table.benchmarks) < 2:
            return []
        return self._judged(
            {
                (group, arm, reference, name): self._difference(first[name], other[name])
                for group, arm, reference in self.comparisons
                for first, other in [(self.scores[group, arm], self.scores[group, reference])]
                for name in self.table.benchmarks
                if name in first and name in other
            }
        )

    @cached_property
    def robust(self) -> list[Effect]:
        """Every comparison in the interquartile mean over seeds and benchmarks (arXiv:2108.13264): its jackknife over seeds, Student's t."""
        return self._judged({(g, a, r, IQM): self._jackknife(g, a, r) for g, a, r in self.comparisons})

    def _jackknife(self, group: str, arm: str, reference: str) -> Difference:
        """Pseudo-values of the difference in the interquartile mean, one a seed; of each arm where they are not paired."""
        a, b = self.whole[group, arm], self.whole[group, reference]
        if isinstance(self._primary[group, arm, reference, self.title], Paired):
            both = a.index.intersection(b.index)
            first, other = (_pseudo_values(part.loc[both].to_numpy()) for part in (a, b))
            return Paired((first - other).tolist())
        return Independent(_pseudo_values(a.to_numpy()).tolist(), _pseudo_values(b.to_numpy()).tolist())

    def improvement(self, group: str, arm: str, reference: str) -> float:
        """The probability that a run of the arm scores above one of the reference, over the benchmarks."""
        a, b = (self.whole[group, name].to_numpy() for name in (arm, reference))
        return probability_of_improvement(a, b) if len(a) and len(b) else math.nan

    @cached_property
    def effects(self) -> pd.DataFrame:
        """All effects as a tidy frame (docs/frames.md)."""
        return effects_frame([*self.primary, *self.by_benchmark, *self.robust])

    @cached_property
    def families(self) -> dict[str, list[Effect]]:
        """The primary comparisons judged alone, in the family of their group, and all together."""
        sizes = Counter(effect.group for effect in self.primary if _testable(self._primary[_key(effect)]))
        families = {"alone": self._judged(self._primary, 1)}
        if len(self.arms) > 1:
            groups = {group: {key: value for key, value in self._primary.items() if key[0] == group} for group in sizes}
            families["in the family of their group"] = [
                effect for group, part in groups.items() for effect in self._judged(part)
            ]
        return {**families, "all together": self.primary}

    # ---- words ----

    @cached_property
    def sentences(self) -> list[str]:
        """The headline, what the family costs, each word, and how many seeds would decide what is open."""
        known = [effect for effect in self.primary if not math.isnan(effect.estimate.value)]
        if not known:
            return ["No two arms have scores to compare."]
        references = dict.fromkeys(self.table.baselines.values())
        to = "the arm above" if ABOVE in references else " or ".join(references)
        estimates = [effect.estimate for effect in known]
        head = f"{counted(estimates, self.metric, 'difference', f' to {to} in the {self.title}')}."
        return [head, *self._cost(known), *self._open(known), *map(self._said, known)]

    def _said(self, effect: Effect) -> str:
        group = f"{effect.group}: " if effect.group else ""
        return f"- {group}{effect.comparison}: {describe(effect.estimate, self.metric)}."

    def _cost(self, known: Sequence[Effect]) -> list[str]:
        """How many intervals exclude zero alone and together, and how much wider the family makes them."""
        tested = [effect for effect in known if not math.isnan(effect.estimate.low)]
        if len(tested) < 2:
            return []
        counts = {name: [effect for effect in part if effect.estimate.resolved] for name, part in self.families.items()}
        texts = ", ".join(f"{name} {len(part)}" for name, part in counts.items())
        alone = {_key(effect): effect.estimate for effect in self.families["alone"]}
        ratios = [
            _width(effect.estimate) / _width(alone[_key(effect)])
            for effect in tested
            if _width(alone[_key(effect)]) > 0
        ]
        wider = f" Holding together makes an interval {np.median(ratios):.1f} times as wide." if ratios else ""
        single = [
            self._named(effect)
            for effect in counts["alone"][:3]
            if not any(_key(effect) == _key(other) for other in counts["all together"])
        ]
        lost = f" Alone only: {'; '.join(single)}." if single else ""
        chance = f"{0.05 * len(tested):.1f} alone by chance"
        return [
            f"Intervals without zero, of {len(tested)}: {texts} (expected where nothing differs: {chance}).{wider}{lost}"
        ]

    def _named(self, effect: Effect) -> str:
        return f"{f'{effect.group}, ' if effect.group else ''}{effect.comparison} {number_text(effect.shown.value, self.metric.digits, signed=True)}"

    def _open(self, known: Sequence[Effect]) -> list[str]:
        """How many seeds would decide the open comparisons, and where one seed cannot decide anything."""
        single = [effect for effect in known if effect.estimate.seeds < 2]
        lines = (
            [f"{len(single)} comparisons have a single seed on a side: with one seed nothing is resolved."]
            if single
            else []
        )
        needed = sorted(value for effect in known if not math.isnan(value := seeds_to_decide(effect.shown)))
        if needed:
            middle, fewest = needed[len(needed) // 2], needed[0]
            lines.append(
                f"{len(needed)} are open. If values and spreads stay, {_seeds(fewest)} would decide the first of them and {_seeds(middle)} half."
            )
        return lines

    @cached_property
    def notes(self) -> list[str]:
        """How the table was read, and what its intervals are."""
        paired = [isinstance(difference, Paired) for difference in self._primary.values()]
        test = (
            "paired by seed"
            if all(paired)
            else "of independent seeds (Welch)"
            if not any(paired)
            else "paired where seeds are shared"
        )
        size = max((effect.estimate.family for effect in self.primary), default=1)
        notes = [
            f"Intervals: 95 %, Student's t over training seeds, {test}; simultaneous for {size} comparisons (Šidák). Benchmarks are fixed."
        ]
        uneven = [f"{group + ': ' if group else ''}{text}" for group in self.arms if (text := self._uneven(group))]
        lines = [*self.table.notes, *uneven]
        return [*notes, *(f"{line[:1].upper()}{line[1:]}." for line in lines)]

    def _uneven(self, group: str) -> str:
        """Arms whose seeds or benchmarks are not those of the others."""
        arms = self.arms[group]
        seeds = {arm: set(self.scores[group, arm].index) for arm in arms}
        every = set().union(*seeds.values())
        parts = [
            f"{arm} lacks seed {', '.join(map(str, sorted(every - own)))}"
            for arm, own in seeds.items()
            if self.table.seeded and every - own
        ]
        alone = [name for name in self.table.benchmarks if name not in self.shared[group]]
        parts += [f"not in the mean, since an arm lacks it: {', '.join(alone)}"] if alone else []
        return "; ".join(parts)

    # ---- tables, figure, page ----

    @cached_property
    def tables(self) -> list[Table]:
        """Scores with differences; with several benchmarks also scores and differences on each, and robust readings."""
        tables = [self._main()]
        if self.by_benchmark:
            tables += [self._on_benchmarks(), self._benchmark_differences()]
        return [*tables, self._robust()]

    def _rows(self) -> list[tuple[dict[str, Cell], str, str]]:
        """A row with the labels of each arm, and its group and name."""
        several = len(self.arms) > 1
        pairs = [(group, arm) for group in self.arms for arm in self.arms[group]]
        return [({"group": group, "arm": arm} if several else {"arm": arm}, group, arm) for group, arm in pairs]

    def _labels(self) -> list[Column]:
        return [*([Column("group", "group")] if len(self.arms) > 1 else []), Column("arm", "arm")]

    def _column(self, key: str, header: str, *, words: bool = False) -> Column:
        return Column(key, header, digits=self.metric.digits, scale=self.metric.scale, signed=words, words=words)

    def _main(self) -> Table:
        effects = {(effect.group, effect.arm): effect for effect in self.primary}
        rows: list[Mapping[str, Cell]] = []
        for labels, group, arm in self._rows():
            means, effect = self.means[group, arm], effects.get((group, arm))
            needed = math.nan if effect is None else seeds_to_decide(effect.shown)
            needs = None if math.isnan(needed) else _seeds(needed).removesuffix(" seeds")
            delta = None if effect is None else effect.estimate
            rows.append({**labels, "score": mean_interval(means), "delta": delta, "seeds": len(means), "needed": needs})
        size = max((effect.estimate.family for effect in self.primary), default=1)
        interval = "95 % simultaneous" if size > 1 else "95 % interval"
        to = "arm above" if ABOVE in self.table.baselines.values() else "baseline"
        columns = [
            *self._labels(),
            self._column("score", f"{self.title}{self.metric.percent} (95 % interval)"),
            self._column("delta", f"Δ to {to} ({interval})", words=True),
            Column("seeds", "seeds", digits=0),
            Column("needed", "seeds that would decide"),
        ]
        meaning = "Higher, lower: the interval lies above or below zero. Not resolved: it contains zero, which is no sign that nothing is there."
        inside = (
            ""
            if self.margin is None
            else f" Equivalent: it contains zero and lies within ±{self.margin:g} {self.metric.unit}."
        )
        return Table(
            self.name, f"{self.name}: {self.title}", columns, rows, [*self.notes, f"{meaning}{inside}"], self.notes[:1]
        )

    def _on_benchmarks(self) -> Table:
        rows = [
            {**labels, **{name: mean_interval(wide[name]) for name in wide}}
            for labels, group, arm in self._rows()
            for wide in [self.scores[group, arm]]
        ]
        columns = [
            *self._labels(),
            *(self._column(name, f"{name}{self.metric.percent}") for name in self.table.benchmarks),
        ]
        return Table(
            f"{self.name}-benchmarks",
            f"{self.name}: scores by benchmark",
            columns,
            rows,
            ["Means over seeds, 95 % intervals, each by itself."],
        )

    def _benchmark_differences(self) -> Table:
        by_arm: dict[tuple[str, str], dict[str, Estimate]] = {}
        for effect in self.by_benchmark:
            by_arm.setdefault((effect.group, effect.arm), {})[effect.benchmark] = effect.estimate
        rows: list[Mapping[str, Cell]] = [
            {**labels, **by_arm[group, arm]} for labels, group, arm in self._rows() if (group, arm) in by_arm
        ]
        size = max(effect.estimate.family for effect in self.by_benchmark)
        columns = [*self._labels(), *(self._column(name, f"Δ {name}", words=True) for name in self.table.benchmarks)]
        note = f"All {size} differences of this table hold together at 95 % (Šidák); those in the mean are a family of their own."
        return Table(
            f"{self.name}-benchmark-differences", f"{self.name}: differences by benchmark", columns, rows, [note]
        )

    def _robust(self) -> Table:
        several = len(self.table.benchmarks) > 1
        rows: list[Mapping[str, Cell]] = []
        labels = {(group, arm): label for label, group, arm in self._rows()}
        for alone, robust in zip(self.families["alone"], self.robust, strict=True):
            improvement = self.improvement(alone.group, alone.arm, alone.reference)
            row = {
                **labels[alone.group, alone.arm],
                "against": alone.reference,
                "alone": alone.estimate,
                "p": alone.sign_flip_p,
            }
            rows.append({**row, "iqm": robust.estimate if several else None, "improvement": improvement})
        columns = [
            *self._labels(),
            Column("against", "against"),
            self._column("alone", "Δ judged alone (95 % interval)", words=True),
            *([self._column("iqm", "Δ interquartile mean (95 % simultaneous)", words=True)] if several else []),
            Column("improvement", "P(improvement) %", scale=100),
            Column("p", "p by sign flips", digits=3),
        ]
        notes = [
            "Alone: corrected for nothing. Interquartile mean: of all seeds and benchmarks together, jackknife over seeds, t. P(improvement): a run of "
            "the arm scores above one of the reference, mean over benchmarks (arXiv:2108.13264). Sign flips need six pairs.",
        ]
        return Table(f"{self.name}-robust", f"{self.name}: other readings", columns, rows, notes)

    def figure(self, *, wide: bool = True) -> Figure | None:
        """Every primary comparison with its interval, its word and the margin; None where nothing can be compared."""
        known = [effect for effect in self.primary if not math.isnan(effect.estimate.value)]
        unit = f", {self.metric.unit}" if self.metric.unit else ""
        return forest_figure(known, f"difference in the {self.title}{unit}", self.margin, wide=wide) if known else None

    def page(self) -> str:
        """The judgement as one HTML file."""
        head, *rest = self.sentences
        main, *tables = self.tables
        with styled("screen"):
            figure = self.figure(wide=False)
            drawn = (
                ""
                if figure is None
                else picture(figure, "Differences with their intervals and words.", "Whiskers hold together at 95 %.")
            )
        lines = [line for line in rest if not line.startswith("- ")]
        words = [line for line in rest if line.startswith("- ")]
        answer = f'<p class="headline">{head}</p>{listed(lines, _SENTENCES, "")}{drawn}{table_html(main, fold_notes=True)}{listed(words, 0, "Every comparison in words")}'
        sections = [
            Section("answer", "Answer", answer),
            Section("tables", "Further tables", "".join(map(table_html, tables)), folded=True),
            Section("reading", "How the table was read", listed(self.notes, len(self.notes), ""), folded=True),
        ]
        return document(self.name, "", sections, {}, ())

    def text(self, width: int = 160) -> str:
        """The main table and the sentences as a terminal shows them."""
        lines = [line for line in self.sentences if not line.startswith("- ")]
        return "\n".join([to_terminal(replace(self.tables[0], notes=()), width), *lines, *self.notes])

    def write(
        self, folder: Path, *, formats: Sequence[str] = WRITTEN_FORMATS, columns: Sequence[str] = ()
    ) -> list[Path]:
        """Write tables, figure, numbers, frames, sentences and page; returns their paths. `columns` are those of LaTeX tables."""
        texts = {
            f"{table.name}.{suffix}": text
            for table in self.tables
            for suffix, text in renderings(table, columns).items()
        }
        texts |= {
            "numbers.tex": numbers_text(self.tables, {}),
            "answer.md": "\n".join(self.sentences) + "\n",
            "effects.csv": self.effects.to_csv(index=False, lineterminator="\n"),
            "scores.csv": self.table.rows.to_csv(index=False, lineterminator="\n"),
            "report.html": self.page(),
        }
        for file, text in texts.items():
            write_file(folder / file, text.encode())
        with styled("paper"):
            figure = self.figure()
            drawn = [] if figure is None else save(figure, folder, "differences", formats)
        return [*(folder / file for file in texts), *drawn]


def _key(effect: Effect) -> tuple[str, str, str, str]:
    return effect.group, effect.arm, effect.reference, effect.benchmark


def _width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


def _seeds(count: float) -> str:
    return "more than 10,000 seeds" if math.isinf(count) else f"{count:.0f} seeds"


def _testable(difference: Difference) -> bool:
    parts = (difference.differences,) if isinstance(difference, Paired) else (difference.a, difference.b)
    return all(len(part) > 1 for part in parts)


def _pseudo_values(scores_ST: Floats) -> Floats:
    """Jackknife pseudo-values of the interquartile mean, one a seed; of one seed the value itself."""
    count, whole = len(scores_ST), interquartile_mean(scores_ST) if scores_ST.size else math.nan
    if count < 2:
        return np.full(count, whole)
    left_out = np.array([interquartile_mean(np.delete(scores_ST, seed, axis=0)) for seed in range(count)])
    return np.asarray(count * whole - (count - 1) * left_out)
