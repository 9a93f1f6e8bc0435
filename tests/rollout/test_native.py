"""The native engine: agreement with the training forward, and noise that belongs to the sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.benchmarks import arithmetic
from harness.model.policy import NativePolicy
from harness.rollout.choice import filtered
from harness.rollout.native import NativeEngine
from harness.rollout.noise import key, sample_seeds, uniforms
from harness.rollout.types import Completions, SamplingParams, ragged_index

EOS = 1
PARAMS = SamplingParams(max_response_tokens=24, stop_token_ids=(EOS,))


@pytest.fixture(scope="module")
def policy(base_policy: Path) -> NativePolicy:
    return NativePolicy.load(base_policy, "torch")


@pytest.fixture(scope="module")
def prompts(policy: NativePolicy) -> list[list[int]]:
    from harness.model.checkpoint import load_tokenizer

    tokenizer = load_tokenizer(policy.folder)
    problems = arithmetic.load(arithmetic.Config(split="heldout", problems=12)).problems
    return [tokenizer(problem.prompt)["input_ids"] for problem in problems]


def seeds_for(prompts: list[list[int]], samples: int) -> np.ndarray:
    return sample_seeds(key("test"), np.arange(len(prompts), dtype=np.uint64), samples)


def generate(policy: NativePolicy, prompts: list[list[int]], samples: int, rows: int = 512) -> Completions:
    return NativeEngine(policy.decoder, rows).generate(prompts, seeds_for(prompts, samples), PARAMS)


@pytest.mark.parametrize("shorten", [False, True], ids=["equal prompts", "unequal prompts"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_agree_with_the_training_forward(
    policy: NativePolicy, prompts: list[list[int]], shorten: bool, temperature: float
) -> None:
    if shorten:
        prompts = [prompt[: 3 + i] for i, prompt in enumerate(prompts)]
    params = SamplingParams(24, temperature=temperature, stop_token_ids=(EOS,))
    made = NativeEngine(policy.decoder).generate(prompts, seeds_for(prompts, 4), params)
    repeated = [prompt for prompt in prompts for _ in range(4)]
    scores, entropy = policy.token_log_probs(
        repeated, made.tokens_N, made.lengths_R, temperature, with_entropy=True
    )
    assert entropy is not None
    assert float((scores - made.log_probs_N).abs().max()) < 1e-4
    assert float((entropy - made.entropy_N).abs().max()) < 1e-4


def test_the_same_request_gives_the_same_responses_in_any_batch(
    policy: NativePolicy, prompts: list[list[int]]
) -> None:
    together = generate(policy, prompts, 4)
    split = generate(policy, prompts, 4, rows=8)
    assert torch.equal(together.tokens_N, split.tokens_N)
    assert torch.equal(together.log_probs_N, split.log_probs_N)
    seeds = seeds_for(prompts, 4)
    for i in (0, 7):
        alone = NativeEngine(policy.decoder).generate([prompts[i]], seeds[i : i + 1, 2:3], PARAMS)
        wanted = together.select(torch.tensor([4 * i + 2]))
        assert torch.equal(alone.tokens_N, wanted.tokens_N)
        assert torch.equal(alone.log_probs_N, wanted.log_probs_N)


def test_a_smaller_cap_only_cuts(policy: NativePolicy, prompts: list[list[int]]) -> None:
    long = generate(policy, prompts, 4).prefix(6)
    short = NativeEngine(policy.decoder).generate(
        prompts, seeds_for(prompts, 4), SamplingParams(6, stop_token_ids=(EOS,))
    )
    for name in ("tokens_N", "log_probs_N", "entropy_N", "lengths_R", "finished_R"):
        assert torch.equal(getattr(long, name), getattr(short, name)), name


def test_finish_reasons_follow_the_stop_token(policy: NativePolicy, prompts: list[list[int]]) -> None:
    made = generate(policy, prompts, 8)
    for tokens, finished in zip(made.token_lists(), made.finished_R.tolist(), strict=True):
        assert EOS not in tokens[:-1]
        assert (tokens[-1] == EOS) == finished
        assert finished or len(tokens) == 24


def test_greedy_takes_the_most_likely_token(policy: NativePolicy, prompts: list[list[int]]) -> None:
    params = SamplingParams(12, temperature=0.0, stop_token_ids=(EOS,))
    made = NativeEngine(policy.decoder).generate(prompts, seeds_for(prompts, 1), params)
    tokens = made.token_lists()[0]
    ids = torch.tensor([prompts[0] + tokens])
    logits = policy.decoder.logits(policy.decoder.hidden(ids))
    assert logits.argmax(-1)[len(prompts[0]) - 1 : -1].tolist() == tokens


def test_first_tokens_follow_the_distribution(policy: NativePolicy, prompts: list[list[int]]) -> None:
    samples = 4000
    made = NativeEngine(policy.decoder, 4096).generate(
        prompts[:1], seeds_for(prompts[:1], samples), SamplingParams(1)
    )
    counts = torch.bincount(made.tokens_N, minlength=22).double()
    with torch.no_grad():
        probs = (
            policy.decoder.logits(policy.decoder.hidden(torch.tensor(prompts[:1])))[-1].double().softmax(-1)
        )
    expected = probs * samples
    common = expected > 5
    chi_square = float((((counts - expected) ** 2) / expected)[common].sum())
    assert chi_square < 3 * int(common.sum()) + 10


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass() -> None:
    probs = torch.tensor([[0.5, 0.25, 0.15, 0.1]])
    kept = filtered(probs.log(), top_k=0, top_p=0.7).softmax(-1)
    torch.testing.assert_close(kept, torch.tensor([[2 / 3, 1 / 3, 0.0, 0.0]]))
    kept = filtered(probs.log(), top_k=0, top_p=0.3).softmax(-1)
    torch.testing.assert_close(kept, torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    kept = filtered(probs.log(), top_k=3, top_p=1.0).softmax(-1)
    torch.testing.assert_close(kept, torch.tensor([[5 / 9, 2.5 / 9, 1.5 / 9, 0.0]]))


def test_a_request_beyond_the_models_positions_is_refused(
    policy: NativePolicy, prompts: list[list[int]]
) -> None:
    with pytest.raises(ValueError, match="256 positions"):
        NativeEngine(policy.decoder).generate(prompts[:1], seeds_for(prompts[:1], 1), SamplingParams(250))
    with pytest.raises(ValueError, match="no tokens"):
        NativeEngine(policy.decoder).generate([[]], seeds_for(prompts[:1], 1), PARAMS)


def test_uniforms_are_uniform_and_belong_to_seed_and_position() -> None:
    seeds = sample_seeds(key("u"), np.arange(200, dtype=np.uint64), 5).reshape(-1)
    values = uniforms(seeds, 50)
    assert values.min() > 0
    assert values.max() <= 1
    assert abs(values.mean() - 0.5) < 0.005
    counts = np.histogram(values, bins=20, range=(0, 1))[0]
    assert ((counts - 2500) ** 2 / 2500).sum() < 45  # chi-square, 19 degrees of freedom, p about 0.001
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.1
    assert np.array_equal(uniforms(seeds[7:8], 50)[0], values[7])
    assert np.array_equal(uniforms(seeds, 20), values[:, :20])
    assert len(np.unique(seeds)) == len(seeds)


def test_ragged_index_lays_slices_end_to_end() -> None:
    index = ragged_index(torch.tensor([10, 3, 7]), torch.tensor([2, 0, 3]))
    assert index.tolist() == [10, 11, 7, 8, 9]
    assert ragged_index(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long)).tolist() == []
