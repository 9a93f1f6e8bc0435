"""Sampling in half precision: scores are not rounded before the softmax, so that sampler and trainer agree on models with large biases."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_support import seeds_for

from harness.base_policy.pretrained import Config
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import load_decoder
from harness.model.transformers_policy import TransformersPolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.transformers.batches import TransformersEngine
from harness.rollout.types import Completions, SamplingParams

PROMPTS = [list(range(2, 62)), list(range(100, 140))]
PARAMS = SamplingParams(32)
SAMPLES = 4


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 whose query and key biases shift all scores by about 300, as those of real Qwen2 models do."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=500,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=1,
    )
    folder = tmp_path_factory.mktemp("biased")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.08)
            if name.endswith(("q_proj.bias", "k_proj.bias")):
                heads = torch.zeros(len(parameter) // 64, 64)
                heads[:, 28:32] = 25.0
                parameter.copy_(heads.reshape(-1) + 0.1 * torch.randn_like(parameter))
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def test_bfloat16_samples_score_with_the_trainer_as_with_fused_attention(biased: Path) -> None:
    policy = TransformersPolicy.load(biased, Config(precision="bfloat16"), RuntimeConfig(device="cpu"))
    decoder = load_decoder(biased, "torch", torch.bfloat16).requires_grad_(False)
    seeds = seeds_for(PROMPTS, SAMPLES)

    def gap(made: Completions) -> float:
        rows = [prompt for prompt in PROMPTS for _ in range(SAMPLES)]
        with torch.no_grad():
            scores, _ = policy.token_log_probs(rows, made.tokens_N, made.lengths_R)
        return float((scores - made.log_probs_N).abs().mean())

    plain = gap(TransformersEngine.load(biased, 64, "cpu", torch.bfloat16).generate(PROMPTS, seeds, PARAMS))
    assert plain < 0.05
    assert gap(NativeEngine(decoder).generate(PROMPTS, seeds, PARAMS)) < 1.5 * plain
