"""What every engine promises (`harness.rollout.types.RolloutEngine`), held by one suite.

vLLM's cases run in the environment that `tests/vllm_cpu/setup.sh` makes. RLVR_POLICY names a checkpoint folder to take instead of the
barely warmed-up policy of the tests, such as a trained one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_support import COPIES, Opener, cases, open_engine, scores, seeds_for

from harness.model.policy import NativePolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.types import Completions, RolloutEngine, SamplingParams
from harness.rollout.wrappers import filter_logits

EOS = 1
CAP = 24
PARAMS = SamplingParams(CAP, stop_token_ids=(EOS,))
EVERY = cases("shared", *COPIES)


@pytest.fixture(scope="module", params=EVERY)
def engine(request: pytest.FixtureRequest, folder: Path, policy: NativePolicy) -> Iterator[RolloutEngine]:
    opened = open_engine(request.param, folder, policy)
    yield opened
    opened.close()


def unequal(prompts: list[list[int]]) -> list[list[int]]:
    """Prompts of different lengths."""
    return [prompt[: 4 + i] for i, prompt in enumerate(prompts)]


def test_completions_are_flat_tensors_on_the_cpu(engine: RolloutEngine, prompts: list[list[int]]) -> None:
    made = engine.generate(prompts[:3], seeds_for(prompts[:3], 4), PARAMS)
    count = int(made.lengths_R.sum())
    wanted = {
        "tokens_N": (torch.int64, count),
        "log_probs_N": (torch.float32, count),
        "entropy_N": (torch.float32, count),
        "lengths_R": (torch.int64, 12),
        "finished_R": (torch.bool, 12),
    }
    for name, (dtype, length) in wanted.items():
        tensor = getattr(made, name)
        assert (tensor.dtype, tuple(tensor.shape), tensor.device.type) == (dtype, (length,), "cpu"), name
    assert bool((made.log_probs_N <= 0).all())
    assert bool((made.entropy_N >= 0).all())


def test_responses_end_at_a_stop_token_or_at_the_cap(engine: RolloutEngine, prompts: list[list[int]]) -> None:
    free = engine.generate(prompts, seeds_for(prompts, 4), SamplingParams(CAP))
    assert free.lengths_R.tolist() == [CAP] * 4 * len(prompts)
    assert not bool(free.finished_R.any())
    common = int(free.tokens_N.mode().values)
    for stops in ({EOS}, {EOS, common}):
        params = SamplingParams(CAP, stop_token_ids=tuple(stops))
        made = engine.generate(prompts, seeds_for(prompts, 4), params)
        assert {tokens[-1] for tokens in made.token_lists()} & stops == stops
        for tokens, finished in zip(made.token_lists(), made.finished_R.tolist(), strict=True):
            assert not stops & set(tokens[:-1])
            assert (tokens[-1] in stops) == finished
            assert finished or len(tokens) == CAP


def test_every_group_is_told_once_it_has_ended(engine: RolloutEngine, prompts: list[list[int]]) -> None:
    told: dict[int, Completions] = {}
    engine.on_group = told.__setitem__
    made = engine.generate(prompts, seeds_for(prompts, 4), PARAMS)
    engine.on_group = None
    in_order = Completions.concatenate([told[group] for group in range(len(prompts))])
    assert in_order.token_lists() == made.token_lists()


def test_the_same_seeds_give_the_same_responses_in_any_batch_and_order(
    engine: RolloutEngine, prompts: list[list[int]]
) -> None:
    seeds = seeds_for(prompts, 4)
    together = engine.generate(prompts, seeds, PARAMS)
    again = engine.generate(prompts, seeds, PARAMS)
    assert again.token_lists() == together.token_lists()
    order = [5, 0, 11, 3]
    some = engine.generate([prompts[i] for i in order], seeds[order], PARAMS)
    wanted = together.select(torch.tensor([4 * i + j for i in order for j in range(4)]))
    assert some.token_lists() == wanted.token_lists()
    torch.testing.assert_close(some.log_probs_N, wanted.log_probs_N, rtol=0, atol=1e-5)
    for i, j in ((0, 0), (7, 2)):
        alone = engine.generate([prompts[i]], seeds[i : i + 1, j : j + 1], PARAMS)
        assert alone.token_lists() == together.select(torch.tensor([4 * i + j])).token_lists()


def test_distinct_seeds_give_distinct_samples(
    engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]]
) -> None:
    """Neighbouring integers, too: an engine that spaces its streams by one would repeat most samples here."""
    seeds = (np.arange(24, dtype=np.uint64) + np.uint64(2**63)).reshape(3, 8) * np.uint64(2)
    params = SamplingParams(CAP, temperature=2.0)
    distinct = [
        len(set(map(tuple, one.generate([prompts[0]] * 3, seeds, params).token_lists())))
        for one in (engine, NativeEngine(policy.decoder))
    ]
    assert distinct[0] > 0.75 * distinct[1] > 9


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_first_tokens_follow_the_policys_distribution(
    engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]], temperature: float
) -> None:
    samples = 512
    made = engine.generate(prompts[:1], seeds_for(prompts[:1], samples), SamplingParams(1, temperature))
    logits = policy.decoder.logits(policy.decoder.hidden_states(torch.tensor(prompts[:1])))[-1]
    expected = (logits.detach().double() / temperature).softmax(-1) * samples
    counts = torch.bincount(made.tokens_N, minlength=len(expected)).double()
    common = expected > 5
    chi_square = float((((counts - expected) ** 2) / expected)[common].sum())
    assert chi_square < 3 * int(common.sum()) + 10


@pytest.mark.parametrize("shorten", [False, True], ids=["equal prompts", "unequal prompts"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_the_trainers(
    engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]], shorten: bool, temperature: float
) -> None:
    prompts = unequal(prompts) if shorten else prompts
    params = SamplingParams(CAP, temperature, stop_token_ids=(EOS,))
    made = engine.generate(prompts, seeds_for(prompts, 4), params)
    trainer_N = scores(policy, prompts, made, temperature)
    torch.testing.assert_close(made.log_probs_N, trainer_N, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.7), (3, 1.0), (4, 0.8)])
def test_filtered_sampling_has_the_filtered_distributions_log_probs(
    engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]], top_k: int, top_p: float
) -> None:
    params = SamplingParams(8, 0.9, top_p, top_k)
    made = engine.generate(prompts, seeds_for(prompts, 4), params)
    rows = [prompt for prompt in prompts for _ in range(4)]
    with torch.no_grad():
        logits = policy.decoder.logits(policy.response_hidden(rows, made.tokens_N, made.lengths_R))
    wanted = filter_logits(logits / 0.9, top_k, top_p).log_softmax(-1).gather(-1, made.tokens_N[:, None])[:, 0]
    torch.testing.assert_close(made.log_probs_N, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", cases("shared", *COPIES))
def test_the_head_is_the_trainers_likeliest_tokens(
    name: str, folder: Path, policy: NativePolicy, prompts: list[list[int]], opener: Opener
) -> None:
    engine, rows = opener(name, folder, policy), [prompt for prompt in prompts for _ in range(4)]
    for head in (5, 1000):
        params = SamplingParams(CAP, 0.7, stop_token_ids=(EOS,), head=head)
        made = engine.generate(prompts, seeds_for(prompts, 4), params)
        with torch.no_grad():
            hidden_NE = policy.response_hidden(rows, made.tokens_N, made.lengths_R)
        whole_NV = (policy.decoder.logits(hidden_NE).detach() / 0.7).log_softmax(-1)
        likeliest_NV = whole_NV.topk(min(head, whole_NV.shape[-1]), -1).values
        assert made.head_log_probs_NK is not None
        assert made.head_NK is not None
        assert made.head_NK.dtype == torch.int32
        torch.testing.assert_close(made.head_log_probs_NK, likeliest_NV, rtol=0, atol=1e-4)
        torch.testing.assert_close(whole_NV.gather(-1, made.head_NK.long()), likeliest_NV, rtol=0, atol=1e-4)
        cut = made.prefix(3).select(torch.tensor([2, 5]))
        assert cut.head_log_probs_NK is not None
        assert cut.head_NK is not None
        assert torch.equal(cut.head_NK[:3], made.head_NK[made.offsets[2] :][:3])
        assert torch.equal(cut.head_log_probs_NK[:3], made.head_log_probs_NK[made.offsets[2] :][:3])


def test_greedy_responses_are_the_native_engines(
    engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]]
) -> None:
    params = SamplingParams(CAP, temperature=0.0, stop_token_ids=(EOS,))
    for asked in (prompts, unequal(prompts)):
        made = engine.generate(asked, seeds_for(asked, 2, "any"), params)
        native = NativeEngine(policy.decoder).generate(asked, seeds_for(asked, 2), params)
        assert made.token_lists() == native.token_lists()
        assert made.token_lists()[0] == made.token_lists()[1]
        torch.testing.assert_close(made.log_probs_N, native.log_probs_N, rtol=0, atol=1e-4)


def test_the_entropy_is_exact_or_estimated_without_bias(
    engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]]
) -> None:
    made = engine.generate(prompts, seeds_for(prompts, 32, "entropy"), PARAMS)
    rows = [prompt for prompt in prompts for _ in range(32)]
    with torch.no_grad():
        _, entropy_N = policy.token_log_probs(rows, made.tokens_N, made.lengths_R, with_entropy=True)
    assert entropy_N is not None
    response_N = torch.arange(len(rows)).repeat_interleave(made.lengths_R)
    errors_R = torch.zeros(len(rows)).index_add_(0, response_N, made.entropy_N - entropy_N)
    # Tokens of a response hang together, responses do not.
    assert float(errors_R.mean().abs()) < 1e-3 + 4 * float(errors_R.std()) / len(rows) ** 0.5


def test_malformed_requests_are_refused_and_harm_nothing(engine: RolloutEngine, prompts: list[list[int]]) -> None:
    seeds = seeds_for(prompts[:2], 1)
    before = engine.generate(prompts[:2], seeds, PARAMS).token_lists()
    with pytest.raises(ValueError, match="no tokens"):
        engine.generate([prompts[0], []], seeds, PARAMS)
    with pytest.raises(ValueError, match="1 prompts but seeds for 2"):
        engine.generate(prompts[:1], seeds, PARAMS)
    assert engine.generate(prompts[:2], seeds, PARAMS).token_lists() == before


@pytest.mark.parametrize("name", cases("shared", "native", "vllm"))
def test_a_request_beyond_the_models_positions_is_refused(
    name: str, folder: Path, policy: NativePolicy, prompts: list[list[int]], opener: Opener
) -> None:
    with pytest.raises(ValueError, match="256 positions"):
        opener(name, folder, policy).generate(prompts[:1], seeds_for(prompts[:1], 1), SamplingParams(250))


def test_sleeping_and_waking_changes_nothing_and_closing_twice_is_safe(
    folder: Path, policy: NativePolicy, prompts: list[list[int]], engine: RolloutEngine
) -> None:
    before = engine.generate(prompts[:2], seeds_for(prompts[:2], 2), PARAMS).token_lists()
    engine.sleep()
    engine.wake()
    assert engine.generate(prompts[:2], seeds_for(prompts[:2], 2), PARAMS).token_lists() == before
