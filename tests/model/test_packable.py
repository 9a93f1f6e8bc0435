"""Which architectures are trained on packed sequences and which are refused by name, and that none trains with dropout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from random_model import random_model

from harness.base_policy.pretrained import Config, Lora
from harness.configuration.error import ConfigError
from harness.configuration.sections import RuntimeConfig
from harness.model.transformers_policy import TransformersPolicy
from harness.rollout.engine.transformers.batches import TransformersEngine

SIZES: dict[str, Any] = {
    "num_hidden_layers": 4,
    "vocab_size": 100,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ACCEPTED: dict[str, dict[str, Any]] = {"llama": {}, "gemma3_text": {"head_dim": 16, "sliding_window": 5}}
LFM2 = {"layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3}
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "lfm2": (LFM2, "2 of its 4 layers do not attend"),
    "falcon_h1": ({"num_hidden_layers": 1}, "the tokens of one sequence change the scores of another"),
    "stablelm": ({}, "does not tell its attention where packed sequences end"),
    "bloom": ({"n_head": 4, "n_layer": 2}, "do not attend through transformers' attention interface"),
}


def saved(kind: str, extra: dict[str, Any], folder: Path) -> Any:
    model = random_model(kind, **{**SIZES, **extra})
    model.save_pretrained(folder)
    return model


def load(folder: Path, precision: str = "float32", lora: Lora | None = None, **runtime: Any) -> TransformersPolicy:
    settings = Config(precision=precision, lora=lora or Lora())
    return TransformersPolicy.load(folder, settings, RuntimeConfig(device="cpu", **runtime))


@pytest.mark.parametrize("kind", ACCEPTED)
@torch.no_grad()
def test_sequences_of_a_pack_score_as_they_do_alone_in_the_models_own_forward(kind: str, tmp_path: Path) -> None:
    model = saved(kind, ACCEPTED[kind], tmp_path)
    prompts, lengths = [[3, 4, 5, 6], [7, 8, 9], [3, 3, 3, 5, 6, 11, 12]], torch.tensor([5, 1, 9])
    tokens = torch.arange(15) % 20 + 1
    expected = []
    for prompt, part in zip(prompts, tokens.split(lengths.tolist()), strict=True):
        ids = torch.tensor([prompt + part.tolist()])
        scores = model(ids, use_cache=False).logits.log_softmax(-1)[0, len(prompt) - 1 : -1]
        expected.append(scores.gather(-1, part[:, None])[:, 0])
    scored, _ = load(tmp_path).token_log_probs(prompts, tokens, lengths)
    torch.testing.assert_close(scored, torch.cat(expected), atol=2e-5, rtol=1e-5)


def test_a_recurrent_model_is_not_sampled_with_a_repeated_cache(tmp_path: Path) -> None:
    saved("lfm2", LFM2, tmp_path)
    with pytest.raises(ConfigError, match=r"cannot repeat what lfm2 keeps.*engine=vllm"):
        TransformersEngine.load(tmp_path, 8, "cpu", torch.float32)


@pytest.mark.parametrize("kind", UNFIT)
def test_an_architecture_that_cannot_be_packed_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    extra, reason = UNFIT[kind]
    saved(kind, extra, tmp_path)
    with pytest.raises(ConfigError, match=f"{kind} .*{reason}.*choose another model"):
        load(tmp_path)


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
