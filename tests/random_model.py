"""Random models, and checkpoints of a given shape with random weights and the testbed's tokenizer: they know nothing.

python tests/random_model.py SHAPE FOLDER [num_hidden_layers=2 ...]     # for model=pretrained model.path=FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from harness.configuration.identity import content_hash
from harness.model.shapes import SHAPES
from harness.store.seal import ensure_folder
from harness.testbed.demonstrator import testbed_tokenizer

SIZES: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.15, "bos_token_id": None, "eos_token_id": 1,
    "pad_token_id": 0,
}  # fmt: skip


def random_model(architecture: str, seed: int = 0, **sizes: Any) -> Any:
    """A model of transformers in float32, with norms and biases that are not at their trivial values, so that a wrong one shows."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(architecture, **{**SIZES, **sizes})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def random_checkpoint(shape: dict[str, Any], seed: int, cache: Path) -> Path:
    """The folder of a model of this shape (`model_type` and the keys of its configuration), initialised as its architecture is."""
    folder = cache / "models" / f"random-{content_hash(shape, seed)}"
    return ensure_folder(folder, lambda path: _write(shape, seed, path))


def _write(shape: dict[str, Any], seed: int, folder: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = testbed_tokenizer()
    values = dict(shape)
    # `rope_theta`, not `rope_parameters`: before transformers 5.19 a model with two kinds of layers (Olmo 3) reads those for each kind.
    config = AutoConfig.for_model(
        values.pop("model_type"),
        **{"rope_theta": 10000.0, **values},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    changes = {key: json.loads(value) for key, value in (item.split("=") for item in sys.argv[3:])}
    shutil.copytree(
        random_checkpoint({**SHAPES[sys.argv[1]], **changes}, 0, Path(sys.argv[2])), sys.argv[2], dirs_exist_ok=True
    )
