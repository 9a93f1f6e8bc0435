"""The answer of an experiment, made here for terminal, files, page, index and methods: what is shown to help, with intervals and verdicts.

Of a sequential experiment also the decisions, the seeds it wants next, and how many runs such a plan takes on average.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis import headline
from analysis.declared import AT_BUDGET, INTERACTIONS, MAIN, NO_COMPARISON, FollowedComparison, wanted_seeds
from analysis.frames import load_plan
from analysis.headline import Wording, capital, count_word, short_name
from analysis.line import Line
from analysis.results import Results, results_of
from analysis.samples import is_evaluated
from analysis.tables.spending import Unequal, at_equal_tokens, equal_what, spent_table, unequal_pairs
from analysis.tables.table import Column, Table, cell_text, to_markdown
from analysis.tables.tuning import tuning_sentences
from analysis.tables.words import (
    collapse_warnings,
    declared_notes,
    grader_warnings,
    interval_name,
    metric_name,
    seeds_text,
    survey_text,
    training_notes,
)
from harness.configuration.numbers import format_amount, format_count
from harness.evaluation.metrics.names import Metric, nothing_to_learn
from harness.experiment.as_declared import declarations, declared_line
from harness.experiment.looks import Decisions
from harness.experiment.plan import Plan
from harness.statistics.intervals import Estimate, Finding, finding, replicate_count
from harness.store import ResultStore

# By design: what a row is called, and the head of the column of their names.
_ROW_NOUNS = {
    "cumulative": ("step", "added to the arm before"), "one_factor": ("change", "change to the base"),
    "factorial": ("effect", "effect of"), "leave_one_out": ("arm", ""), "arms": ("arm", ""),
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What an experiment found in one metric: the one form of it that terminal, files, page, index and methods show.

    Attributes:
        headline: sentences that name what is shown to help or to hurt.
        small: sentences for small type: the intervals of what the headline names, and the margin.
        caveats: what the headline must not be read without, the gravest first.
        head: of the column of names. lines: one a comparison. foot: what the arms are compared with, in numbers; may be empty.
        spent: what a run of each arm takes, where that is known and said.
    """

    headline: list[str]
    small: list[str]
    caveats: list[str]
    head: str
    lines: list[Line]
    foot: str
    spent: Table | None = None

    @property
    def sentences(self) -> list[str]:
        """Headline, small type and caveats."""
        return [*self.headline, *self.small, *self.caveats]

    @property
    def markdown(self) -> str:
        """The answer as a part of a Markdown file."""
        tables = [to_markdown(table).partition("\n\n")[2] for table in ([self.table] if self.lines else [])]
        caveats = "\n>\n".join(f"> {caveat}" for caveat in self.caveats)
        spent = to_markdown(self.spent).partition("\n\n")[2] if self.spent else ""
        parts = (f"**{' '.join(self.headline)}**", " ".join(self.small), caveats, *tables, self.foot, spent)
        return "\n\n".join(filter(None, parts))

    @property
    def table(self) -> Table:
        """The lines as text."""
        heads = {
            "points": self.unit,
            "interval": interval_name([line.estimate for line in self.lines]),
            "verdict": "verdict",
        }
        heads |= {"affected": "affected"} if any(line.affected for line in self.lines) else {}
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
    known_lines, unequal = [line for line in lines if line.known], unequal_pairs(results)
    total, named_rows = _total(results) if known_lines else None, headline.named_rows(known_lines)
    wording = _wording(results, known_lines)
    sentences = headline.sentences(known_lines, wording) or [wording.first(_explain_nothing(results))]
    at_tokens, curve_note = _at_equal_tokens(results, known_lines, named_rows, unequal)
    # Not between "no step is shown to help" and "none is resolved", which belong together.
    place = 2 if not named_rows and any(" resolved." in text for text in sentences[1:2]) else 1
    sentences[place:place] = at_tokens
    if (word := finding_of(results)) is not None:
        sentences.insert(0, f"{capital(word)}: the claim expects {_EXPECTED[str(plan.expects)]}.")
    if total is not None:
        bound = f", {total.bound}" * bool(total.bound) if total.estimate.resolved else f", {total.verdict}"
        sentences.append(f"{capital(total.name)}: {total.points}{f' {metric.unit}' * (not named_rows)}{bound}.")
    count = sum(one.next_look is not None for one in results.looks)
    if count and known_lines:
        sentences.append(f"{capital(count_word(count))} of {count_word(len(lines))} comparisons wait for more seeds.")
    caveats = _caveats(known_lines, plan, unequal)
    if is_provisional and known_lines:
        correction = "intervals allow for every declared look."
        no_correction = "intervals are not corrected for looking before the end, so verdicts may change."
        caveats = [f"{capital(results.experiment.provisional)}: {correction if plan.looks else no_correction}"]
    # Where nothing has finished the headline says so.
    table_lines = lines if known_lines or (not plan.looks and any(line.verdict != _WAITS for line in lines)) else []
    small = [*_small_print(results, known_lines, named_rows), *curve_note]
    spent = spent_table(results) if table_lines and metric == plan.metrics[0] else None
    caveats = [*declared_notes(results.experiment), *caveats]
    head = _ROW_NOUNS[plan.design][1] or (f"against {wording.against}" if wording.against else "comparison")
    return Answer(sentences, small, caveats, head, table_lines, _foot(results, total), spent)


def _at_equal_tokens(
    results: Results, lines: Sequence[Line], named: Sequence[Line], unequal: Sequence[Unequal]
) -> tuple[list[str], list[str]]:
    """The difference at the tokens of the smaller arm, and how it was read: of the comparisons that are named the most unequal one."""
    pairs = {pair.arm.name: pair for pair in unequal if "tokens" in pair.means}
    by_arm = {line.arm: line for line in named or lines if not line.untested}
    line = next((by_arm[arm] for arm in pairs if arm in by_arm), None)
    if line is None:  # effects are of several arms
        note = "At equal tokens effects cannot be read off the curves: run match=tokens."
        return [], [note] * bool(pairs and "" in by_arm and results.experiment.plan.match == "steps")
    if not is_evaluated(results.metric):  # it has no curve
        return [], []
    estimate, name = at_equal_tokens(results, pairs[line.arm], line.estimate), short_name(line.name)
    if estimate is None:
        return [], [f"At equal tokens {name} cannot be read off the curves: no evaluation lies between."]
    row, name = replace(line, estimate=estimate), "it" if [*named] == [line] else name
    interval = f" ({row.interval})" * bool(row.interval)
    note = "At equal tokens: at those of the smaller arm, linear between stored evaluations, at the declared level, as one difference more."
    return [f"At equal tokens {name} is {row.with_unit}{interval}, {row.verdict}."], [note]


_EXPECTED = {
    "higher": "a higher value", "lower": "a lower value", "equivalent": "no difference that matters",
    "not_lower": "no loss that matters", "not_higher": "no gain that matters",
}  # fmt: skip


def finding_of(results: Results) -> Finding | None:
    """What the experiment says of the claim that it declares; None where it declares none."""
    plan = results.experiment.plan
    if plan.expects is None or plan.declared_on:
        return None
    ((arm, _),) = plan.comparisons
    return finding(results.declared[arm.name], plan.expects, results.experiment.engagements[arm.name].hardly)


def answers(results: Results, *, so_far: bool = False) -> list[Answer]:
    """The answer in each metric of the experiment, the first one first."""
    return [answer_of(view, so_far=so_far) for view in results.each_metric]


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
    notes = [*[f"Before RL {problem}."] * bool(problem), *training_notes(results.experiment)]
    return [*notes, *collapse_warnings(results), *grader_warnings(results)]


def _wording(results: Results, lines: Sequence[Line] = ()) -> Wording:
    """How comparisons are spoken of; before the first stand the metric, unless it is the score alone, and what arms took alike."""
    plan, title = results.experiment.plan, "" if results.about_score else f"{metric_name(results)}:"
    opening = f"{title} {equal_what(results) * any(line.estimate.seeds > 1 for line in lines)}".strip()
    references = {reference.label for reference in plan.references}
    alone = plan.design not in ("cumulative", "factorial") and len(references) == 1
    identifiers = all(arm.label == arm.name for arm in plan.arms)  # names of a configuration stay as they are spelled
    return Wording(_ROW_NOUNS[plan.design][0], short_name(references.pop()) if alone else "", identifiers, opening)


_WAITS = "no finished run yet"


def _lines(results: Results) -> list[Line]:
    """The comparisons that answer the question: main effects and interactions of a factorial."""
    plan, engagements = results.experiment.plan, results.experiment.engagements
    pairs = [pair for kind in (MAIN, INTERACTIONS) if (found := results.attributions.get(kind)) for pair in found.pairs]
    if pairs:
        return [Line(*pair, results.metric, results.experiment.engagement_of(pair[0])) for pair in pairs]
    several = plan.design == "arms" and len(plan.references) > 1
    looks = {one.arm.name: one.text for one in results.looks}
    lines = []
    for arm, reference in plan.comparisons:
        suffix = f" against {short_name(reference.label)}" if several else ""
        delta, pair = results.declared[arm.name], (arm, reference)
        if math.isnan(delta.value) and not delta.absent:
            lacks_value = results.metric != plan.score and all(results.scores(each, "avg") for each in pair)
            reason = f"a finished run has no {metric_name(results)}" if lacks_value else _WAITS
            reason = "no seed that both have" if all(map(results.values, pair)) else reason
            delta = replace(delta, absent=looks.get(arm.name, reason))
        name = arm.plain_label + suffix
        lines.append(Line(name, delta, results.metric, engagements[arm.name], arm.name))
    return lines


def _explain_nothing(results: Results) -> str:
    plan, runs = results.experiment.plan, results.experiment.runs
    if not plan.comparisons:
        if len(plan.arms) == 1:
            return "nothing is compared: there is one arm."
        return f"nothing is compared: the arms are listed, and design={plan.design} makes its own."
    if not plan.about_score and not plan.looks and any(results.scores(arm, "avg") for arm in plan.arms):
        return "nothing to compare: no two arms have finished runs with a value."
    finished_count = len(results.experiment.finished_runs)
    return f"nothing to compare yet: {finished_count} of {len(runs)} runs {'has' if finished_count == 1 else 'have'} finished."


def _total(results: Results) -> Line | None:
    """All steps of a ladder together, as in the column of differences to the base; None where there is one step, or no such column."""
    plan = results.experiment.plan
    steps = all(arm.parent == before.name for before, arm in itertools.pairwise(plan.arms))
    if plan.design != "cumulative" or plan.declared_on or not results.to_base or not steps:
        return None
    count = len(plan.arms) - 1
    name = "both together" if count == 2 else f"all {count_word(count)} together"
    line = Line(name, results.to_base[plan.arms[-1].name], results.metric)
    return line if line.known else None


def _small_print(results: Results, lines: Sequence[Line], named_rows: Sequence[Line]) -> list[str]:
    """The intervals of what the headline names, which are simultaneous, the margin, and what else these intervals depend on."""
    if not lines:
        return []
    margin = results.shown_margin
    intervals = [f"{row.name} {row.interval}" for row in named_rows if row.interval]
    parts = [f"95 % interval{'s' * (len(intervals) > 1)}: {', '.join(intervals)}"] if intervals else []
    sentences = [f"{'; '.join([*parts, seeds_text([line.estimate.seeds for line in lines])])}."]
    kinds = [results.attributions[kind].effects for kind in (MAIN, INTERACTIONS) if kind in results.attributions]
    each = [effects[0].family for effects in kinds if effects] or {line.estimate.family for line in lines}
    if families := sorted(count for count in each if count > 1):
        counts = " and those of the ".join(map(count_word, families))
        sentences.append(f"The intervals of the {counts} comparisons are simultaneous at 95 %.")
    if margin is not None and not any("the margin" in note for note in declared_notes(results.experiment)):
        amount = format_amount(margin, results.metric.unit)
        sentences.append(f"A difference within {amount} was declared not to matter.")
    return [*sentences, *_dependences(results)]


def _dependences(results: Results) -> list[str]:
    """What intervals and values depend on beside their seeds: looks, arms that have not finished, shared base policies."""
    plan, experiment = results.experiment.plan, results.experiment
    sentences, store = tuning_sentences(plan), experiment.store
    if store is not None and any(entry["finished"] for entry in declarations(store, plan.name)[:1]):
        sentences.append(f"{capital(declared_line(store, plan.name))}.")
    if any(one.next_look for one in results.looks):
        sentences.append("This is an interim look.")
    if any(one.settled and one.newest.resolved and one.newest.seeds < plan.looks[-1] for one in results.looks):
        sentences.append("What ended early as higher or lower is too large on average; its interval allows for that.")
    unfinished = [arm for arm in plan.arms if len(experiment.finished_seeds(arm)) < len(plan.seeds_of(arm))]
    if unfinished and not plan.looks:
        sentences.append(f"{len(unfinished)} of {len(plan.arms)} arms lack runs; their comparisons count all the same.")
    if plan.shares_bases:
        over = "these, approximately at looks" if plan.looks else "these"
        count = replicate_count(plan.seeds, plan.base_policies)
        sentences.append(f"Seeds share {count} base policies, and intervals are over {over}.")
    return sentences


def _caveats(lines: Sequence[Line], plan: Plan, unequal: Sequence[Unequal]) -> list[str]:
    """What the headline must not be read without: too few seeds, and what the arms have unequal; the gravest first."""
    caveats = []
    if survey := survey_text([line.estimate for line in lines], plan):
        caveats.append(f"But {survey}")
    if unequal and lines:
        first, *others = unequal
        arm, reference = (short_name(one.plain_label) for one in (first.arm, first.reference))
        more = f"; {count_word(len(others))} more differ{'s' * (len(others) == 1)} by over a tenth" * bool(others)
        caveats.append(f"But {arm}, against {reference}, took {first.text}{more}.")
    return caveats


def _foot(results: Results, total: Line | None) -> str:
    """The score of what the arms are compared with, with its interval, that before training, and the interval of all steps together."""
    plan, metric = results.experiment.plan, results.metric
    base, column = next(iter(plan.references), plan.base), Column("", "", metric.digits, metric.scale)
    mean, mean_before = results.mean(base), results.before_rl(results.column)
    if math.isnan(mean.value):
        return ""
    unit = f" {metric.percent.strip() or metric.unit}".rstrip()
    value, _, interval = cell_text(mean, column).partition(" [")
    text = f"{_wording(results).begin(base.label)}: {value}{unit}{f' [{interval}' if interval else ''}"
    text += f"; before training {cell_text(mean_before, column)}{unit}." if mean_before is not None else "."
    if total is None or not total.interval:
        return text
    return f"{text} {capital(total.name)}: {total.interval}, simultaneous with the other differences to the base."


def describe(delta: Estimate, metric: Metric) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher``; *simultaneous* for one of several."""
    if delta.absent:
        return f"no comparison, {delta.absent}"
    row, word = Line("", delta, metric), delta.words(metric.scale, metric.unit)
    if not row.interval:
        return f"{row.with_unit} ({format_count(delta.seeds, 'seed')}), {word}"
    return f"{row.with_unit} ({interval_name([delta])} {row.interval}, {delta.seeds} seeds), {word}"


def decisions(plan: Plan, store: ResultStore) -> Decisions:
    """Judge every comparison by the stored scores.

    The plan has the runs of all seeds up to the last look. With several metrics a comparison is open until all of them are decided, and
    its state (open, decided, open at the budget) is that of the metric which is furthest from it; its text tells each.
    """
    by_metric = [view.looks for view in results_of(load_plan(store, plan, curves=False)).each_metric]
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
    return Decisions(rows, wanted_seeds(plan, [*itertools.chain(*by_metric)]))


def _comparison_text(comparison: FollowedComparison, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next; named unless it is the score alone."""
    text = describe(comparison.newest, comparison.metric) if comparison.looks else ""
    if not plan.about_score:
        text = f"{comparison.metric.title}: {text or 'no look yet'}"
    next_look = f"next look at {comparison.next_look} seeds" if comparison.next_look else ""
    return "; ".join(filter(None, [text, next_look]))
