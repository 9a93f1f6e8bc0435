"""The current policy itself: online reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np

    from harness.rollout.types import Completions, SamplingParams
    from harness.sampling.source import SourceContext


@dataclass
class Config:
    """No settings."""

    kind: str = "policy"
    samples_policy: ClassVar[bool] = True


class PolicySource:
    def __init__(self, config: Config, context: SourceContext) -> None:
        self.engine, self.prompts = context.engine, context.prompts

    def generate(self, chosen_P: np.ndarray, seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        return self.engine.generate([self.prompts[i] for i in chosen_P], seeds_PG, params)


build = PolicySource
