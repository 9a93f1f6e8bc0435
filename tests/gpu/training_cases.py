"""Small runs of real architectures that the tests on a GPU and the rehearsal on a pretend one share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from random_model import random_checkpoint
from safetensors.torch import load_file, save_file
from small_runs import small_config

from harness.base_policy.pretrained import Config as Pretrained
from harness.base_policy.pretrained import Lora
from harness.configuration.schema import RunConfig
from harness.model.shapes import SHAPES
from harness.rollout.engine import transformers

TINY = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 512}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
CASES: list[dict[str, Any]] = [
    {"shape": "qwen2.5-0.5b"},
    {"shape": "qwen3-0.6b", "precision": "bfloat16", "checkpointing": True, "kl": True},
    {"shape": "qwen2.5-0.5b", "precision": "bfloat16", "checkpointing": True, "lora": True},
    {"shape": "qwen2.5-0.5b", "lora": True, "kl": True, "engine": "transformers"},
]


def case_name(case: dict[str, Any]) -> str:
    """`checkpointing-kl`."""
    return "-".join(name for name in case if name != "shape") or "plain"


def tiny(shape: str) -> dict[str, Any]:
    """A narrow model of the architecture of this shape."""
    values = SHAPES[shape]
    return {**values, **{key: value for key, value in TINY.items() if key != "head_dim" or key in values}}


def sharp_checkpoint(scratch: Path) -> Path:
    """Seven query heads of 64 over one key head, their matrices large enough for attention to choose."""
    shape = SHAPES["qwen2.5-0.5b"] | {
        "hidden_size": 448,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "vocab_size": 512,
    }
    folder = random_checkpoint(shape | {"num_attention_heads": 7, "num_key_value_heads": 1}, 0, scratch)
    tensors = load_file(folder / "model.safetensors")
    for name in tensors:
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            tensors[name] = tensors[name] * 8
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def case_config(scratch: Path, case: dict[str, Any]) -> tuple[RunConfig, Path]:
    """Two steps of a case, and its checkpoint folder."""
    folder = random_checkpoint(tiny(case["shape"]), 0, scratch)
    model = Pretrained(path=str(folder), precision=case.get("precision", "float32"))
    model.lora = Lora(rank=4) if case.get("lora") else model.lora
    config = small_config(
        model=model,
        runtime__device="cuda",
        runtime__rollout_rows=32,
        runtime__gradient_checkpointing=bool(case.get("checkpointing")),
        training__steps=2,
        training__evaluate_every=2,
        algorithm__entropy_coefficient=0.01,  # every response has a gradient, dead groups too
        algorithm__kl__coefficient=0.1 if case.get("kl") else 0.0,
    )
    if case.get("engine"):
        config.engine = transformers.Config()
    return config, folder
