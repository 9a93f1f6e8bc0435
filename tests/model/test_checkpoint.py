"""Reading checkpoints that are not whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from harness.configuration.error import ConfigError
from harness.model.checkpoint import load_decoder, load_model
from harness.rollout.engine.transformers.batches import TransformersEngine
from tests.model.test_packable import load, saved

UP = "model.layers.1.mlp.up_proj.weight"


def drop(folder: Path, *names: str) -> None:
    state = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in state.items() if name not in names}
    assert len(kept) == len(state) - len(names)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def test_missing_tensors_are_named_and_not_drawn_at_random(tmp_path: Path) -> None:
    saved("llama", {"tie_word_embeddings": False}, tmp_path)
    drop(tmp_path, UP)
    with pytest.raises(ConfigError, match=rf"lacks tensors of its model: {UP}; download"):
        load(tmp_path)
    with pytest.raises(ConfigError, match=UP):
        TransformersEngine.load(tmp_path, 8, "cpu", torch.float32)
    with pytest.raises(ConfigError, match=rf"the checkpoint has no tensor '{UP}'; download"):
        load_decoder(tmp_path)
    drop(tmp_path, "lm_head.weight")
    with pytest.raises(ConfigError, match=r"lm_head\.weight, model"):
        load_model(tmp_path, "auto")


def test_a_configuration_of_other_sizes_is_named(tmp_path: Path) -> None:
    saved("llama", {"tie_word_embeddings": False}, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"vocab_size": 100', '"vocab_size": 101'))
    with pytest.raises(ConfigError, match=r"checkpoint has \(100, 64\), model \(101, 64\); download"):
        load_decoder(tmp_path)


def test_a_tied_projection_is_not_missing(tmp_path: Path) -> None:
    saved("llama", {"tie_word_embeddings": True}, tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    model = load_model(tmp_path, torch.float32)
    assert model.lm_head.weight is model.model.embed_tokens.weight
