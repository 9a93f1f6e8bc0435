"""`model.precision=mixed` and `bfloat16` on a CPU: sampler and trainer of one policy, and what `mixed` is refused with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from random_model import random_checkpoint
from small_runs import small_config

from harness.base_policy.pretrained import Config, Lora
from harness.configuration.error import ConfigError
from harness.model.linear import onednn_available
from harness.model.policy import NativePolicy
from harness.model.ranks import Ranks
from harness.model.shapes import SHAPES
from harness.rollout.engine.native import Config as Native
from harness.rollout.engine.native import build
from harness.rollout.types import SamplingParams
from harness.training.opening import open_policy

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return random_checkpoint({**SHAPES["qwen2.5-0.5b"], **SMALL}, 0, tmp_path)


def opened(folder: Path, model: Config, kernel: str = "torch") -> NativePolicy:
    policy = open_policy(small_config(model=model), folder, kernel, Ranks())
    assert isinstance(policy, NativePolicy)
    return policy


@pytest.mark.parametrize("precision", ["mixed", "bfloat16"])
def test_the_sampler_rounds_as_the_trainer_does(folder: Path, precision: str) -> None:
    policy = opened(folder, Config(path=str(folder), precision=precision))
    exact = opened(folder, Config(path=str(folder), precision="float32"))
    prompts = [[1, 2, 3, 4], [5, 6, 7, 8]]
    params = SamplingParams(max_response_tokens=8, temperature=1.0, top_p=1.0, stop_token_ids=())
    engine = build(Native(), policy, small_config().runtime)
    found = engine.generate(prompts, np.arange(8, dtype=np.uint64).reshape(2, 4), params)
    rows = [prompt for prompt in prompts for _ in range(4)]
    with torch.no_grad():
        own, other = (one.token_log_probs(rows, found.tokens_N, found.lengths_R)[0] for one in (policy, exact))
    # What the two computations of rounded products leave between sampler and trainer is no more than rounding itself does.
    assert float((own - found.log_probs_N).abs().mean()) <= max(1e-6, float((own - other).abs().mean()))
    assert policy.compute_dtype == torch.bfloat16
    assert exact.compute_dtype == torch.float32


@pytest.mark.skipif(not onednn_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("kernel", ["torch", "onednn"])
@pytest.mark.parametrize("precision", ["mixed", "bfloat16", "float32"])
def test_the_product_with_the_vocabulary_is_by_the_kernel_of_the_run(folder: Path, precision: str, kernel: str) -> None:
    policy = opened(folder, Config(path=str(folder), precision=precision), kernel)
    assert policy.decoder.head_linear.kernel == policy.frozen_copy().decoder.head_linear.kernel == kernel


def test_it_is_refused_where_no_fused_decoder_computes(folder: Path) -> None:
    with pytest.raises(ConfigError, match="precision=mixed is for"):
        opened(folder, Config(path=str(folder), precision="mixed", lora=Lora(rank=2)))
