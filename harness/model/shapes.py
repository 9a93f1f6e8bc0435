"""Sizes of decoder-only transformers: of named models from a table, of a local checkpoint from its `config.json`. No torch.

`SHAPES` (of shapes.json) holds what the `config.json` of each model says, less what no size depends on; keys are those of `transformers`.
Rope scaling is left out: it changes neither parameters nor cost.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text())
SHAPES: dict[str, dict[str, Any]] = _TABLES["shapes"]
# Logits that `harness.model.scoring` computes at once. On a GPU 256 MiB of bfloat16: products of a few dozen rows would wait for memory.
SCORES_CHUNK = {"cpu": 2**23, "cuda": 2**27}
_QWEN3_HEAD = 128  # transformers' Qwen3Config, where head_dim is left out


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a decoder with gated feed-forward and grouped-query attention.

    Attributes:
        extra_attention: parameters of an attention layer beyond its four matrices (biases, norms of queries and keys).
    """

    hidden: int
    intermediate: int
    layers: int
    query: int
    key_value: int
    vocabulary: int
    tied: bool
    positions: int
    extra_attention: int = 0

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: attention's and feed-forward's matrices, attention's extras and two norms."""
        matrices = 2 * self.hidden * (self.query + self.key_value) + 3 * self.hidden * self.intermediate
        return matrices + self.extra_attention + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """Layers, embedding, output projection (none of its own where tied) and last norm."""
        ends = self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden
        return self.layers * self.layer_parameters + ends


def from_config(values: Mapping[str, Any]) -> ModelSize | None:
    """The shape that a `config.json` describes; None for an architecture that is not of this kind."""
    kind = values.get("model_type")
    if kind not in ("llama", "mistral", "qwen2", "qwen3", "olmo3"):
        return None
    hidden, heads = values["hidden_size"], values["num_attention_heads"]
    head = values.get("head_dim") or (_QWEN3_HEAD if kind == "qwen3" else hidden // heads)
    query, key_value = heads * head, (values.get("num_key_value_heads") or heads) * head
    extra = {"qwen2": query + 2 * key_value, "qwen3": 2 * head, "olmo3": query + key_value}.get(kind, 0)
    return ModelSize(
        hidden=hidden,
        intermediate=values["intermediate_size"],
        layers=values["num_hidden_layers"],
        query=query,
        key_value=key_value,
        vocabulary=values["vocab_size"],
        tied=bool(values.get("tie_word_embeddings", False)),
        positions=values.get("max_position_embeddings", 2048),
        extra_attention=extra,
    )


def shape_of(model: Any) -> ModelSize | None:
    """The shape of a `model` section, without network: from the table, or a local folder; None where neither tells it."""
    if model.kind != "pretrained":
        return None
    folder = Path(model.path).expanduser() / "config.json"
    if model.path and folder.is_file():
        return from_config(json.loads(folder.read_text()))
    name = _TABLES["checkpoints"].get(model.path)
    return from_config(SHAPES[name]) if name else None


def positions_of(model: Any) -> int | None:
    """The longest prompt and response together that a `model` section can hold, in tokens; None where nothing here tells it."""
    if model.kind == "testbed":
        return int(model.architecture.max_positions)
    shape = shape_of(model)
    return None if shape is None else shape.positions
