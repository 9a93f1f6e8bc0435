"""KL estimators to the reference policy, per token. A member is a file with one dataclass `Config` that inherits `KlPenalty`.

k1, k2 and k3 are Schulman's ("Approximating KL divergence", 2020); x = log π - log π_ref. As a *loss* only k2's gradient is that of the KL
divergence: k3's is of the reverse direction, and k1's has zero mean. All are offered, since papers use them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from harness.configuration.error import Checked, ConfigError, choice, ranged
from harness.objective.types import Tensor


@dataclass
class KlPenalty(Checked, ABC, key="algorithm.kl"):
    """Settings of the KL term, the same for every estimator.

    Attributes:
        coefficient: β ≥ 0 (0: no reference policy is kept).
        placement: loss, or reward (subtracted from it).
        reset_every_steps: rollout steps after which the current policy becomes the reference and Adam starts afresh (ProRL,
            arXiv:2505.24864); null: never.
        kind: the estimator.
        ratio_weighted: in the loss the objective multiplies the estimate by its importance ratio, with gradient.
    """

    coefficient: float = ranged(0.0, low=0.0)
    placement: str = choice("loss", of=("loss", "reward"))
    reset_every_steps: int | None = ranged(None, low=1, neutral=True)
    kind: str = ""
    ratio_weighted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ratio_weighted and self.placement != "loss":
            raise ConfigError(f"algorithm.kl={self.kind} has no ratio with placement=reward; use algorithm.kl=k3")

    @abstractmethod
    def estimate(self, logprobs_N: Tensor, ref_logprobs_N: Tensor) -> Tensor:
        """Return the estimate in nats, [N], differentiable in the first argument."""


Member = KlPenalty
