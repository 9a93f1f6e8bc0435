"""Rules that choose the measures of what distinguishes an arm from its reference, by the configuration keys that differ.

An experiment declares nothing: every difference between two configurations finds its measures here. A surrogate, an advantage estimator
or an aggregation declares what is special to it (see the base classes in `harness.objective`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from harness.configuration.identity import difference
from harness.configuration.registry import AGGREGATION, member
from harness.configuration.schema import RunConfig
from harness.engagement import measure
from harness.engagement.measure import ALWAYS, Found, Measure

_TOUCHES_ALL = (
    "optimizer.learning_rate", "optimizer.beta", "optimizer.weight_decay", "optimizer.warmup_steps", "optimizer.decay",
    "optimizer.final_share", "sampling.temperature",
    "sampling.top_",
    "task.", "model.", "training.", "algorithm.source.", "algorithm.prompts_per_step", "algorithm.responses_per_prompt",
    "algorithm.updates_per_step", "algorithm.epochs_per_step", "algorithm.top_entropy_fraction", "algorithm.advantage_sign",
    "sampling.lag_steps",
)  # fmt: skip
_SIZES = {  # of what touches everything: how much larger it is in the arm
    "optimizer.learning_rate": "learning rate",
    "algorithm.prompts_per_step": "prompts a step",
    "algorithm.responses_per_prompt": "responses a prompt",
    "algorithm.updates_per_step": "updates a step",
    "algorithm.epochs_per_step": "epochs a step",
    "sampling.temperature": "temperature",
}
_INFINITE = float("inf")


def measures(old: RunConfig, new: RunConfig, names: tuple[str, str], ignore: str = "") -> list[Measure]:
    """Find the measures of every key in which `new` differs from its reference `old`.

    Args:
        old: the reference's configuration.
        new: the arm's configuration.
        names: of the two arms in the plan, the reference's first.
        ignore: prefix of keys that are the experiment's doing and no arm's (`training.` under a matched budget).
    """
    pairs = difference(old, new)
    changed = [key for key in pairs if key != "seed" and not (ignore and key.startswith(ignore))]
    found, taken = [], set[str]()
    for prefix, kind, own in _rules(old, new, changed):
        keys = tuple(key for key in changed if key.startswith(prefix))
        taken.update(keys)
        found.append(dataclasses.replace(kind, keys=keys, arm=names[own]))
    rest = [key for key in changed if key not in taken]
    always = tuple(key for key in rest if key.startswith(_TOUCHES_ALL))
    unknown = tuple(key for key in rest if key not in always)
    sizes = [
        f", {_SIZES[key]} × {pairs[key][1] / pairs[key][0]:.3g}"
        for key in always
        if key in _SIZES and pairs[key][0]
    ]
    found += [Measure(ALWAYS + "".join(sizes), always)] * bool(always) + [Measure("", unknown)] * bool(
        unknown
    )
    return found


def _rules(old: RunConfig, new: RunConfig, changed: list[str]) -> Found:
    a, b = old.algorithm, new.algorithm
    yield from _surrogate(a.surrogate, b.surrogate)
    for key in (f"algorithm.reward.{name}" for name in ("true_positive", "false_positive", "function")):
        if key in changed:
            yield key, measure.FLIPPED, not b.reward.exact
    limits = [_INFINITE if one.off_policy_mask_nats is None else one.off_policy_mask_nats for one in (a, b)]
    yield from _of_smaller("algorithm.off_policy_mask_nats", measure.OFF_POLICY, *limits)
    yield from _overlong(a.overlong, b.overlong)
    yield from _aggregation(a.aggregation.kind, b.aggregation.kind)
    policies = (a.dead_groups.policy, b.dead_groups.policy)
    if "refill" in policies and policies != ("refill", "refill"):
        yield "algorithm.dead_groups.policy", measure.REFILLED, policies[1] == "refill"
    elif policies[0] != policies[1]:
        yield "algorithm.dead_groups.policy", measure.REMOVED, policies[1] == "drop"
    yield from _same_member("advantage", a.advantage, b.advantage)
    one, other = a.engine_correction, b.engine_correction
    if one.kind != other.kind:
        yield "algorithm.engine_correction.", measure.CORRECTION, other.kind != "none"
    elif one.old_log_probs != other.old_log_probs:
        own = other.old_log_probs == "recomputed"
        yield "algorithm.engine_correction.old_log_probs", measure.GAP, own
    if (a.kl.coefficient or b.kl.coefficient) and any(key.startswith("algorithm.kl.") for key in changed):
        yield "algorithm.kl.", measure.KL, b.kl.coefficient >= a.kl.coefficient
    if a.entropy_control != b.entropy_control:
        yield "algorithm.entropy_", measure.ENTROPY, b.entropy_control.target_nats is not None
    elif a.entropy_coefficient != b.entropy_coefficient:
        larger = abs(b.entropy_coefficient) > abs(a.entropy_coefficient)
        yield "algorithm.entropy_coefficient", measure.ENTROPY, larger
    weights = (b.positive_nll_coefficient, a.positive_nll_coefficient)
    yield from _of_smaller("algorithm.positive_nll_coefficient", measure.LIKELIHOOD, *weights)
    norms = (old.optimizer.max_gradient_norm, new.optimizer.max_gradient_norm)
    yield from _of_smaller("optimizer.max_gradient_norm", measure.GRADIENT_CLIPPED, *norms)
    caps = (old.sampling.max_response_tokens, new.sampling.max_response_tokens)
    yield from _of_smaller("sampling.max_response_tokens", measure.TRUNCATED, *caps)


def _of_smaller(key: str, found: Measure, old: float, new: float) -> Found:
    """A measure that the runs with the smaller value show."""
    if old != new:
        yield key, found, new < old


def _same_member(section: str, old: Any, new: Any) -> Found:
    """Ask a member of the objective about two of its own configurations."""
    if old.kind == new.kind:
        for field, found, own in new.engagement(old):
            yield f"algorithm.{section}.{field}", found, own


def _surrogate(old: Any, new: Any) -> Found:
    tokens = [old.far_tokens, new.far_tokens]
    weighted = all(getattr(one, "importance_weighted", True) for one in (old, new))
    if "stopped" in tokens:
        # A clip and a trust region of its own both take a token's gradient away, and both are counted as clipped.
        yield "algorithm.surrogate.", measure.STOPPED, tokens[1] in ("stopped", "clipped")
    elif old.selects or new.selects:
        # Some tokens are treated apart, in place of a clip or beside it.
        yield "algorithm.surrogate.", measure.SELECTED, new.selects
        if set(tokens) == {"clipped", ""}:
            yield "algorithm.surrogate.", measure.CLIPPED, tokens[1] == "clipped"
    elif set(tokens) == {"clipped", "kept"} and weighted:
        yield "algorithm.surrogate.", measure.CLIPPED, tokens[1] == "clipped"
    else:
        yield from _same_member("surrogate", old, new)


def _overlong(old: Any, new: Any) -> Found:
    policy = "algorithm.overlong.policy"
    if old.masks != new.masks:
        yield policy, measure.MASKED, new.masks
    elif new.masks and old.statistics != new.statistics:
        yield "algorithm.overlong.statistics", measure.MASKED, new.statistics == "exclude"
    if old.punishes != new.punishes:
        yield policy, measure.PUNISHED, new.punishes
    elif new.punishes:
        for name in ("penalty", "buffer_fraction", "shape"):
            if getattr(old, name) != getattr(new, name):
                larger = name == "shape" or getattr(new, name) > getattr(old, name)
                yield f"algorithm.overlong.{name}", measure.PUNISHED, larger


def weighs_as(aggregation: str) -> str | None:
    """Name the aggregation whose weights within an update, up to a factor, this one has; None where no other can be held against them."""
    reference: str | None = member(AGGREGATION, aggregation).Config.weighs_as
    return aggregation if reference == "" else reference


def _aggregation(old: str, new: str) -> Found:
    if old == new:
        return
    if reference := weighs_as(old):
        yield "algorithm.aggregation.", measure.weights_against(reference), True
    elif reference := weighs_as(new):
        yield "algorithm.aggregation.", measure.weights_against(reference), False
