"""Our objective against TRL's own code, for every system that TRL can express, through the exported settings and TRL's own
defaults for everything that they leave out.

Optional: needs `python tests/parity/build_peer.py trl` (an environment of its own) and is skipped without it.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from build_peer import interpreter, ready

from harness.configuration.compose import compose_run, options
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import trl
from harness.objective.entropy_mask import high_entropy_tokens
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(not ready("trl"), reason="no TRL environment: python tests/parity/build_peer.py trl"),
]
CAP, PROMPTS, SIZE, SEEDS = 12, 4, 4, 3
ONE_BATCH = (
    f"sampling.max_response_tokens={CAP}",
    f"algorithm.prompts_per_step={PROMPTS}",
    f"algorithm.responses_per_prompt={SIZE}",
    "algorithm.updates_per_step=1",
)
# Differences that do not touch the loss of one given batch.
OUTSIDE = ("dead_groups", "curriculum", "micro_batch_tokens", "responses_per_prompt", "overlong=")


def expressible() -> dict[str, RunConfig]:
    """Systems whose loss TRL can say, with TRL's epsilon."""
    found = {}
    for name in options("algorithm"):
        config = compose_run([f"algorithm={name}", *ONE_BATCH])
        algorithm = config.algorithm
        if hasattr(algorithm.advantage, "epsilon"):
            algorithm.advantage.epsilon = 1e-4
        if algorithm.aggregation.kind == "microbatch_token_mean":
            algorithm.aggregation.micro_batch_tokens = 10_000  # one micro-batch, as one device batch is
        if all(any(word in line for word in OUTSIDE) for line in trl.export(config).inexpressible):
            found[name] = config
    return found


SYSTEMS = expressible()


def tensors(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, CAP + 1, (PROMPTS, SIZE))
    shape = (PROMPTS * SIZE, CAP)
    mask = np.arange(CAP) < lengths.reshape(-1)[:, None]
    log_probs = rng.normal(-1.5, 0.5, shape)
    components = rng.choice([-1.0, 0.0, 0.1, 1.0], (PROMPTS * SIZE, 3)) + rng.normal(
        0, 0.1, (PROMPTS * SIZE, 3)
    )
    components[:SIZE] = components[0]  # a dead group
    return {
        "lengths": lengths,
        "truncated": rng.random((PROMPTS, SIZE)) < 0.2,
        "mask": mask,
        "log_probs": log_probs,
        "old": log_probs + rng.normal(0, 0.25, shape),
        "reference": log_probs + rng.normal(0, 0.3, shape),
        "entropy": rng.uniform(0, 2, shape),
        "components": components,
    }


def case(config: RunConfig, data: dict[str, Any]) -> dict[str, Any]:
    separate = config.algorithm.advantage.kind == "decoupled"
    rewards = data["components"] if separate else data["components"].sum(1, keepdims=True)
    masks = config.algorithm.overlong.masks
    mask = data["mask"] & ~(data["truncated"].reshape(-1, 1) & masks)
    plain = {name: data[name] for name in ("log_probs", "old", "reference", "entropy")}
    arrays = {**plain, "mask": mask.astype(float), "rewards": rewards}
    quiet = {"output_dir": os.devnull, "report_to": "none", "use_cpu": True, "bf16": False}
    return {
        "settings": trl.export(config).settings,
        "tensors": {k: v.tolist() for k, v in arrays.items()},
        "quiet": quiet,
    }


def ours(config: RunConfig, data: dict[str, Any]) -> dict[str, Any]:
    objective = Objective(config.algorithm)
    lengths = torch.from_numpy(data["lengths"])
    lengths_R, flat = lengths.reshape(-1), torch.from_numpy(data["mask"])
    components = torch.from_numpy(data["components"]).view(PROMPTS, SIZE, 3)
    batch = RolloutBatch(
        rewards_PG=components.sum(-1),
        correct_PG=torch.ones(PROMPTS, SIZE, dtype=torch.bool),
        lengths_PG=lengths,
        counted_PG=torch.ones(PROMPTS, SIZE, dtype=torch.bool),
        components_PGC=components,
    )
    masked = torch.from_numpy(data["truncated"]).reshape(-1) & config.algorithm.overlong.masks
    loss_lengths = lengths_R * ~masked
    group_R = torch.arange(PROMPTS).repeat_interleave(SIZE)
    counts = objective.count(loss_lengths, group_R)
    weights = objective.weights(loss_lengths, group_R, counts) * (loss_lengths > 0)
    response_N = torch.arange(PROMPTS * SIZE).repeat_interleave(lengths_R)
    log_probs = torch.from_numpy(data["log_probs"]).requires_grad_()
    advantages_N = objective.advantages(batch, torch.float64)
    kept, fraction = None, config.algorithm.top_entropy_fraction
    if fraction < 1:
        entropy = torch.from_numpy(data["entropy"])[flat]
        kept = high_entropy_tokens(entropy, (loss_lengths > 0)[response_N], fraction).double()
    loss, _ = objective(
        log_probs[flat],
        TokenBatch(
            response_N=response_N,
            old_log_probs_N=torch.from_numpy(data["old"])[flat],
            advantages_N=advantages_N,
            weights_N=weights[response_N],
            reference_log_probs_N=torch.from_numpy(data["reference"])[flat]
            if objective.needs_reference
            else None,
            correction_N=kept,
        ),
    )
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist()}


def relative(mine: Any, theirs: Any) -> float:
    a, b = np.asarray(mine), np.asarray(theirs)
    return float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-300))


def gaps(peer: str, cases: Mapping[str, list[Any]], mine: Mapping[str, list[Any]]) -> dict[str, float]:
    """Ask a peer's script for loss and gradient of every system's cases: the largest relative difference by system."""
    result = subprocess.run(
        [str(interpreter(peer)), str(Path(__file__).with_name(f"{peer}_peer.py"))],
        input=json.dumps([one for given in cases.values() for one in given]),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    answered = json.loads(result.stdout[result.stdout.index("[{") :])
    assert len(answered) == sum(map(len, cases.values()))
    answers, worst = iter(answered), dict.fromkeys(mine, 0.0)
    for name, own in mine.items():
        for one, theirs in zip(own, answers, strict=False):
            gap = max(relative(one[key], theirs[key]) for key in ("loss", "gradient"))
            worst[name] = max(worst[name], gap)
    return worst


def test_every_expressible_system_agrees_with_trl(record_property: Any) -> None:
    batches = [tensors(seed) for seed in range(SEEDS)]
    cases = {name: [case(copy.deepcopy(config), one) for one in batches] for name, config in SYSTEMS.items()}
    mine = {name: [ours(config, one) for one in batches] for name, config in SYSTEMS.items()}
    worst = gaps("trl", cases, mine)
    record_property("largest_relative_difference", worst)
    assert len(worst) >= 10
    assert {name: gap for name, gap in worst.items() if gap > 1e-6} == {}


def test_the_systems_that_trl_can_express() -> None:
    named = "grpo grpo_kl grpo_kl_ratio dapo dapo_noclip dr_grpo cispo gspo gdpo lite_ppo"
    assert set(named.split()) <= set(SYSTEMS)
