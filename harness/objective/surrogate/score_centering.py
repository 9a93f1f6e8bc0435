"""Score centering: -A (f(r) log π(a) - Σ_v sg(q(v) f(r(v))) log π(v)), r = π/q with q the sampler (arXiv:2609.20807 Eq. 12).

Subtracts the sampler's expected score (Marek & Ryabinin): what any constant reward pushes a policy along that is not the sampler (drift).
f is 1, or an importance weight: composed with truncated or masked weights. The sum runs over the sampler's k likeliest tokens, and the tail
of q is modelled as ρ·π with ρ = q(tail) / π(tail); over a whole vocabulary its gradient is exact. The authors' README has this head, and so
have vime and Miles, with k = 128; prime-rl and, where it filters, vime sum over the tokens that a filter left, and prime-rl
weighs by IPO. Weights are of the current policy, as theirs, not of the one before the updates. Gradients checked against the README's
function.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.configuration.error import ConfigError, choice, ranged
from harness.configuration.schema import RunConfig
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch, bound_log_ratio

_HEAD = 128  # the authors'
_TINY = 1e-6  # the authors' smallest tail mass


@dataclass
class Config(Surrogate):
    """What is centred.

    Attributes:
        weight: f: none (1), truncated (r cut to [floor, cap]) or masked (r between floor and cap, else 0).
        cap: the largest weight (the authors: 2 truncated, 5 masked).
        floor: the smallest (0 truncated, 0.5 masked).
        head: the sampler's likeliest tokens that are summed over; 0: the authors' 128, or all of a smaller vocabulary.
    """

    kind: str = "score_centering"
    weight: str = choice("none", of=("none", "truncated", "masked"))
    cap: float = ranged(2.0, low=1.0)
    floor: float = ranged(0.0, low=0.0, high=1.0)
    head: int = ranged(0, low=0)
    ratio_keys = ("weight", "cap", "floor", "head")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight != "none" and self.cap == self.floor == 1:
            raise ConfigError("algorithm.surrogate.cap=floor=1 is no weight: set algorithm.surrogate.weight=none")

    @property
    def likeliest(self) -> int:
        return self.head or _HEAD

    def refusals(self, run: RunConfig) -> Iterator[str]:
        yield from super().refusals(run)
        algorithm, sampling = run.algorithm, run.sampling
        if run.backend.kind != "builtin":  # other trainers have means of their own
            return
        reason = f"algorithm.surrogate={self.kind} reads the sampler's probabilities of its likeliest tokens"
        if not algorithm.samples_policy:
            yield f"{reason}, and algorithm.source={algorithm.source.kind} is no sampling from the policy; set it to policy"
        if algorithm.engine_correction.old_log_probs != "sampler":
            yield f"{reason} as the old ones; set algorithm.engine_correction.old_log_probs=sampler"
        if sampling.top_p < 1 or sampling.top_k > 0:
            yield f"{reason}, and filtered sampling makes most of them 0; set sampling.top_p=1 and top_k=0"
        if algorithm.importance_ratio != "token":
            yield f"{reason}, token by token; set algorithm.importance_ratio=token"

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        import torch

        p_NK, q_NK = batch.logprobs_NK, batch.sampler_logprobs_NK
        if p_NK is None or q_NK is None:
            raise ValueError("score_centering needs TokenBatch.logprobs_NK and sampler_logprobs_NK")
        with torch.no_grad():
            p, q = p_NK.exp(), q_NK.exp()
            rest_N = (1 - torch.stack([q, p]).sum(-1)).clamp(min=_TINY).log()
            tail_N = rest_N[0] - rest_N[1]
            centre_NK = q * self.weights(p_NK - q_NK) - (tail_N.exp() * self.weights(-tail_N))[:, None] * p
        score_N = self.weights(log_ratio_N.detach()) * logprobs_N
        return batch.advantages_N * ((centre_NK * p_NK).sum(-1) - score_N)

    def weights(self, log_ratios: Tensor) -> Tensor:
        """Return f(r) of log-ratios log r of any shape."""
        ratios = bound_log_ratio(log_ratios).exp()
        if self.weight == "truncated":
            return ratios.clamp(self.floor, self.cap)
        return ratios * ((ratios >= self.floor) & (ratios <= self.cap)) if self.weight == "masked" else ratios * 0 + 1
