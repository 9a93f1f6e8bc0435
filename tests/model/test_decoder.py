"""The fused decoder computes what `transformers` computes, for every architecture it claims."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from random_model import random_model
from transformers import LlamaConfig, MistralConfig

from harness.model.decoder import Decoder, UnsupportedArchitectureError
from harness.model.linear import Linear, onednn_available

SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2,
}  # fmt: skip
ARCHITECTURES = ("llama", "qwen2", "qwen3")
KERNELS = ["torch", pytest.param("onednn", marks=pytest.mark.skipif(not onednn_available(), reason="no oneDNN"))]


def reference_model(name: str, tied: bool) -> Any:
    """A random transformers model whose norms and biases are not trivial."""
    extra = {"head_dim": 16} if name == "qwen3" else {}
    return random_model(name, **SIZES, **extra, tie_word_embeddings=tied, pad_token_id=None)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_logits_and_gradients_agree_with_transformers(name: str, tied: bool, kernel: str) -> None:
    model = reference_model(name, tied)
    decoder = Decoder.from_transformers(model.config, model.state_dict(), Linear(kernel))
    ids = torch.randint(0, 40, (3, 11), generator=torch.Generator().manual_seed(2))
    weights = torch.randn(3, 11, 40, generator=torch.Generator().manual_seed(3))

    expected = model(ids).logits
    actual = decoder.logits(decoder.hidden_states(ids)).view(3, 11, 40)
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=1e-5)

    (expected * weights).sum().backward()
    (actual * weights).sum().backward()
    wanted = model.model.layers[1].mlp.down_proj.weight.grad
    torch.testing.assert_close(decoder.layers[1].down.grad, wanted, atol=1e-3, rtol=1e-4)
    wanted = model.model.layers[0].self_attn.q_proj.weight.grad
    torch.testing.assert_close(decoder.layers[0].qkv.grad[: len(wanted)], wanted, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(decoder.embed.grad, model.get_input_embeddings().weight.grad, atol=1e-3, rtol=1e-4)


def test_a_missing_tensor_is_named() -> None:
    model = reference_model("llama", tied=False)
    state = {key: value for key, value in model.state_dict().items() if "norm" not in key}
    with pytest.raises(KeyError, match=r"model\.norm\.weight"):
        Decoder.from_transformers(model.config, state, Linear("torch"))


def test_rotary_tables_of_old_checkpoints_are_ignored() -> None:
    model = reference_model("llama", tied=False)
    tables = {f"model.layers.0.self_attn.rotary_emb.{table}": torch.ones(4) for table in ("inv_freq", "cos_cached")}
    decoder = Decoder.from_transformers(model.config, {**model.state_dict(), **tables}, Linear("torch"))
    assert torch.equal(decoder.embed, model.state_dict()["model.embed_tokens.weight"])
    with pytest.raises(KeyError, match="inv_freq_of_another_kind"):
        decoder.load_named([("model.inv_freq_of_another_kind", torch.ones(4))])


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**SIZES),
        LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}),
        LlamaConfig(**SIZES, attention_bias=True),
        LlamaConfig(**SIZES, hidden_act="gelu"),
    ],
)
def test_what_it_does_not_compute_is_refused(config: Any) -> None:
    with pytest.raises(UnsupportedArchitectureError):
        Decoder.from_transformers(config, {}, Linear("torch"))
