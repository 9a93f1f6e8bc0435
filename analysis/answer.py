"""The answer in words: what the experiment found, with intervals and the words higher, lower, equivalent or not resolved."""

from __future__ import annotations

import math
from collections import Counter

from analysis.evidence.engagement import engagements, sentence_end
from analysis.evidence.results import Results
from analysis.evidence.stored_plan import Arm, Plan
from analysis.statistics.estimate import Estimate, Verdict
from analysis.tables.differences import REFERENCE, differences_to_reference, interval_name
from analysis.tables.numbers import bounds_text, number_text


def answer_sentences(results: Results) -> list[str]:
    """A headline, then one sentence per arm; says what is missing and never calls a tie an effect."""
    plan = results.experiment.plan
    deltas = differences_to_reference(results)
    known = {name: delta for name, delta in deltas.items() if not math.isnan(delta.value)}
    sentences, engaged = [_headline(results, known)], engagements(results.experiment)
    for arm in plan.arms:
        delta = known.get(arm.name)
        if delta is not None:
            reference = plan.arm(arm.parent) if arm.parent else plan.base
            end = sentence_end(engaged[arm.name], not delta.resolved)
            sentences.append(f"- {_name(arm)} against {_name(reference)}: {describe(delta, plan)}{end}.")
        elif arm.name in deltas:
            sentences.append(f"- {_name(arm)}: no comparison, a finished run is missing.")
    return sentences


def describe(delta: Estimate, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher``; *simultaneous* for one of several."""
    value = f"{number_text(plan.scale * delta.value, plan.digits, signed=True)} {plan.unit}"
    word = delta.words(plan.scale, plan.unit)
    if math.isnan(delta.low):
        return f"{value} ({delta.seeds} seed{'s' if delta.seeds != 1 else ''}), {word}"
    interval = " to ".join(bounds_text(delta, plan.digits, scale=plan.scale))
    return f"{value} ({interval_name([delta])} {interval}, {delta.seeds} seeds), {word}"


def _headline(results: Results, known: dict[str, Estimate]) -> str:
    plan = results.experiment.plan
    if not known:
        return "No two arms have finished runs to compare yet."
    ordered = sorted(known.values(), key=lambda delta: list(Verdict).index(delta.verdict))
    counts = Counter(delta.words(plan.scale, plan.unit) for delta in ordered)
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    plural = "s" if len(known) > 1 else ""
    text = f"{len(known)} difference{plural} to the {REFERENCE[plan.design]}: {words}"
    if plan.design == "cumulative" and len(plan.arms) > 1 and not plan.looks:
        last = plan.arms[-1]
        total = results.difference(last, plan.base)
        if not math.isnan(total.value):
            alone = "declared as a single comparison, so not corrected"
            return f"Up to {_name(last)}, over {_name(plan.base)} ({alone}): {describe(total, plan)}. {text}."
    return f"{text}."


def _name(arm: Arm) -> str:
    """The label without the plus that rungs carry in tables."""
    return arm.label.removeprefix("+ ")
