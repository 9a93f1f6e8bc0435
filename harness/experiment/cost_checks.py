"""Checks of what is not equal between compared arms: generated tokens, responses an update, updates of the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.configuration.schema import RunConfig
from harness.experiment.plan import Plan, PlannedArm

Said = tuple[str, str, str]
"""Name of the check, reason and fix."""

_UNEQUAL = "at equal steps it has another amount of compute"


def undeclared_cost(planned: PlannedArm, parent: PlannedArm) -> Iterator[Said]:
    """Another amount of generated tokens or responses an update at equal steps."""
    if reasons := _cost_reasons(planned.config, parent.config):
        yield (
            "unequal cost",
            f"against {parent.name}: {'; '.join(reasons)}; {_UNEQUAL}",
            "read the generated-tokens column and axis, or add an arm with equal tokens (training.generated_tokens)",
        )


def unequal_cells(plan: Plan) -> Iterator[tuple[str, Said]]:
    """The same where cells are averaged and none has a parent (factorial, Shapley): a reason once, with the level whose cells have it."""
    if plan.design not in ("factorial", "shapley") or plan.match != "steps":
        return
    base, *others = plan.arms
    cells: dict[str, list[PlannedArm]] = {}
    for planned in others:
        for reason in _cost_reasons(planned.config, base.config):
            cells.setdefault(reason, []).append(planned)
    for reason, having in cells.items():
        where = f"in {len(having)} of {len(plan.arms)} cells, against {base.name}"
        fix = "read the generated-tokens column and axis, or give all cells the same number (match=tokens)"
        yield _level_of(having, plan.arms), ("unequal cost", f"{where}: {reason}; {_UNEQUAL}", fix)


def _level_of(having: Sequence[PlannedArm], cells: Sequence[PlannedArm]) -> str:
    """The level that all of these cells have and no other one; where there is none, the names of the cells."""
    shared = set.intersection(*(set(one.patches) for one in having))
    shared -= {level for one in cells if one not in having for level in one.patches}
    return " and ".join(sorted(shared)) or ", ".join(one.name for one in having)


def _cost_reasons(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """What makes a step of ours cost another amount than one of theirs; nothing where tokens are limited."""
    if ours.training.generated_tokens is not None:
        return []
    reasons = []
    refills, refilled = (c.algorithm.dead_groups.policy == "refill" for c in (ours, theirs))
    if refills and not refilled:
        reasons.append("dynamic sampling generates several times the tokens")
    if refilled and not refills:
        reasons.append("without dynamic sampling it generates a fraction of the tokens")
    responses, before = (
        c.algorithm.prompts_per_step * c.algorithm.responses_per_prompt / c.algorithm.updates_per_step
        for c in (ours, theirs)
    )
    if responses != before:
        reasons.append(f"{responses:g} responses per update instead of {before:g}")
    cap, other_cap = ours.sampling.max_response_tokens, theirs.sampling.max_response_tokens
    if cap != other_cap:
        reasons.append(f"a cap of {cap} instead of {other_cap} tokens")
    return reasons


def unequal_updates(planned: PlannedArm, parent: PlannedArm) -> Iterator[Said]:
    """The critic's warm-up is part of the steps, and the policy waits meanwhile."""
    ours, theirs = planned.config, parent.config
    warmup, before = _critic_warmup(ours), _critic_warmup(theirs)
    if warmup == before:
        return
    longer = planned if warmup > before else parent
    steps = max(warmup, before) - min(warmup, before)
    yield (
        "unequal policy updates",
        f"in the warm-up of its critic {longer.name} does not train the policy for {steps} steps more, which count as training steps: "
        f"{_policy_updates(ours)} policy updates instead of {_policy_updates(theirs)} of {parent.name}",
        f"read the updates axis, or give the arm with the longer warm-up {steps} steps more (training.steps)",
    )


def _critic_warmup(config: RunConfig) -> int:
    critic = getattr(config.algorithm.advantage, "critic", None)
    return int(critic.warmup_steps) if critic else 0


def _policy_updates(config: RunConfig) -> int:
    algorithm, steps = config.algorithm, max(0, config.training.steps - _critic_warmup(config))
    return steps * algorithm.updates_per_step * algorithm.epochs_per_step
