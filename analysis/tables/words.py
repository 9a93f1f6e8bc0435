"""What stands around the numbers of a table: names of metrics, headers of differences, the sentences below, and warnings."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.frames import Frames
from analysis.graders import grader_gaps
from analysis.results import Results
from analysis.samples import needed_columns
from analysis.tables.spending import equal_what
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text
from harness.configuration.numbers import format_amount, format_count
from harness.evaluation.metrics.names import Metric
from harness.experiment.as_declared import changes
from harness.experiment.plan import Plan
from harness.statistics import intervals
from harness.statistics.intervals import Estimate, judge_one

MARK = " †"
_OVERSHOOT = 1.02  # of a budget
REFERENCE = {
    "cumulative": "rung below", "leave_one_out": "full recipe", "one_factor": "base", "factorial": "base",
    "arms": "reference",
}  # fmt: skip


def metric_name(results: Results) -> str:
    """Name the metric: ``avg@32``, ``length of wrong answers``."""
    metric, score = results.metric, results.experiment.plan.score
    return f"avg@{samples(results) or 'n'}" if metric == score and metric.name == "avg" else metric.title


def samples(results: Results) -> int:
    """Count the samples a problem at the checkpoint, 0 where nobody recorded them."""
    most_samples = results.per_seed["samples"].max() if "samples" in results.per_seed else math.nan
    return 0 if math.isnan(most_samples) else int(most_samples)


def metric_header(results: Results) -> str:
    """Return name and unit of a value: ``avg@32 %``, ``length of wrong answers, tokens``."""
    metric, score = results.metric, results.experiment.plan.score
    return f"{metric_name(results)}{metric.percent}" if metric == score else metric.header


def metric_suffix(results: Results) -> str:
    """Return what tells the files of a further metric from those of the first: ``-length_wrong``."""
    return "" if results.metric == results.experiment.plan.metrics[0] else f"-{results.metric.file_name}"


def seeds_text(counts: Collection[int]) -> str:
    """``8 seeds``, or ``8 to 16 seeds`` where the counts differ."""
    fewest, most = min(counts), max(counts)
    return f"{fewest} to " * (fewest < most) + format_count(most, "seed")


def experiment_table(
    results: Results, key: str, title: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Cell]], notes: Sequence[str],
    short: Sequence[str] = (), *, by_metric: bool = False, paper: Collection[str] = (),
) -> Table:  # fmt: skip
    """Make a table whose key and title stand behind those of the experiment; ``by_metric``: the metric too, unless it is the score."""
    plan = results.experiment.plan
    name, title = f"{plan.name}-{key}" if key else plan.name, f"{plan.title} ({title})" if title else plan.title
    if by_metric and not plan.about_score:
        name, title = f"{name}{metric_suffix(results)}", f"{title}: {metric_name(results)}"
    return Table(name, title, columns, rows, notes, short, paper)


def difference_column(metric: Metric, key: str, name: str, estimates: Iterable[Estimate]) -> Column:
    """Make a column of differences with its verdicts; the header says whether its intervals are simultaneous."""
    return Column(key, f"{name} ({interval_name(estimates)})", metric.digits, metric.scale, signed=True, words=True)


def interval_name(estimates: Iterable[Estimate]) -> str:
    """Name the interval: ``95 % simultaneous`` for intervals that hold at once, ``95 % interval`` for one that stands alone."""
    return "95 % simultaneous" if family_size(estimates) > 1 else "95 % interval"


def family_size(estimates: Iterable[Estimate]) -> int:
    """Count the comparisons of a column that were tested."""
    return max((estimate.family for estimate in estimates), default=1)


def main_notes(results: Results, columns: Sequence[Sequence[Estimate]], *, short: bool = False) -> list[str]:
    """Everything below a main table with these differences; ``short``: below that in LaTeX, whose methods paragraph says the rest."""
    plan, metric, caveats = results.experiment.plan, results.metric, _caveats(results, short)
    direction = f" ({metric.direction})" if metric != plan.score and metric.direction else ""
    equal = equal_what(results)
    notes = [
        f"{metric_name(results)}{direction} on {plan.benchmark}{plan.cap_text}{f', {equal}' * bool(equal)}{undeclared_text(results)}."
    ]
    notes += interval_notes(results, columns)
    if not short:
        notes += [*word_notes(results, columns), *power_notes(columns[0], results)]
    return [*notes, *caveats]


def declared_notes(experiment: Frames) -> list[str]:
    """Say what of the declaration changed after scores could be seen."""
    plan, store = experiment.plan, experiment.store
    texts = [] if store is None else changes(store, plan.name)
    return [f"Not as first declared: {'; '.join(texts)}."] if texts else []


def undeclared_text(results: Results) -> str:
    """What makes intervals others than those of the declared analysis, for a caption: ``; interim look``; empty where nothing does."""
    plan, metric = results.experiment.plan, results.metric
    reasons = {
        f"{plan.benchmark} was not declared": plan.declared_on is not None,
        f"{metric.title} was not declared": metric not in plan.metrics,
        "interim look": any(one.next_look is not None for one in results.looks),
        "not as first declared": bool(declared_notes(results.experiment)),
    }
    return "".join(f"; {reason}" for reason, holds in reasons.items() if holds)


def interval_notes(results: Results, columns: Iterable[Sequence[Estimate]], whole: str = "a column") -> list[str]:
    """Say what intervals are taken over and which of them are simultaneous: below every table, and in the methods."""
    plan, sizes = results.experiment.plan, sorted({family_size(column) for column in columns} - {1})
    over = "base policies, each the mean of its seeds" if plan.shares_bases else "training seeds"
    test = "paired by seed" if plan.paired else "of independent seeds (Welch)"
    notes = [f"Intervals: 95 %, Student's t over {over}, problems fixed; differences {test}."]
    of_all = f" in all {results.columns} metrics" if results.columns > 1 else ""
    if plan.looks:
        looks = ", ".join(map(str, plan.looks))
        approximate = ", approximately, since seeds share base policies" * plan.shares_bases
        notes += [
            f"Seeds until it is decided: looks at {looks} seeds, declared in advance. All looks and differences{of_all} are simultaneous "
            f"at 95 % (repeated intervals, error spent in proportion to the seeds){approximate}; intervals of scores are not. A closed "
            "difference keeps interval and verdict of its last look; one that closed early as higher or lower is too large on average."
        ]
    elif sizes:
        levels = " or ".join(f"{100 * 0.95 ** (1 / size):.2f} % for each of {size}" for size in sizes)
        notes.append(f"Simultaneous: all of {whole}{of_all} hold at once at 95 % (Šidák: {levels}), whatever has run.")
    return notes


def word_notes(results: Results, columns: Iterable[Sequence[Estimate]]) -> list[str]:
    """Say what each word below an interval means, and where seeds are too few for any."""
    margin = results.shown_margin
    survey = survey_text([one for column in columns for one in column], results.experiment.plan)
    inside = less = beyond = ""
    if margin is not None:
        less, beyond = f" (by less than {margin:g}: within the margin)", " and reaches beyond the margin"
        inside = f" Equivalent within {margin:g}: it contains zero and lies within ±{format_amount(margin, results.metric.unit)}."
    words = (
        f"Higher, lower: the printed interval lies above or below zero{less}.{inside} Not resolved: it contains zero{beyond}, which is no "
        "sign that nothing is there."
    )
    return [*[survey] * bool(survey), words]


def survey_text(estimates: Iterable[Estimate], plan: Plan) -> str:
    """The warning where one of these differences has few replicates; empty where none has."""
    return intervals.survey_text((_units(estimate, plan) for estimate in estimates), plan.replicate_name)


def _caveats(results: Results, short: bool) -> list[str]:
    """Say what is wrong with single arms and what is missing: one seed, no value, other makers, runs that did not finish."""
    experiment, plan = results.experiment, results.experiment.plan
    single = any(len(results.values(arm)) == 1 for arm in plan.arms)
    notes = declared_notes(experiment)
    notes += ["Single training seed in at least one arm: with one seed nothing can be resolved."] * single
    notes += [*_absent_notes(results), *training_notes(experiment)]
    if odd := odd_arms(experiment):
        runs = (f"{name}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" for name, seeds in odd.items())
        details = "" if short else f": {'; '.join(runs)}. `harness status RUN RUN` says what differs"
        meaning = "made by other code, packages or another device than the other runs of this table"
        notes.append(f"{MARK.strip()} {meaning}{details}.")
    return [*notes, *plan.notes, *(f"Missing: {line}." for line in (*experiment.notes, *results.notes))]


def training_notes(experiment: Frames) -> list[str]:
    """Say what training did not do as it was asked to: learn, spend its budget and no more, fill its batches."""
    return [*untrained_notes(experiment), *_budget_notes(experiment), *_short_batch_notes(experiment)]


_LACKS = {  # what a run lacks to learn, and the column whose value 0 at every step says so
    "No step had a gradient (all responses of a group earn the same), so nothing was trained": "gradient_norm",
    "The learning rate was 0 at every step, so nothing was trained": "learning_rate",
}


def untrained_notes(experiment: Frames) -> list[str]:
    """Say which finished runs could not learn, and where responses had no verdict."""
    steps, notes = experiment.steps, list[str]()
    if not len(steps):
        return notes
    labels = {arm.name: arm.label for arm in experiment.plan.arms}
    finished_ids = set(experiment.finished_runs["run_id"])
    runs = steps[steps["run_id"].isin(finished_ids)].groupby(["arm", "seed"], sort=False)
    for text, column in _LACKS.items():
        greatest = runs[column].max() if column in steps else pd.Series(dtype=float)
        if run_names := [f"{labels[arm]}, seed {seed}" for arm, seed in greatest.index[greatest == 0]]:
            notes.append(f"{text}: {'; '.join(run_names)}.")
    faults = runs["verifier_faults"].sum() if "verifier_faults" in steps else pd.Series(dtype=float)
    if run_names := [f"{labels[arm]}, seed {seed}: {faults[arm, seed]:.0f}" for arm, seed in faults.index[faults > 0]]:
        notes.append(f"Responses without a verdict in training, which earned reward.wrong: {'; '.join(run_names)}.")
    return notes


def _budget_notes(experiment: Frames) -> list[str]:
    """Say which runs of a matched budget ended before it was spent, and which arms spent 2 % more tokens than their budget or over."""
    plan, run_names, over = experiment.plan, list[str](), list[str]()
    for name, runs in experiment.spent.groupby("arm", sort=False):
        training = experiment.settings.get(str(name), {}).get("training") or {}
        if (budget := training.get("generated_tokens")) is None:
            continue
        label, share = plan.arm(str(name)).plain_label, runs["tokens"] / budget
        over += [f"{label} by {100 * (share.mean() - 1):.0f} %"] * bool(share.mean() >= _OVERSHOOT)
        ended = runs[(share < 1) & (runs["steps"] >= training["steps"]) & (plan.match != "steps")]
        run_names += [
            f"{label}, seed {seed}: {100 * share[at]:.0f} % of {budget:g}" for at, seed in ended["seed"].items()
        ]
    text = f"Ended at training.steps before the budget of {plan.match} was spent; raise training.steps"
    return [
        *[f"{text}: {'; '.join(run_names)}."] * bool(run_names),
        *[f"The last step overshot the budget of tokens: {'; '.join(over)}."] * bool(over),
    ]


def _short_batch_notes(experiment: Frames) -> list[str]:
    """Say which arms trained steps on fewer groups than were asked for, since dynamic sampling met its bound of rounds."""
    counts = dict[str, list[float]]()
    if "kept_groups" not in experiment.steps:
        return []
    for name, runs in experiment.finished_runs.groupby("arm", sort=False)["run_id"]:
        algorithm = experiment.settings.get(str(name), {}).get("algorithm") or {}
        refills = isinstance(algorithm, dict) and (algorithm.get("dead_groups") or {}).get("policy") == "refill"
        kept = experiment.steps.loc[experiment.steps["run_id"].isin(runs), "kept_groups"].dropna()
        if len(kept) and refills:
            counts[str(name)] = list(100 * kept / algorithm["prompts_per_step"])
    texts = [
        f"{experiment.plan.arm(name).plain_label}, {100 * np.mean(np.less(shares, 100)):.0f} % of steps "
        f"({min(shares):.0f} % of the groups at least)"
        for name, shares in counts.items()
        if min(shares) < 100
    ]
    return [f"Dynamic sampling ended at its bound and trained on fewer groups: {'; '.join(texts)}."] * bool(texts)


def _absent_notes(results: Results) -> list[str]:
    """Say which finished seeds have no value of the metric."""
    plan = results.experiment.plan
    if results.metric == plan.score:
        return []
    counts = [(arm.label, len(results.scores(arm, "avg")), len(results.values(arm))) for arm in plan.arms]
    if any(runs for _, runs, _ in counts) and not any(values for *_, values in counts):
        return [f"No finished run has a value of {results.metric.name}{why_absent(results)}."]
    gaps = [f"{label}, {runs - values} of {runs} seeds" for label, runs, values in counts if values < runs]
    return [f"Without a value, and left out: {'; '.join(gaps)}."] * bool(gaps)


def why_absent(results: Results) -> str:
    """Say what the runs would have had to log, or sample."""
    metric, n, steps = results.metric, samples(results), results.experiment.steps
    advice = f"load the experiment with metrics=[{metric.name!r}]"
    if columns := [name for name in needed_columns(metric) if name not in steps or not steps[name].notna().any()]:
        return f": they have not logged {', '.join(columns)}"
    if metric.kind not in ("pass", "maj") or not n:
        return ""
    enough = isinstance(metric.parameter, int) and metric.parameter <= n
    return f": {advice}" if enough else f": they have {n} samples a problem"


def odd_arms(experiment: Frames) -> Mapping[str, list[int]]:
    """Map arm names to the seeds of finished runs that were not made by what made most of them; those that do not say are left out."""
    keys = ["code", "packages", "device"]
    makers = experiment.finished_runs[["arm", "seed", *keys]].astype(dict.fromkeys(keys, object)).fillna("")
    makers = makers[(makers[keys] != "").any(axis=1)]
    maker = makers.groupby(keys, sort=False).ngroup()
    # Ties go to the maker of the first run, so that the same store marks the same rows.
    others = makers[maker != maker.mode()[0]] if len(makers) else makers
    return {str(arm): seeds.tolist() for arm, seeds in others.groupby("arm", sort=False)["seed"]}


def power_notes(differences: Iterable[Estimate], results: Results) -> list[str]:
    """Say which difference the seeds of this column find at its level, and how many seeds half of it needs."""
    plan, metric, paired = results.experiment.plan, results.metric, results.experiment.plan.paired
    pairs = [(estimate, units) for estimate in differences if (units := _units(estimate, plan))]
    if plan.stopped_by_results or not pairs:  # the seeds of a difference are part of a sequential design's outcome
        return []
    # Seeds of one base policy are one replicate: the standard error has their means' degrees, not the seeds'.
    per_unit = [estimate.standard_error * math.sqrt(units / (1 if paired else 2)) for estimate, units in pairs]
    sd, alpha = float(np.sqrt(np.mean(np.square(per_unit)))), 1 - pairs[0][0].level
    least = min(units for _, units in pairs)
    if sd == 0:
        return ["The seeds do not differ at all here, so nothing can be said of power."]
    smallest = intervals.minimum_detectable_difference(sd, least, paired=paired, alpha=alpha)
    if metric.unit == "points" and metric.scale * smallest > 100:
        return [f"With {least} {plan.replicate_name} no difference that is possible is found with 80 % power."]
    size = f"{metric.scale * smallest:.{metric.digits}f}" + f" {metric.unit}" * (metric.unit != "reward")
    family_text = f", one among {family}," if (family := family_size(estimate for estimate, _ in pairs)) > 1 else ""
    seed_count = intervals.seeds_needed(smallest / 2, sd, paired=paired, alpha=alpha)
    half = f"; a new study finds half of it with {seed_count} {plan.replicate_name}" if seed_count else ""
    return [f"With {least} {plan.replicate_name} a difference of {size}{family_text} is found with 80 % power{half}."]


def _units(estimate: Estimate, plan: Plan) -> int:
    """Count the replicates behind a difference, its seeds or the base policies that they share; 0 where their spread is not known."""
    if estimate.seeds < 2 or math.isnan(estimate.standard_error + estimate.degrees):
        return 0
    if plan.paired:
        return round(estimate.degrees) + 1
    return min(estimate.seeds, intervals.replicate_count(plan.seeds, plan.base_policies))


def collapse_warnings(results: Results) -> list[str]:
    """Say how many seeds of an arm collapsed, and where the word on its difference is another one without."""
    plan, metric, collapses = results.experiment.plan, results.metric, results.experiment.collapses
    pairs = zip(results.per_seed["arm"], results.per_seed["seed"], strict=True)
    rest = replace(results, per_seed=results.per_seed[np.array([pair not in collapses for pair in pairs], dtype=bool)])
    warnings = []
    for arm in plan.arms if collapses else ():
        values, reference = results.values(arm), plan.reference_of(arm)
        if seeds := [seed for seed in sorted(values) if (arm.name, seed) in collapses]:
            low, high = (100 * end for end in intervals.clopper_pearson(len(seeds), len(values)))
            share = f"{len(seeds)} of {len(values)} seeds collapsed (exact 95 % interval {low:.0f} to {high:.0f} %)"
            numbers = f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
            details = f"{numbers}: at the last evaluation accuracy below half of the run's own best one."
            warnings.append(f"{arm.plain_label}: {share}. {details}")
        if reference is None:
            continue
        full = results.declared[arm.name]
        looked = plan.seeds[: full.seeds] if plan.looks else None
        # At the level of the answer's own interval, so that it is the seeds alone that change the word.
        without = judge_one(rest.contrast(arm, reference, looked), margin=results.margin, level=full.level)
        without = results.experiment.engagements[arm.name].judged(without)
        if full.verdict != without.verdict and not math.isnan(full.value + without.value):
            before, after = (delta.words(metric.scale, metric.unit) for delta in (full, without))
            value = f"{number_text(metric.scale * without.value, metric.digits, signed=True)} {metric.unit}"
            warnings.append(
                f"{arm.plain_label}: collapsed seeds decide. It is {before} with them; without them {value}, {after}."
            )
    return warnings


def grader_warnings(results: Results) -> list[str]:
    """Say for each arm whose gap has grown: ``22.1 of its +34.0 points are not confirmed by the second grader``; else nothing."""
    warnings, gaps = [], grader_gaps(results)
    for arm in results.experiment.plan.arms:
        if arm.name not in gaps or not gaps[arm.name].has_grown:
            continue
        gap, part = gaps[arm.name], gaps[arm.name].unconfirmed_rise.value
        ends = " to ".join(bounds_text(gap.unconfirmed_rise, 1, scale=100))
        interval = f" (95 % interval {ends})" * (not math.isnan(gap.unconfirmed_rise.low))
        rise, rest = (number_text(100 * value, 1, signed=True) for value in (gap.rise, gap.rise - part))
        shares = (f"{100 * share:.0f} %" for share in (gap.refused_share, gap.refused_share_before))
        now, then = (share.replace("nan %", "an unknown share") for share in shares)
        warnings.append(
            f"{arm.plain_label}: {number_text(100 * part, 1)} of its {rise} points are not confirmed by the second grader{interval}. "
            f"What both hold right changed by {rest}. The second grader refuses {now} of what the verifier holds right, {then} before RL."
        )
    return warnings
