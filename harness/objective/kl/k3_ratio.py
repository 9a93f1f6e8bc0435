"""ρ · k3, unbiased for the current policy's KL also off-policy (DeepSeek-V3.2, arXiv:2512.02556 §3.1).

Tokens come from π_old, so k3 averages to the divergence only while π = π_old; the objective's ratio ρ = π/π_old repairs that. The gradient
flows through ρ, too, and its expectation is that of the divergence itself: Σ π_old ∇[ρ(e^{-x} - 1 + x)] = ∇ KL(π ‖ π_ref). Checked against
TRL's code (`use_bias_correction_kl`, its default since 1.16), not against the paper's text.
"""

from dataclasses import dataclass

from harness.objective.kl import k3


@dataclass
class Config(k3.Config):
    """See `KlPenalty`."""

    kind: str = "k3_ratio"
    ratio_weighted = True
