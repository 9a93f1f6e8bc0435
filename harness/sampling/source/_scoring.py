"""Log-probabilities and entropy of given responses under a policy, without gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.configuration.schema import RunConfig
from harness.model.policy import Policy
from harness.rollout.types import Completions, ragged_index


@torch.no_grad()
def score(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    samples: int,
    completions: Completions,
    config: RunConfig,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies [N] in nats; `samples` responses to each prompt, prompt-major."""
    rows = [prompt for prompt in prompts for _ in range(samples)]
    log_probs_N = torch.empty(len(completions.tokens_N))
    entropy_N = torch.empty(len(completions.tokens_N))
    totals = completions.lengths_R + torch.tensor([len(row) for row in rows])
    count = max(1, config.runtime.micro_batch_tokens // int(totals.max()))
    starts = completions.offsets[:-1]
    for part in totals.argsort(stable=True).split(count):
        lengths = completions.lengths_R[part]
        index_N = ragged_index(starts[part], lengths)
        log_probs, entropy = policy.token_log_probs(
            [rows[row] for row in part.tolist()],
            completions.tokens_N[index_N],
            lengths,
            config.sampling.temperature,
            with_entropy=True,
        )
        assert entropy is not None
        log_probs_N[index_N], entropy_N[index_N] = log_probs, entropy
    return log_probs_N, entropy_N
