"""The transformers engine: the native engine's responses where both can answer, and architectures that only it knows."""

from __future__ import annotations

import pytest
import torch
from engine_support import seeds_for

from harness.model.decoder import Shape, UnsupportedArchitectureError
from harness.model.policy import NativePolicy
from harness.rollout.engine import transformers as member
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.transformers.batches import TransformersEngine
from harness.rollout.types import SamplingParams

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
