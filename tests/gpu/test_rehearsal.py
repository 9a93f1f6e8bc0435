"""What a GPU would run, on a pretend one: no operator mixes devices, and each has a deterministic form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretend_cuda import DeviceMix, Pretend, pretend_cuda
from small_runs import Bench, small_config
from training_cases import CASES, case_config, case_name, tiny
from unsharded import unsharded

from harness.base_policy.pretrained import Config as Pretrained
from harness.base_policy.random_init import random_checkpoint
from harness.configuration.schema import RuntimeConfig
from harness.model.checkpoint import load_decoder
from harness.model.transformers_policy import TransformersPolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.engine.transformers.batches import TransformersEngine
from harness.rollout.noise import key, sample_seeds
from harness.rollout.types import SamplingParams
from harness.training.determinism import deterministic

PROMPTS = [[3, 4, 5, 6], [7, 8, 9], [3, 3, 3, 3, 3, 5, 6], [4]]
SEEDS = sample_seeds(key("rehearsal"), np.arange(len(PROMPTS), dtype=np.uint64), 4)
GREEDY = SamplingParams(12, 0.0, stop_token_ids=(1,))
SAMPLED = SamplingParams(12, 1.0, stop_token_ids=(1,))
FILTERED = SamplingParams(12, 1.2, 0.8, 20, stop_token_ids=(1,))


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with pretend_cuda():
        yield


# ---- the pretend device itself ----------------------------------------------------------------------------------------


def test_it_refuses_what_a_gpu_refuses() -> None:
    there, here = torch.ones(3, device="cuda"), torch.ones(3)
    with pytest.raises(DeviceMix):
        there + here
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()


def test_gradients_go_back_over_the_devices_that_values_came_over() -> None:
    weight = torch.ones(3, requires_grad=True)
    loss = (weight.cuda() * torch.arange(3.0, device="cuda")).cpu().sum()
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0, 1.0, 2.0]
    assert not isinstance(weight.grad, Pretend)


def test_it_knows_what_changes_its_bits() -> None:
    floats, integers = torch.ones(3, device="cuda"), torch.ones(3, dtype=torch.long, device="cuda")
    with deterministic(True):
        with pytest.raises(RuntimeError, match="deterministic"):
            floats.cumsum(0)
        assert integers.cumsum(0).tolist() == [1, 2, 3]
    assert floats.cumsum(0).tolist() == [1.0, 2.0, 3.0]


# ---- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_native_engine_samples_what_it_samples_on_a_cpu(base_policy: Path, dtype: torch.dtype) -> None:
    decoder, reference = (load_decoder(base_policy, "torch", dtype).requires_grad_(False) for _ in range(2))
    engine, expected = NativeEngine(decoder.cuda(), rows=16), NativeEngine(reference, rows=16)
    requests = (PROMPTS, SAMPLED), (PROMPTS, GREEDY), (PROMPTS, FILTERED), ([*PROMPTS[:3], [5] * 30], SAMPLED)
    for prompts, params in requests:
        for scale in (1.0, 0.9):  # weights that change between requests
            weights = [(name, tensor * scale) for name, tensor in reference.named().items()]
            engine.load_weights(weights)
            reference.load_named(weights)
            with deterministic(True):
                ours = engine.generate(prompts, SEEDS, params)
            assert ours.token_lists() == expected.generate(prompts, SEEDS, params).token_lists()
            assert not isinstance(ours.tokens_N, Pretend)


def test_the_transformers_engine_samples_what_it_samples_on_a_cpu(base_policy: Path) -> None:
    expected = TransformersEngine.load(base_policy, 8, "cpu", torch.float32)
    ours = TransformersEngine.load(base_policy, 8, "cuda", torch.float32)
    ours.load_weights((name, tensor.cuda()) for name, tensor in expected.model.named_parameters())
    made = ours.generate(PROMPTS, SEEDS, SAMPLED)
    assert made.token_lists() == expected.generate(PROMPTS, SEEDS, SAMPLED).token_lists()


# ---- training -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_testbed_trains(bench: Bench) -> None:
    config = small_config(
        runtime__device="cuda",
        runtime__rollout_rows=32,
        training__steps=2,
        algorithm__dead_groups__policy="refill",
    )
    config.algorithm.dead_groups.max_rounds = 10
    with deterministic(True):  # no operator lacks such a form
        bench.trained(config, stop_after=1)
        trainer = bench.trained(config)
    steps = trainer.run.steps()
    assert steps["step"].tolist() == [1, 2]
    assert np.isfinite(steps["loss"]).all()
    assert float(steps["sampler_log_prob_gap_max"].max()) < 1e-4
    assert all(isinstance(parameter, Pretend) for parameter in trainer.policy.parameters())


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_model_of_transformers_trains_stops_and_resumes(
    bench: Bench, tmp_path: Path, case: dict[str, Any]
) -> None:
    config, folder = case_config(tmp_path, case)
    run = bench.run()
    with unsharded(), deterministic(True):
        bench.trained(config, stop_after=1, base=folder)
        assert run.steps()["step"].tolist() == [1]
        trainer = bench.trained(config, base=folder)
    assert run.steps()["step"].tolist() == [1, 2]
    assert float(run.steps()["gradient_norm"].min()) > 0
    assert all(isinstance(parameter, Pretend) for parameter in trainer.policy.parameters())


def test_the_rehearsal_scores_what_the_cpu_scores(tmp_path: Path) -> None:
    """What the pretend device computes is right, so what it refuses would be wrong."""
    folder = random_checkpoint(tiny("qwen2.5-0.5b"), 0, tmp_path)
    lengths, gradients = torch.tensor([5, 1, 9, 3]), []
    tokens = torch.arange(18) % 60 + 1
    for device, stand_in in (("cuda", unsharded()), ("cpu", nullcontext())):
        with stand_in:
            runtime = RuntimeConfig(device=device, gradient_checkpointing=True)
            policy = TransformersPolicy.load(folder, Pretrained(precision="bfloat16"), runtime)
            scores, _ = policy.token_log_probs(PROMPTS, tokens, lengths)
            scores.sum().backward()
            gradients.append([parameter.grad for parameter in policy.parameters()])
            gradients[-1] = [getattr(g, "full_tensor", lambda g=g: g)().cpu() for g in gradients[-1]]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=0.05)
