"""The tables of an experiment: scores and differences, means of other metrics, cost, and every benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.caveats import engagements
from analysis.effects import MEAN, benchmark_differences, benchmark_views, differences_to_base, differences_to_reference
from analysis.results import Results, mean_over, unreached_text
from analysis.tables.differences import (
    REFERENCE,
    absent_notes,
    base_notes,
    design_tables,
    difference_column,
    experiment_table,
    family_size,
    level_text,
    look_states,
    maker_notes,
    marked,
    metric_column,
    metric_header,
    metric_name,
    metric_suffix,
    odd_arms,
    of_metric,
    power_notes,
    samples,
    score_name,
    short_notes,
    word_meanings,
    word_notes,
)
from analysis.tables.table import Cell, Column, Table, cell_text
from harness.evaluation.metrics.names import TRAINING
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import Estimate


def all_tables(results: Results) -> list[Table]:
    """Make every table the design has, the deterministic ones first; ``cost`` holds all that wall time touches."""
    views = results.each_metric()
    return [
        *map(main_table, views),
        *benchmark_tables(results),
        answers_table(results),
        behaviour_table(results),
        *design_tables(results),
        cost_table(results),
    ]


def answer_tables(results: Results) -> list[Table]:
    """Make the tables that answer the question: the main one of each metric, and what the design is for."""
    return [*map(main_table, results.each_metric()), *design_tables(results)]


def main_table(results: Results) -> Table:
    """Make the main table: score per arm, differences with simultaneous intervals and words, published value and source."""
    plan = results.experiment.plan
    below = differences_to_reference(results)
    to_base = differences_to_base(results)
    about_score = results.metric == plan.score
    # Unit and source of the published numbers stand in the header where all of them share one.
    sources = {(arm.published.unit, arm.published.source) for arm in plan.arms if arm.published and about_score}
    shared = sources.pop() if len(sources) == 1 else None
    before = results.before_rl(results.column)
    rows: list[Mapping[str, Cell]] = [] if before is None else [{"arm": "before RL", "score": before}]
    odd, decided = odd_arms(results.experiment), look_states(results)
    engaged = engagements(results.experiment)
    any_engaged = any(engagement.known for engagement in engaged.values())
    for arm in plan.arms:
        delta = below.get(arm.name)
        row: dict[str, Cell] = {
            "arm": marked(arm, odd),
            "reference": reference.label if (reference := plan.reference_of(arm)) else None,
            "score": results.mean(arm),
            "delta": delta,
            "delta_base": to_base.get(arm.name),
            "engaged": engaged[arm.name].beside(delta is not None and delta.resolved) or None,
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
    """Make the table of Pass@k, Maj@k and the other response caps at the checkpoint."""
    n = samples(results)
    # Pass@k needs n >= 2k to be smooth.
    ks = [k for k in (n // 4, n) if k >= 2 and (k.bit_count() == 1 or k == n)]
    metrics = [Column(f"{name}@{k}", f"{name.capitalize()}@{k} %", scale=100) for name in ("pass", "maj") for k in ks]
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
    never = [
        f"{arm.label}, {reason}"
        for arm in plan.arms
        if (reason := unreached_text(results.scores(arm, "tokens_to_target")))
    ]
    notes = [
        "Means over seeds. Truncated: stopped by the token cap. Generated tokens include discarded groups.",
        f"Tokens to target: none yet, {plan.base.label} has no finished run."
        if math.isnan(results.target)
        else f"Tokens to target: generated tokens until {score_name(results)} first reaches {target} (the final score of "
        f"{plan.base.label}), linear between evaluations; no number for an arm with a seed that never does.",
        *([f"Tokens to target: {'; '.join(never)}."] if never else []),
    ]
    return _means_table(results, "behaviour", "length, truncation, entropy and tokens", metrics, notes)


def _other_caps(results: Results) -> list[Column]:
    """Columns of the score at the response caps that the experiment is not about."""
    plan, n = results.experiment.plan, samples(results)
    caps = [cap for cap in plan.caps if cap != plan.primary_cap]
    return [Column(f"avg:{cap}", f"avg@{n or 'n'} %, cap {cap}", scale=100) for cap in caps]


def _means_table(results: Results, key: str, title: str, metrics: Sequence[Column], notes: Sequence[str]) -> Table:
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
        logged = steps[(steps["arm"] == arm.name) & steps["seed"].isin(finished)]
        if len(logged):  # a run of no steps is an evaluation alone
            runs = logged.groupby("run_id")
            for phase in phases:
                row[phase] = float(runs[f"seconds_{phase}"].sum().mean())
            row["tokens"] = float(runs["generated_tokens"].sum().mean())
            total = float(logged["seconds_rollout"].sum())
            row["rate"] = float(logged["generated_tokens"].sum()) / total if total > 0 else None
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


def _main_notes(results: Results, below: Mapping[str, Estimate], to_base: Mapping[str, Estimate]) -> tuple[str, ...]:
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
    return f"{metric_name(results)}{direction} on {plan.benchmark}{plan.cap_text}{_rule_text(plan)}"


def _rule_text(plan: Plan) -> str:
    """Name the rule that picks the scored checkpoint, where it is another than the last one."""
    return "" if plan.checkpoint_rule == "last" else f", checkpoint rule {plan.checkpoint_rule}"


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


def _seeds(results: Results, arm: PlannedArm) -> str:
    return f"{len(results.values(arm))}/{len(results.experiment.plan.seeds_of(arm))}"


NOTE = (
    "Engaged: how much of the training data the difference touched, mean over steps, then over the seeds of the arm that "
    "has the mechanism; thresholds of “hardly engaged”: docs/objective/engagement.md."
)
Views = Mapping[str, Results]


def benchmark_tables(results: Results) -> list[Table]:
    """Make scores and differences by benchmark, for each metric that evaluations have; none where only one benchmark has any."""
    tables: list[Table] = []
    for view in results.each_metric():
        if views := benchmark_views(view):
            tables.append(_scores(view, views, mean_over(list(views.values()))))
            differences = benchmark_differences(view)
            if any(not math.isnan(estimate.value) for column in differences.values() for estimate in column.values()):
                tables.append(_differences(view, views, differences))
    return tables


def _scores(results: Results, views: Views, mean: Results) -> Table:
    plan, metric = results.experiment.plan, results.metric
    together = {**views, MEAN: mean}
    rows: list[Mapping[str, Cell]] = [
        {"arm": arm.label, **{_key(name): view.mean(arm) for name, view in together.items()}} for arm in plan.arms
    ]
    known = {_key(name): view.before_rl(view.column) for name, view in views.items()}
    before = {key: value for key, value in known.items() if value is not None}
    if before:
        of_all = sum(before.values()) / len(before) if len(before) == len(views) else None
        rows.insert(0, {"arm": "before RL", **before, _key(MEAN): of_all})
    unit = metric.percent or f", {metric.unit}"
    columns = [
        Column("arm", "arm"),
        *(metric_column(metric, _key(name), f"{name}{unit} (95 % interval)") for name in together),
    ]
    key, title = f"benchmarks{metric_suffix(results)}", f"{_name(results, views)} by benchmark"
    return experiment_table(results, key, title, columns, rows, _score_notes(results, views))


def _key(name: str) -> str:
    """The key of a benchmark's column, which is none of the table's own whatever its name."""
    return f"on:{name}"


def _score_notes(results: Results, views: Views) -> list[str]:
    plan = results.experiment.plan
    notes = [
        f"The experiment is about {plan.benchmark}, whose checkpoints (last) are those of all columns{plan.cap_text}. "
        "Intervals over training seeds, problems fixed, each by itself. The mean counts every benchmark the same, whatever its number of "
        "problems.",
        *base_notes(plan),
    ]
    if plan.looks:
        notes.append(
            f"No differences on the other benchmarks: {plan.benchmark} decided how many seeds ran, and their intervals would not allow "
            "for that."
        )
    numbers = {name: samples(view) for name, view in views.items()}
    if len(set(numbers.values())) > 1:
        notes.append(f"Samples a problem: {', '.join(f'{name} {n}' for name, n in numbers.items())}.")
    finished = {arm.name: len(results.experiment.finished_seeds(arm)) for arm in plan.arms}
    short = [
        f"{arm.label} {known} of {finished[arm.name]} on {name}"
        for name, view in views.items()
        for arm in plan.arms
        if (known := len(view.values(arm))) < finished[arm.name]
    ]
    if short:
        notes.append(
            f"Finished seeds with a value at their checkpoint: {'; '.join(short)}. The mean has those with one on all benchmarks."
        )
    left_out = sorted(set(results.experiment.further).difference(views))
    if left_out:
        notes.append(f"No score at the checkpoints and this response cap on: {', '.join(left_out)}.")
    known_notes = set(results.experiment.notes)
    return notes + [
        f"Missing on {name}: {line}."
        for name, experiment in results.experiment.further.items()
        for line in experiment.notes
        if line not in known_notes
    ]


def _differences(results: Results, views: Views, differences: Mapping[str, Mapping[str, Estimate]]) -> Table:
    plan, metric = results.experiment.plan, results.metric
    rows = [
        {"arm": arm.label, **{_key(name): column.get(arm.name) for name, column in differences.items()}}
        for arm in plan.arms
    ]
    columns = [
        Column("arm", "arm"),
        *(
            difference_column(metric, _key(name), f"{name}, Δ to {REFERENCE[plan.design]}", column.values())
            for name, column in differences.items()
        ),
    ]
    notes = [*_family_notes(results, differences), *base_notes(plan), *word_meanings(results)]
    title = f"differences in {_name(results, views)} on the other benchmarks"
    key = f"benchmark-differences{metric_suffix(results)}"
    short = short_notes(results, (estimate for column in differences.values() for estimate in column.values()))
    return experiment_table(results, key, title, columns, rows, notes, short)


def _family_notes(results: Results, differences: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """What holds together; nothing where no difference has an interval."""
    if all(math.isnan(estimate.low) for column in differences.values() for estimate in column.values()):
        return []
    plan, columns = results.experiment.plan, results.columns
    sizes = sorted({family_size(column.values()) for column in differences.values()})
    metrics = f" and of those of all {columns} metrics" if columns > 1 else ""
    test = "paired t" if plan.paired else "Welch's t"
    return [
        f"Simultaneous intervals: all of this table{metrics} hold together at 95 % (Šidák: {level_text(sizes)}; {test}). Those on "
        f"{plan.benchmark}, which the experiment is about, stand in its main table."
    ]


def _name(results: Results, views: Views) -> str:
    """The metric, with its number of samples where that is the same on all benchmarks."""
    same = len({samples(view) for view in views.values()}) == 1
    return metric_name(results) if same else results.metric.title
