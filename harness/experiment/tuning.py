"""Each arm at its best: every arm tries one grid on seeds of its own, and takes the value that scores highest into the comparison."""

import dataclasses
import itertools
import math
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.compose import compose_run
from harness.configuration.error import MOST_SEED, ConfigError, require_range
from harness.configuration.numbers import format_count
from harness.configuration.sections import key_of
from harness.experiment.designs import short_names
from harness.experiment.plan import TUNE, FirstPart, Part, Plan, PlannedArm
from harness.experiment.power import score
from harness.store import ResultStore

_SETTLED = ("finished", "failed")
Point = tuple[str, ...]
"""One combination of values, as overrides."""


@dataclass
class Tune:
    """`experiment.tune`.

    Attributes:
        over: key → the values that every arm tries; of several keys all combinations.
        seeds: training seeds of the trials, never those of the comparison.
    """

    over: dict[str, list[Any]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.over:
            raise ConfigError("experiment.tune.over={} tries nothing; say {KEY: [VALUES]}")
        for key, values in self.over.items():
            if not isinstance(values, list) or len(values) < 2:
                raise ConfigError(f"experiment.tune.over: {key} needs a list of at least two values to choose from")
            if len(set(map(str, values))) < len(values):
                raise ConfigError(f"experiment.tune.over: {key} names a value twice")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"experiment.tune.seeds={self.seeds} must name at least one seed, and none twice")
        for seed in self.seeds:
            require_range("experiment.tune.seeds", seed, 0, MOST_SEED)

    @property
    def points(self) -> list[Point]:
        """Every combination, smaller numbers first: of two that score alike the first is taken."""
        columns = []
        for key, values in self.over.items():
            are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            columns.append([f"{key}={_text(value)}" for value in (sorted(values) if are_numbers else values)])
        return list(itertools.product(*columns))

    @property
    def words(self) -> str:
        """``4 values of learning_rate``."""
        keys = " and ".join(key.rpartition(".")[2] for key in self.over)
        return f"{len(self.points)} values of {keys}"


def _text(value: Any) -> str:
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return "null" if value is None else str(value).replace(", ", ",")  # items stand between spaces


def check_tune(tune: Tune, plan: Plan) -> None:
    """Raise `ConfigError` where trials would share seeds with the comparison, have no score, or write what an arm is."""
    seeds = {seed for arm in plan.arms for seed in arm.seeds} | {*plan.seeds}
    if shared := sorted(seeds & set(tune.seeds)):
        raise ConfigError(f"experiment.tune.seeds={tune.seeds}: the comparison has {shared[0]} too; take others")
    if plan.metrics[0] != plan.score:
        raise ConfigError(f"experiment.tune chooses by avg, not by {plan.metrics[0].name}: put avg first, or drop tune")
    for arm in plan.arms:
        if key := next(
            (key for key in tune.over if any(key_of(item) == key for item in (*arm.overrides, *arm.more))), ""
        ):
            raise ConfigError(f"experiment.tune.over: arm {arm.name!r} sets {key} itself; leave it out of one")
        if not arm.config.evaluation.benchmarks:
            raise ConfigError(f"experiment.tune: arm {arm.name!r} evaluates no benchmark, so no score chooses")


def tuned(
    plan: Plan,
    tune: Tune,
    *,
    runs: Callable[[Plan], Plan],
    then: Callable[[Plan, Part], Plan],
) -> FirstPart:
    """The trials as a first part of the plan. `runs` gives a plan its runs, `then` makes the plan of what they have settled.

    Trials take the steps of the comparison, or its budget where that is a number; a budget that the reference arm sets comes after them.
    """
    trials = _trials(plan, tune)
    name = f"{plan.name}_tuning"
    seeds = format_count(len(tune.seeds), "other seed")
    part = Part(TUNE, f"each arm's best of {tune.words}, chosen on {seeds}", name, seeds=list(tune.seeds))
    whole = dataclasses.replace(
        plan,
        name=name,
        title=f"{plan.title}: trials",
        question="",
        design="arms",
        arms=tuple(trial for by_point in trials.values() for trial in by_point.values()),
        seeds=tuple(tune.seeds),
        looks=(),
        match=plan.match if plan.match_budget is not None else "steps",
        match_reference=None,
        margins={},
        metrics=(plan.score,),
        claim=None,
        patches=(),
        together={},
        factors={},
        notes=(f"Trials of {plan.name}: what scores best here is compared there, on other seeds.",),
    )
    whole = runs(whole)

    def settle(store: ResultStore) -> Part | None:
        scores = {name: _scores(whole, by_point, store) for name, by_point in trials.items()}
        if any(means is None for means in scores.values()):
            return None
        found = {name: means for name, means in scores.items() if means is not None}
        settings = {name: list(_best(name, means, tune, whole.name)) for name, means in found.items()}
        plain = {name: {" ".join(point): mean for point, mean in means.items()} for name, means in found.items()}
        return dataclasses.replace(part, settings=settings, scores=plain)

    return FirstPart(part, whole, settle, lambda settled: then(plan, settled))


# Per cent of studies in which one of two arms that are alike at all of four values is called higher, at worst, by seeds of the trials: the
# two take different values, and their difference at these is real. `tests/experiment/test_tuning.py` simulates it.
WRONG_WORDS = {1: 33, 2: 24, 3: 18, 4: 15, 5: 13, 6: 12, 7: 11, 8: 10, 12: 8, 16: 7, 32: 6}


def choice_note(part: Part) -> str:
    """Say how often trials make a difference between arms that are alike."""
    share = WRONG_WORDS[max(number for number in WRONG_WORDS if number <= len(part.seeds))]
    return (
        f"Arms that are alike may take different values: with {format_count(len(part.seeds), 'seed')} to choose on one is called higher "
        f"in up to {share} % of studies instead of 5 %."
    )


def _trials(plan: Plan, tune: Tune) -> dict[str, dict[Point, PlannedArm]]:
    """Arm → point → the arm with its values, compared with that of the first point."""
    labels = short_names([list(point) for point in tune.points])
    trials: dict[str, dict[Point, PlannedArm]] = {}
    for arm in plan.arms:
        # `learning_rate=0.0002` of `optimizer.learning_rate=0.0002`
        names = ["_".join([arm.name, *(re.sub(r"^[^=]*\.", "", item) for item in point)]) for point in tune.points]
        trials[arm.name] = {
            point: dataclasses.replace(
                arm,
                name=name,
                label=f"{arm.plain_label}, {label}",
                parent=None if name == names[0] else names[0],
                patch=None,
                patches=(),
                published=None,
                seeds=tuple(tune.seeds),
                more=(*arm.more, *point),
                composed_config=compose_run([*arm.overrides, *arm.more, *point]),
            )
            for name, label, point in zip(names, labels, tune.points, strict=True)
        }
    return trials


def _scores(whole: Plan, trials: Mapping[Point, PlannedArm], store: ResultStore) -> dict[Point, float | None] | None:
    """Point → its mean score over the seeds, None for one of which a run failed; None at all where a run has not ended."""
    means: dict[Point, float | None] = {}
    for point, trial in trials.items():
        run_ids = whole.arm(trial.name).runs.values()
        statuses = [store.run(run_id).status for run_id in run_ids]
        if not statuses or any(status not in _SETTLED for status in statuses):
            return None
        scores = [score(store, run_id, whole.benchmark, whole.primary_cap) for run_id in run_ids]
        known = [one for one in scores if one is not None and math.isfinite(one)]
        is_whole = "failed" not in statuses and len(known) == len(scores)
        means[point] = statistics.fmean(known) if is_whole else None
    return means


def _best(arm: str, means: Mapping[Point, float | None], tune: Tune, experiment: str) -> Point:
    """The point with the highest mean; the first of several that score alike. Raises `ConfigError` where all of them failed."""
    known = {point: mean for point, mean in means.items() if mean is not None}
    if not known:
        raise ConfigError(f"experiment.tune: {arm!r} finished at none of its {tune.words} (status {experiment=!s})")
    return max(known, key=lambda point: known[point])
