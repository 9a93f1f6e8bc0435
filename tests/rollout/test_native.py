"""The native engine: agreement with the training forward, and noise that belongs to the sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_support import seeds_for

from harness.model.policy import NativePolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.noise import key, sample_seeds, uniforms
from harness.rollout.types import Completions, SamplingParams
from harness.rollout.wrappers import draw, draw_by_integers, filter_logits

EOS = 1
PARAMS = SamplingParams(max_response_tokens=24, stop_token_ids=(EOS,))


def generate(policy: NativePolicy, prompts: list[list[int]], samples: int, rows: int = 512) -> Completions:
    return NativeEngine(policy.decoder, rows).generate(prompts, seeds_for(prompts, samples), PARAMS)


@pytest.mark.parametrize("shorten", [False, True], ids=["equal prompts", "unequal prompts"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@torch.no_grad()
def test_the_entropy_is_the_training_forwards(
    policy: NativePolicy, prompts: list[list[int]], shorten: bool, temperature: float
) -> None:
    if shorten:
        prompts = [prompt[: 3 + i] for i, prompt in enumerate(prompts)]
    params = SamplingParams(24, temperature=temperature, stop_token_ids=(EOS,))
    made = NativeEngine(policy.decoder).generate(prompts, seeds_for(prompts, 4), params)
    repeated = [prompt for prompt in prompts for _ in range(4)]
    _, entropy = policy.token_log_probs(repeated, made.tokens_N, made.lengths_R, temperature, with_entropy=True)
    assert entropy is not None
    torch.testing.assert_close(made.entropy_N, entropy, rtol=0, atol=1e-4)


def test_the_same_request_gives_the_same_bits_in_any_batch(policy: NativePolicy, prompts: list[list[int]]) -> None:
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


def test_a_group_is_told_once_its_last_response_has_ended(
    policy: NativePolicy, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    positions, told, logits = list[int](), dict[int, tuple[int, Completions]](), policy.decoder.logits
    monkeypatch.setattr(policy.decoder, "logits", lambda hidden: positions.append(1) or logits(hidden))
    engine = NativeEngine(policy.decoder)
    engine.on_group = lambda group, made: told.update({group: (len(positions), made)})
    made = engine.generate(prompts, seeds_for(prompts, 2), PARAMS)
    longest = made.lengths_R.view(-1, 2).max(1).values.tolist()
    assert [told[group][0] for group in range(len(prompts))] == longest
    assert len(set(longest)) > 2
    in_order = Completions.concatenate([told[group][1] for group in range(len(prompts))])
    assert in_order.token_lists() == made.token_lists()
    assert torch.equal(in_order.log_probs_N, made.log_probs_N)
    for engine.rows in (8, 4, 2):
        told.clear()
        engine.generate(prompts, seeds_for(prompts, 2), PARAMS)
        assert len(told) == len(prompts)
    told.clear()
    engine.generate(prompts, seeds_for(prompts, 3), PARAMS)  # in more than one pass each
    assert not told


@pytest.mark.parametrize("shorten", [False, True], ids=["equal prompts", "unequal prompts"])
def test_responses_that_begin_alike_are_the_bits_of_those_computed_apart(
    policy: NativePolicy, prompts: list[list[int]], shorten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shorten:
        prompts = [prompt[: len(prompt) - i % 3] for i, prompt in enumerate(prompts)]
    rows, logits = list[int](), policy.decoder.logits
    monkeypatch.setattr(policy.decoder, "logits", lambda hidden: rows.append(len(hidden)) or logits(hidden))
    seeds = seeds_for(prompts, 16)
    for temperature in (0.0, 0.2, 1.0):
        params = SamplingParams(24, temperature=temperature, stop_token_ids=(EOS,))
        made = NativeEngine(policy.decoder).generate(prompts, seeds, params)
        computed = rows.copy()
        # One sample of each prompt a request: nothing begins alike.
        single = [NativeEngine(policy.decoder).generate(prompts, seeds[:, i : i + 1], params) for i in range(16)]
        for i, alone in enumerate(single):
            wanted = made.select(torch.arange(len(prompts)) * 16 + i)
            for name in ("tokens_N", "log_probs_N", "entropy_N", "lengths_R", "finished_R"):
                assert torch.equal(getattr(alone, name), getattr(wanted, name)), (temperature, name)
        assert (max(computed) == 16) == (temperature == 0)  # a row for each of the twelve prompts, filled up
        rows.clear()


def test_a_smaller_cap_only_cuts(policy: NativePolicy, prompts: list[list[int]]) -> None:
    long = generate(policy, prompts, 4).prefix(6)
    short = NativeEngine(policy.decoder).generate(
        prompts, seeds_for(prompts, 4), SamplingParams(6, stop_token_ids=(EOS,))
    )
    for name in ("tokens_N", "log_probs_N", "entropy_N", "lengths_R", "finished_R"):
        assert torch.equal(getattr(long, name), getattr(short, name)), name


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [(0, 0.7, [2 / 3, 1 / 3, 0, 0]), (0, 0.3, [1.0, 0, 0, 0]), (3, 1.0, [5 / 9, 2.5 / 9, 1.5 / 9, 0])],
)
def test_top_p_keeps_the_smallest_set_that_reaches_the_mass(top_k: int, top_p: float, kept: list[float]) -> None:
    log_probs = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    torch.testing.assert_close(filter_logits(log_probs, top_k, top_p).softmax(-1), torch.tensor([kept]))


def test_integers_draw_what_floats_draw() -> None:
    probs = torch.tensor([[0.5, 0.0, 0.25, 0.25, 0.0]] * 6)
    numbers = torch.tensor([2.0**-53, 0.5, 0.5 + 2.0**-30, 0.75, 0.75 + 2.0**-30, 1.0], dtype=torch.float64)
    assert draw_by_integers(probs, numbers).tolist() == [0, 0, 2, 2, 3, 3]
    generator = torch.Generator().manual_seed(0)
    many = (torch.randn(4000, 64, generator=generator) * 3).softmax(-1)
    uniform = torch.rand(4000, generator=generator, dtype=torch.float64)
    drawn = draw_by_integers(many, uniform)
    assert (drawn != draw(many, uniform)).sum() <= 1  # a number within rounding of a boundary
    assert torch.equal(draw_by_integers(many.flip(0), uniform.flip(0)).flip(0), drawn)


def test_a_token_below_the_unit_is_never_drawn() -> None:
    tiny = 2.0**-42
    probs = torch.tensor([[tiny, 1.0 - 2 * tiny, tiny]], dtype=torch.float64).float().repeat(2, 1)
    assert draw_by_integers(probs, torch.tensor([2.0**-53, 1.0], dtype=torch.float64)).tolist() == [1, 1]


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
