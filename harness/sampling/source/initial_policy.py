"""The policy as it was before training: rejection-sampling fine-tuning (RFT, arXiv:2308.01825) and other offline data.

Fresh samples of the frozen initial policy every step: a data set that never repeats. Their log-probabilities are the initial policy's
(what importance weights need); the recorded entropy is the current policy's on these responses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from harness.rollout.types import Completions, SamplingParams
    from harness.sampling.source import SourceContext


@dataclass
class Config:
    """No settings."""

    kind: str = "initial_policy"


class InitialPolicySource:
    def __init__(self, config: Config, context: SourceContext) -> None:
        from harness.configuration.registry import ENGINE, implementation
        from harness.model.policy import NativePolicy

        self.prompts, self.score = context.prompts, context.score
        settings, policy = context.config.engine, context.policy
        # Only the native policy's own weights are sampled from; other engines read the folder that it came from.
        initial = policy.frozen_copy() if isinstance(policy, NativePolicy) else policy
        build = implementation(ENGINE, settings).build
        self.engine = build(settings, initial, context.config.runtime).with_stops(context.tokenizer)

    def generate(self, chosen_P: np.ndarray, seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        prompts = [self.prompts[i] for i in chosen_P]
        completions = self.engine.generate(prompts, seeds_PG, params)
        _, completions.entropy_N = self.score(prompts, completions)
        return completions


build = InitialPolicySource
