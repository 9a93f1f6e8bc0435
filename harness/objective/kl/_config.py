"""The settings that every KL estimator shares."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.error import require, require_range


@dataclass
class KlConfig:
    """`coefficient` β ≥ 0 (0: no reference policy is kept); `placement`: in the loss, or subtracted from the reward."""

    coefficient: float = 0.0
    placement: str = "loss"

    def __post_init__(self) -> None:
        require_range("algorithm.kl.coefficient", self.coefficient, 0.0)
        require("algorithm.kl.placement", self.placement, ("loss", "reward"))
