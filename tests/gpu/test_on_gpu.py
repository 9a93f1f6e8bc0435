"""What must hold on a GPU: the same scores, samples and weights as on a CPU, within the rounding of the precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from random_model import random_checkpoint
from safetensors.torch import load_file, save_file
from small_runs import Bench, small_config

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import load_decoder
from harness.model.policy import NativePolicy
from harness.model.shapes import SHAPES
from harness.model.transformers_policy import TransformersPolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.transformers.batches import TransformersEngine
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import SamplingParams

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PROMPTS = [[3, 4, 5, 6], [7, 8, 9], [3, 3, 3, 3, 3, 5, 6], [4]] * 8
SEEDS = sample_seeds(key("gpu"), np.arange(len(PROMPTS), dtype=np.uint64), 4)
GREEDY = SamplingParams(24, 0.0, stop_token_ids=(1,))
SAMPLED = SamplingParams(24, 1.0, stop_token_ids=(1,))


def test_greedy_responses_are_those_of_the_cpu(base_policy: Path) -> None:
    expected = NativeEngine(load_decoder(base_policy)).generate(PROMPTS, SEEDS, GREEDY)
    for engine in (
        NativeEngine(load_decoder(base_policy).cuda()),
        TransformersEngine.load(base_policy, 64, "cuda", torch.float32),
    ):
        got = engine.generate(PROMPTS, SEEDS, GREEDY)
        assert torch.equal(got.tokens_N, expected.tokens_N)
        torch.testing.assert_close(got.log_probs_N, expected.log_probs_N, atol=1e-3, rtol=0)


def test_new_weights_are_sampled_from_at_once(base_policy: Path) -> None:
    decoder, reference = load_decoder(base_policy).cuda(), load_decoder(base_policy)
    engine, expected = NativeEngine(decoder, rows=32), NativeEngine(reference)
    for scale in (1.0, 1.05, 0.9):
        with torch.no_grad():
            for ours, theirs in zip(decoder.parameters(), reference.parameters(), strict=True):
                ours.mul_(scale)
                theirs.mul_(scale)
        a, b = engine.generate(PROMPTS, SEEDS, SAMPLED), expected.generate(PROMPTS, SEEDS, SAMPLED)
        # A draw within rounding of a boundary may fall on the other side: that response then goes on differently, and no other.
        same = [ours == theirs for ours, theirs in zip(a.token_lists(), b.token_lists(), strict=True)]
        assert sum(same) >= 0.95 * len(same)


def test_bfloat16_samples_what_the_trainer_scores(base_policy: Path) -> None:
    """Below float32 the decode step's attention is torch's own; unequal prompts give it a mask."""
    policy = TransformersPolicy.load(base_policy, Pretrained(precision="bfloat16"), RuntimeConfig(device="cuda"))
    decoder = load_decoder(base_policy, "torch", torch.bfloat16).cuda().requires_grad_(False)
    engine = NativeEngine(decoder, rows=32)
    rows = [prompt for prompt in PROMPTS for _ in range(4)]
    for _ in range(2):
        made = engine.generate(PROMPTS, SEEDS, SAMPLED)
        with torch.no_grad():
            scores, _ = policy.token_log_probs(rows, made.tokens_N, made.lengths_R)
        assert float((scores - made.log_probs_N).abs().mean()) < 0.05


def sharp_checkpoint(scratch: Path) -> Path:
    """Seven query heads of 64 over one key head, their matrices large enough for attention to choose."""
    shape = SHAPES["qwen2.5-0.5b"] | {
        "hidden_size": 448,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "vocab_size": 512,
    }
    folder = random_checkpoint(shape | {"num_attention_heads": 7, "num_key_value_heads": 1}, 0, scratch)
    tensors = load_file(folder / "model.safetensors")
    for name in tensors:
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            tensors[name] = tensors[name] * 8
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_long_responses_over_few_key_heads_are_scored_as_they_were_sampled(tmp_path: Path) -> None:
    """Seven query heads a key head, a long cache, attention far from uniform. On these shapes torch may
    take cuDNN's attention (`TORCH_CUDNN_SDPA_DEPRIORITIZED=1` says no), which short responses of the testbed never meet."""
    folder = sharp_checkpoint(tmp_path)
    policy = TransformersPolicy.load(folder, Pretrained(precision="bfloat16"), RuntimeConfig(device="cuda"))
    engine = NativeEngine(load_decoder(folder, "torch", torch.bfloat16).cuda().requires_grad_(False), rows=32)
    made = engine.generate(PROMPTS, SEEDS, SamplingParams(300, 1.0))
    rows = [prompt for prompt in PROMPTS for _ in range(4)]
    with torch.no_grad():
        scores, _ = policy.token_log_probs(rows, made.tokens_N, made.lengths_R)
    gap_RT = (scores - made.log_probs_N).abs().view(-1, 300)
    assert float(gap_RT.mean()) < 0.05
    assert float(gap_RT[:, -50:].mean()) < 0.05


@pytest.mark.parametrize("shape", ["qwen2.5-0.5b", "qwen3-0.6b", "llama-3.2-1b"])
def test_packed_scores_and_gradients_are_those_of_the_cpu(shape: str, tmp_path: Path) -> None:
    tiny = {
        **SHAPES[shape],
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "vocab_size": 512,
    }
    tiny |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    folder = random_checkpoint(tiny, 0, tmp_path)
    lengths = torch.tensor([5, 1, 9, 30])
    tokens = torch.arange(int(lengths.sum())) % 500 + 1
    native = NativePolicy.load(folder, "torch")
    expected, _ = native.token_log_probs(PROMPTS[:4], tokens, lengths)
    expected.sum().backward()
    for precision, tolerance in (("float32", 1e-3), ("bfloat16", 0.15)):
        policy = TransformersPolicy.load(folder, Pretrained(precision=precision), RuntimeConfig(device="cuda"))
        scores, _ = policy.token_log_probs(PROMPTS[:4], tokens, lengths)
        assert float((scores - expected).detach().abs().max()) < tolerance
        scores.sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(list(policy.parameters()), 1e9).full_tensor()
        wanted = torch.nn.utils.clip_grad_norm_(list(native.parameters()), 1e9)
        assert float(norm.cpu()) == pytest.approx(float(wanted), rel=0.05)


def test_the_testbed_trains_on_a_gpu(bench: Bench) -> None:
    config = small_config(runtime__device="cuda", algorithm__dead_groups__policy="refill")
    steps = bench.trained(config).run.steps()
    assert float(steps["sampler_log_prob_gap_max"].max()) < 1e-2
    assert np.isfinite(steps["loss"]).all()
