"""The objective: the only place where advantage, ratio, surrogate, aggregation, KL, entropy and corrections meet.

loss = Σ_N w_N · (c_N · surrogate_N + β · KL_N - η · H_N) + μ · Σ_N v_N · NLL_N with w the aggregation's weights over the whole update and
v = 1 / (tokens of right responses in the update) on those tokens, 0 elsewhere (VAPO, arXiv:2504.05118 Eq. 12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.configuration.sections import AlgorithmConfig
from harness.configuration.user_code import module_of
from harness.objective.advantage import Advantage
from harness.objective.aggregation import Aggregation
from harness.objective.kl import KlPenalty
from harness.objective.surrogate import Surrogate
from harness.objective.types import RolloutBatch, Tensor, TokenBatch, TokenCounts, bound_log_ratio

STATISTICS = (
    "tokens", "clipped_low", "clipped_high", "up_clipped_old_probability", "kl", "gap", "gap_kl", "clip_released", "policy_gradient",
    "kl_gradient", "entropy_gradient", "nll_gradient", "off_policy_masked",
)  # fmt: skip


@dataclass
class ObjectiveStats:
    """Sums over a micro-batch (see `STATISTICS`), and its largest ratio and log-prob gap; micro-batches add."""

    sums: Tensor
    ratio_max: float
    gap_max: float

    @staticmethod
    def zero() -> ObjectiveStats:
        return ObjectiveStats(torch.zeros(len(STATISTICS), dtype=torch.float64), 0.0, 0.0)

    def __add__(self, other: ObjectiveStats) -> ObjectiveStats:
        ratio_max, gap_max = max(self.ratio_max, other.ratio_max), max(self.gap_max, other.gap_max)
        return ObjectiveStats(self.sums + other.sums, ratio_max, gap_max)

    def total(self, name: str) -> float:
        return float(self.sums[STATISTICS.index(name)])

    def mean(self, name: str, denominator: str = "tokens") -> float:
        """One sum over another, by default the mean over computed tokens; NaN where the other is 0."""
        number = self.total(denominator)
        return self.total(name) / number if number else float("nan")

    def gradient_share(self, term: str) -> float:
        """Share of a term (`kl`, `entropy`, `nll`) in the gradient on the log-probabilities that it and the policy term make.

        A term's gradient is measured as Σ_t |∂ term / ∂ log π_t| over the response tokens (docs/objective/engagement.md); NaN without any.
        """
        gradient = self.total(f"{term}_gradient")
        both = gradient + self.total("policy_gradient")
        return gradient / both if both else float("nan")


class Objective:
    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        for part in (config.advantage, config.surrogate, config.aggregation, config.kl, config.weighting):
            module_of(part)  # refuses a stored configuration whose code is not there
        self.advantage: Advantage = config.advantage
        self.surrogate: Surrogate = config.surrogate
        self.aggregation: Aggregation = config.aggregation
        self.kl: KlPenalty = config.kl
        penalised, likelihood = config.kl.coefficient > 0, bool(config.positive_nll_coefficient)
        self.kl_in_loss = penalised and config.kl.placement == "loss"
        # The update needs the entropy of the current policy, with gradient.
        self.needs_entropy = config.entropy_coefficient != 0 or config.entropy_control.target_nats is not None
        self.needs_reference = penalised or self.surrogate.needs_reference
        # A response with zero advantage has exactly zero gradient, so that computing it can be skipped.
        trains_all = self.surrogate.trains_without_advantage
        self.skips_zero_advantage = not (self.kl_in_loss or self.needs_entropy or likelihood or trains_all)

    def kl_penalty(self, logprobs_N: Tensor, ref_logprobs_N: Tensor) -> Tensor | None:
        """Coefficient × KL estimate per token where it is placed in the reward, else None."""
        if self.config.kl.coefficient == 0 or self.kl_in_loss:
            return None
        return self.config.kl.coefficient * self.kl.estimate(logprobs_N, ref_logprobs_N)

    def advantages(self, batch: RolloutBatch, dtype: torch.dtype = torch.float32) -> Tensor:
        """Advantages per response token times `response_factors`, [N]; those of the sign that is left out are 0."""
        plain_N = self.plain_advantages(batch, dtype)
        if not self.weighs_responses(batch):
            return plain_N
        return plain_N * batch.per_token(self.response_factors(batch, plain_N)).to(dtype)

    def plain_advantages(self, batch: RolloutBatch, dtype: torch.dtype = torch.float32) -> Tensor:
        """Advantages as if all responses weighed alike and no prompt had been tried before, [N]."""
        advantages = self.advantage.advantages(batch).to(dtype)
        if self.config.advantage_sign == "both":
            return advantages
        zero = torch.zeros((), dtype=dtype)
        return advantages.maximum(zero) if self.config.advantage_sign == "positive" else advantages.minimum(zero)

    def weighs_responses(self, batch: RolloutBatch) -> bool:
        """Say if `response_factors` can differ from 1."""
        return batch.earlier_P is not None or self.config.weighting.kind != "uniform"

    def response_factors(self, batch: RolloutBatch, plain_N: Tensor) -> Tensor:
        """Factor of each response's plain advantage, float64 [P, G]: `retry_factors`, then `algorithm.weighting` of their product."""
        mean_PG = batch.sums_PG(plain_N.double()) / batch.lengths_PG.clamp(min=1)
        factors_P1 = retry_factors(batch)[:, None]
        return factors_P1 * self.config.weighting.weights(mean_PG * factors_P1, batch)

    def count(self, lengths_R: Tensor, group_R: Tensor, correct_R: Tensor | None = None) -> TokenCounts:
        """The denominators that these responses contribute to one update."""
        return TokenCounts(
            responses=len(lengths_R),
            groups=len(group_R.unique()),
            tokens=int(lengths_R.sum()),
            right_tokens=0 if correct_R is None else int((lengths_R * (correct_R > 0)).sum()),
        )

    def likelihood_weights(self, lengths_R: Tensor, correct_R: Tensor, counts: TokenCounts) -> Tensor | None:
        """Weight of every token's negative log-likelihood by response, float64 [R]; None without a likelihood term."""
        if not self.config.positive_nll_coefficient:
            return None
        return ((correct_R > 0) & (lengths_R > 0)).double() / max(counts.right_tokens, 1)

    def __call__(
        self, logprobs_N: Tensor, batch: TokenBatch, entropy_N: Tensor | None = None
    ) -> tuple[Tensor, ObjectiveStats]:
        """The micro-batch's share of the update's loss, and its statistics."""
        config, weights_N = self.config, batch.weights_N
        log_ratio_N = self.log_ratio(logprobs_N, batch)
        loss_N = self._policy_loss(logprobs_N, log_ratio_N, batch)
        kl_N = None
        if batch.ref_logprobs_N is not None:
            kl_N = self._kl_loss(logprobs_N, log_ratio_N, batch.ref_logprobs_N)
            if self.kl_in_loss:
                loss_N = loss_N + config.kl.coefficient * kl_N
        if entropy_N is not None and self.needs_entropy:
            loss_N = loss_N - self._entropy_coefficient(batch) * entropy_N
        loss = (loss_N * weights_N).sum()
        if batch.likelihood_weights_R is not None:
            likelihood_N = batch.likelihood_weights_R[batch.response_N]
            loss = loss - config.positive_nll_coefficient * (likelihood_N * logprobs_N).sum()
        gradients = self._gradients(logprobs_N.detach(), batch, None if entropy_N is None else entropy_N.detach())
        return loss, self._statistics(logprobs_N.detach(), log_ratio_N.detach(), kl_N, batch, gradients)

    def log_ratio(self, logprobs_N: Tensor, batch: TokenBatch) -> Tensor:
        """Log π - log π_old per token, or its mean over the response (GSPO, arXiv:2507.18071 Eq. 7) at sequence level; bounded."""
        log_ratio_N = logprobs_N - batch.old_logprobs_N
        if self.config.importance_ratio == "sequence":
            log_ratio_N = (batch.sums_R(log_ratio_N) / batch.lengths_R)[batch.response_N]
        return bound_log_ratio(log_ratio_N)

    def _policy_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        """The surrogate times the engine's correction and the off-policy mask, [N]."""
        loss_N = self.surrogate.token_loss(logprobs_N, log_ratio_N, batch)
        if batch.policy_weights_N is not None and not self.surrogate.folds_correction:
            loss_N = loss_N * batch.policy_weights_N
        if self.config.off_policy_mask_nats is not None:
            loss_N = loss_N * self._on_policy(logprobs_N.detach(), batch, self.config.off_policy_mask_nats)
        return loss_N

    def _kl_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, ref_logprobs_N: Tensor) -> Tensor:
        """The KL estimate, weighted by the ratio where the estimator is defined so, [N]."""
        kl_N = self.kl.estimate(logprobs_N, ref_logprobs_N)
        return kl_N * log_ratio_N.exp() if self.kl.ratio_weighted else kl_N

    def _entropy_coefficient(self, batch: TokenBatch) -> float:
        coefficient = batch.entropy_coefficient
        return self.config.entropy_coefficient if coefficient is None else coefficient

    @staticmethod
    def _on_policy(logprobs_N: Tensor, batch: TokenBatch, limit: float) -> Tensor:
        """0 on tokens with A < 0 of responses whose mean log π_sampler - log π exceeds `limit` (DeepSeek-V3.2, arXiv:2512.02556 §3.1)."""
        sampler_N = batch.old_logprobs_N if batch.sampler_logprobs_N is None else batch.sampler_logprobs_N
        near_R = batch.sums_R(sampler_N - logprobs_N) <= limit * batch.lengths_R
        return (near_R[batch.response_N] | (batch.advantages_N >= 0)).to(logprobs_N.dtype)

    @torch.enable_grad()
    def _gradients(
        self, logprobs_N: Tensor, batch: TokenBatch, entropy_N: Tensor | None
    ) -> tuple[float, float, float, float]:
        """Σ_t |∂ term / ∂ log π_t| of the policy, KL, entropy and likelihood terms; zeros where the loss has the policy term alone.

        The entropy's is that of its score-function form, η Σ_t w_t |-log π_t - H_t|: its gradient is a policy gradient whose
        advantage is the surprisal less its mean.
        """
        likelihood_R, ref_logprobs_N = batch.likelihood_weights_R, batch.ref_logprobs_N
        has_kl = self.kl_in_loss and ref_logprobs_N is not None
        has_entropy = self.needs_entropy and entropy_N is not None
        if not len(logprobs_N) or not (has_kl or has_entropy or likelihood_R is not None):
            return 0.0, 0.0, 0.0, 0.0
        leaf_N, weights_N = logprobs_N.clone().requires_grad_(), batch.weights_N

        def gradient(term: Callable[[Tensor], Tensor]) -> float:
            total = (term(self.log_ratio(leaf_N, batch)) * weights_N).sum()
            return float(torch.autograd.grad(total, leaf_N)[0].double().abs().sum())

        policy = gradient(lambda log_ratio_N: self._policy_loss(leaf_N, log_ratio_N, batch))
        kl = entropy = likelihood = 0.0
        if has_kl and ref_logprobs_N is not None:
            kl = self.config.kl.coefficient * gradient(
                lambda log_ratio_N: self._kl_loss(leaf_N, log_ratio_N, ref_logprobs_N)
            )
        if has_entropy and entropy_N is not None:
            surprisal_N = (-logprobs_N - entropy_N).abs().double()
            entropy = abs(self._entropy_coefficient(batch)) * float((weights_N * surprisal_N).sum())
        if likelihood_R is not None:
            weight = float(likelihood_R[batch.response_N].double().sum())
            likelihood = self.config.positive_nll_coefficient * weight
        return policy, kl, entropy, likelihood

    @torch.no_grad()
    def _statistics(
        self,
        logprobs_N: Tensor,
        log_ratio_N: Tensor,
        kl_N: Tensor | None,
        batch: TokenBatch,
        gradients: tuple[float, float, float, float],
    ) -> ObjectiveStats:
        ratio_N = log_ratio_N.exp()
        if not len(ratio_N):
            return ObjectiveStats.zero()
        none_N = torch.zeros_like(ratio_N, dtype=torch.bool)
        low_N, high_N = self.surrogate.clipped(logprobs_N, ratio_N, batch) or (none_N, none_N)
        released_N = self.surrogate.released(ratio_N, batch.advantages_N)
        limit = self.config.off_policy_mask_nats
        masked_tokens = 0.0 if limit is None else float((self._on_policy(logprobs_N, batch, limit) == 0).sum())
        gap_N = logprobs_N - batch.old_logprobs_N
        sums = (
            float(len(ratio_N)),
            low_N.sum(),
            high_N.sum(),
            (batch.old_logprobs_N.exp() * high_N).sum(),
            0.0 if kl_N is None else kl_N.detach().sum(),
            gap_N.abs().sum(),
            (gap_N.expm1() - gap_N).sum(),
            0.0 if released_N is None else released_N.sum(),
            *gradients,
            masked_tokens,
        )
        sums_S = torch.stack([torch.as_tensor(x, dtype=ratio_N.dtype, device=ratio_N.device) for x in sums])
        return ObjectiveStats(sums_S.double().cpu(), float(ratio_N.max()), float(gap_N.abs().max()))


def retry_factors(batch: RolloutBatch) -> Tensor:
    """(1 - m / (1 + e)) / (1 - m) of each group, float64 [P]: m its share of right responses, e its earlier groups, all of them wrong.

    Never Give Up (arXiv:2609.13443) takes the baseline over all attempts at a prompt, m / (1 + e) instead of m, keeps the advantages of
    right responses and rescales those of wrong ones until the group's sum is zero. With a group baseline that is one factor a group.
    """
    counted_PG = batch.counted_PG.double()
    rate_P = (batch.correct_PG * counted_PG).sum(1) / counted_PG.sum(1).clamp(min=1)
    if batch.earlier_P is None:
        return torch.ones_like(rate_P)
    factors_P = (1 - rate_P / (1 + batch.earlier_P)) / (1 - rate_P)
    return factors_P.masked_fill(rate_P == 1, 1.0)
