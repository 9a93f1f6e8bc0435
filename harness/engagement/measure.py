"""Measures of what the difference of two arms affected: thresholds, values off the step metrics, names (docs/objective/engagement.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # planning needs no data frames
    import pandas as pd
from harness.configuration.identity import difference
from harness.configuration.registry import AGGREGATION, member
from harness.configuration.schema import RunConfig

ALWAYS = "always"
HARDLY = "hardly engaged"
SHARE = 0.003  # of tokens, responses or groups: the one published threshold
CHANGE = 0.05  # of weights: what leaves about as much of an update as SHARE does, √0.003


@dataclass(frozen=True)
class Measure:
    """One measure of a difference between an arm and its reference, as recorded in `plan.json`.

    Attributes:
        name: what is counted, for a reader (`tokens released by the upper bound`); `always` where the difference touches everything,
            empty where nothing measures it.
        keys: the differing configuration keys it stands for; none while it is not yet of a difference.
        unit: what follows the percentage (`of tokens`).
        fields: the step metrics whose sum it is, fractions each; none for `always` and for what is not measured.
        threshold: the fraction under which the difference is hardly engaged.
        arm: the arm of the plan whose runs show it.
    """

    name: str
    keys: tuple[str, ...] = ()
    unit: str = ""
    fields: tuple[str, ...] = ()
    threshold: float = 0.0
    arm: str = ""

    def value(self, runs: Sequence[pd.DataFrame]) -> float:
        """Average over each run's steps, then over runs; NaN where no run has the fields (an older store, a step without updates)."""
        means = []
        for steps in runs:
            if self.fields and set(self.fields) <= set(steps.columns):
                total = steps[list(self.fields)].astype("float64").sum(axis=1, skipna=False)
                means.append(float(total.mean()))  # NaN steps had nothing to touch
        finite_means = [mean for mean in means if not math.isnan(mean)]
        return sum(finite_means) / len(finite_means) if finite_means else math.nan

    def hardly(self, value: float) -> bool:
        """Say if the value lies under the threshold; never for what is not measured."""
        return bool(self.fields) and value < self.threshold

    def text(self, value: float, mark: bool = True) -> str:
        """`0.3 % of tokens`, with `, hardly engaged` where it is; `always`; empty where nothing is known."""
        if not self.fields:
            return self.name
        if math.isnan(value):
            return ""
        if not self.hardly(value):
            return f"{percent(value)} {self.unit}"
        # Rounded, it may read as the threshold itself.
        threshold = percent(self.threshold)
        share = f"< {threshold}" if percent(value) == threshold else percent(value)
        return f"{share} {self.unit}" + f", {HARDLY}" * mark


def percent(fraction: float) -> str:
    """`14 %`, `1.4 %`, `0.02 %`: two digits, no more than whole percents, `< 0.001 %` under a hundred-thousandth."""
    value = 100 * fraction
    if abs(value) < 1e-7:  # rounding
        return "0 %"
    if value < 1e-3:
        return "< 0.001 %"
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def _share(name: str, unit: str, *fields: str) -> Measure:
    return Measure(name, unit=unit, fields=fields, threshold=SHARE)


def _change(name: str, unit: str, field: str) -> Measure:
    return Measure(name, unit=unit, fields=(field,), threshold=CHANGE)


def weights_against(aggregation: str) -> Measure:
    """The change of the responses' weights against those of another aggregation."""
    unit = "change of response weights"
    return _change(f"responses' weights against {aggregation}", unit, f"weight_change_{aggregation}")


_CLIPPED = ("clip_fraction_low", "clip_fraction_high")
RELEASED = _share("tokens released by the wider upper bound", "of tokens", "clip_released_fraction")
CLIPPED_HIGH = _share("tokens clipped above by the narrower bound", "of tokens", "clip_fraction_high")
CLIPPED_LOW = _share("tokens clipped below by the narrower bound", "of tokens", "clip_fraction_low")
CLIPPED = _share("tokens clipped", "of tokens", *_CLIPPED)
STOPPED = _share("tokens stopped", "of tokens", *_CLIPPED)
# No threshold: how many it chooses is its setting, 0.02 % for its authors.
SELECTED = Measure("tokens chosen by covariance", unit="of tokens", fields=("selected_fraction",))
OFF_POLICY = _share("tokens of off-policy responses", "of tokens", "off_policy_masked_fraction")
MASKED = _share("responses without loss", "of responses", "masked_fraction")
PUNISHED = _share("responses in the soft ramp", "of responses", "punished_fraction")
TRUNCATED = _share("responses at the smaller cap", "of responses", "truncated_fraction")
FLIPPED = _share("verdicts reversed", "of verdicts", "flipped_verdicts_fraction")
REFILLED = _share("dead groups replaced", "of groups", "refilled_fraction")
REMOVED = _share("dead groups removed", "of groups", "removed_fraction")
RETRIED = _share("groups of prompts tried again", "of groups", "retried_fraction")
WEIGHED = _change("responses weighed apart", "change of response weights", "weighting_change")
GRADIENT_CLIPPED = _share("updates clipped in norm", "of updates", "gradient_clipped_fraction")
SIGMA = _change("weight moved between groups by σ", "change of group weights", "sigma_weight_change")
CORRECTION = _change("engine weights", "change of token weights", "correction_change_mean")
GAP = _change("sampler's log-probabilities replaced", "change of token ratios", "sampler_log_prob_gap_mean")
# It pulls one way, where the policy's terms cancel within a group: 2 % of the pull was decided twice (claim no_kl, first edition).
KL = Measure("KL term", unit="of the loss's pull", fields=("kl_share",), threshold=0.01)
ENTROPY = _change("entropy bonus", "of the loss's pull", "entropy_share")
LIKELIHOOD = _change("likelihood term", "of the loss's pull", "nll_share")

KeyedMeasures = Iterator[tuple[str, Measure, bool]]
"""Measures of a difference: the differing keys' common prefix, what to measure, and if the new configuration's own runs show it."""


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


def measures(old: RunConfig, new: RunConfig, names: tuple[str, str], ignore: tuple[str, ...] = ()) -> list[Measure]:
    """Find the measures of every key in which `new` differs from its reference `old`; `names` are those of the two arms, old first.

    `ignore`: prefixes of keys that are the experiment's doing and no arm's (`training.` under a matched budget, what is tuned).
    """
    pairs = difference(old, new)
    changed_keys = [key for key in pairs if key != "seed" and not key.startswith(ignore)]
    keys_by_measure: dict[tuple[Measure, bool], dict[str, None]] = {}
    for prefix, measure, side in _rules(old, new, changed_keys):  # one measure may stand for keys of several rules
        keys = [key for key in changed_keys if key.startswith(prefix)]
        keys_by_measure.setdefault((measure, side), {}).update(dict.fromkeys(keys))
    entries = [
        dataclasses.replace(measure, keys=tuple(keys), arm=names[side])
        for (measure, side), keys in keys_by_measure.items()
    ]
    remaining_keys = [key for key in changed_keys if not any(key in keys for keys in keys_by_measure.values())]
    wide_keys = tuple(key for key in remaining_keys if key.startswith(_TOUCHES_ALL))
    unmeasured_keys = tuple(key for key in remaining_keys if key not in wide_keys)
    sizes = [
        f", {_SIZES[key]} × {pairs[key][1] / pairs[key][0]:.3g}" for key in wide_keys if key in _SIZES and pairs[key][0]
    ]
    entries += [Measure(ALWAYS + "".join(sizes), wide_keys)] if wide_keys else []
    return entries + ([Measure("", unmeasured_keys)] if unmeasured_keys else [])


def _rules(old: RunConfig, new: RunConfig, changed_keys: list[str]) -> KeyedMeasures:
    a, b = old.algorithm, new.algorithm
    yield from _surrogate(a.surrogate, b.surrogate)
    for key in (f"algorithm.reward.{name}" for name in ("true_positive", "false_positive", "function")):
        if key in changed_keys:
            yield key, FLIPPED, not b.reward.exact
    limits = [_INFINITE if arm.off_policy_mask_nats is None else arm.off_policy_mask_nats for arm in (a, b)]
    yield from _smaller_value("algorithm.off_policy_mask_nats", OFF_POLICY, *limits)
    yield from _overlong(a.overlong, b.overlong)
    yield from _aggregation(a.aggregation.kind, b.aggregation.kind)
    if a.weighting != b.weighting:
        yield "algorithm.weighting.", WEIGHED, b.weighting.kind != "uniform"
    yield from _dead_groups(a.dead_groups.policy, b.dead_groups.policy)
    yield from _same_member("advantage", a.advantage, b.advantage)
    reference, other = a.engine_correction, b.engine_correction
    if reference.kind != other.kind:
        # Under a lag other old log-probabilities move the clip, which no weight shows.
        moves = new.sampling.lag_steps > 0 and reference.old_log_probs != other.old_log_probs
        yield "algorithm.engine_correction." + "kind" * moves, CORRECTION, other.kind != "none"
    elif reference.old_log_probs != other.old_log_probs:
        side = other.old_log_probs == "recomputed"
        yield "algorithm.engine_correction.old_log_probs", GAP, side
    if (a.kl.coefficient or b.kl.coefficient) and any(key.startswith("algorithm.kl.") for key in changed_keys):
        yield "algorithm.kl.", KL, b.kl.coefficient >= a.kl.coefficient
    if a.entropy_control != b.entropy_control:
        yield "algorithm.entropy_", ENTROPY, b.entropy_control.target_nats is not None
    elif a.entropy_coefficient != b.entropy_coefficient:
        larger = abs(b.entropy_coefficient) > abs(a.entropy_coefficient)
        yield "algorithm.entropy_coefficient", ENTROPY, larger
    weights = (b.positive_nll_coefficient, a.positive_nll_coefficient)
    yield from _smaller_value("algorithm.positive_nll_coefficient", LIKELIHOOD, *weights)
    norms = (old.optimizer.max_gradient_norm, new.optimizer.max_gradient_norm)
    yield from _smaller_value("optimizer.max_gradient_norm", GRADIENT_CLIPPED, *norms)
    caps = (old.sampling.max_response_tokens, new.sampling.max_response_tokens)
    yield from _smaller_value("sampling.max_response_tokens", TRUNCATED, *caps)


def _smaller_value(key: str, measure: Measure, old: float, new: float) -> KeyedMeasures:
    """A measure that the runs with the smaller value show."""
    if old != new:
        yield key, measure, new < old


def _same_member(section: str, old: Any, new: Any) -> KeyedMeasures:
    """Ask a member of the objective about two of its own configurations."""
    if old.kind == new.kind:
        for field, measure, side in new.engagement(old):
            yield f"algorithm.{section}.{field}", measure, side


def _surrogate(old: Any, new: Any) -> KeyedMeasures:
    if old == new:
        return
    tokens = [old.far_tokens, new.far_tokens]
    weighted = all(getattr(surrogate, "importance_weighted", True) for surrogate in (old, new))
    if "stopped" in tokens or old.selects or new.selects:
        # Some tokens are treated apart, in place of a clip or beside it. A wide trust region keeps what a clip stops; both are counted.
        stops = "stopped" in tokens
        yield "algorithm.surrogate.", STOPPED if stops else SELECTED, tokens[1] == "stopped" if stops else new.selects
        if set(tokens) in ({"clipped", ""}, {"clipped", "stopped"}):
            yield "algorithm.surrogate.", CLIPPED, tokens[1] == "clipped"
    elif set(tokens) == {"clipped", "kept"} and weighted:
        yield "algorithm.surrogate.", CLIPPED, tokens[1] == "clipped"
    else:
        yield from _same_member("surrogate", old, new)


def _dead_groups(*policies: str) -> KeyedMeasures:
    key = "algorithm.dead_groups.policy"
    for policy, measure in (("never_give_up", RETRIED), ("refill", REFILLED), ("drop", REMOVED)):
        if policies.count(policy) == 1:
            yield key, measure, policies[1] == policy
            return


def _overlong(old: Any, new: Any) -> KeyedMeasures:
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


def weighs_as(aggregation: str) -> str | None:
    """Name the aggregation whose weights within an update, up to a factor, this one has; None where no other can be held against them."""
    reference: str | None = member(AGGREGATION, aggregation).Config.weighs_as
    return aggregation if reference == "" else reference


def _aggregation(old: str, new: str) -> KeyedMeasures:
    if old == new:
        return
    if reference := weighs_as(old):
        yield "algorithm.aggregation.", weights_against(reference), True
    elif reference := weighs_as(new):
        yield "algorithm.aggregation.", weights_against(reference), False
