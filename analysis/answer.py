"""The answer, as values and in words: what the experiment found, with intervals and the words higher, lower, equivalent or not resolved.

Of a sequential experiment also the decisions, the seeds it wants next, and how many runs such a plan takes on average.
"""

from __future__ import annotations

import itertools
import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from analysis.caveats import engagements, sentence_end
from analysis.effects import (
    AT_BUDGET,
    INTERACTIONS,
    MAIN,
    NO_COMPARISON,
    FollowedComparison,
    comparisons,
    differences_to_reference,
    effects_of,
    followed,
    kinds_of,
    wanted_seeds,
)
from analysis.frames import load_plan
from analysis.results import Results, results_of
from analysis.tables.experiment import benchmark_tables, main_table, summary_table
from analysis.tables.table import bounds_text, number_text, to_terminal
from analysis.tables.words import REFERENCE, collapse_warnings, grader_warnings, interval_name, metric_name
from analysis.values import ArmRecord, EffectRecord, Interval, MetricRecord
from harness.evaluation.metrics.names import Metric, nothing_to_learn
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import Estimate, Verdict, pooled_spread
from harness.statistics.sequential import expected_runs
from harness.store import ResultStore

_EFFECTS = {MAIN: ("Main effect of", "main effect"), INTERACTIONS: ("Interaction", "interaction")}


def metric_records(results: Results) -> list[MetricRecord]:
    """The answer of an experiment in each of its metrics, the first one first."""
    return [_in_one_metric(view) for view in results.each_metric()]


def answer_sentences(results: Results) -> list[str]:
    """Say for each metric a headline, then one sentence per arm; says what is missing and never calls a tie an effect.

    At last the warnings: collapsed seeds, what the second grader does not confirm, and whether nothing could be learned.
    """
    parts, warnings = answer_parts(results)
    return [*(sentence for part in parts for sentence in part), *warnings]


def answer_parts(results: Results) -> tuple[list[list[str]], list[str]]:
    """Return `answer_sentences` in parts: those of each metric, its headline first, and the warnings."""
    return [_about_one(view) for view in results.each_metric()], _warnings(results)


def terminal_text(results: Results, *, provisional: bool = False) -> str:
    """Make the tables and the answer as a terminal shows them; `provisional` marks the tables and leaves headlines alone."""
    width = shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else 160
    tables = [*map(main_table, results.each_metric()), *benchmark_tables(results), summary_table(results)]
    if provisional:
        mark = results.experiment.provisional
        tables = [replace(table, title=f"{table.title} ({mark})") for table in tables]
    sentences = [*headlines(results), *_warnings(results)] if provisional else answer_sentences(results)
    return "\n".join([*(to_terminal(table, width) for table in tables), *sentences])


def _in_one_metric(results: Results) -> MetricRecord:
    metric, plan = results.metric, results.experiment.plan
    differences, engaged = differences_to_reference(results), engagements(results.experiment)
    effects = [
        EffectRecord(kind, name, Interval.of(effect, metric.scale))
        for kind in kinds_of(plan)
        for name, effect in effects_of(results, kind).pairs
    ]
    arms = []
    for arm in plan.arms:
        difference, reference = differences.get(arm.name), plan.reference_of(arm)
        compared = difference is not None and reference is not None
        arms.append(
            ArmRecord(
                arm.name,
                arm.label,
                Interval.of(results.mean(arm), metric.scale, difference=False),
                _by_seed(results, arm),
                reference.name if reference is not None and compared else None,
                Interval.of(difference, metric.scale) if difference is not None and compared else None,
                engaged[arm.name].beside(difference is not None and difference.resolved),
            )
        )
    return MetricRecord(metric.name, metric.title, metric.unit, metric.better, results.shown_margin, arms, effects)


def _by_seed(results: Results, arm: PlannedArm) -> dict[int, float | None]:
    scaled = {seed: results.metric.scale * value for seed, value in results.values(arm).items()}
    return {seed: value if math.isfinite(value) else None for seed, value in scaled.items()}


def _warnings(results: Results) -> list[str]:
    warnings = [*collapse_warnings(results), *grader_warnings(results)]
    problem = nothing_to_learn(results.before_rl("avg"), f"on {results.experiment.plan.benchmark}")
    return [*([f"- Warning: before RL {problem}."] if problem else []), *warnings]


def headlines(results: Results) -> list[str]:
    """The first sentence of each metric."""
    return [_about_one(view)[0] for view in results.each_metric()]


def _about_one(results: Results) -> list[str]:
    plan = results.experiment.plan
    deltas = differences_to_reference(results)
    known = {name: delta for name, delta in deltas.items() if not math.isnan(delta.value)}
    sentences, engaged = [_headline(results, known), *_effects(results)], engagements(results.experiment)
    for arm in plan.arms:
        delta, reference = deltas.get(arm.name), plan.arm(arm.parent) if arm.parent else plan.base
        if delta is not None and arm.name in known:
            end = sentence_end(engaged[arm.name], delta.resolved)
            text = f"{describe(delta, results.metric)}{end}"
            sentences.append(f"- {_name(arm)} against {_name(reference)}: {text}.")
        elif delta is not None:
            missing = delta.absent or _missing(results, arm, reference)
            sentences.append(f"- {_name(arm)}: no comparison, {missing}.")
    return sentences


def _effects(results: Results) -> list[str]:
    """Say each main effect and each interaction of a factorial, or why there is none."""
    sentences = []
    for kind, (title, noun) in _EFFECTS.items():
        if kind in kinds_of(results.experiment.plan):
            effects = effects_of(results, kind)
            pairs = effects.pairs
            sentences += [f"- {title} {name}: {describe(effect, results.metric)}." for name, effect in pairs]
            sentences += [f"- No {noun}s: {effects.missing}."] if effects.missing else []
    return sentences


def describe(delta: Estimate, metric: Metric) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher``; *simultaneous* for one of several."""
    if delta.absent:
        return f"no comparison, {delta.absent}"
    value = f"{number_text(metric.scale * delta.value, metric.digits, signed=True)} {metric.unit}"
    word = delta.words(metric.scale, metric.unit)
    if math.isnan(delta.low):
        return f"{value} ({delta.seeds} seed{'s' if delta.seeds != 1 else ''}), {word}"
    interval = " to ".join(bounds_text(delta, metric.digits, scale=metric.scale))
    return f"{value} ({interval_name([delta])} {interval}, {delta.seeds} seeds), {word}"


def _headline(results: Results, known: dict[str, Estimate]) -> str:
    plan, metric = results.experiment.plan, results.metric
    title = metric_name(results)
    if "@" not in title and "_" not in title:  # `avg@32` stays as it is
        title = title[:1].upper() + title[1:]
    name = "" if plan.about_score else f"{title}: "
    if not known:
        return _nothing(results, name)
    text = counted(known.values(), metric, "difference", f" to the {REFERENCE[plan.design]}")
    for kind in reversed([kind for kind in _EFFECTS if kind in kinds_of(plan)]):
        if effects := effects_of(results, kind).effects:
            text = f"{counted(effects, metric, _EFFECTS[kind][1])}. {text}"
    if plan.design == "cumulative" and len(plan.arms) > 1 and not (plan.looks or plan.declared_on):
        last = plan.arms[-1]
        total = results.difference(last, plan.base)
        if not math.isnan(total.value):
            alone = "declared as a single comparison, so not corrected"
            if results.columns > 1:
                alone = f"declared as a single comparison in each of {results.columns} metrics"
            return f"{name}{'up' if name else 'Up'} to {_name(last)}, over {_name(plan.base)} ({alone}): {describe(total, metric)}. {text}."
    return f"{name}{text}."


def counted(estimates: Iterable[Estimate], metric: Metric, name: str, more: str = "") -> str:
    """``3 interactions: 1 higher, 2 not resolved``."""
    ordered = sorted(estimates, key=lambda estimate: list(Verdict).index(estimate.verdict))
    counts = Counter(estimate.words(metric.scale, metric.unit) for estimate in ordered)
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(ordered)} {name}{'s' if len(ordered) > 1 else ''}{more}: {words}"


def _nothing(results: Results, name: str) -> str:
    """Say why no difference is known: no arm has a reference, no finished runs, or none with a value of the metric."""
    plan = results.experiment.plan
    if not any(plan.reference_of(arm) for arm in plan.arms):
        no = "no" if name else "No"
        return f"{name}{no} arm has a reference to be compared with: its arms are listed, and design={plan.design} makes its own."
    if name and any(results.scores(arm, "avg") for arm in results.experiment.plan.arms):
        return f"{name}no two arms have finished runs with a value to compare."
    return f"{name}{'no' if name else 'No'} two arms have finished runs to compare yet."


def _missing(results: Results, arm: PlannedArm, reference: PlannedArm) -> str:
    """Say why two arms have no seeds to compare."""
    finished = results.scores(arm, "avg") and results.scores(reference, "avg")
    if finished and results.metric != results.experiment.plan.score:
        return f"a finished run has no {metric_name(results)}"
    return "a finished run is missing"


def _name(arm: PlannedArm) -> str:
    """The label without the plus that rungs carry in tables."""
    return arm.label.removeprefix("+ ")


EFFECTS = (3.0, 2.0, 1.0, 0.0)  # standard deviations of one seed's difference


def decisions(plan: Plan, store: ResultStore) -> dict[str, Any]:
    """Judge every comparison by the stored scores.

    The plan has the runs of all seeds up to the last look. With several metrics a comparison is open until all of them are decided; its
    text tells each.

    Returns:
        `comparisons`: arm, reference, state (open, decided, open at the budget) and text of each. `wanted`: arm to number of seeds.
    """
    views = results_of(load_plan(store, plan, curves=False)).each_metric()
    by_metric = [followed(view) for view in views]
    return {
        "comparisons": [
            {
                "arm": in_metrics[0].arm.name,
                "reference": in_metrics[0].reference.name,
                "state": _state(in_metrics),
                "text": "; ".join(_in_words(comparison, plan) for comparison in in_metrics),
            }
            for in_metrics in zip(*by_metric, strict=True)
        ],
        "wanted": wanted_seeds(plan, [*itertools.chain(*by_metric)]),
    }


def expected(plan: Plan) -> dict[str, float]:
    """Compute the mean number of runs where every comparison has a true difference of so many standard deviations.

    With several metrics: in each, and all decided at one look; where they are not, it takes more.
    """
    index = {arm.name: place for place, arm in enumerate(plan.arms)}
    pairs = [(index[arm.name], index[reference.name]) for arm, reference in comparisons(plan)]
    family = pairs * len(plan.metrics)
    return {
        f"{effect:g}": expected_runs(len(plan.arms), family, plan.looks, effect, paired=plan.paired)
        for effect in EFFECTS
    }


def spreads(plan: Plan, store: ResultStore) -> dict[str, dict[str, float]]:
    """Metric to the pooled standard deviation of one replicate's difference, in the shown unit; of one arm's values unless paired.

    A replicate is a seed, or the mean over the seeds of a base policy. Only comparisons with two finished ones count; a metric
    without any is left out.
    """
    spread: dict[str, dict[str, float]] = {}
    for view in results_of(load_plan(store, plan, curves=False)).each_metric():
        if plan.paired:
            pairs = [(view.values(arm), view.values(reference)) for arm, reference in comparisons(plan)]
            groups = [plan.replicates({seed: a[seed] - b[seed] for seed in a if seed in b}) for a, b in pairs]
        else:
            groups = [plan.replicates(view.values(arm)) for arm in plan.arms]
        sd, comparisons_with_spread = pooled_spread(groups)
        if comparisons_with_spread:
            spread[view.metric.name] = {"sd": view.metric.scale * sd, "comparisons": comparisons_with_spread}
    return spread


def _state(in_metrics: Sequence[FollowedComparison]) -> str:
    """Say the state of a comparison: that of its metric which is furthest from being decided."""
    order = ("open", AT_BUDGET, NO_COMPARISON, "decided")
    return min((comparison.state for comparison in in_metrics), key=order.index)


def _in_words(comparison: FollowedComparison, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next; named unless it is the score alone."""
    text = describe(comparison.newest, comparison.metric) if comparison.looks else ""
    if not plan.about_score:
        text = f"{comparison.metric.title}: {text or 'no look yet'}"
    later = f"next look at {comparison.next_look} seeds" if comparison.next_look else ""
    return "; ".join(filter(None, [text, later]))
