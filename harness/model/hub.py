"""Checkpoints by name: a folder, a GGUF file, or a Hugging Face id that is fetched into the Hub's own cache."""

from __future__ import annotations

import re
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.model.gguf import gguf_checkpoint, gguf_file

_WEIGHTS = "*.safetensors"
_PATTERNS = ("*.json", "*.jinja", "*.txt", "*.model")
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def checkpoint_folder(path: str, revision: str | None, cache: Path) -> Path:
    """Return the folder of a policy to train: as it is, fetched from the Hub, or made of a GGUF file under `cache`.

    Raises:
        ConfigError: neither a folder, a GGUF file nor an id with a pinned revision, or it cannot be fetched.
    """
    packed = gguf_file(path)
    if packed is not None:
        return gguf_checkpoint(packed, revision, cache)
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ConfigError(
                f"model.path={path} has no config.json; give the folder of a saved transformers model"
            )
        return folder.resolve()
    if path.startswith(("/", ".", "~")) or not HUB_ID.fullmatch(path):
        raise ConfigError(f"model.path={path}: no such folder")
    if not revision or not _COMMIT.fullmatch(revision):
        raise ConfigError(
            f"model.path={path} is a Hub id and needs model.revision=COMMIT (40 hexadecimal digits): a branch moves, and the run "
            "would lose its meaning"
        )
    return download(path, revision)


def download(repository: str, revision: str | None, weights: bool = True) -> Path:
    """A snapshot of configuration, tokenizer and (`weights`) safetensors weights. Raises `ConfigError` where it cannot be had."""
    import huggingface_hub

    patterns = [*_PATTERNS, _WEIGHTS] if weights else list(_PATTERNS)
    try:
        return Path(huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"{repository} is no run, no folder, and cannot be fetched from the Hugging Face Hub: {first}. "
            "Check the id and the network, or download it elsewhere and give its folder"
        ) from error
