"""The answer of an experiment, made here for terminal, files, page, index and methods: what is shown to help, with intervals and verdicts.

Of a sequential experiment also the decisions, the seeds it wants next, and how many runs such a plan takes on average.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis import effects, headline
from analysis.caveats import NOTHING_MEASURED, Engagement, engagements
from analysis.colours import FEW_SEEDS
from analysis.effects import AT_BUDGET, INTERACTIONS, MAIN, NO_COMPARISON, FollowedComparison
from analysis.frames import load_plan
from analysis.headline import Row, Wording, capital, count_word, short_name
from analysis.results import Results, results_of
from analysis.tables.table import Column, Table, cell_text, number_text, to_markdown
from analysis.tables.words import (
    collapse_warnings,
    family_size,
    grader_warnings,
    interval_name,
    metric_name,
    seeds_text,
    unspent_notes,
    untrained_notes,
)
from harness.configuration.numbers import format_count
from harness.evaluation.metrics.names import LOWER, Metric, nothing_to_learn
from harness.experiment.plan import Plan
from harness.statistics.intervals import Estimate
from harness.store import ResultStore

# By design: what a row is called, and the head of the column of their names.
_ROW_NOUNS = {
    "cumulative": ("step", "added to the arm before"), "one_factor": ("change", "change to the base"),
    "factorial": ("patch", "effect of"),
}  # fmt: skip
_COSTLY = 1.5  # times the generated tokens beyond which a comparison at equal steps has to be read with them


@dataclass(frozen=True)
class Line(Row):
    """A row of the answer: a comparison with what it touched, and the tokens a run of the arm and of its reference generates."""

    engagement: Engagement = NOTHING_MEASURED
    tokens: tuple[float, float] = (math.nan, math.nan)
    so_far: bool = False

    @property
    def verdict(self) -> str:
        """The verdict; ``higher so far`` where runs go on and nothing corrects for looking before their end."""
        return super().verdict + " so far" * (self.so_far and self.known)

    @property
    def touched(self) -> str:
        """What of the data the difference touched; empty where nothing is known."""
        return self.engagement.text(self.estimate.resolved)

    @property
    def is_better(self) -> bool:
        """Whether the difference is one to the better of the metric."""
        return (self.estimate.value > 0) is not (self.metric.better == LOWER)

    @property
    def ratio(self) -> float:
        """Generated tokens of the arm over those of its reference, NaN where a run tells none."""
        own, reference = self.tokens
        return own / reference if own and reference else math.nan


@dataclass(frozen=True)
class Answer:
    """What an experiment found in one metric: the one form of it that terminal, files, page, index and methods show.

    Attributes:
        headline: sentences that name what is shown to help or to hurt.
        small: sentences for small type: the intervals of what the headline names, and the margin.
        caveat: the one sentence that the headline must not be read without; may be empty.
        head: of the column of names. lines: one a comparison. foot: what the arms are compared with, in numbers; may be empty.
    """

    headline: list[str]
    small: list[str]
    caveat: str
    head: str
    lines: list[Line]
    foot: str

    @property
    def sentences(self) -> list[str]:
        """Headline, small type and caveat."""
        return [*self.headline, *self.small, *([self.caveat] if self.caveat else [])]

    @property
    def markdown(self) -> str:
        """The answer as a part of a Markdown file."""
        table = to_markdown(self.table).partition("\n\n")[2] if self.lines else ""
        caveat = f"> {self.caveat}" if self.caveat else ""
        parts = (f"**{' '.join(self.headline)}**", " ".join(self.small), caveat, table, self.foot)
        return "\n\n".join(filter(None, parts))

    @property
    def table(self) -> Table:
        """The lines as text."""
        heads = {"points": self.unit, "interval": "95 % interval", "verdict": "verdict"}
        heads |= {"touched": "touched"} if any(line.touched for line in self.lines) else {}
        rows = [{"arm": line.name, **{key: getattr(line, key) for key in heads}} for line in self.lines]
        return Table("answer", "Answer", [Column("arm", self.head), *(Column(*head) for head in heads.items())], rows)

    @property
    def unit(self) -> str:
        """Of the differences, as the head of their column."""
        return next((one.metric.unit for one in self.lines), "") or "difference"


def answer_of(results: Results, *, so_far: bool = False) -> Answer:
    """Answer the question of an experiment in the metric of the results; with ``so_far`` as one whose runs still go on."""
    plan, metric = results.experiment.plan, results.metric
    is_provisional = so_far and results.experiment.unfinished
    lines = [replace(line, so_far=is_provisional and not plan.looks) for line in _lines(results)]
    known_lines = [line for line in lines if line.known]
    total, named_rows = _total(results) if known_lines else None, headline.named_rows(known_lines)
    sentences = headline.sentences(known_lines, _wording(plan)) if known_lines else [_explain_nothing(results)]
    if total is not None:
        bound = f", {total.bound}" * bool(total.bound) if total.estimate.resolved else f", {total.verdict}"
        sentences.append(f"{capital(total.name)}: {total.points}{f' {metric.unit}' * (not named_rows)}{bound}.")
    if not plan.about_score:
        title, first = metric_name(results), sentences[0]
        title = title if "@" in title or "_" in title else title[:1].upper() + title[1:]
        initial = first[:1].lower() if first.startswith(("No ", "All ", "One ", "Nothing ")) else first[:1]
        sentences[0] = f"{title}: {initial}{first[1:]}"
    count = sum(one.next_look is not None for one in effects.followed_comparisons(results)) if plan.looks else 0
    if count and known_lines:
        sentences.append(f"{capital(count_word(count))} of {count_word(len(lines))} comparisons wait for more seeds.")
    caveat = ""
    if known_lines:
        correction = "intervals allow for every declared look."
        no_correction = "intervals are not corrected for looking before the end, so words may change."
        before_end = f"{capital(results.experiment.provisional)}: {correction if plan.looks else no_correction}"
        caveat = before_end if is_provisional else _caveat(known_lines)
    # Where nothing has finished the headline says so.
    table_lines = lines if any(line.verdict != _WAITS for line in lines) else []
    small = _small_print(results, known_lines, [*named_rows, *([total] if total else [])])
    return Answer(sentences, small, caveat, _head(plan), table_lines, _foot(results))


def answers(results: Results, *, so_far: bool = False) -> list[Answer]:
    """The answer in each metric of the experiment, the first one first."""
    return [answer_of(view, so_far=so_far) for view in results.each_metric()]


def answer_sentences(results: Results) -> list[str]:
    """Say the answer in each metric, and at last the warnings."""
    return [*(sentence for answer in answers(results) for sentence in answer.sentences), *warnings_of(results)]


def answer_markdown(results: Results) -> str:
    """The answer in each metric with its table, and the warnings, as a Markdown file."""
    parts = [*(answer.markdown for answer in answers(results)), "\n".join(f"- {line}" for line in warnings_of(results))]
    return "\n\n".join(filter(None, parts)).replace("\n\n\n", "\n\n").rstrip() + "\n"


def warnings_of(results: Results) -> list[str]:
    """What the answer has to be read with: nothing to learn or learned, collapsed seeds, and what the second grader does not confirm."""
    problem = nothing_to_learn(results.before_rl("avg"), f"on {results.experiment.plan.benchmark}")
    first = [f"Before RL {problem}."] if problem else []
    notes = [*untrained_notes(results.experiment), *unspent_notes(results.experiment)]
    return [*first, *notes, *collapse_warnings(results), *grader_warnings(results)]


def _wording(plan: Plan) -> Wording:
    references = {reference.label for reference in plan.references}
    alone = plan.design not in ("cumulative", "factorial") and len(references) == 1
    identifiers = all(arm.label == arm.name for arm in plan.arms)  # names of a configuration stay as they are spelled
    return Wording(_row_nouns(plan)[0], short_name(references.pop()) if alone else "", identifiers)


def _row_nouns(plan: Plan) -> tuple[str, str]:
    return _ROW_NOUNS.get(plan.design, ("arm", ""))


_WAITS = "no finished run yet"


def _lines(results: Results) -> list[Line]:
    """The comparisons that answer the question: main effects and interactions of a factorial."""
    plan = results.experiment.plan
    kinds = [MAIN, INTERACTIONS] if plan.design == "factorial" else []
    attributions = [effects.effects_of(results, kind) for kind in kinds if kind in effects.kinds_of(plan)]
    if lines := [Line(name, effect, results.metric) for each in attributions for name, effect in each.pairs]:
        return lines
    deltas, arm_engagements = effects.differences_to_reference(results), engagements(results.experiment)
    several = plan.design == "arms" and len(plan.references) > 1
    lines = []
    for arm, reference in plan.comparisons:
        suffix = f" against {short_name(reference.label)}" if several else ""
        delta, pair = deltas[arm.name], (arm, reference)
        tokens = [results.mean(each, "train_generated_tokens_total").value for each in pair]
        if math.isnan(delta.value) and not delta.absent:
            lacks_value = results.metric != plan.score and all(results.scores(each, "avg") for each in pair)
            delta = replace(delta, absent=f"a finished run has no {metric_name(results)}" if lacks_value else _WAITS)
        name = arm.plain_label + suffix
        lines.append(Line(name, delta, results.metric, arm_engagements[arm.name], (tokens[0], tokens[1])))
    return lines


def _explain_nothing(results: Results) -> str:
    plan, runs = results.experiment.plan, results.experiment.runs
    if not plan.comparisons:
        if len(plan.arms) == 1:
            return "Nothing is compared: there is one arm."
        return f"Nothing is compared: the arms are listed, and design={plan.design} makes its own."
    if not plan.about_score and any(results.scores(arm, "avg") for arm in plan.arms):
        return "Nothing to compare: no two arms have finished runs with a value."
    finished_count = len(results.experiment.finished_runs)
    return f"Nothing to compare yet: {finished_count} of {len(runs)} runs {'has' if finished_count == 1 else 'have'} finished."


def _total(results: Results) -> Line | None:
    """All steps of a ladder together, judged alone; None where there is one step, or where results decided how many seeds ran."""
    plan = results.experiment.plan
    if plan.design != "cumulative" or len(plan.arms) < 3 or plan.looks or plan.declared_on:
        return None
    count = len(plan.arms) - 1
    total = results.difference(plan.arms[-1], plan.base)
    line = Line("both together" if count == 2 else f"all {count_word(count)} together", total, results.metric)
    return line if line.known else None


def _small_print(results: Results, lines: Sequence[Line], named_rows: Sequence[Row]) -> list[str]:
    """The intervals of what the headline names, what holds together, and the margin."""
    intervals = [f"{row.name} {row.interval}" for row in named_rows if row.interval]
    counts = [line.estimate.seeds for line in lines]
    parts = [f"95 % interval{'s' * (len(intervals) > 1)}: {', '.join(intervals)}"] if intervals else []
    sentences = [f"{'; '.join([*parts, seeds_text(counts)])}."] if lines else []
    if (size := family_size(line.estimate for line in lines)) > 1:
        families = sorted({line.estimate.family for line in lines})
        if families == [len(lines)]:
            sentences.append(f"The intervals of the {count_word(size)} comparisons hold together at 95 %.")
        else:
            sentences.append(
                f"Intervals hold together at 95 % among {' and among '.join(map(count_word, families))} comparisons."
            )
    if lines and results.shown_margin is not None:
        sentences.append(
            f"A difference within {results.shown_margin:g} {results.metric.unit} was declared not to matter."
        )
    return sentences


def _caveat(lines: Sequence[Line]) -> str:
    """The caveat that matters most: unequal tokens, too few seeds, then a mechanism that was hardly used."""
    resolved_lines = [line for line in lines if line.estimate.resolved and not math.isnan(line.ratio)]
    costly_lines = [one for one in resolved_lines if (one.ratio if one.is_better else 1 / one.ratio) > _COSTLY]
    if costly_lines:
        costliest = max(costly_lines, key=lambda line: abs(math.log(line.ratio)))
        own, reference = (f"{number_text(count / 1000, 0)}k" for count in costliest.tokens)
        text = f"{costliest.ratio:.1f} times the tokens: {own} against {reference} a run."
        subject = "it" if len(resolved_lines) == 1 else short_name(costliest.name)
        return f"But {subject} {'costs' if costliest.ratio > 1 else 'had only'} {text}"
    fewest_seeds = min((line.estimate.seeds for line in lines), default=FEW_SEEDS)
    if 1 < fewest_seeds < FEW_SEEDS:
        return f"But {format_count(fewest_seeds, 'seed')} are too few to trust an interval."
    idle_lines = [line for line in lines if line.engagement.hardly and not line.estimate.resolved]
    if idle_lines:
        others = f" and {count_word(len(idle_lines) - 1)} more were" if len(idle_lines) > 1 else " was"
        extent = idle_lines[0].engagement.text(resolved=True)
        return f"But {short_name(idle_lines[0].name)}{others} hardly engaged: it touched {extent}."
    return ""


def _head(plan: Plan) -> str:
    against = _wording(plan).against
    return _row_nouns(plan)[1] or (f"against {against}" if against else "comparison")


def _foot(results: Results) -> str:
    """The score of what the arms are compared with, with its interval, and that before training."""
    plan, metric = results.experiment.plan, results.metric
    base, column = next(iter(plan.references), plan.base), Column("", "", metric.digits, metric.scale)
    mean, mean_before = results.mean(base), results.before_rl(results.column)
    if math.isnan(mean.value):
        return ""
    unit = f" {metric.percent.strip() or metric.unit}".rstrip()
    value, _, interval = cell_text(mean, column).partition(" [")
    text = f"{_wording(plan).begin(base.label)}: {value}{unit}{f' [{interval}' if interval else ''}"
    return f"{text}; before training {cell_text(mean_before, column)}{unit}." if mean_before is not None else f"{text}."


def describe(delta: Estimate, metric: Metric) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher``; *simultaneous* for one of several."""
    if delta.absent:
        return f"no comparison, {delta.absent}"
    row, word = Row("", delta, metric), delta.words(metric.scale, metric.unit)
    if not row.interval:
        return f"{row.with_unit} ({format_count(delta.seeds, 'seed')}), {word}"
    return f"{row.with_unit} ({interval_name([delta])} {row.interval}, {delta.seeds} seeds), {word}"


def decisions(plan: Plan, store: ResultStore) -> dict[str, Any]:
    """Judge every comparison by the stored scores.

    The plan has the runs of all seeds up to the last look. With several metrics a comparison is open until all of them are decided, and
    its state is that of the metric which is furthest from it; its text tells each.

    Returns:
        `comparisons`: arm, reference, state (open, decided, open at the budget) and text of each. `seed_counts`: arm to number of seeds.
    """
    by_metric = [*map(effects.followed_comparisons, results_of(load_plan(store, plan, curves=False)).each_metric())]
    order = ("open", AT_BUDGET, NO_COMPARISON, "decided")
    rows = [
        {
            "arm": comparisons[0].arm.name,
            "reference": comparisons[0].reference.name,
            "state": min((comparison.state for comparison in comparisons), key=order.index),
            "text": "; ".join(_comparison_text(comparison, plan) for comparison in comparisons),
        }
        for comparisons in zip(*by_metric, strict=True)
    ]
    return {"comparisons": rows, "seed_counts": effects.wanted_seeds(plan, [*itertools.chain(*by_metric)])}


def _comparison_text(comparison: FollowedComparison, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next; named unless it is the score alone."""
    text = describe(comparison.newest, comparison.metric) if comparison.looks else ""
    if not plan.about_score:
        text = f"{comparison.metric.title}: {text or 'no look yet'}"
    next_look = f"next look at {comparison.next_look} seeds" if comparison.next_look else ""
    return "; ".join(filter(None, [text, next_look]))
