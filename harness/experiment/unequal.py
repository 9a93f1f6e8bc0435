"""Checks of an arm against its parent: what else differs at equal steps (tokens, policy updates), and weights that are all 1."""

from __future__ import annotations

from collections.abc import Iterator

from harness.configuration.algorithm import AlgorithmConfig
from harness.configuration.identity import difference
from harness.configuration.schema import RunConfig
from harness.experiment.objection import Objection
from harness.experiment.planning import PlannedArm

_CORRECTION = "algorithm.engine_correction."


def undeclared_cost(planned: PlannedArm, parent: PlannedArm) -> Iterator[Objection]:
    """Another amount of generated tokens or responses an update at equal steps."""
    ours, theirs = planned.config, parent.config
    if ours.training.generated_tokens is not None:
        return
    reasons = []
    refills, refilled = (c.algorithm.dead_groups.policy == "refill" for c in (ours, theirs))
    if refills and not refilled:
        reasons.append("dynamic sampling generates several times the tokens")
    if refilled and not refills:
        reasons.append("without dynamic sampling it generates a fraction of the tokens")
    responses, before = _responses_per_update(ours.algorithm), _responses_per_update(theirs.algorithm)
    if responses != before:
        reasons.append(f"{responses:g} responses per update instead of {before:g}")
    if ours.sampling.max_response_tokens != theirs.sampling.max_response_tokens:
        reasons.append(
            f"a cap of {ours.sampling.max_response_tokens} instead of {theirs.sampling.max_response_tokens} tokens"
        )
    if reasons:
        yield Objection(
            planned.arm.name,
            "unequal cost",
            f"against {parent.arm.name}: {'; '.join(reasons)}; at equal steps it has another amount of compute",
            "read the generated-tokens column and axis, or add an arm with equal tokens (training.generated_tokens)",
        )


def _responses_per_update(algorithm: AlgorithmConfig) -> float:
    return algorithm.prompts_per_step * algorithm.responses_per_prompt / algorithm.updates_per_step


def unequal_updates(planned: PlannedArm, parent: PlannedArm) -> Iterator[Objection]:
    """The critic's warm-up is part of the steps, and the policy waits meanwhile."""
    ours, theirs = planned.config, parent.config
    warmup, before = _critic_warmup(ours), _critic_warmup(theirs)
    if warmup == before:
        return
    longer = planned if warmup > before else parent
    steps = max(warmup, before) - min(warmup, before)
    yield Objection(
        planned.arm.name,
        "unequal policy updates",
        f"in the warm-up of its critic {longer.arm.name} does not train the policy for {steps} steps more, which count as training steps: "
        f"{_policy_updates(ours)} policy updates instead of {_policy_updates(theirs)} of {parent.arm.name}",
        f"read the updates axis, or give the arm with the longer warm-up {steps} steps more (training.steps)",
    )


def _critic_warmup(config: RunConfig) -> int:
    critic = getattr(config.algorithm.advantage, "critic", None)
    return int(critic.warmup_steps) if critic else 0


def _policy_updates(config: RunConfig) -> int:
    algorithm, steps = config.algorithm, max(0, config.training.steps - _critic_warmup(config))
    return steps * algorithm.updates_per_step * algorithm.epochs_per_step


def inert_correction(planned: PlannedArm, parent: PlannedArm) -> Iterator[Objection]:
    """Importance weights between two computations of the same numbers."""
    changes = difference(parent.config, planned.config)
    if not changes or not all(key.startswith(_CORRECTION) for key in changes):
        return
    if _same_computation(planned.config):
        yield Objection(
            planned.arm.name,
            "inert engine correction",
            f"differs from {parent.arm.name} in the engine correction alone, and with engine=native sampler and trainer compute the same "
            "probabilities in float32: every weight is 1 up to rounding",
            "choose an engine or a precision that differs from the trainer's (engine=vllm, engine=transformers), or drop the arm",
        )


def _same_computation(config: RunConfig) -> bool:
    """Say if the sampler's log-probabilities are the trainer's own up to float32 rounding."""
    sampling, precision = config.sampling, getattr(config.model, "precision", "float32")
    unfiltered = sampling.top_p == 1 and sampling.top_k == 0
    fresh = (
        config.algorithm.dead_groups.surplus == "discard" or config.algorithm.dead_groups.policy != "refill"
    )
    same = config.engine.kind == "native" and config.algorithm.source.kind == "policy"
    fresh = fresh and config.sampling.lag_steps == 0
    return same and unfiltered and fresh and precision == "float32" and config.backend.kind == "builtin"
