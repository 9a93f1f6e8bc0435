"""The power of a plan: what its seeds can resolve, by the spread of seeds in the store, in lines for `harness plan`.

Several seeds of one base policy are one replicate, as in the answer (docs/statistics.md): their mean is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import yaml

from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash, identity
from harness.configuration.schema import RunConfig, load
from harness.evaluation.metrics.names import POINTS
from harness.experiment.plan import Plan
from harness.problems.problem import load_benchmark
from harness.statistics.intervals import (
    comparison_level,
    half_width,
    minimum_detectable_difference,
    pooled_spread,
    replicate_count,
    replicates,
    seeds_needed,
)
from harness.statistics.sequential import design_levels
from harness.store import ResultStore, StoreError

DIFFERENCES = (0.01, 0.02, 0.03, 0.05)
SIZES = (4, 8, 16)  # numbers of seeds at which an interval is foretold where the design has no looks
_OTHER_ARMS = 100  # of other experiments, the newest, whose configuration is read


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
        self.crossing = plan.crossing if plan.design == "factorial" else None
        self.metrics = len(plan.metrics)
        sizes = plan.looks or SIZES
        level = 1 - comparison_level(self.comparisons)
        levels = design_levels(plan.looks, self.comparisons) if plan.looks else [level] * len(sizes)
        # Of a sequential design the level of its last look: the looks before it have spent the rest.
        self.levels, self.alpha = dict(zip(sizes, levels, strict=True)), levels[-1]

    def resolvable(self, sd: float) -> float:
        """The smallest difference that is found."""
        return minimum_detectable_difference(sd, self.replicates, paired=self.paired, alpha=self.alpha)

    def resolves(self, sd: float, unit: str, digits: int, how: str = "") -> str:
        """`5 seeds resolve a difference of 1.2 or more`, with that of effects; `sd` in the shown unit, `how` stands behind it."""
        difference = self.resolvable(sd)
        if unit == POINTS and difference > 100:
            return f"{self.text} resolve nothing: a difference would have to be beyond the 100 points that there are"
        return f"{self.text} resolve a difference of {difference:.{digits}f}{how}{self.of_effects(sd, digits)}"

    def of_effects(self, sd: float, digits: int) -> str:
        """`; main effects (3) of 1.2 or more, interactions (2) of 2.1` of a factorial: each averages over its cells; else nothing.

        The noise of the arms is taken as independent of each other, as half of the variance of their differences.
        """
        crossing, text = self.crossing, []
        if crossing is None or self.replicates < 2:
            return ""
        for name, effects in (
            ("main effects", crossing.main_weights()),
            ("interactions", crossing.interaction_weights()),
        ):
            alpha = 1 - comparison_level(self.metrics * max(1, len(effects)))
            largest_square = max((sum(weight**2 for weight in row.values()) for row in effects.values()), default=0.0)
            arm_sd = sd / math.sqrt(2) if self.paired else sd
            smallest = minimum_detectable_difference(
                arm_sd * math.sqrt(largest_square), self.replicates, paired=True, alpha=alpha
            )
            text += [f"{name} ({len(effects)}) of {smallest:.{digits}f} or more"] * bool(effects)
        return f"; {', '.join(text)}"

    @property
    def text(self) -> str:
        """`5 seeds`, or `16 seeds from 8 base policies` where they share them."""
        return f"{len(self.seeds)} seeds" + f" from {self.replicates} base policies" * self.shares_bases


def power_lines(plan: Plan, store: ResultStore) -> list[str]:
    """Tell what the seeds can resolve in accuracy; without two finished seeds only what evaluation alone adds."""
    if "avg" not in [metric.name for metric in plan.metrics]:
        return []
    noise, lines = evaluation_noise(plan), []
    if not math.isnan(noise):
        lines.append(
            f"evaluation alone: one score varies by up to ±{100 * noise:.1f} points (standard deviation) "
            "from its samples; arms share problems and sampling seeds"
        )
    spread = seed_spread(plan, store)
    if spread is None:
        return [*lines, "power: unknown until an arm trained and evaluated alike has two finished seeds"]
    (sd, source), power = spread, Power(plan)
    spread_name = "standard deviation of the means of their seeds" if power.shares_bases else "standard deviation"
    head = f"power: {power.units} differ by {100 * sd:.1f} points ({spread_name}, {source})"
    if power.replicates < 2:
        lines.append(f"{head}; one {'base policy' if power.shares_bases else 'seed'} resolves nothing")
    else:
        family = f"together over {power.comparisons} comparisons" if power.comparisons > 1 else "one comparison"
        how = f" points or more (80 % power, 5 % level, {family})"
        lines.append(f"{head}; {power.resolves(100 * sd, POINTS, 1, how)}")
    counts = {size: seeds_needed(size, sd, paired=power.paired, alpha=power.alpha) for size in DIFFERENCES}
    counts_text = ", ".join(f"{100 * size:g} points: {number or 'over 1000'}" for size, number in counts.items())
    exceeds_bases = power.bases is not None and max(number or math.inf for number in counts.values()) > power.bases
    base_hint = f" (each another base policy; there are {power.bases})" * exceeds_bases
    return [*lines, f"{power.units} needed for {counts_text}{base_hint}"]


def power_of_metrics(plan: Plan, spreads: Callable[[], Mapping[str, Mapping[str, float]]]) -> list[str]:
    """Tell what the seeds can resolve in metrics other than accuracy.

    `spreads` gives for each metric that finished runs tell of `sd` in its shown unit, and of how many `comparisons`.
    """
    others = [metric for metric in plan.metrics if metric.name != "avg"]
    spread_by_metric, power, lines = spreads() if others else {}, Power(plan), []
    for metric in others:
        spread = spread_by_metric.get(metric.name)
        if spread is None or power.replicates < 2:
            lines.append(f"power for {metric.title}: unknown until two {power.units} of a comparison have finished")
            continue
        sd, digits = spread["sd"], metric.digits
        lines.append(
            f"power for {metric.title}: {power.units} differ by {sd:.{digits}f} {metric.unit} (standard deviation, "
            f"{spread['comparisons']:.0f} of its comparisons); {power.resolves(sd, metric.unit, digits, ' or more')}"
        )
    return lines


def planned_comparisons(plan: Plan) -> int:
    """The comparisons of the answer's tables in all metrics, at least one each."""
    return len(plan.metrics) * max(1, len(plan.comparisons))


def evaluation_noise(plan: Plan) -> float:
    """Standard deviation of one score from sampling alone at accuracy one half: its problems times its samples are all it has."""
    samples = _evaluation_samples(plan)
    return 0.5 / math.sqrt(samples) if samples else math.nan


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


# Standard deviations of a paired difference over training seeds: rungs of the testbed's ladder have 0.8 to 2.2 points over eight seeds
# (results/published/dapo_ladder), those of SmolLM2 135M after a cold start 2.3 beyond the evaluation's samples (language_ladder_gpu there).
SEED_SPREADS = (0.01, 0.023)


def half_width_lines(plan: Plan, sample_sd: float) -> list[str]:
    """Tell how wide an interval of a difference will be, before any run; `sample_sd` is that of one answer's score about its problem's."""
    if not plan.paired or plan.benchmark not in plan.arms[0].config.evaluation.benchmarks:
        return []
    if not (samples := _evaluation_samples(plan)):
        key = f"evaluation.benchmarks.{plan.benchmark}.path"
        return [
            f"expected interval of a difference: unknown; problems are counted beforehand in a local file alone ({key})"
        ]
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

    It is that of paired differences in this experiment, else of its arms' scores, else of other arms that train and are evaluated alike.
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
    return (
        pool(differences, 1.0, "paired differences of {} comparison{} of this experiment")
        or pool(scores.values(), pair_factor, "{} arm{} of this experiment, taken as unpaired")
        or pool(_other_arms(plan, store), pair_factor, "{} other arm{} trained and evaluated alike, taken as unpaired")
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


def _other_arms(plan: Plan, store: ResultStore) -> list[dict[int, float]]:
    """Scores by seed of stored arms that share all but the algorithm with an arm of the plan.

    Seeds of another model, task or length spread otherwise. Their seeds are taken to share base policies as the plan's do.
    """
    cap, setting_hashes = plan.arms[0].config.score_cap, {_setting_hash(arm.config) for arm in plan.arms}
    finished_rows = [row for row in store.readable() if row["status"] == "finished"]
    arms: dict[str, dict[int, str]] = {}
    for row in sorted(finished_rows, key=lambda row: str(row.get("created_at", "")), reverse=True):
        arms.setdefault(row["arm_id"], {})[row["seed"]] = row["run_id"]
    repeated_arms = [runs for runs in arms.values() if len(runs) > 1][:_OTHER_ARMS]
    similar_arms = [runs for runs in repeated_arms if _stored_setting_hash(store, min(runs.values())) in setting_hashes]
    return [_scores(plan, store, runs, cap) for runs in similar_arms]


def _setting_hash(config: RunConfig) -> str:
    """A hash of what a run's numbers depend on beside its algorithm and seed: model, task, sampling, length, optimizer, evaluation."""
    return content_hash({key: part for key, part in identity(config).items() if key not in ("algorithm", "seed")})


def _stored_setting_hash(store: ResultStore, run_id: str) -> str | None:
    """The same of a stored run; None where its configuration cannot be read."""
    try:
        return _setting_hash(load(store.run(run_id).settings()))
    except (ConfigError, StoreError, yaml.YAMLError):
        return None
