"""Generalised advantage estimation with a learned critic (arXiv:1506.02438; PPO, arXiv:1707.06347; VAPO, arXiv:2504.05118).

δ_t = r_t + γ V_{t+1} - V_t with V after the last token 0, A_t = Σ_k (γλ)^k δ_{t+k}. The outcome is the reward of the last token; a KL
penalty placed in the reward is paid token by token. VAPO decouples λ: `lambda_value` = 1 for the critic's targets (Eq. 4 there, from
VC-PPO), and for the policy `lambda_policy`, or the length-adaptive λ = 1 - 1/(α·l) (Eq. 8 there), clamped to [0, 1] since it is negative
for l < 1/α. Whitening over tokens is verl's and TRL's practice.
"""

from dataclasses import dataclass, field

from harness.configuration.error import Checked, choice, ranged
from harness.objective.advantage import Advantage
from harness.objective.advantage.return_to_go import whiten
from harness.objective.types import RolloutBatch, Tensor, pad_tokens, token_cells


@dataclass
class CriticConfig(Checked, key="algorithm.advantage.critic"):
    """The value model: a copy of the initial policy with a scalar head (zero at first), trained beside the policy.

    Attributes:
        learning_rate: of its own AdamW (betas, epsilon and weight decay as the policy's).
        warmup_steps: rollout steps in which only the critic is trained (VAPO's value pretraining).
        value_clip: PPO's clipping of the value update around the old prediction, or null for a plain squared error.
        max_gradient_norm: clips the critic's gradient.
    """

    learning_rate: float = ranged(1e-3, low=0.0)
    warmup_steps: int = ranged(0, low=0)
    value_clip: float | None = ranged(None, low=1e-9)
    max_gradient_norm: float = ranged(1.0, low=1e-9)


@dataclass
class Config(Advantage):
    """GAE.

    Attributes:
        discount: γ.
        lambda_policy: λ of the policy's advantages.
        lambda_value: λ of the critic's targets.
        length_adaptive_alpha: α of VAPO's λ_policy = 1 - 1/(α·length), which then replaces `lambda_policy`; null: off.
        whiten_over: tokens, sequences (each response weighs the same) or none.
        ddof: of the whitening's standard deviation.
        epsilon: added to it.
        critic: the value model.
    """

    kind: str = "gae"
    discount: float = ranged(1.0, low=0.0, high=1.0)
    lambda_policy: float = ranged(0.95, low=0.0, high=1.0)
    lambda_value: float = ranged(0.95, low=0.0, high=1.0)
    length_adaptive_alpha: float | None = ranged(None, low=1e-9)
    whiten_over: str = choice("tokens", of=("tokens", "sequences", "none"))
    ddof: int = choice(1, of=(0, 1))
    epsilon: float = ranged(1e-8, low=0.0)
    critic: CriticConfig = field(default_factory=CriticConfig)
    needs_values = True
    dead_groups_vanish = False  # the critic's baseline knows no groups

    def advantages(self, batch: RolloutBatch) -> Tensor:
        raw_N = generalised_advantages(batch, self.discount, self.policy_lambdas(batch))
        if self.whiten_over == "none":
            return raw_N * batch.per_token(batch.counted_PG.double())
        return whiten(raw_N, batch, self.whiten_over, self.ddof, self.epsilon)

    def value_targets(self, batch: RolloutBatch) -> Tensor:
        """Return what the critic is fitted to: V + GAE at `lambda_value` (the return itself at λ = 1), float64 [N]."""
        lambdas_R = batch.lengths_PG.reshape(-1).double() * 0 + self.lambda_value
        return _values(batch) + generalised_advantages(batch, self.discount, lambdas_R)

    def policy_lambdas(self, batch: RolloutBatch) -> Tensor:
        """λ of each response's policy advantages, float64 [R]."""
        lengths = batch.lengths_PG.reshape(-1).double()
        if self.length_adaptive_alpha is None:
            return lengths * 0 + self.lambda_policy
        return (1.0 - 1.0 / (self.length_adaptive_alpha * lengths)).clamp(0.0, 1.0)


def generalised_advantages(batch: RolloutBatch, discount: float, lambdas_R: Tensor) -> Tensor:
    """A_t of every token, unwhitened, float64 [N]."""
    import torch

    lengths = batch.lengths_PG.reshape(-1)
    cells = token_cells(lengths)
    values, rewards = pad_tokens(_values(batch), cells), pad_tokens(batch.token_rewards_N, cells)
    next_values = torch.cat([values[:, 1:], torch.zeros(len(lengths), 1, dtype=torch.float64)], 1)
    delta = (rewards + discount * next_values - values) * cells
    result, running = torch.zeros_like(delta), torch.zeros(len(lengths), dtype=torch.float64)
    for position in reversed(range(cells.shape[1])):
        running = delta[:, position] + discount * lambdas_R * running
        result[:, position] = running
    return result[cells]


def _values(batch: RolloutBatch) -> Tensor:
    assert batch.values_N is not None
    return batch.values_N.double()
