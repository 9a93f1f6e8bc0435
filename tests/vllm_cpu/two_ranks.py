"""One rank of two, under torchrun: an engine beside a trainer's process group, asked for other things than its neighbour's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

import torch
from engine_support import scores, seeds_for, shift

from harness.configuration.sections import RuntimeConfig
from harness.model.policy import NativePolicy
from harness.rollout.engine import vllm
from harness.rollout.types import SamplingParams


def main(folder: Path) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    policy = NativePolicy.load(folder, "torch")
    engine = vllm.build(vllm.Config(), policy, RuntimeConfig(rollout_rows=8))
    prompts = [[3 + rank, 4, 5], [6, 7 + rank]]
    for number in range(2):
        shift(policy, number)
        engine.load_weights(policy.named_weights())
        for _ in range(1 + rank):  # the ranks' engines need not be asked equally often
            made = engine.generate(prompts, seeds_for(prompts, 4, str(number)), SamplingParams(8 + 4 * rank))
        gap = float((made.log_probs_N - scores(policy, prompts, made)).abs().max())
        assert gap < 1e-4, gap
    engine.close()
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    assert float(total) == 2
    sys.stdout.write(f"rank {rank} agrees with the trainer, and the group lives on\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
