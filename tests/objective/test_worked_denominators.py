"""What a loss is divided by, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from objective_support import algorithm

from harness.configuration.registry import member
from harness.objective.objective import Objective
from harness.objective.types import TokenCounts

LENGTHS, GROUPS = torch.tensor([2, 4, 1, 3]), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("kind", "settings", "weights"),
    [
        ("response_mean", {}, [1 / 8, 1 / 16, 1 / 4, 1 / 12]),
        ("group_token_mean", {}, [1 / 12, 1 / 12, 1 / 8, 1 / 8]),  # 1/(6*2), 1/(4*2)
        ("batch_token_mean", {}, [1 / 10] * 4),
        ("constant_sum", {"constant_tokens": 5.0}, [1 / 20] * 4),
        ("token_sum", {}, [1.0] * 4),
        # at most 5 loss tokens: (2), (4, 1), (3) -> three micro-batches of 2, 5 and 3 tokens
        ("microbatch_token_mean", {"micro_batch_tokens": 5}, [1 / 6, 1 / 15, 1 / 15, 1 / 9]),
        # three responses each: 7 tokens, and the last alone with 3
        ("microbatch_token_mean", {"micro_batch_responses": 3}, [1 / 14, 1 / 14, 1 / 14, 1 / 6]),
    ],
)
def test_the_denominators(kind: str, settings: dict[str, Any], weights: list[float]) -> None:
    module = member("harness.objective.aggregation", kind)
    config = module.Config(**settings)
    counts = TokenCounts(responses=4, groups=2, tokens=10)
    assert config.response_weights(LENGTHS, GROUPS, counts).tolist() == pytest.approx(weights)


def test_masked_responses_open_no_micro_batch() -> None:
    module = member("harness.objective.aggregation", "microbatch_token_mean")
    config, lengths = module.Config(micro_batch_tokens=128), torch.tensor([10, 200, 0, 0])
    counts = TokenCounts(responses=4, groups=2, tokens=210)
    weights = config.response_weights(lengths, GROUPS, counts)
    assert weights[:2].tolist() == pytest.approx([1 / 20, 1 / 400])


def test_positive_example_loss_has_its_own_denominator() -> None:
    # Right responses have 2 and 3 tokens: each of their tokens weighs 1/5, whatever the policy loss divides by.
    objective = Objective(algorithm("vapo"))
    right = torch.tensor([True, False, False, True])
    counts = objective.count(LENGTHS, GROUPS, right)
    weights = objective.likelihood_weights(LENGTHS, right, counts)
    assert weights is not None
    assert weights.tolist() == pytest.approx([1 / 5, 0, 0, 1 / 5])
