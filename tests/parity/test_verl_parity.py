"""Our objective against verl's own estimators and losses, for every system that verl can express, through the exported settings and
verl's own defaults for everything that they leave out.

Optional: needs `python tests/parity/build_peer.py verl` (an environment of its own, no GPU) and is skipped without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from build_peer import ready
from test_trl_parity import ONE_BATCH, PROMPTS, SEEDS, SIZE, gaps, tensors

from harness.configuration.compose import compose_run, options
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import verl
from harness.objective.correction import engine_weights
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(
        not ready("verl"), reason="no verl environment: python tests/parity/build_peer.py verl"
    ),
]
# Differences that do not touch the loss of one given batch.
# All tokens of the band, since the draw is random there; enough tokens to matter.
MORE = {
    "clip_cov": ["algorithm.surrogate.fraction=1.0", "algorithm.surrogate.low=0.1"],
    "kl_cov": ["algorithm.surrogate.fraction=0.2"],
}
OUTSIDE = ("dead_groups", "curriculum", "source=", "overlong")


def expressible() -> dict[str, RunConfig]:
    """Systems whose loss verl can say; GDPO is left out, whose whitening per token is a documented difference."""
    found = {}
    for name in options("algorithm"):
        config = compose_run([f"algorithm={name}", *ONE_BATCH, *MORE.get(name, [])])
        exported = verl.export(config)
        inside = [line for line in exported.inexpressible if not any(word in line for word in OUTSIDE)]
        if (
            not inside
            and config.algorithm.advantage.kind != "decoupled"
            and "algorithm.adv_estimator" in exported.settings
        ):
            found[name] = config
    return found


SYSTEMS = expressible()


def data(seed: int) -> dict[str, Any]:
    """TRL's random batch, with values and the sampler's log-probabilities."""
    given = tensors(seed)
    noise = np.random.default_rng(seed + 100).normal(0, 0.3, (2, *given["old"].shape))
    return {**given, "values": noise[0], "sampler": given["old"] + noise[1]}


def case(config: RunConfig, batch: dict[str, Any]) -> dict[str, Any]:
    arrays = {
        "mask": batch["mask"].astype(float),
        "rewards": batch["components"].sum(1),
        **{key: batch[key] for key in ("log_probs", "old", "reference", "values", "sampler", "entropy")},
    }
    return {"settings": verl.export(config).settings, "tensors": {k: v.tolist() for k, v in arrays.items()}}


def ours(config: RunConfig, given: dict[str, Any]) -> dict[str, Any]:
    objective = Objective(config.algorithm)
    lengths, flat = torch.from_numpy(given["lengths"]), torch.from_numpy(given["mask"])
    old, reference = (torch.from_numpy(given[key])[flat] for key in ("old", "reference"))
    counted = torch.ones(PROMPTS, SIZE, dtype=torch.bool)
    batch = RolloutBatch(
        rewards_PG=torch.from_numpy(given["components"]).sum(1).view(PROMPTS, SIZE),
        correct_PG=counted,
        lengths_PG=lengths,
        counted_PG=counted,
        kl_penalty_N=objective.kl_penalty(old, reference),
        values_N=torch.from_numpy(given["values"])[flat],
    )
    lengths_R, group_R = lengths.reshape(-1), torch.arange(PROMPTS).repeat_interleave(SIZE)
    counts = objective.count(lengths_R, group_R)
    response_N = torch.arange(PROMPTS * SIZE).repeat_interleave(lengths_R)
    log_probs = torch.from_numpy(given["log_probs"]).requires_grad_()
    correction, weights = config.algorithm.engine_correction, None
    if correction.kind != "none":
        sampler = torch.from_numpy(given["sampler"])[flat]
        weights = engine_weights(old, sampler, lengths_R, correction.kind, correction.cap, correction.floor)
    selected = None
    if objective.selects:
        tokens = log_probs.detach()[flat], old, objective.advantages(batch, torch.float64)
        selected = objective.selected(*tokens, torch.rand(len(old), dtype=torch.float64))
    loss, _ = objective(
        log_probs[flat],
        TokenBatch(
            response_N=response_N,
            old_log_probs_N=old,
            advantages_N=objective.advantages(batch, torch.float64),
            weights_N=objective.weights(lengths_R, group_R, counts)[response_N],
            reference_log_probs_N=reference if objective.needs_reference else None,
            correction_N=weights,
            selected_N=selected,
        ),
    )
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist()}


def test_every_expressible_system_agrees_with_verl(record_property: Any) -> None:
    batches = [data(seed) for seed in range(SEEDS)]
    cases = {name: [case(config, one) for one in batches] for name, config in SYSTEMS.items()}
    worst = gaps(
        "verl", cases, {name: [ours(config, one) for one in batches] for name, config in SYSTEMS.items()}
    )
    record_property("largest_relative_difference", worst)
    assert {name: gap for name, gap in worst.items() if gap > 1e-6} == {}


def test_the_systems_that_verl_can_express() -> None:
    named = "grpo grpo_kl dr_grpo ppo gspo cispo rloo reinforce_pp reinforce_pp_baseline_tokens dapo dapo_sum"
    named += " icepop sapo gmpo dppo dppo_kl clip_cov kl_cov"
    assert set(named.split()) <= set(SYSTEMS)
