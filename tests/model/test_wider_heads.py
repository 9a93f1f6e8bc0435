"""Checkpoints with wider heads compute what the narrow ones compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.configuration.error import ConfigError
from harness.rollout.engine.vllm.padded_heads import WiderHeads


def llama(folder: Path, head: int, bias: bool) -> Any:
    """A random Llama with grouped queries, saved to `folder`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=40,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head,
        attention_bias=bias,
        initializer_range=0.2,
    )
    torch.manual_seed(head)
    model = LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize(("head", "factor"), [(16, 2), (8, 4), (40, 2)])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_logits_stay_the_same(head: int, factor: int, bias: bool, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    narrow = llama(tmp_path / "narrow", head, bias)
    wider = WiderHeads.fitting(tmp_path / "narrow", [32, 64, 80])
    assert wider is not None
    (tmp_path / "wide").mkdir()
    wide = AutoModelForCausalLM.from_pretrained(wider.write(tmp_path / "narrow", tmp_path / "wide"))
    assert wide.config.head_dim == head * factor
    ids = torch.randint(0, 40, (2, 50), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(wide(ids).logits, narrow(ids).logits, rtol=0, atol=2e-4)


def test_a_size_that_fits_is_left_alone(tmp_path: Path) -> None:
    llama(tmp_path, 32, bias=False)
    assert WiderHeads.fitting(tmp_path, [32, 64]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "qwen3"},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}},
        {"head_dim": 48},
    ],
)
def test_what_cannot_be_fitted_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    llama(tmp_path, 16, bias=False)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match="kernels know 32, 64, and only Llama"):
        WiderHeads.fitting(tmp_path, [64, 32])
