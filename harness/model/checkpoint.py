"""Ordinary `transformers` checkpoint folders: read into the fused decoder, written so that any other tool can load them."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from harness.configuration.error import ConfigError
from harness.model.decoder import Decoder, Shape, UnsupportedArchitectureError
from harness.model.linear import Linear
from harness.model.system import SIDE_FILES

_WEIGHTS = "model.safetensors"
_NO_CODE = {"trust_remote_code": False}  # left open, `transformers` asks whoever is there
_ADVICE = "download or save the checkpoint again, and see that its configuration belongs to it"


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint folder, sharded or not. Raises `ConfigError`: there are none."""
    index = folder / f"{_WEIGHTS}.index.json"
    if index.exists():
        with _refuse_torn_file(index):
            names = sorted({Path(name).name for name in json.loads(index.read_text())["weight_map"].values()})
        return [folder / name for name in names]
    if (folder / _WEIGHTS).exists():
        return [folder / _WEIGHTS]
    raise ConfigError(f"{folder} holds no {_WEIGHTS}; give the folder of a saved transformers model")


@contextmanager
def blame_folder(folder: Path) -> Iterator[None]:
    """Turn whatever a library raises over the files of a checkpoint folder into one line that names the folder, as a `ConfigError`."""
    try:
        yield
    except (ConfigError, UnsupportedArchitectureError):
        raise
    # The libraries raise errors of any kind here, and the tokenizers' one that is no `Exception`.
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ConfigError(f"{folder} is no model that can be used: {_first_line(error)}; {_ADVICE}") from error


def _first_line(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if "trust_remote_code" in str(error):
        return "it brings code of its own, which is not run"
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def architecture_of(folder: Path) -> Any:
    """The `transformers` configuration of a checkpoint folder. Raises `ConfigError`."""
    from transformers import AutoConfig

    with blame_folder(folder):
        return AutoConfig.from_pretrained(folder, **_NO_CODE)


@contextmanager
def _refuse_torn_file(path: Path) -> Iterator[None]:
    """Turn what reading a malformed file of weights raises into `ConfigError` that names it."""
    try:
        yield
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a whole file of weights ({error}); download or save it again") from error


def count_parameters(folder: Path) -> int:
    """The numbers in the weights of a checkpoint folder, by the headers of its files. Raises ConfigError as `weight_files`."""
    count = 0
    for path in weight_files(folder):
        with _refuse_torn_file(path), safe_open(path, "pt") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return count


def read_state(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint folder. Raises ConfigError as `weight_files`."""
    state: dict[str, torch.Tensor] = {}
    for path in weight_files(folder):
        with _refuse_torn_file(path):
            state |= load_file(path)
    return state


def tensor_without_numbers(folder: Path) -> str | None:
    """The name of a tensor that holds NaN or infinity; None where none does."""
    return next((name for name, tensor in read_state(folder).items() if not torch.isfinite(tensor).all()), None)


def tensor_names(folder: Path) -> set[str]:
    """The names of all tensors of a checkpoint folder; no tensor is read. Raises ConfigError as `weight_files`."""
    names: set[str] = set()
    for path in weight_files(folder):
        with _refuse_torn_file(path), safe_open(path, "pt") as file:
            names.update(file.keys())
    return names


def load_decoder(
    folder: Path, linear_kernel: str = "torch", dtype: torch.dtype = torch.float32, head_kernel: str = "auto"
) -> Decoder:
    """The fused decoder of a checkpoint folder, in `dtype`; kernels as in `Linear`. Raises `ConfigError`: it computes another model."""
    config, linear = architecture_of(folder), Linear(linear_kernel, head_kernel)
    state = {name: tensor.to(dtype) for name, tensor in read_state(folder).items()}
    with blame_folder(folder):
        if Shape.from_config(config).layers > len(state):  # before they are made
            raise ConfigError(f"{folder} holds {len(state)} tensors for {config.num_hidden_layers} layers; {_ADVICE}")
        try:
            return Decoder.from_transformers(config, state, linear).to(dtype)
        except (KeyError, ValueError) as error:
            raise ConfigError(f"{folder}: {error.args[0]}; {_ADVICE}") from error


def decodable(folder: Path) -> bool:
    """Tell whether the fused decoder computes a checkpoint's architecture."""
    try:
        Shape.from_config(architecture_of(folder))
    except UnsupportedArchitectureError:
        return False
    return True


def load_model(folder: Path, dtype: torch.dtype | str, gguf: str = "") -> Any:
    """The `transformers` causal language model of a checkpoint folder, or of the GGUF file `gguf` in it, on the CPU.

    Raises `ConfigError`: it lacks tensors, which `transformers` would draw at random.
    """
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = _NO_CODE | ({"gguf_file": gguf} if gguf else {})
    with blame_folder(folder):
        model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True, **options)
    missing_tensors = sorted(report["missing_keys"])  # a projection that is tied to the embeddings is not missing
    if missing_tensors:
        more = f" and {len(missing_tensors) - 3} more" if len(missing_tensors) > 3 else ""
        place = folder / gguf if gguf else folder
        raise ConfigError(f"{place} lacks tensors of its model: {', '.join(missing_tensors[:3])}{more}; {_ADVICE}")
    return model


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint folder. Raises `ConfigError` where the folder has none."""
    if not any(any(folder.glob(pattern)) for pattern in ("tokenizer*", "vocab*", "*.model")):
        raise ConfigError(f"{folder} has no tokenizer (tokenizer.json); copy the files that came with the model there")
    from transformers import AutoTokenizer

    with blame_folder(folder):
        return AutoTokenizer.from_pretrained(folder, **_NO_CODE)


def save_decoder(decoder: Decoder, source: Path, folder: Path) -> None:
    """Write the decoder's weights under `transformers` names, with the config and tokenizer files of the folder `source`."""
    folder.mkdir(parents=True, exist_ok=True)
    copy_side_files(source, folder)
    tensors = {name: tensor.contiguous().cpu() for name, tensor in decoder.named_tensors().items()}
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})


def copy_side_files(source: Path, folder: Path) -> None:
    """Copy the configuration, tokenizer and generation files of a checkpoint folder, weights and their index left out."""
    for file in sorted(source.iterdir()):
        if file.is_file() and file.suffix in SIDE_FILES and "index" not in file.name:
            (folder / file.name).write_bytes(file.read_bytes())
