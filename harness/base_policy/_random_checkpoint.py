"""Randomly initialised checkpoints of a given `transformers` configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harness.configuration.identity import content_hash
from harness.store.atomic import publish_directory_once
from harness.testbed.tokenizer import testbed_tokenizer


def random_checkpoint(shape: dict[str, Any], seed: int, cache: Path) -> Path:
    """The folder of a model of this shape with the architecture's own initialisation, made once; tokens are the testbed's.

    Args:
        shape: `model_type` and the keys of that type's configuration.
        seed: of the weights.
        cache: where such folders are kept.
    """
    folder = cache / "models" / f"random-{content_hash(shape, seed)}"
    publish_directory_once(folder, lambda path: _write(shape, seed, path))
    return folder


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
