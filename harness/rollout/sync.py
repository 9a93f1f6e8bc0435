"""Keeping an engine at the policy's weights: load after every update, then compare what it samples with what the trainer computes.

An engine that keeps old weights says nothing (vLLM has three such ways), so every load is checked: a few fixed requests are sampled and
their tokens scored by the policy. Log-probabilities must agree within the rounding of the engine's precision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from harness.model.policy import Policy
from harness.model.ranks import Ranks
from harness.rollout.choice import key, sample_seeds
from harness.rollout.types import Completions, RolloutEngine, SamplingParams

CHECK_PROMPTS, CHECK_SAMPLES, CHECK_TOKENS = 2, 2, 16
# Mean absolute difference in nats. Rounding gives 2e-6 in float32 and about 0.02 in bfloat16. In float32 the weights of a step earlier are
# caught at once; in bfloat16 one small step is within the rounding, and an engine that stays behind is caught when steps have added up.
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 0.1, torch.float16: 0.05}


class EngineMismatch(RuntimeError):
    """The engine does not sample from the weights that it was given."""


class WeightSync:
    """Loads a policy's weights into an engine and checks that they arrived.

    Args:
        engine: the engine.
        policy: whose weights it follows.
        prompts: token ids of some problems; the first few are the fixed requests.
        params: the run's sampling; the check samples at the same temperature without filters.
        ranks: each has an engine of its own.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        ranks: Ranks | None = None,
    ) -> None:
        self.engine, self.policy, self.ranks = engine, policy, ranks or Ranks()
        self.prompts = list(prompts[:CHECK_PROMPTS])
        keys = np.arange(len(self.prompts), dtype=np.uint64)
        self.seeds = sample_seeds(key("weight check", 0), keys, CHECK_SAMPLES)
        tokens = min(CHECK_TOKENS, params.max_response_tokens)
        # Without stops, so that the mean is always over as many tokens.
        self.params = SamplingParams(tokens, params.temperature)

    def load(self) -> float:
        """Bring the engine to the policy's weights; the mean gap in nats (0 where they are shared).

        Raises:
            EngineMismatch: the gap is beyond rounding, also after loading once more.
        """
        if self.engine.shares_weights:
            return 0.0
        # Logits are divided by the temperature, and so is their rounding multiplied.
        tolerance = TOLERANCE[self.policy.compute_dtype] / min(1.0, self.params.temperature)
        for _ in range(2):
            self.engine.load_weights(self.policy.named_weights())
            # Taking weights is collective: all ranks load again, or none. The largest, and NaN if one is.
            gap = float(np.max(self.ranks.gather(self.gap())))
            if gap <= tolerance:
                return gap
        raise EngineMismatch(
            f"after a weight update the engine's log-probabilities differ from the trainer's by {gap:.3g} nats a token on "
            f"average (at most {tolerance:g} is rounding): it samples from other weights, or "
            "computes another model. Try engine=native or engine=transformers"
        )

    @torch.no_grad()
    def gap(self) -> float:
        """Mean |log π_engine − log π_trainer| in nats over the fixed requests."""
        completions: Completions = self.engine.generate(self.prompts, self.seeds, self.params)
        rows = [prompt for prompt in self.prompts for _ in range(CHECK_SAMPLES)]
        trainer_N, _ = self.policy.token_log_probs(
            rows, completions.tokens_N, completions.lengths_R, self.params.temperature
        )
        return float((trainer_N - completions.log_probs_N).abs().mean())
