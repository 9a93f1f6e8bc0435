"""Score centering and IPO against gradients that their authors' code gave for these inputs (`recorded.json`), in float64.

Recorded from `score_centering_loss` of martin-marek/score-centering's README (November 2026: PyTorch, with its `tis_weight` and
`mis_weight`) and from `IPOLoss` of prime-rl's `trainer/rl/loss.py` (main after PR #3586: eps 0.3, weight at most 1e4).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.objective.surrogate import divergence_mask, score_centering
from harness.objective.types import TokenBatch

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
TOKENS, VOCABULARY = 6, 5
WEIGHTS: dict[str, dict[str, Any]] = {"none": {}, "truncated": {"cap": 2.0}, "masked": {"floor": 0.5, "cap": 5.0}}


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits of the trainer [N, V], the sampler's log-probabilities [N, V], sampled tokens and advantages [N]."""
    place_NV = torch.arange(TOKENS * VOCABULARY, dtype=torch.float64).view(TOKENS, VOCABULARY)
    return (
        2 * (3 * place_NV).sin(),
        (2 * (5 * place_NV).cos()).log_softmax(-1),
        torch.tensor([0, 3, 1, 4, 2, 0]),
        torch.tensor([1.0, -0.5, 2.0, -1.5, 0.7, -2.0], dtype=torch.float64),
    )


def tokens_of(q_NV: torch.Tensor, tokens_N: torch.Tensor, advantages_N: torch.Tensor, **more: Any) -> TokenBatch:
    old_N = q_NV.gather(-1, tokens_N[:, None])[:, 0]
    ones_N = torch.ones(len(tokens_N), dtype=torch.long)
    return TokenBatch(
        lengths_R=ones_N,
        group_R=ones_N,
        old_logprobs_N=old_N,
        advantages_N=advantages_N,
        weights_R=ones_N.double(),
        **more,
    )


@pytest.mark.parametrize("head", [0, 2])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_score_centering_has_the_gradient_of_the_authors(weight: str, head: int) -> None:
    logits_NV, q_NV, tokens_N, advantages_N = inputs()
    p_NV = logits_NV.requires_grad_().log_softmax(-1)
    likeliest_NV = q_NV.topk(head or VOCABULARY, -1).indices
    read = {"sampler_logprobs_NK": q_NV.gather(-1, likeliest_NV), "logprobs_NK": p_NV.gather(-1, likeliest_NV)}
    batch = tokens_of(q_NV, tokens_N, advantages_N, **read)
    logprobs_N = p_NV.gather(-1, tokens_N[:, None])[:, 0]
    config = score_centering.Config(weight=weight, head=head, **WEIGHTS[weight])
    loss = config.token_loss(logprobs_N, logprobs_N - batch.old_logprobs_N, batch).sum()
    (slope_NV,) = torch.autograd.grad(loss, logits_NV)
    expected_NV = torch.tensor(RECORDED[f"{weight} {head}"], dtype=torch.float64)
    torch.testing.assert_close(slope_NV, expected_NV, rtol=1e-12, atol=1e-14)


def test_ipo_has_the_gradient_of_prime_rl() -> None:
    logits_NV, q_NV, tokens_N, advantages_N = inputs()
    batch = tokens_of(q_NV, tokens_N, advantages_N)
    logprobs_N = logits_NV.log_softmax(-1).gather(-1, tokens_N[:, None])[:, 0].requires_grad_()
    config = divergence_mask.Config(threshold_low=0.3, threshold_high=0.3, cap=1e4, directed=False)
    loss = config.token_loss(logprobs_N, logprobs_N - batch.old_logprobs_N, batch).sum()
    (slope_N,) = torch.autograd.grad(loss, logprobs_N)
    expected_N = torch.tensor(RECORDED["ipo"], dtype=torch.float64)
    assert 0 < int((expected_N == 0).sum()) < TOKENS
    torch.testing.assert_close(slope_N, expected_N, rtol=1e-12, atol=1e-14)
