"""Sources of training responses (the "data source" of DeepSeekMath's unified paradigm, arXiv:2402.03300 §5.2.1).

A member defines `Config` and `build`, which returns a `Source`. Everything after it (grading, groups, objective) is the same for all.
`Config.samples_policy` is True where it samples the current policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import torch

    from harness.configuration.schema import RunConfig
    from harness.model.policy import Policy
    from harness.problems.problem import Problem
    from harness.rollout.types import Completions, RolloutEngine, SamplingParams

FUNCTIONS = ("build",)  # of a member


@dataclass
class SourceContext:
    """The parts of a run that a source may use.

    Attributes:
        policy: the run's policy, still at its initial weights when the source is built.
        score: log-probabilities and entropies [N] in nats, under the policy, of responses to prompts; as many responses to each prompt.
    """

    config: RunConfig
    policy: Policy
    engine: RolloutEngine
    tokenizer: Any
    problems: Sequence[Problem]
    prompts: Sequence[Sequence[int]]
    score: Callable[[Sequence[Sequence[int]], Completions], tuple[torch.Tensor, torch.Tensor]]


class Source(Protocol):
    """Gives `seeds_PG.shape[1]` responses to each chosen problem; the same seeds give the same responses after a resume."""

    def generate(self, chosen_P: np.ndarray, seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        """Responses to the problems at `chosen_P`, with the log-probabilities of the distribution the update takes as old."""
        ...
