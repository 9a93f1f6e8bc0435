"""Random batches, our loss and gradient on them, and the answers of a peer's script."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from build_peer import interpreter

from harness.configuration.schema import RunConfig
from harness.objective.correction import engine_weights, high_entropy_tokens
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch

CAP, PROMPTS, SIZE, SEEDS = 12, 4, 4, 3
ONE_BATCH = (
    f"sampling.max_response_tokens={CAP}",
    f"algorithm.prompts_per_step={PROMPTS}",
    f"algorithm.responses_per_prompt={SIZE}",
    "algorithm.updates_per_step=1",
)


def tensors(seed: int, gap: float = 0.25) -> dict[str, Any]:
    """A ragged batch with a dead group; ``gap`` nats between the policies (standard deviation)."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, CAP + 1, (PROMPTS, SIZE))
    shape = (PROMPTS * SIZE, CAP)
    mask = np.arange(CAP) < lengths.reshape(-1)[:, None]
    old = rng.normal(-1.5, 0.5, shape)
    components = rng.choice([-1.0, 0.0, 0.1, 1.0], (PROMPTS * SIZE, 3)) + rng.normal(0, 0.1, (PROMPTS * SIZE, 3))
    components[:SIZE] = components[0]  # a dead group
    return {
        "lengths": lengths,
        "truncated": rng.random((PROMPTS, SIZE)) < 0.2,
        "mask": mask,
        "old": old,
        # below 0, as probabilities are: a trust region looks at 1 - p
        "log_probs": np.minimum(old + rng.normal(0, gap, shape), -1e-3),
        "reference": old + rng.normal(0, min(gap, 0.3), shape),
        "sampler": old + rng.normal(0, min(gap, 0.3), shape),
        "values": rng.normal(0, 0.3, shape),
        "entropy": rng.uniform(0, 2, shape).astype(np.float32).astype(float),  # TRL ranks them in float32
        "components": components,
        "old_others": rng.dirichlet(np.ones(4), shape),  # shares of the rest of the vocabulary
    }


def ours(config: RunConfig, data: dict[str, Any]) -> dict[str, Any]:
    """Loss and gradient of one update with these numbers by our objective."""
    algorithm = config.algorithm
    objective = Objective(algorithm)
    lengths = torch.from_numpy(data["lengths"])
    lengths_R, flat = lengths.reshape(-1), torch.from_numpy(data["mask"])
    at = {name: torch.from_numpy(data[name])[flat] for name in ("old", "reference", "sampler", "values", "entropy")}
    components = torch.from_numpy(data["components"]).view(PROMPTS, SIZE, 3)
    every = torch.ones(PROMPTS, SIZE, dtype=torch.bool)
    masked_PG = torch.from_numpy(data["truncated"]) & algorithm.overlong.masks
    batch = RolloutBatch(
        rewards_PG=components.sum(-1),
        correct_PG=every,
        lengths_PG=lengths,
        counted_PG=~masked_PG if algorithm.overlong.statistics == "exclude" else every,
        components_PGC=components,
        kl_penalty_N=objective.kl_penalty(at["old"], at["reference"]),
        values_N=at["values"],
        old_logprobs_N=at["old"],
    )
    loss_lengths = lengths_R * ~masked_PG.reshape(-1)
    group_R = torch.arange(PROMPTS).repeat_interleave(SIZE)
    weights = objective.aggregation.response_weights(loss_lengths, group_R, objective.count(loss_lengths, group_R)) * (
        loss_lengths > 0
    )
    response_N = torch.arange(PROMPTS * SIZE).repeat_interleave(lengths_R)
    log_probs = torch.from_numpy(data["log_probs"]).requires_grad_()
    advantages_N = objective.advantages(batch, torch.float64)
    correction, fraction, factor_N = algorithm.engine_correction, algorithm.top_entropy_fraction, None
    if correction.kind != "none":
        rule = (correction.kind, correction.cap, correction.floor)
        factor_N = engine_weights(at["old"], at["sampler"], lengths_R, *rule)
    if fraction < 1:
        kept_N = high_entropy_tokens(at["entropy"], (loss_lengths > 0)[response_N], fraction).double()
        factor_N = kept_N if factor_N is None else factor_N * kept_N
    selected_N = None
    if objective.surrogate.selects:
        loss_N = (loss_lengths > 0)[response_N]
        selected_N, draws_N = torch.zeros_like(loss_N), torch.rand(int(loss_N.sum()), dtype=torch.float64)
        among = (log_probs.detach()[flat], at["old"], advantages_N)
        selected_N[loss_N] = objective.surrogate.select(*(each_N[loss_N] for each_N in among), draws_N)
    loss, _ = objective(
        log_probs[flat],
        TokenBatch(
            lengths_R=lengths_R,
            group_R=group_R,
            old_logprobs_N=at["old"],
            advantages_N=advantages_N,
            weights_R=weights,
            ref_logprobs_N=at["reference"] if objective.needs_reference else None,
            policy_weights_N=factor_N,
            sampler_logprobs_N=at["sampler"] if correction.kind != "none" else None,
            selected_N=selected_N,
        ),
        at["entropy"],
    )
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist()}


def relative(mine: Any, theirs: Any) -> float:
    """The largest difference over the largest number of theirs; two zeros agree."""
    a, b = np.asarray(mine), np.asarray(theirs)
    size = max(float(np.abs(b).max()), float(np.abs(a).max()))
    return float(np.abs(a - b).max() / size) if size > 1e-12 else 0.0


def gaps(peer: str, cases: Mapping[str, list[Any]], mine: Mapping[str, list[Any]]) -> dict[str, float]:
    """Ask a peer's script for loss and gradient of every name's cases: the largest relative difference by name."""
    result = subprocess.run(
        [sys.executable if peer == "trl" else str(interpreter(peer)), str(Path(__file__).with_name(f"{peer}_peer.py"))],
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


def assert_agrees(peer: str, case: Callable[..., Any], drawn: Mapping[str, list[tuple[RunConfig, Any]]]) -> float:
    """Loss and gradient of every configuration on its batches are the peer's; returns the largest relative difference."""
    cases = {name: [case(*one) for one in given] for name, given in drawn.items()}
    worst = gaps(peer, cases, {name: [ours(*one) for one in given] for name, given in drawn.items()})
    assert {name: gap for name, gap in worst.items() if gap > 1e-5} == {}
    return max(worst.values())
