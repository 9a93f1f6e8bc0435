"""The tables of an experiment: scores and differences, means of other metrics, every benchmark, and what its design is for."""

import math
from collections.abc import Mapping, Sequence

from analysis import declared, effects
from analysis.designs import grid_of, key_label, near_best
from analysis.results import Results, mean_over
from analysis.tables import words
from analysis.tables.table import Cell, Column, Table
from analysis.tables.tuning import tuning_table
from harness.evaluation.metrics.names import metric
from harness.statistics.intervals import Estimate

Rows = list[Mapping[str, Cell]]
ARM = Column("arm", "arm")
_LEGEND = "Engaged: the share of the training data that the difference affected, mean over steps and seeds (docs/objective/engagement.md)."


def all_tables(results: Results) -> list[Table]:
    """Make every table the design has; wall time touches none of them."""
    return [
        *map(main_table, results.each_metric),
        *benchmark_tables(results),
        answers_table(results),
        behaviour_table(results),
        *design_tables(results),
    ]


def answer_tables(results: Results) -> list[Table]:
    """Make the tables that answer the question: the main one of each metric, and what the design is for."""
    return [*map(main_table, results.each_metric), *design_tables(results)]


def main_table(results: Results) -> Table:
    """Make the main table: score per arm, differences with simultaneous intervals and words, published value and source."""
    plan, metric = results.experiment.plan, results.metric
    deltas, base_deltas = results.declared, results.to_base
    odd_arms, arm_engagements = words.odd_arms(results.experiment), results.experiment.engagements
    states = {one.arm.name: one.text for one in results.looks}
    published_numbers = {arm.name: arm.published for arm in plan.arms if arm.published and metric == plan.score}
    # Unit and source of the published numbers stand in the header where all of them share one.
    sources = {(number.unit, number.source) for number in published_numbers.values()}
    before = results.before_rl(results.column)
    rows: Rows = [] if before is None else [{"arm": "before RL", "score": before}]
    for arm in plan.arms:
        delta, reference, number = deltas.get(arm.name), plan.reference_of(arm), published_numbers.get(arm.name)
        row: dict[str, Cell] = {"arm": arm.label + words.MARK * (arm.name in odd_arms), "score": results.mean(arm)}
        row |= {"reference": reference.label if reference else None}
        row |= {"delta": delta, "delta_base": base_deltas.get(arm.name)}
        row |= {"look": states.get(arm.name), "seeds": f"{len(results.values(arm))}/{len(plan.seeds_of(arm))}"}
        row["engaged"] = arm_engagements[arm.name].text(delta is not None and delta.resolved) or None
        if number:
            unit = f" {number.unit}" * (len(sources) > 1)
            row |= {"published": f"{number.value:g}{unit}", "source": number.source}
        rows.append(row)
    any_engaged = not all(math.isnan(value) for engagement in arm_engagements.values() for value in engagement.values)
    several = plan.design == "arms" and len(plan.references) > 1
    columns = [
        ARM,
        Column("score", f"{words.metric_header(results)} (95 % interval)", metric.digits, metric.scale),
        *[Column("reference", "reference")] * several,
        words.difference_column(metric, "delta", f"Δ to {words.REFERENCE[plan.design]}", deltas.values()),
        *[Column("engaged", "engaged")] * any_engaged,
        *[words.difference_column(metric, "delta_base", "Δ to base", base_deltas.values())] * bool(base_deltas),
        *[Column("look", "decided")] * bool(plan.looks),
        Column("seeds", "seeds"),
        *[Column("published", f"published ({unit}, {source})") for unit, source in sources if len(sources) == 1],
        *[Column("published", "published"), Column("source", "source")] * (len(sources) > 1),
    ]
    columns_of = [*deltas.values()], [*base_deltas.values()]
    notes, short = (words.main_notes(results, columns_of, short=short) for short in (False, True))
    notes += [_LEGEND] * any_engaged
    own = f"Declared are the differences to the {words.REFERENCE[plan.design]}; those to the base are a family of their own."
    notes, short = ([*lines, *[own] * bool(base_deltas)] for lines in (notes, short))
    return words.experiment_table(
        results, "", "", columns, rows, notes, short, by_metric=True, paper=("score", "reference", "delta")
    )


def answers_table(results: Results) -> Table:
    """Make the table of Pass@k, Maj@k and the other response caps at the checkpoint."""
    n = words.samples(results)
    # Pass@k needs n >= 2k to be smooth.
    ks = [k for k in (n // 4, n) if k >= 2 and (k.bit_count() == 1 or k == n)]
    caps = [cap for cap in results.experiment.plan.caps if cap != results.experiment.plan.primary_cap]
    metrics = [Column(f"{name}@{k}", f"{name.capitalize()}@{k} %", scale=100) for name in ("pass", "maj") for k in ks]
    metrics += [Column(f"avg:{cap}", f"avg@{n or 'n'} %, cap {cap}", scale=100) for cap in caps]
    guessing = {
        column.key: level
        for column in metrics
        if "@" in column.key and (level := metric(column.key).by_guessing(results.experiment.plan.chances)) is not None
    }
    notes = [
        "Means over seeds. Pass@k is unbiased; Maj@k is the mean over k-subsets, ties uniform; no answer takes a place and cannot win."
    ]
    if n in ks:
        notes.append(
            f"Pass@{n} takes every sample: a problem counts whole or not at all, and single samples move it; compare up to k = {n // 2}."
        )
    return _means_table(results, "answers", "Pass@k, Maj@k and response caps", metrics, notes, guessing)


def behaviour_table(results: Results) -> Table:
    """Make the table of response length by outcome, truncation, entropy and generated tokens at the checkpoint."""
    metrics = [
        Column("tokens_all_mean", "length, tokens"),
        Column("tokens_right_mean", "length right"),
        Column("tokens_wrong_mean", "length wrong"),
        Column("truncated_fraction", "truncated %", scale=100),
        Column("truncated_right_fraction", "truncated, right %", scale=100),
        Column("no_answer_fraction", "no answer %", scale=100),
        Column("entropy_nats", "entropy, nats", digits=3),
        Column("train_generated_tokens_total", "generated tokens, k", digits=0, scale=1e-3),
    ]
    notes = ["Means over seeds. Truncated: stopped by the token cap. Generated tokens include discarded groups."]
    return _means_table(results, "behaviour", "length, truncation, entropy and tokens", metrics, notes)


def _means_table(
    results: Results,
    key: str,
    title: str,
    metrics: Sequence[Column],
    notes: Sequence[str],
    guessing: Mapping[str, float] | None = None,
) -> Table:
    """Make a table of means over seeds; the key of a column is a metric, with ``:CAP`` behind it that of another cap.

    ``guessing``: what blind answers earn, by the key of a column.
    """
    rows: Rows = [{"name": "", "arm": "blind answers", **guessing}] if guessing else []
    parts = {column.key: column.key.partition(":") for column in metrics}
    args = {key: (metric, int(cap) if cap else None) for key, (metric, _, cap) in parts.items()}
    if results.before_rl("avg") is not None:
        rows.append({"name": "", "arm": "before RL", **{key: results.before_rl(*pair) for key, pair in args.items()}})
    for arm in results.experiment.plan.arms:
        means = {key: results.mean(arm, *pair).value for key, pair in args.items()}
        rows.append({"name": arm.name, "arm": arm.label, **means})  # two arms may have one label
    return words.experiment_table(results, key, title, [ARM, *metrics], rows, notes)


def benchmark_tables(results: Results) -> list[Table]:
    """Make scores and differences by benchmark, for each metric that evaluations have; none where only one benchmark has any."""
    tables = []
    for view in results.each_metric:
        if views := effects.benchmark_views(view):
            tables.append(_scores(view, views))
            differences = effects.benchmark_differences(view)
            if any(not math.isnan(estimate.value) for column in differences.values() for estimate in column.values()):
                tables.append(_differences(view, differences))
    return tables


def _scores(results: Results, views: Mapping[str, Results]) -> Table:
    metric, all_views = results.metric, {**views, effects.MEAN: mean_over([*views.values()])}
    means_before = {name: view.before_rl(view.column) for name, view in views.items()}
    before = {f"on:{name}": value for name, value in means_before.items() if value is not None}
    if len(before) == len(views):
        before[f"on:{effects.MEAN}"] = sum(before.values()) / len(before)
    rows: Rows = [{"arm": "before RL", **before}] if before else []
    for arm in results.experiment.plan.arms:
        rows.append({"arm": arm.label, **{f"on:{name}": view.mean(arm) for name, view in all_views.items()}})
    unit = metric.percent or f", {metric.unit}"
    columns = [Column(f"on:{name}", f"{name}{unit} (95 % interval)", metric.digits, metric.scale) for name in all_views]
    key, title = f"benchmarks{words.metric_suffix(results)}", f"{metric.title} by benchmark"
    return words.experiment_table(results, key, title, [ARM, *columns], rows, _score_notes(results, views))


def _score_notes(results: Results, views: Mapping[str, Results]) -> list[str]:
    experiment, plan = results.experiment, results.experiment.plan
    numbers = ", ".join(f"{name} {words.samples(view)}" for name, view in views.items())
    notes = [
        f"The experiment is about {plan.benchmark}, whose checkpoints are those of all columns{plan.cap_text}. Intervals over training "
        f"seeds, problems fixed, each by itself. The mean counts every benchmark the same. Samples a problem: {numbers}.",
    ]
    if plan.looks:
        notes.append(f"No differences on the other benchmarks: {plan.benchmark} decided how many seeds ran.")
    finished_counts = {arm.name: len(experiment.finished_seeds(arm)) for arm in plan.arms}
    counts = [(arm, name, len(view.values(arm))) for name, view in views.items() for arm in plan.arms]
    gaps = [(arm, name, count) for arm, name, count in counts if count < finished_counts[arm.name]]
    if gaps:
        text = "; ".join(f"{arm.label} {count} of {finished_counts[arm.name]} on {name}" for arm, name, count in gaps)
        notes.append(f"Finished seeds with a value at their checkpoint: {text}. The mean has those with one on all.")
    if missing_names := sorted(set(experiment.further).difference(views)):
        notes.append(f"No score at the checkpoints and this response cap on: {', '.join(missing_names)}.")
    missing = {f"Missing on {name}: {line}.": line for name, one in experiment.further.items() for line in one.notes}
    return [*notes, *(note for note, line in missing.items() if line not in experiment.notes)]


def _differences(results: Results, differences: Mapping[str, Mapping[str, Estimate]]) -> Table:
    plan, metric = results.experiment.plan, results.metric
    by_name = {name: [*column.values()] for name, column in differences.items()}
    rows: Rows = [
        {"arm": arm.label, **{f"on:{name}": column.get(arm.name) for name, column in differences.items()}}
        for arm in plan.arms
    ]
    columns = [
        words.difference_column(metric, f"on:{name}", f"{name}, Δ to {words.REFERENCE[plan.design]}", estimates)
        for name, estimates in by_name.items()
    ]
    intervals = words.interval_notes(results, by_name.values(), "this table")
    notes = [*intervals, *words.word_notes(results, by_name.values())]
    notes += [f"Not declared. Paired and tested as the differences on {plan.benchmark}, which stand in the main table."]
    key = f"benchmark-differences{words.metric_suffix(results)}"
    title = f"differences in {metric.title} on the other benchmarks"
    return words.experiment_table(results, key, title, [ARM, *columns], rows, notes, intervals)


_EFFECTS = {
    declared.MAIN: ("main effect", ""),
    declared.INTERACTIONS: (
        "interaction",
        "What another patch changes in a patch's effect (textbooks print half of it).",
    ),
    declared.SHAPLEY: ("Shapley value", "Averaged over all orders of the patches."),
}


def design_tables(results: Results) -> list[Table]:
    """Make the tables that only the design of the experiment has: effects, looks, a grid, trials."""
    views, kinds = results.each_metric, declared.kinds_of(results.experiment.plan)
    others = [*map(looks_table, views), *map(grid_table, views), tuning_table(results)]
    return [*(effects_table(view, kind) for view in views for kind in kinds), *(table for table in others if table)]


def effects_table(results: Results, kind: str) -> Table:
    """Make the table of one kind of effects of a factorial; a note where arms are missing."""
    plan, attribution, (name, meaning) = results.experiment.plan, results.attributions[kind], _EFFECTS[kind]
    notes, short = [f"Not computed: {attribution.missing}."], list[str]()
    if not attribution.missing:
        factors = [f"{factor}: {levels[0]}" for factor, levels in plan.crossing.factors.items()]
        levels_note = f"Each level against the first of its factor ({', '.join(factors)})."
        meanings = [meaning] * bool(meaning) + [levels_note] * (declared.SHAPLEY not in results.attributions)
        fewest = min((effect.seeds for effect in attribution.effects), default=0)
        seeds = f"Per seed first, then Student's t over the seeds that all arms of an effect have, at least {fewest} of {len(plan.seeds)}."
        intervals = words.interval_notes(results, [attribution.effects])
        notes = [seeds, *intervals, *words.word_notes(results, [attribution.effects]), *meanings]
        short = [*meanings, *intervals]
    header = f"{name} on {words.metric_name(results)}, {results.metric.unit}"
    columns = [Column("patch", "patch"), words.difference_column(results.metric, "effect", header, attribution.effects)]
    rows: Rows = [{"patch": patch, "effect": effect} for patch, effect in attribution.pairs]
    return words.experiment_table(results, kind, f"{name}s", columns, rows, notes, short, by_metric=True)


def looks_table(results: Results) -> Table | None:
    """Make one row a comparison, one column a look; None where all seeds are looked at once."""
    plan, metric = results.experiment.plan, results.metric
    if not plan.looks:
        return None
    rows: Rows = []
    for one in results.looks:
        looks = {f"look_{estimate.seeds}": estimate for estimate in one.looks}
        rows.append({"arm": one.arm.label, "reference": one.reference.label, **looks, "state": one.text})
    last_look = max([plan.looks[0], *(one.newest.seeds for one in results.looks)])
    heads = {n: f"Δ at {n} seeds (95 % simultaneous)" for n in plan.looks if n <= last_look}
    columns = [
        ARM,
        Column("reference", "against"),
        *(Column(f"look_{n}", head, metric.digits, metric.scale, signed=True, words=True) for n, head in heads.items()),
        Column("state", "decided"),
    ]
    note = "Each look has the first seeds of both arms; the first that settles it closes the comparison. All are simultaneous."
    return words.experiment_table(results, "looks", "looks", columns, rows, [note], by_metric=True)


def grid_table(results: Results) -> Table | None:
    """Make the table of the score by the two settings that vary over the arms, or None where the arms are no grid."""
    plan, metric = results.experiment.plan, results.metric
    if (grid := grid_of(plan)) is None:
        return None
    columns = [Column("setting", f"{key_label(grid.row_key)} \\ {key_label(grid.column_key)}")]
    columns += [Column(f"c{i}", str(value), metric.digits, metric.scale) for i, value in enumerate(grid.columns)]
    cells = {values: results.mean(arm) for values, arm in grid.arms.items()}
    rows: Rows = [
        {"setting": str(row), **{f"c{i}": cells.get((row, value)) for i, value in enumerate(grid.columns)}}
        for row in grid.rows
    ]
    notes = [f"{words.metric_header(results)}, mean over seeds with its 95 % interval."]
    if nearest := near_best(results):
        best, near = nearest
        rest = "; ".join(arm.label for arm in plan.arms if arm.name in near) or "none"
        all_pairs = "simultaneous intervals of all pairs of cells; declared differences as in their table"
        notes.append(f"Best: {plan.arm(best).label}. Not distinguishable from it ({all_pairs}): {rest}.")
    return words.experiment_table(results, "grid", "grid", columns, rows, notes, by_metric=True)
