"""Vacuity and confound checks: comparisons that cannot show anything, or show something else, said before anything is launched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.config import RunConfig
from harness.config_error import ConfigError
from harness.plan import Plan, PlannedArm


@dataclass(frozen=True)
class Finding:
    """One warning: which arm, why, and what to do about it."""

    arm: str
    check: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.arm}: {self.reason}. Fix: {self.fix}."


def report_checks(plan: Plan, mode: str) -> list[Finding]:
    """Print findings to standard error (warn), raise on any (refuse), or do nothing (off)."""
    if mode == "off":
        return []
    findings = check_plan(plan)
    for finding in findings:
        print(f"check {finding}", file=sys.stderr)
    if findings and mode == "refuse":
        raise ConfigError(f"{len(findings)} check(s) failed and runtime.checks=refuse; first: {findings[0]}")
    return findings


def check_plan(plan: Plan) -> list[Finding]:
    """All findings of a plan, arm by arm."""
    by_name = {planned.arm.name: planned for planned in plan.arms}
    findings: list[Finding] = []
    for planned in plan.arms:
        findings += [finding for check in _ARM_CHECKS for finding in check(planned.arm.name, planned.config)]
        parent = by_name.get(planned.arm.parent or "")
        if parent is not None:
            findings += [finding for pair in _PAIR_CHECKS for finding in pair(planned, parent)]
    return findings


def _inert_clip(arm: str, config: RunConfig) -> Iterator[Finding]:
    algorithm = config.algorithm
    surrogate = algorithm.surrogate
    one_update = algorithm.updates_per_step * algorithm.epochs_per_step == 1
    asymmetric = surrogate.kind == "ppo_clip" and surrogate.clip_high != surrogate.clip_low
    if one_update and (
        asymmetric or surrogate.kind == "clipped_is" or algorithm.importance_ratio == "sequence"
    ):
        yield Finding(
            arm,
            "inert clip",
            "with one update per rollout step the importance ratio is always 1, so no clip, cap or ratio level can matter",
            "raise algorithm.updates_per_step, or drop the arm",
        )


def _reward_refill(arm: str, config: RunConfig) -> Iterator[Finding]:
    algorithm = config.algorithm
    dead = algorithm.dead_groups
    if dead.policy != "keep" and dead.metric == "reward" and algorithm.overlong.punishes:
        yield Finding(
            arm,
            "refill on a continuous reward",
            "with a length penalty almost no group has equal rewards, so filtering on reward hardly ever removes one",
            "set algorithm.dead_groups.metric=accuracy, as DAPO's constraint is written",
        )


def _binding_gradient_clip(arm: str, config: RunConfig) -> Iterator[Finding]:
    aggregation = config.algorithm.aggregation
    if aggregation.kind == "constant_sum" and aggregation.constant_tokens <= 1:
        yield Finding(
            arm,
            "gradient clipping always binds",
            f"a token sum divided by {aggregation.constant_tokens:g} has a norm far above optimizer.max_gradient_norm="
            f"{config.optimizer.max_gradient_norm:g}, so the arm tests gradient clipping",
            "set algorithm.aggregation.constant_tokens to the response cap, or raise optimizer.max_gradient_norm",
        )


def _more_than_its_patch(planned: PlannedArm, parent: PlannedArm) -> Iterator[Finding]:
    from harness.identity import difference

    changes = difference(parent.config, planned.config)
    groups = {key.rsplit(".", 1)[0] if key.count(".") > 1 else key for key in changes}
    if planned.arm.patch and len(groups) > 1:
        yield Finding(
            planned.arm.name,
            "more than one change",
            f"differs from {parent.arm.name} in {', '.join(sorted(changes))}, which is more than the patch {planned.arm.patch}",
            "split the arm into one patch a step",
        )


def _undeclared_cost(planned: PlannedArm, parent: PlannedArm) -> Iterator[Finding]:
    ours, theirs = planned.config, parent.config
    refills = (
        ours.algorithm.dead_groups.policy == "refill" and theirs.algorithm.dead_groups.policy != "refill"
    )
    if refills and ours.training.generated_tokens is None:
        yield Finding(
            planned.arm.name,
            "unequal cost",
            f"generates several times the tokens of {parent.arm.name} per update, so at equal steps it also has more compute",
            "read the generated-tokens column and axis, or add an arm with equal tokens (match=tokens, training.generated_tokens)",
        )


_ARM_CHECKS: tuple[Callable[[str, RunConfig], Iterator[Finding]], ...] = (
    _inert_clip,
    _reward_refill,
    _binding_gradient_clip,
)
_PAIR_CHECKS: tuple[Callable[[PlannedArm, PlannedArm], Iterator[Finding]], ...] = (
    _more_than_its_patch,
    _undeclared_cost,
)
