"""The transformers engine beside the native one: equal responses, its own architectures, attention in half precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_support import seeds_for

from harness.base_policy.pretrained import Config
from harness.configuration.sections import RuntimeConfig
from harness.model.checkpoint import load_decoder
from harness.model.decoder import Shape, UnsupportedArchitectureError
from harness.model.policy import NativePolicy
from harness.model.transformers_policy import TransformersPolicy
from harness.rollout.engine import transformers as member
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.transformers.batches import TransformersEngine
from harness.rollout.types import Completions, SamplingParams

EOS = 1


@pytest.fixture(scope="module")
def prompts(prompts: list[list[int]]) -> list[list[int]]:
    """Half of the suite's: this engine is the slow one."""
    return prompts[:6]


@pytest.mark.parametrize("shorten", [False, True], ids=["equal prompts", "unequal prompts"])
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.8)])
def test_responses_equal_the_native_engines(
    policy: NativePolicy, prompts: list[list[int]], shorten: bool, temperature: float, top_p: float
) -> None:
    if shorten:
        prompts = [prompt[: 5 + i] for i, prompt in enumerate(prompts)]
    params = SamplingParams(24, temperature=temperature, top_p=top_p, stop_token_ids=(EOS,))
    seeds = seeds_for(prompts, 4)
    ours = NativeEngine(policy.decoder).generate(prompts, seeds, params)
    theirs = member.build(member.Config(rows=10), policy, None).generate(prompts, seeds, params)
    assert theirs.token_lists() == ours.token_lists()
    assert torch.equal(theirs.finished_R, ours.finished_R)
    assert torch.allclose(theirs.log_probs_N, ours.log_probs_N, atol=1e-4)
    assert torch.allclose(theirs.entropy_N, ours.entropy_N, atol=1e-4)


def test_an_architecture_that_the_native_decoder_lacks_is_sampled_with_its_own_log_probs() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=40, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    with pytest.raises(UnsupportedArchitectureError):
        Shape.from_config(config)
    model = GPT2LMHeadModel(config)
    prompts = [[3, 4, 5, 6], [7, 8]]
    made = TransformersEngine(model).generate(prompts, seeds_for(prompts, 3), SamplingParams(10, stop_token_ids=(2,)))
    repeated = [prompt for prompt in prompts for _ in range(3)]
    scores = []
    for prompt, response in zip(repeated, made.token_lists(), strict=True):
        logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
        scores.append(logits.log_softmax(-1).gather(-1, torch.tensor(response)[:, None])[:, 0])
    assert torch.allclose(torch.cat(scores).detach(), made.log_probs_N, atol=1e-4)


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
