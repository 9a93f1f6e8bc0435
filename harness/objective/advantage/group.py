"""Group-relative advantages: baseline × scale.

A_i = (r_i - b) / s with the baseline b the group mean (GRPO, arXiv:2402.03300 §4.1), that mean weighted by length (OPO,
arXiv:2505.23585), the mean of the other responses (RLOO, arXiv:2402.14740) or nothing, and the scale s the group's standard deviation
(GRPO), that of the batch's advantages (ScaleRL, arXiv:2510.13786) or of its rewards (Lite PPO, arXiv:2508.08221; TRL), the group's mean
reward, its pass rate (MaxRL, arXiv:2602.02710), what that lacks to the group's best reward (SignBalance, arXiv:2609.04063: 1 for right
and -n⁺/n⁻ for wrong responses), the batch's share of rewards other than 0 (GPG as verl has it), or 1 (Dr.GRPO, arXiv:2503.20783 §3.1).
`batch_whiten` also subtracts the batch mean (REINFORCE++-baseline, arXiv:2501.03262). `ddof` 1 is the sample standard deviation (verl,
TRL), 0 the population's (open-instruct). Where a standard deviation is exactly 0, the advantage is 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.configuration.error import choice, ranged
from harness.configuration.schema import RunConfig
from harness.engagement.measure import SIGMA, KeyedMeasures
from harness.objective.advantage import Advantage
from harness.objective.types import RolloutBatch, Tensor

BASELINES = ("group_mean", "length_weighted", "leave_one_out", "none")
SCALES = (
    "group_std", "group_mean", "group_headroom", "batch_std", "batch_reward_std", "batch_whiten", "nonzero_share", "none",
)  # fmt: skip


@dataclass
class Config(Advantage):
    """Baseline and scale of a group-relative advantage.

    Attributes:
        baseline: group_mean, length_weighted (that mean, weighted by response tokens), leave_one_out or none.
        scale: group_std, group_mean, group_headroom, batch_std, batch_reward_std, batch_whiten, nonzero_share or none
            (docs/objective/advantage.md says of what).
        ddof: 0 population or 1 sample standard deviation.
        epsilon: added to the standard deviation, or to the group's mean.
        whiten_over: sequences or tokens: what weighs the same in the batch's mean and standard deviation. Over tokens, or with
            baseline=length_weighted, batch_whiten gives dead groups a constant advantage.
    """

    kind: str = "group"
    baseline: str = choice("group_mean", of=BASELINES)
    scale: str = choice("group_std", of=SCALES)
    ddof: int = choice(1, of=(0, 1))
    epsilon: float = ranged(1e-6, low=0.0)
    whiten_over: str = choice("sequences", of=("sequences", "tokens"))

    def centring_fix(self) -> str:
        if self.baseline not in ("group_mean", "leave_one_out"):
            return super().centring_fix()
        if (self.scale, self.whiten_over) == ("batch_whiten", "tokens"):
            return "algorithm.advantage.whiten_over=sequences"
        return ""

    def refusals(self, run: RunConfig) -> Iterator[str]:
        reward, overlong = run.algorithm.reward, run.algorithm.overlong
        may_be_negative = (
            reward.may_be_negative or (overlong.punishes and not overlong.multiplies) or run.algorithm.kl_in_reward
        )
        if self.scale == "group_mean" and may_be_negative:
            yield "algorithm.advantage.scale=group_mean needs rewards of at least 0: set algorithm.reward.wrong=0, no penalty"
        if self.scale == "nonzero_share" and reward.wrong:
            yield "algorithm.advantage.scale=nonzero_share needs algorithm.reward.wrong=0"

    def advantages(self, batch: RolloutBatch) -> Tensor:
        return batch.per_token(self.of_responses(batch))

    def of_responses(self, batch: RolloutBatch) -> Tensor:
        """Return one advantage a response, float64 [P, G]."""
        returns, counted_PG = batch.returns_PG, batch.counted_PG.double()
        advantages_PG = centre(returns, counted_PG, self.baseline, batch.lengths_PG.double())
        if self.scale == "group_std":
            advantages_PG = divide(advantages_PG, group_std(returns, counted_PG, self.ddof), self.epsilon)
        elif self.scale in ("group_mean", "group_headroom"):
            mean = (returns * counted_PG).sum(1, keepdim=True) / counted_PG.sum(1, keepdim=True).clamp(min=1)
            best = returns.masked_fill(counted_PG == 0, float("-inf")).max(1, keepdim=True).values
            advantages_PG = divide(advantages_PG, mean if self.scale == "group_mean" else best - mean, self.epsilon)
        elif self.scale == "nonzero_share":
            advantages_PG = advantages_PG * (counted_PG.sum() / ((returns != 0) * counted_PG).sum().clamp(min=1))
        elif self.scale != "none":
            weight = counted_PG * (batch.lengths_PG.double() if self.whiten_over == "tokens" else 1.0)
            spread = returns if self.scale == "batch_reward_std" else advantages_PG
            mean, std = weighted_moments(spread, weight, self.ddof)
            # Over sequences a group's mean already makes the batch mean zero: subtracting its rounding would give dead groups gradient.
            has_zero_mean = self.baseline in ("group_mean", "leave_one_out") and self.whiten_over == "sequences"
            shift = mean if self.scale == "batch_whiten" and not has_zero_mean else 0.0
            advantages_PG = divide(advantages_PG - shift, std, self.epsilon)
            if self.scale == "batch_whiten" and without_spread(returns, std):
                advantages_PG = advantages_PG * 0
        return advantages_PG * counted_PG

    def engagement(self, old: Advantage) -> KeyedMeasures:
        assert isinstance(old, Config)
        if (old.scale == "group_std") != (self.scale == "group_std"):
            yield "scale", SIGMA, True


def centre(returns_PG: Tensor, counted_PG: Tensor, baseline: str, lengths_PG: Tensor | None = None) -> Tensor:
    """Subtract the baseline. Groups whose counted returns are equal become exactly zero (no rounding residue)."""
    if baseline == "none":
        return returns_PG
    number = counted_PG.sum(1, keepdim=True)
    weights_PG = counted_PG * lengths_PG if baseline == "length_weighted" and lengths_PG is not None else counted_PG
    mean = (returns_PG * weights_PG).sum(1, keepdim=True) / weights_PG.sum(1, keepdim=True).clamp(min=1)
    deviations_PG = returns_PG - mean
    if baseline == "leave_one_out":
        # r_i - mean of the others = G/(G-1) (r_i - mean); one counted response has no others and gets zero.
        deviations_PG = deviations_PG * (number / (number - 1).clamp(min=1))
    return deviations_PG.masked_fill(equal_returns(returns_PG, counted_PG)[:, None], 0.0)


def equal_returns(returns_PG: Tensor, counted_PG: Tensor) -> Tensor:
    """Find the groups whose counted returns are all exactly equal, bool [P]."""
    excluded_PG = counted_PG == 0
    low = returns_PG.masked_fill(excluded_PG, float("inf")).min(1).values
    high = returns_PG.masked_fill(excluded_PG, float("-inf")).max(1).values
    return high <= low


def group_std(returns_PG: Tensor, counted_PG: Tensor, ddof: int) -> Tensor:
    """Standard deviation of each group's counted returns, [P, 1]."""
    number = counted_PG.sum(1, keepdim=True)
    mean = (returns_PG * counted_PG).sum(1, keepdim=True) / number.clamp(min=1)
    square = ((returns_PG - mean) ** 2 * counted_PG).sum(1, keepdim=True)
    return (square / (number - ddof).clamp(min=1)).sqrt()


def divide(values: Tensor, std: Tensor, epsilon: float) -> Tensor:
    """Values over a standard deviation; 0 where nothing varies at all (a quotient by `epsilon` alone would mean nothing)."""
    return (values / (std + epsilon)).masked_fill(std == 0, 0.0)


def without_spread(values: Tensor, std: Tensor) -> bool:
    """Say if nothing but rounding differs: dividing that by a small epsilon would make noise of it."""
    return bool(std <= 1e-12 * values.abs().max())


def weighted_moments(values: Tensor, weights: Tensor, ddof: int) -> tuple[Tensor, Tensor]:
    """Weighted mean and standard deviation over all entries; `ddof` corrects by the total weight."""
    total = weights.sum()
    mean = (values * weights).sum() / total.clamp(min=1)
    square = ((values - mean) ** 2 * weights).sum()
    return mean, (square / (total - ddof).clamp(min=1)).sqrt()
