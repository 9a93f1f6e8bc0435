"""The answer, as values and in words: what the experiment designed, with intervals and the words higher, lower, equivalent or not resolved.

Of a sequential experiment also the decisions, the seeds it wants next, and how many runs such a plan takes on average.
"""

from __future__ import annotations

import itertools
import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from analysis import effects
from analysis.caveats import engagements, sentence_end
from analysis.effects import AT_BUDGET, INTERACTIONS, MAIN, NO_COMPARISON, FollowedComparison
from analysis.frames import load_plan
from analysis.results import Results, results_of
from analysis.tables.experiment import benchmark_tables, main_table, summary_table
from analysis.tables.table import bounds_text, number_text, to_terminal
from analysis.tables.words import REFERENCE, collapse_warnings, grader_warnings, interval_name, metric_name
from harness.evaluation.metrics.names import Metric, nothing_to_learn
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import Estimate, Paired, Verdict, pooled_spread
from harness.store import ResultStore

_EFFECTS = {MAIN: ("Main effect of", "main effect"), INTERACTIONS: ("Interaction", "interaction")}


def answer_sentences(results: Results) -> list[str]:
    """Say for each metric a headline, then one sentence per arm; says what is missing and never calls a tie an effect.

    At last the warnings: collapsed seeds, what the second grader does not confirm, and whether nothing could be learned.
    """
    parts, warnings = answer_parts(results)
    return [*(sentence for part in parts for sentence in part), *warnings]


def answer_parts(results: Results) -> tuple[list[list[str]], list[str]]:
    """Return `answer_sentences` in parts: those of each metric, its headline first, and the warnings."""
    parts = [[_headline(view), *_effects(view), *_differences(view)] for view in results.each_metric()]
    return parts, _warnings(results)


def terminal_text(results: Results, *, provisional: bool = False) -> str:
    """Make the tables and the answer as a terminal shows them; `provisional` marks the tables and leaves headlines alone."""
    width = shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else 160
    tables = [*map(main_table, results.each_metric()), *benchmark_tables(results), summary_table(results)]
    if provisional:
        mark = results.experiment.provisional
        tables = [replace(table, title=f"{table.title} ({mark})") for table in tables]
    sentences = [*headlines(results), *_warnings(results)] if provisional else answer_sentences(results)
    return "\n".join([*(to_terminal(table, width) for table in tables), *sentences])


def _warnings(results: Results) -> list[str]:
    warnings = [*collapse_warnings(results), *grader_warnings(results)]
    problem = nothing_to_learn(results.before_rl("avg"), f"on {results.experiment.plan.benchmark}")
    return [*([f"- Warning: before RL {problem}."] if problem else []), *warnings]


def headlines(results: Results) -> list[str]:
    """The first sentence of each metric."""
    return [_headline(view) for view in results.each_metric()]


def _effects(results: Results) -> list[str]:
    """Say each main effect and each interaction of a factorial, or why there is none."""
    sentences = []
    for kind, (title, noun) in _kinds(results.experiment.plan).items():
        attribution = effects.effects_of(results, kind)
        sentences += [f"- {title} {name}: {describe(effect, results.metric)}." for name, effect in attribution.pairs]
        sentences += [f"- No {noun}s: {attribution.missing}."] if attribution.missing else []
    return sentences


def _kinds(plan: Plan) -> dict[str, tuple[str, str]]:
    return {kind: titles for kind, titles in _EFFECTS.items() if kind in effects.kinds_of(plan)}


def _differences(results: Results) -> list[str]:
    """Say each declared difference with what it touched, or why there is none."""
    deltas, engaged = effects.differences_to_reference(results), engagements(results.experiment)
    score, sentences = results.experiment.plan.score, []
    for arm, reference in results.experiment.plan.comparisons:
        delta = deltas[arm.name]
        if math.isnan(delta.value):
            valued = results.scores(arm, "avg") and results.scores(reference, "avg") and results.metric != score
            missing = f"a finished run has no {metric_name(results)}" if valued else "a finished run is missing"
            sentences.append(f"- {_name(arm)}: no comparison, {delta.absent or missing}.")
        else:
            text = f"{describe(delta, results.metric)}{sentence_end(engaged[arm.name], delta.resolved)}"
            sentences.append(f"- {_name(arm)} against {_name(reference)}: {text}.")
    return sentences


def describe(delta: Estimate, metric: Metric) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher``; *simultaneous* for one of several."""
    if delta.absent:
        return f"no comparison, {delta.absent}"
    value = f"{number_text(metric.scale * delta.value, metric.digits, signed=True)} {metric.unit}".rstrip()
    word = delta.words(metric.scale, metric.unit)
    if math.isnan(delta.low):
        return f"{value} ({delta.seeds} seed{'s' if delta.seeds != 1 else ''}), {word}"
    interval = " to ".join(bounds_text(delta, metric.digits, scale=metric.scale))
    return f"{value} ({interval_name([delta])} {interval}, {delta.seeds} seeds), {word}"


def _headline(results: Results) -> str:
    title, text = metric_name(results), _summary(results)
    if results.experiment.plan.about_score:
        return f"{text}."
    if "@" not in title and "_" not in title:  # `avg@32` stays as it is
        title = title[:1].upper() + title[1:]
    return f"{title}: {text[:1].lower()}{text[1:]}."


def _summary(results: Results) -> str:
    """Count the differences and effects by their words; of a ladder first its whole; or say why no difference is known."""
    plan, metric = results.experiment.plan, results.metric
    known = [delta for delta in effects.differences_to_reference(results).values() if not math.isnan(delta.value)]
    if not known and not plan.comparisons:
        return (
            f"No arm has a reference to be compared with: its arms are listed, and design={plan.design} makes its own"
        )
    if not known:
        lacking = not plan.about_score and any(results.scores(arm, "avg") for arm in plan.arms)
        return f"No two arms have finished runs {'with a value to compare' if lacking else 'to compare yet'}"
    text = counted(known, metric, "difference", f" to the {REFERENCE[plan.design]}")
    for kind, (_, noun) in reversed(_kinds(plan).items()):
        if estimates := effects.effects_of(results, kind).effects:
            text = f"{counted(estimates, metric, noun)}. {text}"
    if plan.design != "cumulative" or len(plan.arms) < 2 or plan.looks or plan.declared_on:
        return text
    last, columns = plan.arms[-1], results.columns
    total = results.difference(last, plan.base)
    if math.isnan(total.value):
        return text
    alone = f" in each of {columns} metrics" if columns > 1 else ", so not corrected"
    return f"Up to {_name(last)}, over {_name(plan.base)} (declared as a single comparison{alone}): {describe(total, metric)}. {text}"


def counted(estimates: Iterable[Estimate], metric: Metric, name: str, more: str = "") -> str:
    """``3 interactions: 1 higher, 2 not resolved``."""
    ordered = sorted(estimates, key=lambda estimate: list(Verdict).index(estimate.verdict))
    counts = Counter(estimate.words(metric.scale, metric.unit) for estimate in ordered)
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(ordered)} {name}{'s' if len(ordered) > 1 else ''}{more}: {words}"


def _name(arm: PlannedArm) -> str:
    """The label without the plus that rungs carry in tables."""
    return arm.label.removeprefix("+ ")


def decisions(plan: Plan, store: ResultStore) -> dict[str, Any]:
    """Judge every comparison by the stored scores.

    The plan has the runs of all seeds up to the last look. With several metrics a comparison is open until all of them are decided, and
    its state is that of the metric which is furthest from it; its text tells each.

    Returns:
        `comparisons`: arm, reference, state (open, decided, open at the budget) and text of each. `wanted`: arm to number of seeds.
    """
    by_metric = [effects.followed(view) for view in results_of(load_plan(store, plan, curves=False)).each_metric()]
    order = ("open", AT_BUDGET, NO_COMPARISON, "decided")
    rows = [
        {
            "arm": in_metrics[0].arm.name,
            "reference": in_metrics[0].reference.name,
            "state": min((comparison.state for comparison in in_metrics), key=order.index),
            "text": "; ".join(_in_words(comparison, plan) for comparison in in_metrics),
        }
        for in_metrics in zip(*by_metric, strict=True)
    ]
    return {"comparisons": rows, "wanted": effects.wanted_seeds(plan, [*itertools.chain(*by_metric)])}


def _in_words(comparison: FollowedComparison, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next; named unless it is the score alone."""
    text = describe(comparison.newest, comparison.metric) if comparison.looks else ""
    if not plan.about_score:
        text = f"{comparison.metric.title}: {text or 'no look yet'}"
    later = f"next look at {comparison.next_look} seeds" if comparison.next_look else ""
    return "; ".join(filter(None, [text, later]))


def spreads(plan: Plan, store: ResultStore) -> dict[str, dict[str, float]]:
    """Metric to the pooled standard deviation of one replicate's difference, in the shown unit; of one arm's values unless paired.

    A replicate is a seed, or the mean over the seeds of a base policy. Only comparisons with two finished ones count; a metric
    without any is left out.
    """
    spread: dict[str, dict[str, float]] = {}
    for view in results_of(load_plan(store, plan, curves=False)).each_metric():
        groups = [plan.replicates(view.values(arm)) for arm in plan.arms]
        if plan.paired:
            contrasts = [view.contrast(*pair) for pair in plan.comparisons]
            groups = [[*contrast.differences] for contrast in contrasts if isinstance(contrast, Paired)]
        sd, comparisons_with_spread = pooled_spread(groups)
        if comparisons_with_spread:
            spread[view.metric.name] = {"sd": view.metric.scale * sd, "comparisons": comparisons_with_spread}
    return spread
