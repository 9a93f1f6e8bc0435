"""Online DPO on each group's best and worst response: -log σ(β(Δ(y⁺) - Δ(y⁻))), Δ(y) = Σ_t log π/π_ref or its mean over tokens.

What one survey of GRPO variants calls "GDPO"; no paper of that name has it (the real GDPO, arXiv:2601.05242, decouples rewards: see
`advantage/decoupled.py`). DPO is arXiv:2305.18290 Eq. 7. Sum over tokens is the original; the mean is DeepSeekMath's form. Signs come
from the `best_worst` advantage; a pair's one loss stands on every token of its best response, so that under `response_mean` the loss
of an update is Σ_pairs L / responses. A group without contrast, or whose pair is incomplete (one side masked), adds nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.configuration.error import choice, ranged
from harness.configuration.schema import RunConfig
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`beta`: β > 0; `log_prob`: sum or mean over the response's tokens."""

    kind: str = "best_worst_dpo"
    beta: float = ranged(0.1, low=1e-9)
    log_prob: str = choice("sum", of=("sum", "mean"))
    pairs = True  # the two responses of a group must be in one micro-batch
    needs_reference = True

    def refusals(self, run: RunConfig) -> Iterator[str]:
        yield from super().refusals(run)
        algorithm = run.algorithm
        if algorithm.engine_correction.kind != "none":
            yield f"algorithm.engine_correction.kind={algorithm.engine_correction.kind} corrects a ratio; set it to none"
        if algorithm.advantage.kind != "best_worst" or algorithm.aggregation.kind != "response_mean":
            yield "algorithm.surrogate=best_worst_dpo needs advantage=best_worst and aggregation=response_mean"
        if algorithm.advantage_sign != "both":
            yield f"algorithm.advantage_sign={algorithm.advantage_sign} takes one of every pair away; set it to both"
        if algorithm.off_policy_mask_nats is not None or algorithm.top_entropy_fraction < 1:
            yield "algorithm.off_policy_mask_nats and top_entropy_fraction choose tokens; set them to null and 1"

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        import torch

        assert batch.ref_logprobs_N is not None
        if not len(logprobs_N):
            return logprobs_N
        lengths_R = batch.lengths_R
        first_R = lengths_R.cumsum(0) - lengths_R
        gain_R = batch.sums_R(logprobs_N - batch.ref_logprobs_N)
        if self.log_prob == "mean":
            gain_R = gain_R / lengths_R
        sign_R = batch.advantages_N[first_R].sign()
        _, pair_R = batch.group_R.unique(return_inverse=True)
        pairs = int(pair_R.max()) + 1
        margin = gain_R.new_zeros(pairs).index_add(0, pair_R, sign_R * gain_R)
        complete = sign_R.new_zeros(pairs).index_add(0, pair_R, sign_R.abs()) == 2
        loss = torch.nn.functional.softplus(-self.beta * margin) * complete
        return loss[pair_R][batch.response_N] * (batch.advantages_N > 0)
