"""The tables of an experiment: scores and deltas, diagnostics, cost, attribution, grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.evidence.cells import KIND
from analysis.evidence.engagement import NOTE, engagements
from analysis.evidence.logged import TRAINING
from analysis.evidence.results import Results
from analysis.tables.benchmarks import benchmark_tables
from analysis.tables.collapse import collapse_table
from analysis.tables.differences import (
    REFERENCE,
    difference_column,
    differences_to_base,
    differences_to_reference,
    power_notes,
    short_notes,
    word_notes,
)
from analysis.tables.graders import graders_table
from analysis.tables.looks import look_states, looks_table
from analysis.tables.makers import maker_notes, marked, odd_arms
from analysis.tables.of_designs import attribution_tables, grid_table, null_table
from analysis.tables.of_metric import (
    absent_notes,
    experiment_table,
    metric_column,
    metric_header,
    metric_name,
    of_metric,
    samples,
    score_name,
)
from analysis.tables.published import published_table
from analysis.tables.table import Cell, Column, Table, cell_text
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.estimate import Estimate
from harness.statistics.intervals import (
    interquartile_mean,
    mean_interval,
    performance_profile,
    probability_of_improvement,
    seed_bootstrap,
)


def all_tables(results: Results) -> list[Table]:
    """Make every table the design has, the deterministic ones first; ``cost`` holds all that wall time touches."""
    views = results.each_metric()
    tables = [
        *map(main_table, views),
        *benchmark_tables(results),
        answers_table(results),
        behaviour_table(results),
    ]
    tables += [second_reading_table(results), checkpoints_table(results)]
    tables += [table for view in views for table in attribution_tables(view, metric_name(view))]
    others = [
        *map(looks_table, views),
        *(grid_table(view, metric_name(view)) for view in views),
        *map(null_table, views),
        *map(collapse_table, views),
        published_table(results),
        kinds_table(results),
        graders_table(results),
    ]
    return [*tables, *(table for table in others if table), cost_table(results)]


def main_table(results: Results) -> Table:
    """Make the main table: score per arm, differences with simultaneous intervals and words, published value and source."""
    plan = results.experiment.plan
    below = differences_to_reference(results)
    to_base = differences_to_base(results)
    about_score = results.metric == plan.score
    # Unit and source of the published numbers stand in the header where all of them share one.
    sources = {
        (arm.published.unit, arm.published.source) for arm in plan.arms if arm.published and about_score
    }
    shared = sources.pop() if len(sources) == 1 else None
    before = results.before_rl(results.column)
    rows: list[Mapping[str, Cell]] = [] if before is None else [{"arm": "before RL", "score": before}]
    odd, decided = odd_arms(results.experiment), look_states(results)
    engaged = engagements(results.experiment)
    any_engaged = any(one.known for one in engaged.values())
    for arm in plan.arms:
        row: dict[str, Cell] = {
            "arm": marked(arm, odd),
            "reference": reference.label if (reference := plan.reference_of(arm)) else None,
            "score": results.mean(arm),
            "delta": below.get(arm.name),
            "delta_base": to_base.get(arm.name),
            "engaged": engaged[arm.name].beside(_resolved(below.get(arm.name))) or None,
            "look": decided.get(arm.name),
            "seeds": _seeds(results, arm),
        }
        if arm.published and about_score:
            row["source"] = arm.published.source
            row["published"] = f"{arm.published.value:g}" + f" {arm.published.unit}" * (not shared)
        rows.append(row)
    columns = [
        Column("arm", "arm"),
        metric_column(results.metric, "score", f"{metric_header(results)} (95 % interval)"),
        difference_column(results.metric, "delta", f"Δ to {REFERENCE[plan.design]}", below.values()),
    ]
    if any_engaged:
        columns.append(Column("engaged", "engaged"))
    if to_base:
        columns.append(difference_column(results.metric, "delta_base", "Δ to base", to_base.values()))
    if len({arm.parent for arm in plan.arms if arm.parent}) > 1 and plan.design == "arms":
        columns.insert(2, Column("reference", "reference"))
    if plan.looks:
        columns.append(Column("look", "decided"))
    columns.append(Column("seeds", "seeds"))
    if shared:
        columns.append(Column("published", f"published ({shared[0]}, {shared[1]})"))
    elif sources:
        columns += [Column("published", "published"), Column("source", "source")]
    notes = [*_main_notes(results, below, to_base), *([NOTE] if any_engaged else [])]
    short = [
        f"{_measured(results)}.",
        *short_notes(results, below.values()),
        *_caveats(results, short=True),
        *_missing(results),
    ]
    return of_metric(Table(plan.name, plan.title, columns, rows, notes, short), results)


def answers_table(results: Results) -> Table:
    """Make the table of Pass@k, Maj@k and the other response caps at the checkpoint; the biased best-on-test pick, labelled."""
    n = samples(results)
    # Pass@k needs n >= 2k to be smooth.
    ks = [k for k in (n // 4, n) if k >= 2 and (k.bit_count() == 1 or k == n)]
    metrics = [
        Column(f"{name}@{k}", f"{name.capitalize()}@{k} %", scale=100) for name in ("pass", "maj") for k in ks
    ]
    metrics += _other_caps(results)
    notes = (
        "Means over seeds. Pass@k is unbiased; Maj@k is the expectation over k-subsets with uniform ties; "
        "missing answers take a place and cannot win.",
    )
    return _means_table(results, "answers", "Pass@k, Maj@k and response caps", metrics, notes)


def behaviour_table(results: Results) -> Table:
    """Make the table of response length by outcome, truncation, entropy and generated tokens at the checkpoint."""
    plan = results.experiment.plan
    metrics = [
        Column("tokens_all_mean", "length, tokens"),
        Column("tokens_right_mean", "length right"),
        Column("tokens_wrong_mean", "length wrong"),
        Column("truncated_fraction", "truncated %", scale=100),
        Column("truncated_right_fraction", "truncated, right %", scale=100),
        Column("no_answer_fraction", "no answer %", scale=100),
        Column("entropy_nats", "entropy, nats", digits=3),
        Column("train_generated_tokens_total", "generated tokens, k", digits=0, scale=1e-3),
        Column("tokens_to_target", "tokens to target, k", digits=0, scale=1e-3),
    ]
    score = plan.score
    target = f"{score.scale * results.target:.{score.digits}f}{score.percent}"
    notes = (
        "Means over seeds. Truncated: stopped by the token cap. Generated tokens include discarded groups.",
        f"Tokens to target: none yet, {plan.base.label} has no finished run."
        if math.isnan(results.target)
        else f"Tokens to target: generated tokens until {score_name(results)} first reaches {target} (the final score of "
        f"{plan.base.label}), linear between evaluations, mean of the seeds that reach it.",
    )
    return _means_table(results, "behaviour", "length, truncation, entropy and tokens", metrics, notes)


def kinds_table(results: Results) -> Table | None:
    """Make the table that parts learning to answer from learning to calculate; None where problems are of one kind."""
    kinds = [str(name) for name in results.per_seed if str(name).startswith(KIND)]
    if not kinds:
        return None
    metrics = [
        Column("no_answer_fraction", "no answer %", scale=100),
        Column("truncated_fraction", "truncated %", scale=100),
        Column("accuracy_finished", "right of those that ended %", scale=100),
        Column("avg", "right of all %", scale=100),
        Column("truncated_right_fraction", "of them cut off %", scale=100),
        *(Column(name, f"{name.removeprefix(KIND)} %", scale=100) for name in kinds),
    ]
    notes = (
        "Means over seeds. A policy that learns to answer has fewer responses without an answer and fewer that are cut off; one that "
        "learns to calculate has more right of those that ended by themselves. Right of all is the lenient reading; without those "
        "that were cut off it is the strict one. By kind: right of all responses to problems of the kind.",
    )
    return _means_table(results, "kinds", "answering, and what is answered", metrics, notes)


def _other_caps(results: Results) -> list[Column]:
    """Columns of the score at the response caps that the experiment is not about."""
    plan, n = results.experiment.plan, samples(results)
    caps = [cap for cap in plan.caps if cap != plan.primary_cap]
    return [Column(f"avg:{cap}", f"avg@{n or 'n'} %, cap {cap}", scale=100) for cap in caps]


def _means_table(
    results: Results, key: str, title: str, metrics: Sequence[Column], notes: Sequence[str]
) -> Table:
    """Make a table of means over seeds; the key of a column is a metric, with ``:CAP`` behind it that of another cap."""
    rows: list[dict[str, Cell]] = []
    if len(results.before) and (results.before["cap"] == results.experiment.plan.primary_cap).any():
        before = {column.key: results.before_rl(*_metric_and_cap(column)) for column in metrics}
        rows.append({"name": "", "arm": "before RL", **before})
    for arm in results.experiment.plan.arms:
        means = {column.key: results.mean(arm, *_metric_and_cap(column)).value for column in metrics}
        rows.append({"name": arm.name, "arm": arm.label, **means})  # two arms may have one label
    return experiment_table(results, key, title, [Column("arm", "arm"), *metrics], rows, notes)


def _metric_and_cap(column: Column) -> tuple[str, int | None]:
    metric, _, cap = column.key.partition(":")
    return metric, int(cap) if cap else None


def checkpoints_table(results: Results) -> Table:
    """Compare the score by the last checkpoint, the mean of the last three and the best on test, as published ladders mix them."""
    plan = results.experiment.plan
    rules = {
        "last_score": "last",
        "mean_last_3_score": "mean of last 3",
        "best_on_test": "best on test (biased)",
    }
    rows: list[Mapping[str, Cell]] = [
        {"arm": arm.label, **{key: results.mean(arm, key) for key in rules}} for arm in plan.arms
    ]
    name = f"{score_name(results)}{plan.score.percent}"
    columns = [
        Column("arm", "arm"),
        *(metric_column(plan.score, key, f"{name}, {rule}") for key, rule in rules.items()),
    ]
    notes = [
        f"The result is by the declared rule, {plan.checkpoint_rule}; the other columns stand beside it since published "
        "ladders differ in this. Best on test picks the evaluation by the test problems: inflated, and no result.",
    ]
    return experiment_table(results, "checkpoints", "checkpoint rules", columns, rows, notes)


def summary_table(results: Results) -> Table:
    """Make what a terminal shows below the main table: cost, k-metrics, truncation, entropy, other caps, one line an arm."""
    n = samples(results)
    behaviour, costs = behaviour_table(results), cost_table(results)
    means = [Column(f"{kind}@{n}", f"{kind.capitalize()}@{n} %", scale=100) for kind in ("pass", "maj") if n]
    means += _other_caps(results)
    taken = {"truncated_fraction", "entropy_nats", "train_generated_tokens_total", "tokens_to_target"}
    means += [column for column in behaviour.columns if column.key in taken]
    title = "Means over seeds at the checkpoint; tokens and wall time per run"
    notes = [note for note in behaviour.notes if note.startswith("Tokens to target")]
    table = _means_table(results, "summary", "", means, notes)
    seconds = {row["name"]: row.get("total") for row in costs.rows}
    rows = [{**row, "total": seconds.get(row["name"])} for row in table.rows]
    columns = [*table.columns, Column("total", "wall, s", digits=0)]
    return Table("summary", title, columns, rows, notes)


def second_reading_table(results: Results) -> Table:
    """Make the table of readings beside the mean: IQM over seeds, probability of improvement, problems mostly solved."""
    plan = results.experiment.plan
    of_score = "" if plan.about_score else f" of {score_name(results)}"
    unit, units = ("base policy", "base policies") if plan.shares_bases else ("seed", "seeds")
    rows: list[Mapping[str, Cell]] = []
    for arm in plan.arms:
        scores = plan.replicates(results.scores(arm, "avg"))
        reference = plan.reference_of(arm)
        other = [] if reference is None else plan.replicates(results.scores(reference, "avg"))
        solved = {
            seed: float(performance_profile(values, [0.5])[0])
            for seed, values in results.problem_scores(arm).items()
        }
        rows.append(
            {
                "arm": arm.label,
                "iqm": seed_bootstrap(scores, interquartile_mean) if scores else None,
                "improvement": probability_of_improvement(scores, other) if scores and other else None,
                "solved": mean_interval(plan.replicates(solved)),
            }
        )
    iqm = f"interquartile mean{of_score}{plan.score.percent} (95 % interval)"
    columns = [
        Column("arm", "arm"),
        metric_column(plan.score, "iqm", iqm),
        Column("improvement", f"P({unit} beats {REFERENCE[plan.design]}) %", digits=0, scale=100),
        Column("solved", "problems solved more often than not % (95 % interval)", scale=100),
    ]
    notes = [
        f"Interquartile mean over {units}, bootstrap standard error with the small-sample t quantile. P is the chance "
        f"that a random {unit} of the arm beats a random {unit} of its reference, ties half.",
    ]
    return experiment_table(results, "robust", "robust readings", columns, rows, notes)


def cost_table(results: Results) -> Table:
    """Make the table of wall seconds by phase and generated tokens per second of the finished runs.

    It is not deterministic, so apart from the rest.
    """
    plan, steps = results.experiment.plan, results.experiment.steps
    phases = ("rollout", "verify", "train", "evaluate", "total")
    rows: list[Mapping[str, Cell]] = []
    for arm in plan.arms:
        finished = results.experiment.finished_seeds(arm)
        row: dict[str, Cell] = {"name": arm.name, "arm": arm.label, "seeds": _seeds(results, arm)}
        own = steps[(steps["arm"] == arm.name) & steps["seed"].isin(finished)]
        if len(own):  # a run of no steps is an evaluation alone
            runs = own.groupby("run_id")
            for phase in phases:
                row[phase] = float(runs[f"seconds_{phase}"].sum().mean())
            row["tokens"] = float(runs["generated_tokens"].sum().mean())
            total = float(own["seconds_rollout"].sum())
            row["rate"] = float(own["generated_tokens"].sum()) / total if total > 0 else None
        rows.append(row)
    columns = [
        Column("arm", "arm"),
        Column("seeds", "seeds"),
        *(Column(phase, f"{phase}, s") for phase in phases),
        Column("tokens", "generated tokens, k", digits=0, scale=1e-3),
        Column("rate", "tokens per rollout second", digits=0),
    ]
    note = "Wall time: mean per run, on the machine and load of the day; it differs from run to run."
    return Table("cost", f"{plan.title} (cost)", columns, rows, [note])


def _main_notes(
    results: Results, below: Mapping[str, Estimate], to_base: Mapping[str, Estimate]
) -> tuple[str, ...]:
    plan = results.experiment.plan
    about_score = results.metric == plan.score
    notes = [
        f"{_measured(results)}. Intervals over training seeds, problems fixed; that of a score is the ordinary Student's t of its "
        f"arm alone, differences are {'paired by seed' if plan.paired else 'of independent seeds'}.",
        *word_notes(results, (below.values(), to_base.values()), "paired t" if plan.paired else "Welch's t"),
    ]
    last = plan.arms[-1]
    ladder = plan.design == "cumulative" and last.name != plan.base.name
    if about_score and ladder and not plan.stopped_by_results:
        wider = results.population_difference(last, plan.base)
        if not math.isnan(wider.low):
            shown = cell_text(wider, difference_column(results.metric, "", "", [wider]))
            notes.append(
                f"For new problems as well as new seeds (two-way t, a single comparison and not corrected), {last.label} over base: "
                f"{shown}."
            )
    return (*notes, *_caveats(results), *power_notes(below.values(), results), *_missing(results))


def _measured(results: Results) -> str:
    """Say which metric was taken of what, and when."""
    plan, metric = results.experiment.plan, results.metric
    direction = "" if metric == plan.score or not metric.direction else f" ({metric.direction})"
    return f"{metric_name(results)}{direction} on {plan.benchmark}{plan.cap_text}, checkpoint rule {plan.checkpoint_rule}"


def _caveats(results: Results, *, short: bool = False) -> list[str]:
    plan = results.experiment.plan
    single = any(len(results.values(arm)) == 1 for arm in plan.arms)
    notes = ["Single training seed in at least one arm: with one seed nothing can be resolved."] * single
    return [
        *notes,
        *absent_notes(results),
        *maker_notes(results.experiment, short=short),
        *_foreign_notes(plan),
    ]


def _missing(results: Results) -> list[str]:
    lines = (*results.experiment.notes, *results.notes)
    return [*results.experiment.plan.notes, *(f"Missing: {line}." for line in lines)]


def _foreign_notes(plan: Plan) -> list[str]:
    """Say which numbers were not made here, and what that means for the columns."""
    by_format: dict[str, list[str]] = {}
    for arm in plan.arms:
        if arm.foreign:
            by_format.setdefault(arm.foreign, []).append(arm.label)
    if not by_format:
        return []
    arms = "; ".join(f"{name}: {', '.join(labels)}" for name, labels in by_format.items())
    about = "a training metric" if plan.benchmark == TRAINING else "as their trainer logged them"
    return [
        f"Foreign runs ({arms}): scores are {about}, graded by other code and without samples here, so no Pass@k, "
        "Maj@k or problem-level statistics of ours."
    ]


def _resolved(delta: Estimate | None) -> bool:
    return delta is not None and delta.resolved


def _seeds(results: Results, arm: PlannedArm) -> str:
    return f"{len(results.values(arm))}/{len(results.experiment.plan.seeds_of(arm))}"
