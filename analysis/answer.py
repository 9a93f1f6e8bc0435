"""The answer in words: what the experiment found, with intervals and the words resolved / not resolved."""

from __future__ import annotations

import math

from analysis.experiment.engagement import engagements, sentence_end
from analysis.experiment.results import Results
from analysis.experiment.stored_plan import Arm, Plan
from analysis.statistics.intervals import Estimate
from analysis.tables.experiment_tables import REFERENCE, differences_to_reference


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
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), resolved``."""
    value = f"{_shown(delta.value, plan)} {plan.unit}"
    if math.isnan(delta.low):
        return f"{value} ({delta.seeds} seed{'s' if delta.seeds != 1 else ''}), {delta.word}"
    interval = f"{_shown(delta.low, plan)} to {_shown(delta.high, plan)}"
    return f"{value} (95 % interval {interval}, {delta.seeds} seeds), {delta.word}"


def _headline(results: Results, known: dict[str, Estimate]) -> str:
    plan = results.experiment.plan
    if not known:
        return "No two arms have finished runs to compare yet."
    resolved = sum(delta.resolved for delta in known.values())
    text = f"{resolved} of {len(known)} differences to the {REFERENCE[plan.design]} are resolved"
    if plan.design == "cumulative" and len(plan.arms) > 1:
        last = plan.arms[-1]
        total = results.difference(last, plan.base)
        if not math.isnan(total.value):
            return f"Up to {_name(last)}, over {_name(plan.base)}: {describe(total, plan)}; {text}."
    return f"{text}."


def _name(arm: Arm) -> str:
    """The label without the plus that rungs carry in tables."""
    return arm.label.removeprefix("+ ")


def _shown(value: float, plan: Plan) -> str:
    return f"{plan.scale * value:+.{plan.digits}f}".replace("-", "−")
