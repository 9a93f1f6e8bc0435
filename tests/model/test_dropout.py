"""No dropout in the policy that is trained, with gradient checkpointing or without, for an architecture that writes its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.configuration.error import ConfigError
from tests.model.test_packable import load, saved

BIOGPT = {"hidden_dropout_prob": 0.3, "activation_dropout": 0.3, "layerdrop": 0.3}
REQUEST = [[3, 4, 5, 6], [7, 8, 9]], torch.arange(14) % 20 + 1, torch.tensor([5, 9])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved("biogpt", BIOGPT, tmp_path)
    return tmp_path


@pytest.mark.parametrize("recompute", [False, True])
def test_the_same_tokens_score_the_same_twice_and_in_the_reference(folder: Path, recompute: bool) -> None:
    policy = load(folder, gradient_checkpointing=recompute)
    first, _ = policy.token_log_probs(*REQUEST)
    with torch.no_grad():
        second, _ = policy.token_log_probs(*REQUEST)
        reference, _ = policy.frozen_copy().token_log_probs(*REQUEST)
    assert torch.equal(first, second)
    assert torch.equal(first, reference)


def test_layers_are_computed_again_with_the_same_gradients(folder: Path) -> None:
    gradients = []
    for recompute in (False, True):
        policy = load(folder, gradient_checkpointing=recompute)
        calls: list[str] = []
        for name, module in policy.scoring.model.named_modules():
            if name.endswith("k_proj"):
                module.register_forward_hook(lambda *_, calls=calls: calls.append("k_proj"))
        scores, _ = policy.token_log_probs(*REQUEST)
        scores.sum().backward()  # type: ignore[no-untyped-call]
        assert len(calls) == (8 if recompute else 4)
        gradients.append([p.grad.full_tensor() for p in policy.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-6)


def test_a_model_without_layers_to_compute_again_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = type("Other", (torch.nn.Module,), {})
    monkeypatch.setattr("transformers.modeling_layers.GradientCheckpointingLayer", other)
    with pytest.raises(ConfigError, match=r"cannot recompute layers: runtime\.gradient_checkpointing=false"):
        load(folder, gradient_checkpointing=True)
