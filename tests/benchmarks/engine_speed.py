"""Sampling speed of the engines beside each other on one core: tokens per CPU second, the same requests.

    OMP_NUM_THREADS=1 taskset -c 0 python tests/benchmarks/engine_speed.py [--engines native,vllm] [--rounds 3]

Run it with the interpreter of `tests/vllm_cpu/setup.sh` to have vLLM in it. Random-init policies of the testbed's vocabulary, 32 prompts
x 8 responses; every response reaches the cap, or (`ends`) a common token ends it. Rounds are interleaved; figures are medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from random_policies import random_policy

from harness.configuration.registry import member
from harness.configuration.runtime import RuntimeConfig
from harness.model.linear import resolve_kernel
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import RolloutEngine, SamplingParams
from harness.testbed import recipe as testbed

CASES = (("m (3.2M), 64 tokens", "m", 64), ("t (testbed), 32 tokens", "t", 32))
PROMPTS, SAMPLES, PROMPT_TOKENS = 32, 8, 7


def tokens_per_second(
    engine: RolloutEngine, prompts: list[list[int]], params: SamplingParams, turn: int
) -> float:
    """One request's tokens by the CPU seconds of this process."""
    seeds = sample_seeds(key("speed", turn), np.arange(PROMPTS, dtype=np.uint64), SAMPLES)
    start = time.process_time()
    made = engine.generate(prompts, seeds, params)
    return int(made.lengths_R.sum()) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", default="native,transformers,vllm")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.engines.split(",")
    print(f"| tokens per CPU second | {' | '.join(names)} | {names[0]} / {names[-1]} |")
    print(f"|---|{'---|' * (len(names) + 1)}")
    for title, size, cap in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            kernel = resolve_kernel("auto")
            folder = random_policy(testbed.Config(), size, Path(scratch) / "model", kernel)
            engines = {}
            for name in names:
                family = member("harness.rollout.engine", name)
                runtime = RuntimeConfig(rollout_rows=PROMPTS * SAMPLES)
                engines[name] = family.open_folder(
                    family.Config(), folder, runtime, "cpu", torch.float32, kernel
                )
            generator = torch.Generator().manual_seed(0)
            prompts = torch.randint(2, 20, (PROMPTS, PROMPT_TOKENS), generator=generator).tolist()
            for ends in (False, True):
                free = engines[names[0]].generate(
                    prompts, np.arange(PROMPTS, dtype=np.uint64)[:, None], SamplingParams(cap)
                )
                stop = (int(free.tokens_N.mode().values),) if ends else ()
                params = SamplingParams(cap, stop_token_ids=stop)
                found: dict[str, list[float]] = {name: [] for name in names}
                for turn in range(options.rounds + 1):
                    for name in names:
                        found[name].append(tokens_per_second(engines[name], prompts, params, turn))
                rates = [statistics.median(found[name][1:]) for name in names]  # the first round warms up
                cells = " | ".join(f"{rate:,.0f}" for rate in rates)
                ratio = f"{rates[0] / rates[-1]:.2f}"
                print(f"| {title}{', ends' if ends else ''} | {cells} | {ratio} |", flush=True)
            for engine in engines.values():
                engine.close()


if __name__ == "__main__":
    sys.exit(main())
