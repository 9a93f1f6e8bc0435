"""The values of an experiment at the last evaluation: of each seed, their means, and what is compared of two arms."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import Frames, groups
from analysis.samples import column_of
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import Difference, Estimate, Independent, Paired, mean_interval


@dataclass(frozen=True, eq=False)
class Values:
    """One row per finished (arm, seed, cap), every metric at the checkpoint, the last evaluation; ``before`` the same at step 0.

    ``notes`` say which runs could not be judged. ``selected_metric`` is the one that answers are about, None for the experiment's first
    (see `Results.about`).
    """

    experiment: Frames
    per_seed: pd.DataFrame
    before: pd.DataFrame
    notes: tuple[str, ...]
    selected_metric: Metric | None = None

    @property
    def metric(self) -> Metric:
        """The metric that answers, tables and figures of differences are about."""
        return self.experiment.plan.metrics[0] if self.selected_metric is None else self.selected_metric

    @property
    def column(self) -> str:
        """Its column of ``per_seed``."""
        return column_of(self.metric)

    @property
    def shown_margin(self) -> float | None:
        """The declared margin of the metric, in the unit of a shown difference."""
        return self.experiment.plan.margins.get(self.metric.name)

    @property
    def margin(self) -> float | None:
        """The declared margin of the metric, in the unit of stored values."""
        return None if self.shown_margin is None else self.shown_margin / self.metric.scale

    @property
    def about_score(self) -> bool:
        """True where the score is all that the experiment is about, and these results too."""
        return self.experiment.plan.about_score and self.metric == self.experiment.plan.score

    @property
    def columns(self) -> int:
        """Columns of differences whose intervals are simultaneous: the experiment's metrics. One that it does not declare stands alone."""
        metrics = self.experiment.plan.metrics
        return len(metrics) if self.metric in metrics else 1

    def scores(self, arm: PlannedArm, metric: str, cap: int | None = None) -> dict[int, float]:
        """Metric per seed of the finished runs of an arm; seeds without a value are left out."""
        cap = self.experiment.plan.primary_cap if cap is None else cap
        rows = self._by_arm.get((arm.name, cap))
        if rows is None or metric not in rows:
            return {}
        values = rows[metric].to_numpy(dtype=np.float64)
        pairs = zip(rows["seed"].tolist(), values.tolist(), strict=True)
        return {int(seed): value for seed, value in pairs if not math.isnan(value)}

    @cached_property
    def _by_arm(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """Rows of ``per_seed`` by arm and cap: filtering all of them for every cell of a table takes longer than the statistics."""
        return groups(self.per_seed, "arm", "cap")

    def values(self, arm: PlannedArm) -> dict[int, float]:
        """The metric per seed of the finished runs of an arm."""
        return self.scores(arm, self.column)

    def mean(self, arm: PlannedArm, metric: str | None = None, cap: int | None = None) -> Estimate:
        """Mean over seeds of a column, else of the metric, with its t interval."""
        values = self.scores(arm, self.column if metric is None else metric, cap)
        within = self.metric.within if metric is None else (-math.inf, math.inf)
        return replace(mean_interval(self.experiment.plan.replicates(values), within=within), seeds=len(values))

    def guessed_reason(self, *arms: PlannedArm) -> str:
        """``not informative: guessing earns 96.6 %`` where every one of the arms lies at or below what blind answers earn; else empty."""
        level = self.metric.by_guessing(self.experiment.plan.chances)
        means = [self.mean(arm).value for arm in arms]
        if level is None or not all(mean <= level for mean in means):
            return ""
        return f"not informative: guessing earns {100 * level:.1f} %"

    def before_rl(self, column: str, cap: int | None = None) -> float | None:
        """Mean of a column over all runs at step 0; None where none was evaluated then."""
        rows = self.before[self.before["cap"] == (cap or self.experiment.plan.primary_cap)]
        return float(rows[column].mean()) if column in rows and len(rows) else None

    def contrast(self, arm: PlannedArm, reference: PlannedArm, seeds: Collection[int] | None = None) -> Difference:
        """The ``seeds`` (None: all) behind arm minus reference in the metric: paired where the plan pairs and both have the seed."""
        sides = (self.values(side) for side in (arm, reference))
        values = ({seed: value for seed, value in side.items() if seeds is None or seed in seeds} for side in sides)
        return contrast_of(self.experiment.plan, *values)


def contrast_of(plan: Plan, a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """What is judged of the values of two arms by seed: paired where the plan pairs and both have the seed."""
    if not plan.paired:
        return Independent(plan.replicates(a), plan.replicates(b), min(len(a), len(b)))
    differences = {seed: a[seed] - b[seed] for seed in a if seed in b}
    return Paired(plan.replicates(differences), len(differences))
