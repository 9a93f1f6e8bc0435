"""Which measures tell whether what distinguishes an arm from its reference did anything: by the configuration keys that differ.

An experiment declares nothing: every difference between two configurations finds its measures here. Definitions, units and the
reasons for the thresholds stand in docs/objective/engagement.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.configuration.identity import difference
from harness.configuration.schema import RunConfig
from harness.store.measures import ALWAYS, Measure

SHARE = 0.003  # of tokens, responses or groups: the one published threshold (docs/objective/engagement.md)
INFINITE = float("inf")
CHANGE = 0.05  # of weights: what leaves about as much of an update as SHARE does, √0.003


@dataclass(frozen=True)
class Kind:
    """What is measured: its name and unit for readers, the step metrics it sums, and when it is hardly engaged."""

    name: str
    unit: str
    fields: tuple[str, ...]
    threshold: float = SHARE


RELEASED = Kind("tokens released by the wider upper bound", "of tokens", ("clip_released_fraction",))
CLIPPED_HIGH = Kind("tokens clipped above by the narrower bound", "of tokens", ("clip_fraction_high",))
CLIPPED_LOW = Kind("tokens clipped below by the narrower bound", "of tokens", ("clip_fraction_low",))
CLIPPED = Kind("tokens clipped", "of tokens", ("clip_fraction_low", "clip_fraction_high"))
STOPPED = Kind("tokens stopped", "of tokens", ("clip_fraction_low", "clip_fraction_high"))
OFF_POLICY = Kind("tokens of off-policy responses", "of tokens", ("off_policy_masked_fraction",))
MASKED = Kind("responses without loss", "of responses", ("masked_fraction",))
PUNISHED = Kind("responses in the soft ramp", "of responses", ("punished_fraction",))
TRUNCATED = Kind("responses at the smaller cap", "of responses", ("truncated_fraction",))
FLIPPED = Kind("verdicts turned round", "of verdicts", ("flipped_verdicts_fraction",))
REFILLED = Kind("dead groups replaced", "of groups", ("refilled_fraction",))
REMOVED = Kind("dead groups removed", "of groups", ("removed_fraction",))
SIGMA = Kind("weight moved between groups by σ", "change of group weights", ("sigma_weight_change",), CHANGE)
CORRECTION = Kind("engine weights", "change of token weights", ("correction_change_mean",), CHANGE)
GAP = Kind(
    "sampler's log-probabilities replaced",
    "change of token ratios",
    ("sampler_log_prob_gap_mean",),
    CHANGE,
)
KL = Kind("KL term", "of the loss's pull", ("kl_share",), CHANGE)
ENTROPY = Kind("entropy bonus", "of the loss's pull", ("entropy_share",), CHANGE)
LIKELIHOOD = Kind("likelihood term", "of the loss's pull", ("nll_share",), CHANGE)
GRADIENT_CLIPPED = Kind("updates clipped in norm", "of updates", ("gradient_clipped_fraction",))

_TOUCHES_ALL = (
    "optimizer.learning_rate",
    "optimizer.beta",
    "optimizer.weight_decay",
    "optimizer.warmup_steps",
    "sampling.temperature",
    "sampling.top_",
    "task.",
    "model.",
    "training.",
    "algorithm.source.",
    "algorithm.prompts_per_step",
    "algorithm.responses_per_prompt",
    "algorithm.updates_per_step",
    "algorithm.epochs_per_step",
    "algorithm.top_entropy_fraction",
)
_Found = tuple[str, Kind, bool]  # the keys' common prefix, what to measure, whether in the arm's own runs


def measures(old: RunConfig, new: RunConfig, names: tuple[str, str], ignore: str = "") -> list[Measure]:
    """The measures of every key in which `new` differs from its reference `old`.

    Args:
        old: the reference's configuration.
        new: the arm's configuration.
        names: of the two arms in the plan, the reference's first.
        ignore: prefix of keys that are the experiment's doing and no arm's (`training.` under a matched budget).
    """
    changed = [
        key for key in difference(old, new) if key != "seed" and not (ignore and key.startswith(ignore))
    ]
    found, taken = [], set[str]()
    for prefix, kind, own in _rules(old, new, set(changed)):
        keys = tuple(key for key in changed if key.startswith(prefix))
        taken.update(keys)
        found.append(Measure(kind.name, keys, kind.unit, kind.fields, kind.threshold, names[own]))
    rest = [key for key in changed if key not in taken]
    always = tuple(key for key in rest if key.startswith(_TOUCHES_ALL))
    unknown = tuple(key for key in rest if key not in always)
    found += [Measure(ALWAYS, always)] * bool(always) + [Measure("", unknown)] * bool(unknown)
    return found


def _rules(old: RunConfig, new: RunConfig, changed: set[str]) -> Iterator[_Found]:
    a, b = old.algorithm, new.algorithm
    yield from _surrogate(a.surrogate, b.surrogate)
    yield from _verdicts(a.reward, b.reward)
    yield from _off_policy(a.off_policy_mask_nats, b.off_policy_mask_nats)
    yield from _overlong(a.overlong, b.overlong)
    yield from _aggregation(a.aggregation.kind, b.aggregation.kind)
    yield from _dead_groups(a.dead_groups.policy, b.dead_groups.policy)
    scales = [one.scale if one.kind == "group" else None for one in (a.advantage, b.advantage)]
    if None not in scales and scales.count("group_std") == 1:
        yield "algorithm.advantage.scale", SIGMA, True
    one, other = a.engine_correction, b.engine_correction
    if one.kind != other.kind:
        yield "algorithm.engine_correction.", CORRECTION, other.kind != "none"
    elif one.old_log_probs != other.old_log_probs:
        key = "algorithm.engine_correction.old_log_probs"
        yield key, GAP, other.old_log_probs == "recomputed"
    larger = b.kl.coefficient >= a.kl.coefficient
    if (a.kl.coefficient or b.kl.coefficient) and any(key.startswith("algorithm.kl.") for key in changed):
        yield "algorithm.kl.", KL, larger
    if a.entropy_control != b.entropy_control:
        own = b.entropy_control.target_nats is not None
        yield "algorithm.entropy_", ENTROPY, own
    elif a.entropy_coefficient != b.entropy_coefficient:
        larger = abs(b.entropy_coefficient) > abs(a.entropy_coefficient)
        yield "algorithm.entropy_coefficient", ENTROPY, larger
    if a.positive_nll_coefficient != b.positive_nll_coefficient:
        larger = b.positive_nll_coefficient > a.positive_nll_coefficient
        yield "algorithm.positive_nll_coefficient", LIKELIHOOD, larger
    if old.optimizer.max_gradient_norm != new.optimizer.max_gradient_norm:
        smaller = new.optimizer.max_gradient_norm < old.optimizer.max_gradient_norm
        yield "optimizer.max_gradient_norm", GRADIENT_CLIPPED, smaller
    if old.sampling.max_response_tokens != new.sampling.max_response_tokens:
        smaller = new.sampling.max_response_tokens < old.sampling.max_response_tokens
        yield "sampling.max_response_tokens", TRUNCATED, smaller


def _surrogate(old: Any, new: Any) -> Iterator[_Found]:
    clips = [one.kind == "ppo_clip" for one in (old, new)]
    if "divergence_mask" in (old.kind, new.kind):
        # Both keep or stop a token's gradient; what a trust region of its own stops is counted as clipped.
        yield "algorithm.surrogate.", STOPPED, new.kind in ("divergence_mask", "ppo_clip")
        return
    if old.kind != new.kind:
        others = {old.kind, new.kind} - {"ppo_clip"}
        weighted = all(getattr(one, "importance_weighted", True) for one in (old, new))
        if any(clips) and others <= {"clipped_is", "policy_gradient"} and weighted:
            yield "algorithm.surrogate.", CLIPPED, clips[1]
        return
    if not all(clips):
        return
    if old.clip_high != new.clip_high:
        narrow, wide = sorted((old, new), key=lambda one: float(one.clip_high))
        # A run knows its own bounds only: what a bound releases beyond the symmetric one it counts itself.
        symmetric = narrow.clip_high == wide.clip_low
        kind, where = (RELEASED, wide) if symmetric else (CLIPPED_HIGH, narrow)
        yield "algorithm.surrogate.clip_high", kind, where is new
    if old.clip_low != new.clip_low:
        yield "algorithm.surrogate.clip_low", CLIPPED_LOW, new.clip_low < old.clip_low


def _verdicts(old: Any, new: Any) -> Iterator[_Found]:
    rates = [(one.true_positive, one.false_positive) for one in (old, new)]
    if rates[0] != rates[1]:
        for name in ("true_positive", "false_positive"):
            if getattr(old, name) != getattr(new, name):
                yield f"algorithm.reward.{name}", FLIPPED, not new.exact


def _off_policy(old: float | None, new: float | None) -> Iterator[_Found]:
    if old != new:
        limits = [INFINITE if limit is None else limit for limit in (old, new)]
        yield "algorithm.off_policy_mask_nats", OFF_POLICY, limits[1] < limits[0]


def _overlong(old: Any, new: Any) -> Iterator[_Found]:
    policy = "algorithm.overlong.policy"
    if old.masks != new.masks:
        yield policy, MASKED, new.masks
    elif new.masks and old.statistics != new.statistics:
        yield "algorithm.overlong.statistics", MASKED, new.statistics == "exclude"
    if old.punishes != new.punishes:
        yield policy, PUNISHED, new.punishes
    elif new.punishes:
        for name in ("penalty", "buffer_fraction", "shape"):
            if getattr(old, name) != getattr(new, name):
                larger = name == "shape" or getattr(new, name) > getattr(old, name)
                yield f"algorithm.overlong.{name}", PUNISHED, larger


def _aggregation(old: str, new: str) -> Iterator[_Found]:
    if old == new:
        return
    # Within an update a constant divisor weighs responses as the token mean does; declared micro-batches are no common reference.
    alike = {"constant_sum": "batch_token_mean", "microbatch_token_mean": None}
    reference, own = alike.get(old, old), True
    if reference is None:
        reference, own = alike.get(new, new), False
    if reference is not None:
        fields = (f"weight_change_{reference}",)
        name = f"responses' weights against {reference}"
        yield "algorithm.aggregation.", Kind(name, "change of response weights", fields, CHANGE), own


def _dead_groups(old: str, new: str) -> Iterator[_Found]:
    if old == new:
        return
    if "refill" in (old, new):
        yield "algorithm.dead_groups.policy", REFILLED, new == "refill"
    else:
        yield "algorithm.dead_groups.policy", REMOVED, new == "drop"


def against(names: Mapping[str, str | None], design: str) -> dict[str, str | None]:
    """What each arm (name to declared parent) is compared with: its parent, else the base, the first arm without one.

    The full recipe of a leave-one-out is compared with nothing: the others are compared with it.
    """
    base = next((name for name, parent in names.items() if parent is None), next(iter(names)))
    inherited = None if design == "leave_one_out" else base
    return {
        name: parent if parent is not None else (None if name == base else inherited)
        for name, parent in names.items()
    }
