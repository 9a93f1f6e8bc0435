"""What a run of a pretrained model keeps in memory: weights, the optimiser's state, and keys and values of rollouts."""

from collections.abc import Iterable, Mapping
from typing import Any

from harness.configuration.schema import RunConfig
from harness.model.shapes import ModelSize, shape_of

_GIB = 2**30


def memory_line(configs: Iterable[RunConfig]) -> str:
    """Tell it of the run that takes most; empty where no model's sizes are known. Runs of several ranks share it among them."""
    known = [(_parts(shape, config), model_name(config)) for config in configs if (shape := shape_of(config.model))]
    if not known:
        return ""
    parts, name = max(known, key=lambda run: sum(run[0].values()))
    listed = ", ".join(f"{part} {size / _GIB:.1f} GiB" for part, size in parts.items())
    return f"memory: a run of {name} keeps {listed}; activations come on top (runtime.micro_batch_tokens)"


def _parts(shape: ModelSize, config: RunConfig) -> dict[str, float]:
    """Bytes: weights are float32 where they are trained, gradients and AdamW's two moments as well; adapters train almost none."""
    width = 2 if config.runtime.device == "cuda" and config.model.precision == "bfloat16" else 4
    parts = {"weights": float((width if config.model.lora.rank else 4) * shape.parameters)}
    if not config.model.lora.rank:
        parts["gradients and moments"] = 12.0 * shape.parameters
    if config.engine.kind == "native":  # room for all its rows at full length; other engines take what is left
        rows, tokens = config.runtime.rollout_rows, config.sampling.max_response_tokens
        elements = 2 * shape.key_value * shape.layers  # of a token, at most: a windowed layer forgets
        parts[f"keys and values of {rows} responses"] = float(rows * tokens * width * elements)
    return parts


def model_name(config: RunConfig) -> str:
    return str(getattr(config.model, "path", "") or getattr(config.model, "shape", config.model.kind))


def billions(count: float) -> str:
    """7.62B, 494M, 0.15M."""
    return f"{count / 1e9:.2f}B" if count >= 1e9 else f"{count / 1e6:.{0 if count >= 1e7 else 2}f}M"


def size_text(provenance: Mapping[str, Any] | None) -> str:
    """``0.15M parameters``, as a run counted them before training."""
    count = ((provenance or {}).get("numerics") or {}).get("parameters")
    return f"{billions(count)} parameters" if count else "parameters not counted"
