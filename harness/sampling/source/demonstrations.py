"""Written demonstrations: supervised fine-tuning as one point of the unified paradigm (arXiv:2402.03300 §5.2.1).

On the testbed the demonstrator writes them, the same that the base policy was warmed up on, its errors included; `keep=right` selects
those that end right ("human selection" read as a filter). Log-probabilities are the current policy's, so the ratio starts at 1.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.error import Checked, choice, ranged
from harness.problems.benchmarks.arithmetic import PAD, Chain

if TYPE_CHECKING:
    import numpy as np

    from harness.rollout.types import Completions, SamplingParams
    from harness.sampling.source import SourceContext


@dataclass
class Config(Checked, key="algorithm.source"):
    """`keep`: all demonstrations, or right ones; `attempts`: draws at most for a right one, then the last one stands."""

    kind: str = "demonstrations"
    keep: str = choice("all", of=("all", "right"))
    attempts: int = ranged(50, low=1)


class DemonstrationSource:
    """Demonstrations by seed: the same seeds write the same texts."""

    def __init__(self, config: Config, context: SourceContext) -> None:
        self.config, self.context = config, context
        self.teacher = context.config.model.demonstrator
        self.chains = [_parse(problem.prompt, context.config.task.modulus) for problem in context.problems]

    def generate(self, chosen_P: np.ndarray, seeds_PG: np.ndarray, params: SamplingParams) -> Completions:
        import torch

        from harness.rollout.types import Completions

        context = self.context
        texts = [
            self._write(problem, int(seed)) for problem, seeds in zip(chosen_P, seeds_PG, strict=True) for seed in seeds
        ]
        cap, stop = params.max_response_tokens, set(params.stop_token_ids)
        rows = [ids[:cap] for ids in context.tokenizer(texts)["input_ids"]]
        tokens_N = torch.tensor([token for ids in rows for token in ids])
        completions = Completions(
            tokens_N=tokens_N,
            log_probs_N=torch.zeros(len(tokens_N)),
            entropy_N=torch.zeros(len(tokens_N)),
            lengths_R=torch.tensor([len(ids) for ids in rows]),
            finished_R=torch.tensor([ids[-1] in stop for ids in rows]),
        )
        prompts = [context.prompts[i] for i in chosen_P]
        completions.log_probs_N, completions.entropy_N = context.score(prompts, completions)
        return completions

    def _write(self, problem: int, seed: int) -> str:
        from harness.testbed.demonstrator import CLOSE, EOS, OPEN, demonstrate

        rng, text = random.Random(seed), ""
        right = f"{OPEN}{self.context.problems[problem].gold}{CLOSE}{EOS}"
        for _ in range(self.config.attempts):
            text = demonstrate(rng, self.chains[problem], self.teacher)
            if self.config.keep == "all" or text.endswith(right):
                break
        return text


def _parse(prompt: str, modulus: int) -> Chain:
    text = prompt.rstrip(PAD).removesuffix(":")
    return Chain(int(text[0]), tuple((text[i], int(text[i + 1])) for i in range(1, len(text), 2)), modulus)


build = DemonstrationSource
