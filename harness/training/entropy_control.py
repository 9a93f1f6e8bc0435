"""A coefficient of the entropy bonus that follows the entropy (Skywork Open Reasoner 1, arXiv:2505.22312).

Before each rollout step's updates: raised by `step` where the sampling policy's entropy is below the target, lowered by it elsewhere, kept
between 0 and `maximum`; the bonus is on only while the entropy is below the target. As in the controller of the authors' code, of which
copies were read; the paper's text was not.
"""

from __future__ import annotations

from harness.configuration.algorithm import AlgorithmConfig


class EntropyController:
    """Holds the coefficient from step to step; it starts at `algorithm.entropy_coefficient`."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.settings = config.entropy_control
        self.value = config.entropy_coefficient

    def observe(self, entropy: float) -> float:
        """Move the coefficient by a step's mean entropy (nats a token); what this step's loss is to use."""
        target = self.settings.target_nats
        if target is None:
            return self.value
        below = entropy < target
        moved = self.value + (self.settings.step if below else -self.settings.step)
        self.value = min(max(moved, 0.0), self.settings.maximum)
        return self.value if below else 0.0
