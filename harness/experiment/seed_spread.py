"""Spread of seeds in the store, which decides what an experiment can resolve.

Several seeds of one base policy are one replicate, as in the answer (docs/statistics.md): their mean is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.experiment.planning import Plan, PlannedArm
from harness.statistics.families import comparison_level
from harness.statistics.power import minimum_detectable_difference, seeds_needed
from harness.statistics.spread import pooled_spread, replicate_count, replicates
from harness.store import ResultStore

DIFFERENCES = (0.01, 0.02, 0.03, 0.05)
_OTHER_RUNS = 100  # read at most from other experiments


@dataclass(frozen=True)
class Spread:
    """Standard deviation of one replicate's difference between two arms, as a fraction of 1, and where it was seen.

    Where arms do not share seeds it is that of one arm's scores instead, as `harness.statistics.power` wants it. A replicate is a seed,
    or the mean over the finished seeds of one base policy.
    """

    sd: float
    source: str


@dataclass(frozen=True)
class Power:
    """Differences that each of the planned `comparisons` resolves with 80 % power where all of them together err at the 5 % level.

    `replicates` is the number of seeds, or of base policies where several of the seeds start from one; `bases` how many there are,
    None where each seed has its own. `replicates_for` maps a difference to the replicates it needs.
    """

    spread: Spread
    seeds: int
    replicates: int
    bases: int | None
    comparisons: int
    resolvable: float
    replicates_for: Mapping[float, int | None]

    @property
    def shares_bases(self) -> bool:
        """True where several seeds start from one base policy."""
        return self.replicates < self.seeds


def plan_power(plan: Plan, store: ResultStore) -> Power | None:
    """Power of the planned comparisons; None where no arm has two finished seeds to tell the spread."""
    spread = seed_spread(plan, store)
    if spread is None:
        return None
    bases, paired = plan.base_policies, plan.experiment.paired
    planned = replicate_count(plan.experiment.seeds, bases)
    comparisons = planned_comparisons(plan)
    alpha = 1 - comparison_level(comparisons)
    return Power(
        spread,
        len(plan.experiment.seeds),
        planned,
        bases,
        comparisons,
        minimum_detectable_difference(spread.sd, planned, paired=paired, alpha=alpha),
        {size: seeds_needed(size, spread.sd, paired=paired, alpha=alpha) for size in DIFFERENCES},
    )


def planned_comparisons(plan: Plan) -> int:
    """The comparisons of the answer's tables in all metrics, at least one each: arms with a parent, and the others against the base.

    In a leave-one-out arms without a parent are compared with nothing.
    """
    parents = [planned.arm.parent for planned in plan.arms]
    orphans = 0 if plan.experiment.design == "leave_one_out" else parents.count(None) - 1
    return len(plan.experiment.metrics) * max(1, len(parents) - parents.count(None) + max(0, orphans))


def evaluation_noise(plan: Plan) -> float:
    """Standard deviation of one score from sampling alone at accuracy one half: its problems times its samples are all it has."""
    config = plan.arms[0].config
    benchmark = config.evaluation.benchmarks.get(plan.experiment.benchmark)
    problems = getattr(benchmark, "problems", None)
    if not isinstance(problems, int) or problems < 1:
        return math.nan
    return 0.5 / math.sqrt(problems * config.evaluation.samples_per_problem)


def seed_spread(plan: Plan, store: ResultStore) -> Spread | None:
    """Pooled spread: of paired differences in this experiment, else of its arms' scores, else of other arms on this benchmark."""
    bases, paired = plan.base_policies, plan.experiment.paired
    both = math.sqrt(2) if paired else 1.0  # a difference of two arms' scores, or one arm's scores

    def pooled(groups: Iterable[Mapping[int, float]]) -> tuple[float, int]:
        return pooled_spread(replicates(values, bases) for values in groups)

    scores = {planned.arm.name: _arm_scores(plan, store, planned) for planned in plan.arms}
    differences = []
    for planned in plan.arms:
        ours, theirs = scores[planned.arm.name], scores.get(planned.arm.parent or "", {})
        shared = sorted(ours.keys() & theirs.keys())
        differences.append({seed: ours[seed] - theirs[seed] for seed in shared})
    sd, count = pooled(differences)
    if paired and count:
        return Spread(
            sd, f"paired differences of {count} comparison{'s' if count > 1 else ''} of this experiment"
        )
    sd, count = pooled(scores.values())
    if count:
        return Spread(
            both * sd, f"{count} arm{'s' if count > 1 else ''} of this experiment, taken as unpaired"
        )
    sd, count = pooled(_other_arms(plan, store))
    if count:
        return Spread(
            both * sd,
            f"{count} other arm{'s' if count > 1 else ''} on this benchmark, taken as unpaired",
        )
    return None


def _arm_scores(plan: Plan, store: ResultStore, planned: PlannedArm) -> dict[int, float]:
    cap = planned.config.score_cap
    found = {
        seed: score(store, spec.run_id, plan.experiment.benchmark, cap)
        for seed, spec in planned.runs.items()
        if store.run(spec.run_id).status == "finished"
    }
    return {seed: value for seed, value in found.items() if value is not None}


def score(store: ResultStore, run_id: str, benchmark: str, cap: int, step: int | None = None) -> float | None:
    """avg@n of a run's evaluation at `step` (None: the last) and a response cap; None where it has none."""
    steps = store.run(run_id).sample_steps(benchmark) if benchmark else []
    if not steps or (step is not None and step not in steps):
        return None
    return store.run(run_id).accuracies(benchmark, steps[-1] if step is None else step).get(cap)


def _other_arms(plan: Plan, store: ResultStore) -> list[dict[int, float]]:
    """Scores by seed. Their seeds are taken to share base policies as the plan's do."""
    cap = plan.arms[0].config.score_cap
    finished = [row for row in store.readable() if row["status"] == "finished"]
    arms: dict[str, dict[int, float]] = {}
    for row in finished[-_OTHER_RUNS:]:
        value = score(store, row["run_id"], plan.experiment.benchmark, cap)
        if value is not None:
            arms.setdefault(row["arm_id"], {})[row["seed"]] = value
    return list(arms.values())
