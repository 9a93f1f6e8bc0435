"""The critic: a copy of the initial policy with a scalar head that predicts the return from every prefix (PPO, VAPO).

The head starts at zero, so the first predictions are 0 everywhere. V_t is read at the position that predicts token t, hence before it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch

from harness.configuration.schema import RunConfig
from harness.model.policy import NativePolicy, Policy, adamw
from harness.training.step_data import NumericalFault, StepData


class Critic:
    """Value model and its optimiser; its settings are `algorithm.advantage.critic`. Its learning rate is constant."""

    def __init__(self, config: RunConfig, policy: Policy) -> None:
        assert isinstance(policy, NativePolicy)  # others are refused before launch
        self.settings = config.algorithm.advantage.critic
        self.policy = NativePolicy(copy.deepcopy(policy.decoder), policy.folder)
        self.head_1E = torch.nn.Parameter(torch.zeros(1, policy.decoder.shape.hidden, device=policy.device))
        self.parameters = [*self.policy.parameters(), self.head_1E]
        self.optimizer = adamw(self.parameters, config.optimizer, self.settings.learning_rate)

    def trains_alone(self, step: int) -> bool:
        """Return whether this rollout step (1-based) belongs to the value warm-up."""
        return step <= self.settings.warmup_steps

    def values(self, batch: StepData) -> torch.Tensor:
        """Predictions before each response token, [N], with gradient where enabled."""
        hidden_NE = self.policy.response_hidden(*batch.inputs)
        return (hidden_NE @ self.head_1E.t())[:, 0].cpu()

    def update(self, batches: Sequence[StepData]) -> float:
        """One optimiser step on the mean squared error over all tokens of the micro-batches; returns the loss (half the MSE).

        Raises:
            NumericalFault: loss or gradient is not finite; weights are those before the update.
        """
        tokens = sum(len(batch.tokens_N) for batch in batches)
        self.optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for batch in batches:
            loss = value_loss(self.values(batch), batch, self.settings.value_clip).sum() / max(tokens, 1)
            loss.backward()
            total += float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_gradient_norm))
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise NumericalFault(
                f"critic: loss {total}, gradient norm {norm}; lower algorithm.advantage.critic.learning_rate",
                {"batches": list(batches), "loss": total, "gradient_norm": norm},
            )
        self.optimizer.step()
        return total

    def state(self) -> dict[str, Any]:
        return {
            "decoder": self.policy.decoder.state_dict(),
            "head": self.head_1E.detach().clone(),
            "optimizer": self.optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.policy.decoder.load_state_dict(state["decoder"])
        with torch.no_grad():
            self.head_1E.copy_(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])


def value_loss(values_N: torch.Tensor, batch: StepData, value_clip: float | None) -> torch.Tensor:
    """Half the squared error per token, [N]; with `value_clip` the larger of it and that of the clipped prediction (PPO)."""
    old_N, targets_N = batch.values_N, batch.value_targets_N
    assert old_N is not None
    assert targets_N is not None
    error = (values_N - targets_N).square()
    if value_clip is not None:
        moved = (values_N - old_N).clamp(-value_clip, value_clip)
        error = torch.maximum(error, (old_N + moved - targets_N).square())
    return error / 2


def explained_variance(values_N: torch.Tensor, targets_N: torch.Tensor) -> float:
    """1 - Var(target - V) / Var(target); NaN when the targets do not vary."""
    spread = float(targets_N.double().var(correction=0))
    return 1.0 - float((targets_N - values_N).double().var(correction=0)) / spread if spread else float("nan")
