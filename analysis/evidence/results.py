"""Per-seed results at the declared checkpoint, and contrasts between arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence.checkpoint_rule import chosen_steps, rule_scores
from analysis.evidence.load import Experiment, Floats, records
from analysis.evidence.stored_plan import Arm
from analysis.statistics.estimate import Estimate
from analysis.statistics.intervals import mean_interval, two_way_difference
from analysis.statistics.verdicts import Difference, Independent, Paired, judge

TOKEN_COLUMNS = ("generated_tokens_total", "updates", "step")


@dataclass(frozen=True)
class Results:
    """One row per finished (arm, seed, cap), every metric at the checkpoint; ``before`` the same at step 0.

    ``target`` is the accuracy that *tokens to target* counts to. ``notes`` say which runs could not be
    judged.
    """

    experiment: Experiment
    per_seed: pd.DataFrame
    before: pd.DataFrame
    target: float
    notes: tuple[str, ...]

    def scores(self, arm: Arm, metric: str, cap: int | None = None) -> dict[int, float]:
        """Metric per seed of the finished runs of an arm; seeds without a value are left out."""
        cap = self.experiment.plan.primary_cap if cap is None else cap
        frame = self.per_seed
        if metric not in frame:
            return {}
        rows = frame[(frame["arm"] == arm.name) & (frame["cap"] == cap) & frame[metric].notna()]
        return {int(seed): float(value) for seed, value in zip(rows["seed"], rows[metric], strict=True)}

    def mean(self, arm: Arm, metric: str, cap: int | None = None) -> Estimate:
        """Mean over seeds with its t interval."""
        return mean_interval(list(self.scores(arm, metric, cap).values()))

    def difference(self, arm: Arm, reference: Arm) -> Estimate:
        """Arm minus reference as a comparison that stands alone: its interval is corrected for nothing."""
        return self.differences({arm.name: (arm, reference)})[arm.name]

    def differences(self, pairs: Mapping[str, tuple[Arm, Arm]]) -> dict[str, Estimate]:
        """Arm minus reference for the comparisons of one column, with intervals that hold together."""
        contrasts = {name: self.contrast(*pair) for name, pair in pairs.items()}
        return judge(contrasts, margin=self.experiment.plan.score_margin)

    def contrast(self, arm: Arm, reference: Arm) -> Difference:
        """The seeds behind arm minus reference in the primary metric: paired where the plan pairs and both arms have the seed."""
        a, b = self.scores(arm, "avg"), self.scores(reference, "avg")
        if not self.experiment.plan.paired:
            return Independent([*a.values()], [*b.values()])
        return Paired([a[seed] - b[seed] for seed in a if seed in b])

    def population_difference(self, arm: Arm, reference: Arm) -> Estimate:
        """Arm minus reference in avg@n for new problems too (two-way seeds and problems)."""
        paired = self.experiment.plan.paired
        a, b = self.problem_scores(arm), self.problem_scores(reference)
        if paired:
            shared = [seed for seed in a if seed in b]
            a, b = {s: a[s] for s in shared}, {s: b[s] for s in shared}
        if not a or not b:
            return mean_interval([])
        found = two_way_difference(np.array([*a.values()]), np.array([*b.values()]), paired=paired)
        return replace(found, margin=self.experiment.plan.score_margin)

    def problem_scores(self, arm: Arm) -> dict[int, Floats]:
        """avg@n per problem (shared order) for each finished seed, at the checkpoint and primary cap.

        Runs without samples (foreign ones) are left out.
        """
        plan = self.experiment.plan
        frame = self.per_seed
        rows = frame[(frame["arm"] == arm.name) & (frame["cap"] == plan.primary_cap)]
        return {
            row["seed"]: np.mean(
                [self.experiment.problem_avg[row["run_id"], step, plan.primary_cap] for step in row["steps"]],
                axis=0,
            )
            for row in records(rows)
            if (row["run_id"], row["steps"][-1], plan.primary_cap) in self.experiment.problem_avg
        }

    def spread(self, metric: str = "avg") -> float:
        """Pooled standard deviation over seeds of the arms with at least two; NaN without any."""
        values = [list(self.scores(arm, metric).values()) for arm in self.experiment.plan.arms]
        groups = [np.array(v) for v in values if len(v) > 1]
        degrees = sum(len(g) - 1 for g in groups)
        return (
            float(np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in groups) / degrees)) if degrees else np.nan
        )


def results_of(experiment: Experiment) -> Results:
    """Apply the checkpoint rule to every finished run; runs that cannot be judged become notes."""
    plan = experiment.plan
    notes: list[str] = []
    rows: list[dict[str, Any]] = []
    before: list[pd.DataFrame] = []
    test = experiment.cells[experiment.cells["benchmark"] == plan.benchmark]
    dev = experiment.cells[experiment.cells["benchmark"] == plan.dev_benchmark]
    finished = experiment.states[experiment.states["status"] == "finished"]
    for state in records(finished):
        run_id, where = state["run_id"], f"{state['arm']}, seed {state['seed']}"
        # two arms of an experiment may be the same run, so both keys are needed
        cells = _own(test, state)
        training = _own(experiment.steps, state)
        for cap in sorted(set(cells["cap"])):
            group = cells[cells["cap"] == cap]
            before.append(group[group["step"] == 0])
            try:
                steps = chosen_steps(group, experiment.rule, _own(dev[dev["cap"] == cap], state))
            except ValueError as error:
                notes.append(f"{where}: {error}")
                continue
            if steps:
                rows.append(_checkpoint_row(group, steps, training, int(cap)))
        if not any(row["run_id"] == run_id and row["arm"] == state["arm"] for row in rows):
            notes.append(f"{where}: finished without an evaluation after step 0")
    per_seed = pd.DataFrame.from_records(rows) if rows else _empty()
    base = pd.concat(before, ignore_index=True) if before else _empty()
    target = plan.target_accuracy
    if target is None:
        own = per_seed[(per_seed["arm"] == plan.base.name) & (per_seed["cap"] == plan.primary_cap)]
        target = float(own["avg"].mean()) if len(own) else np.nan
    per_seed["tokens_to_target"] = [
        tokens_to_target(
            _own(test[test["cap"] == row["cap"]], row),
            _own(experiment.steps, row),
            target,
        )
        for row in records(per_seed)
    ]
    return Results(experiment, per_seed, base, target, tuple(dict.fromkeys(notes)))


def tokens_to_target(cells: pd.DataFrame, steps: pd.DataFrame, target: float) -> float:
    """Generated tokens (discarded included) at which avg first reaches ``target``; NaN if it never does.

    Linear between evaluated steps, so its resolution is the evaluation interval.
    """
    curve = cells.sort_values("step")
    tokens = tokens_at(steps, curve["step"].tolist())
    scores = curve["avg"].to_numpy()
    reached = np.flatnonzero(scores >= target)
    if not len(reached) or np.isnan(tokens[reached[0]]):
        return float("nan")
    index = int(reached[0])
    if index == 0:
        return float(tokens[0])
    share = (target - scores[index - 1]) / (scores[index] - scores[index - 1])
    return float(tokens[index - 1] + share * (tokens[index] - tokens[index - 1]))


def tokens_at(steps: pd.DataFrame, wanted: Sequence[int]) -> Floats:
    """Cumulative generated tokens at each wanted step; zero at step 0, NaN where the step is not logged."""
    total = dict(zip(steps["step"], steps["generated_tokens_total"], strict=True)) if len(steps) else {}
    return np.array([0.0 if step == 0 else float(total.get(step, np.nan)) for step in wanted])


def _checkpoint_row(
    cells: pd.DataFrame, steps: list[int], training: pd.DataFrame, cap: int
) -> dict[str, Any]:
    chosen = cells[cells["step"].isin(steps)]
    first = chosen.iloc[0]
    numbers = chosen.select_dtypes("number").drop(columns=["step", "cap", "seed"])
    row: dict[str, Any] = {"arm": first["arm"], "seed": int(first["seed"]), "run_id": first["run_id"]}
    row |= {"cap": cap, "steps": steps, **rule_scores(cells)}
    row |= {str(name): float(value) for name, value in numbers.mean().items()}
    if len(training):
        last = training[training["step"] <= steps[-1]].iloc[-1]
        row |= {f"train_{name}": float(last[name]) for name in TOKEN_COLUMNS if name in last}
    return row


def _own(frame: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    own: pd.DataFrame = frame[(frame["run_id"] == row["run_id"]) & (frame["arm"] == row["arm"])]
    return own


def _empty() -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in ("arm", "seed", "run_id", "cap", "avg", "steps")})
