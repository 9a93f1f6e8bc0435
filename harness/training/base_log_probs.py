"""What a base policy says to fixed responses: the trainer's forward alone, without a sampler, a loss or an optimiser."""

from __future__ import annotations

from pathlib import Path

import torch

from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.model.checkpoint import load_tokenizer
from harness.model.linear import resolve_kernel
from harness.model.ranks import Ranks
from harness.problems.problem import load_benchmark
from harness.rollout.prompts import prompt_tokens
from harness.training.open_policy import open_policy


@torch.no_grad()
def base_log_probs(config: RunConfig, cache: Path, problems: int) -> list[float]:
    r"""Log-probability in nats that the run's base policy gives to `\boxed{gold}` as the whole response, for the first training problems.

    Args:
        config: the run; its device and linear kernel are used.
        cache: where base policies are kept.
        problems: how many problems.

    Returns:
        One sum over tokens a problem.
    """
    kernel = resolve_kernel(config.runtime.linear_kernel)
    source = implementation("harness.base_policy", config.model)
    folder = source.prepare(config.model, config.task, config.seed, cache, kernel)
    tokenizer, task = load_tokenizer(folder), load_benchmark(config.task)
    policy = open_policy(config, folder, kernel, Ranks())
    prompts = prompt_tokens(tokenizer, task)[:problems]
    responses = [
        torch.tensor(
            tokenizer(f"\\boxed{{{problem.gold}}}", add_special_tokens=False)["input_ids"]
            + [tokenizer.eos_token_id]
        )
        for problem in task.problems[:problems]
    ]
    lengths_R = torch.tensor([len(response) for response in responses])
    log_probs_N, _ = policy.token_log_probs(prompts, torch.cat(responses), lengths_R)
    return [float(part.double().sum()) for part in log_probs_N.split(lengths_R.tolist())]
