"""The settings that every KL estimator shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.configuration.error import require, require_range


@dataclass
class KlConfig:
    """What every estimator shares.

    Attributes:
        coefficient: β ≥ 0 (0: no reference policy is kept).
        placement: loss, or reward (subtracted from it).
        reset_every_steps: rollout steps after which the reference policy becomes the current one and Adam starts afresh (ProRL,
            arXiv:2505.24864); null: the reference is the initial policy throughout.
    """

    coefficient: float = 0.0
    placement: str = "loss"
    reset_every_steps: int | None = field(default=None, metadata={"neutral": True})

    def __post_init__(self) -> None:
        require_range("algorithm.kl.coefficient", self.coefficient, 0.0)
        require("algorithm.kl.placement", self.placement, ("loss", "reward"))
        if self.reset_every_steps is not None:
            require_range("algorithm.kl.reset_every_steps", self.reset_every_steps, 1)
