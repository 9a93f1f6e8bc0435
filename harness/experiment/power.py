"""The power of a plan: what its seeds can resolve, by the spread of its own seeds in the store, in lines for `harness plan`.

Several seeds of one base policy are one replicate, as in the answer (docs/statistics.md): their mean is what counts.
"""

import math
from collections.abc import Iterable, Mapping

from harness.configuration.error import ConfigError
from harness.experiment.plan import Plan
from harness.problems.problem import load_benchmark
from harness.statistics.intervals import (
    comparison_level,
    half_width,
    minimum_detectable_difference,
    pooled_spread,
    replicate_count,
    replicates,
)
from harness.statistics.sequential import design_levels
from harness.store import ResultStore

SIZES = (4, 8, 16)  # numbers of seeds at which an interval is foretold where the design has no looks


class Power:
    """Differences that each planned comparison resolves with 80 % power where all of them together err at the 5 % level.

    `replicates` is the number of `seeds`, or of base policies where several of the seeds start from one; `bases` how many there are, None
    where each seed has its own; `units` names them. `sd` is the standard deviation of one replicate's difference between two arms, or of
    one arm's values where arms do not share seeds (see `harness.statistics.intervals`). `levels`: alpha by the number of seeds at a look.
    """

    def __init__(self, plan: Plan) -> None:
        self.seeds, self.bases, self.paired = plan.seeds_of(plan.arms[0]), plan.base_policies, plan.paired
        self.replicates = replicate_count(self.seeds, self.bases)
        self.comparisons = planned_comparisons(plan)
        self.shares_bases = self.replicates < len(self.seeds)
        self.units = "base policies" if self.shares_bases else "seeds"
        sizes = plan.looks or SIZES
        level = 1 - comparison_level(self.comparisons)
        levels = design_levels(plan.looks, self.comparisons) if plan.looks else [level] * len(sizes)
        # Of a sequential design the level of its last look: the looks before it have spent the rest.
        self.levels, self.alpha = dict(zip(sizes, levels, strict=True)), levels[-1]

    def resolvable(self, sd: float) -> float:
        """The smallest difference that is found."""
        return minimum_detectable_difference(sd, self.replicates, paired=self.paired, alpha=self.alpha)

    @property
    def text(self) -> str:
        """`5 seeds`, or `16 seeds from 8 base policies` where they share them."""
        return f"{len(self.seeds)} seeds" + f" from {self.replicates} base policies" * self.shares_bases


def power_line(plan: Plan, store: ResultStore) -> str:
    """Tell what the seeds can resolve in accuracy; empty where nobody asks about it."""
    if "avg" not in [metric.name for metric in plan.metrics]:
        return ""
    spread = seed_spread(plan, store)
    if spread is None:
        return "power: unknown until an arm has two finished seeds"
    (sd, source), power = spread, Power(plan)
    spread_name = "standard deviation of the means of their seeds" if power.shares_bases else "standard deviation"
    head = f"power: {power.units} differ by {100 * sd:.1f} points ({spread_name}, {source})"
    if power.replicates < 2:
        return f"{head}; one {'base policy' if power.shares_bases else 'seed'} resolves nothing"
    difference = power.resolvable(sd)
    if difference > 1:
        return f"{head}; {power.text} resolve nothing: a difference would have to be beyond 100 points"
    family = f"together over {power.comparisons} comparisons" if power.comparisons > 1 else "one comparison"
    family += " with the base; for main effects it is smaller" * (plan.design == "factorial")
    how = f"80 % power, 5 % level, {family}"
    return f"{head}; {power.text} resolve a difference of {100 * difference:.1f} points or more ({how})"


def planned_comparisons(plan: Plan) -> int:
    """The comparisons of the answer's tables in all metrics, at least one each."""
    return len(plan.metrics) * max(1, len(plan.comparisons))


def _evaluation_samples(plan: Plan) -> int:
    """Samples of one evaluation; 0 where the number of problems is not known: a local file is read for it, the Hub is not."""
    config = plan.arms[0].config
    benchmark = config.evaluation.benchmarks.get(plan.benchmark)
    problems = getattr(benchmark, "problems", None)
    if getattr(benchmark, "path", None):
        try:
            problems = len(load_benchmark(benchmark).problems)
        except ConfigError:  # `plan` says what is wrong with the file
            return 0
    return problems * config.evaluation.samples_per_problem if isinstance(problems, int) and problems > 0 else 0


# Standard deviations of a paired difference over training seeds: rungs of the testbed's ladder have 1.0 to 1.9 points over eight seeds
# (results/published/dapo_ladder), those of SmolLM2 135M after a cold start 2.3 beyond the evaluation's samples (language_ladder_gpu there).
SEED_SPREADS = (0.01, 0.023)


def half_width_lines(plan: Plan, sample_sd: float) -> list[str]:
    """Tell how wide an interval of a difference will be, before any run; `sample_sd` is that of one answer's score about its problem's."""
    if not plan.paired or plan.benchmark not in plan.arms[0].config.evaluation.benchmarks:
        return []
    if not (samples := _evaluation_samples(plan)):
        key = f"evaluation.benchmarks.{plan.benchmark}.path"
        return [f"expected interval of a difference: unknown; problems are counted in a local file alone ({key})"]
    sample_spread, power = sample_sd * math.sqrt(2 / samples), Power(plan)
    # Seeds beyond the base policies, where these are shared, add no replicate.
    alphas = {min(seeds, power.bases or seeds): alpha for seeds, alpha in power.levels.items()}

    def interval(replicates: int) -> str:
        sds = (math.hypot(sd, sample_spread) for sd in SEED_SPREADS)
        low, high = (100 * half_width(sd, replicates, 1 - alphas[replicates]) for sd in sds)
        return f"±{low:.1f} to ±{high:.1f} at {replicates} {power.units}"

    counts = sorted(alphas)
    shown = [counts[index] for index in sorted({0, len(counts) // 2, len(counts) - 1})]
    together = f"{power.comparisons} comparisons together" if power.comparisons > 1 else "one comparison"
    together += ", all looks together" * bool(plan.looks)
    low, high = (f"{100 * sd:g}" for sd in SEED_SPREADS)
    return [
        f"expected interval of a difference ({together}): {', '.join(map(interval, shown))}, where training seeds add {low} to {high} "
        f"points (standard deviation) as in published ladders; the samples of evaluation add {100 * sample_spread:.1f}"
    ]


def seed_spread(plan: Plan, store: ResultStore) -> tuple[float, str] | None:
    """Pooled spread as `Power` takes it, a fraction of 1, and where it was seen; None where no arm has two finished seeds.

    It is that of paired differences, else of the arms' scores.
    """
    pair_factor = math.sqrt(2) if plan.paired else 1.0  # a difference of two arms' scores, or one arm's scores

    def pool(groups: Iterable[Mapping[int, float]], factor: float, source: str) -> tuple[float, str] | None:
        sd, count = pooled_spread(replicates(values, plan.base_policies) for values in groups)
        return (factor * sd, source.format(count, "s" if count > 1 else "")) if count else None

    scores = {arm.name: _scores(plan, store, arm.runs, arm.config.score_cap) for arm in plan.arms}
    differences = []
    for arm in plan.arms if plan.paired else ():
        reference = plan.reference_of(arm)
        ours, theirs = scores[arm.name], {} if reference is None else scores[reference.name]
        differences.append({seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())})
    return pool(differences, 1.0, "paired differences of {} comparison{}") or pool(
        scores.values(), pair_factor, "{} arm{}, taken as unpaired"
    )


def _scores(plan: Plan, store: ResultStore, runs: Mapping[int, str], cap: int) -> dict[int, float]:
    """Scores by seed of those runs that are finished and have one."""
    finished_runs = {seed: run_id for seed, run_id in runs.items() if store.run(run_id).status == "finished"}
    scores = {seed: score(store, run_id, plan.benchmark, cap) for seed, run_id in finished_runs.items()}
    return {seed: value for seed, value in scores.items() if value is not None}


def score(store: ResultStore, run_id: str, benchmark: str, cap: int) -> float | None:
    """avg@n of a run's last evaluation at a response cap; None where it has none."""
    steps = store.run(run_id).sample_steps(benchmark) if benchmark else []
    return store.run(run_id).accuracies(benchmark, steps[-1]).get(cap) if steps else None
