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
    if not is_hub_id(path):
        raise ConfigError(f"model.path={path}: no such folder")
    if said := unnamed(path, revision):
        raise ConfigError(said)
    return download(path, revision)


def is_hub_id(path: str) -> bool:
    """Say if a path stands for a repository of the Hub: it has its form, and is no folder here."""
    if path.startswith(("/", ".", "~")) or path.endswith(".gguf") or not HUB_ID.fullmatch(path):
        return False
    return not Path(path).is_dir()


def unnamed(path: str, revision: str | None) -> str:
    """Say why these two name no policy, and what to give; nothing where they do. No network."""
    if not path:
        return "model=pretrained needs model.path=ORG/NAME with model.revision=COMMIT, or model.path=FOLDER of a checkpoint"
    if is_hub_id(path) and not _COMMIT.fullmatch(revision or ""):
        return (
            f"model.path={path} is no folder here but a Hub id, and needs model.revision=COMMIT (40 hexadecimal digits): a branch moves, "
            "and the run would lose its meaning"
        )
    return ""


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
