"""The scores of a table as they are compared: levels, differences with simultaneous intervals, and what arms lack.

The estimand is the experiment's own: seeds are the replicates, benchmarks are fixed. All comparisons in the mean over benchmarks are one
family; all comparisons on single benchmarks are another. What is compared counts, whether it can be tested or not.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis.effects import REFERENCE, Effect, effects_frame
from analysis.frames import groups
from analysis.score_table import ABOVE, ScoreTable
from harness.evaluation.metrics.names import HIGHER, LOWER, POINTS, Metric
from harness.statistics.intervals import Difference, Estimate, Independent, Paired, judge_one, mean_interval

MEAN = "mean over benchmarks"
SEED, NONE = "seed", "none"
_MOST_NOTES = 4  # rows of an arm that lack something
Key = tuple[str, str, str, str]  # group, arm, reference, benchmark


@dataclass(frozen=True)
class JudgedScores:
    """A table of scores with what is asked of it. `margin` is in the shown unit, `better` is higher or lower."""

    table: ScoreTable
    name: str
    margin: float | None = None
    pair: str | None = None
    better: str = HIGHER

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
    def subject(self) -> str:
        return f"the {MEAN}" if self.title == MEAN else self.title

    @property
    def direction(self) -> str:
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
    def means(self) -> dict[tuple[str, str], pd.Series]:
        """The primary score by seed, of the seeds that have all benchmarks of their group."""
        complete = {key: frame.reindex(columns=self.benchmarks[key[0]]).dropna() for key, frame in self.scores.items()}
        return {key: frame.mean(axis=1) for key, frame in complete.items()}

    def level(self, scores: pd.Series) -> Estimate:
        """The mean over seeds; the interval of a share holds no impossible value."""
        share = (0.0, 100.0 / self.metric.scale)
        return mean_interval(scores, within=share if self.metric.percent else (-math.inf, math.inf))

    @cached_property
    def comparisons(self) -> list[tuple[str, str, str]]:
        """Group, arm and the arm that it is compared with."""
        pairs = []
        for group, arms in self.arms.items():
            baseline = self.table.baselines[group]
            references = [arms[0], *arms] if baseline == ABOVE else [baseline] * len(arms)
            pairs += [(group, *pair) for pair in zip(arms, references, strict=False) if pair[0] != pair[1]]
        return pairs

    def _difference(self, a: pd.Series, b: pd.Series) -> Difference:
        """What is judged of two arms: seed by seed where both have the same seeds, or those that both have are asked for."""
        a, b = a.dropna(), b.dropna()
        shared = a.index.intersection(b.index)
        same = len(shared) == len(a) == len(b)
        if self.table.seeded and self.pair != NONE and (same or (self.pair == SEED and len(shared) > 0)):
            return Paired((a.loc[shared] - b.loc[shared]).tolist())
        return Independent(a.tolist(), b.tolist())

    def _judge(self, differences: Mapping[Key, Difference]) -> list[Effect]:
        margin, family = None if self.margin is None else self.margin / self.metric.scale, len(differences)
        return [
            Effect(
                REFERENCE, self.metric, judge_one(difference, family=family, margin=margin), arm, reference,
                f"{arm} against {reference}", benchmark, group,
            )
            for (group, arm, reference, benchmark), difference in differences.items()
        ]  # fmt: skip

    @cached_property
    def differences(self) -> dict[Key, Difference]:
        """Every comparison in the primary score, whether it can be tested or not."""
        means = self.means
        return {(g, a, r, self.title): self._difference(means[g, a], means[g, r]) for g, a, r in self.comparisons}

    @cached_property
    def primary(self) -> list[Effect]:
        """Every comparison in the primary score; their intervals are simultaneous."""
        return self._judge(self.differences)

    @cached_property
    def by_benchmark(self) -> list[Effect]:
        """Every comparison on every benchmark of its group, also where an arm lacks it; none with one benchmark. They are simultaneous."""
        known = {group: {name for arm in arms for name in self.scores[group, arm]} for group, arms in self.arms.items()}
        names = self.table.benchmarks if len(self.table.benchmarks) > 1 else []
        sides = {key: frame.reindex(columns=names) for key, frame in self.scores.items()}
        return self._judge({
            (group, arm, reference, name): self._difference(sides[group, arm][name], sides[group, reference][name])
            for group, arm, reference in self.comparisons
            for name in names
            if name in known[group]
        })  # fmt: skip

    @cached_property
    def effects(self) -> pd.DataFrame:
        """All effects as a tidy frame (docs/python.md)."""
        return effects_frame([*self.primary, *self.by_benchmark])

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
