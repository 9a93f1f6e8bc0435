"""What names a checkpoint's content: any tensor that differs, whichever it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from harness.configuration.error import ConfigError
from harness.model.checkpoint import read_state, tensor_names
from harness.model.system import content_fingerprint


def saved(folder: Path, **changed: torch.Tensor) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    names = ("embed", "layer.0.up", "layer.1.up", "norm")
    save_file({name: changed.get(name, torch.zeros(70_000)) for name in names}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("name", ["embed", "layer.0.up", "layer.1.up", "norm"])
def test_a_tensor_that_adapters_changed_gives_another_fingerprint(tmp_path: Path, name: str) -> None:
    base = content_fingerprint(saved(tmp_path / "base"))
    assert content_fingerprint(saved(tmp_path / "same")) == base
    assert content_fingerprint(saved(tmp_path / "other", **{name: torch.ones(70_000)})) != base


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.model", "merges.txt", "generation_config.json"])
def test_a_file_beside_the_weights_that_changed_gives_another_fingerprint(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path / "base")
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
    folder = saved(tmp_path / "base")
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
