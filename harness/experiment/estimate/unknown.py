"""The reason why nothing is computed of what a run costs, and how it can be had."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.shapes import shape_of

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

_COUNTED = "Llama, Mistral, Qwen2, Qwen3 and Olmo 3"


def why_unknown(config: RunConfig) -> str:
    """Say why a run has no estimate; for one that has neither that of `work` nor that of `cpu`."""
    model, on_gpu = config.model, config.runtime.device == "cuda"
    if model.kind == "testbed" and on_gpu:
        return "the testbed's policies have been timed on CPUs only; the first run here tells"
    if model.kind == "testbed" and model.architecture != type(model.architecture)():
        return "times are known of the testbed's own architecture only; the first run of this one tells"
    if shape_of(model) is None and model.kind == "pretrained":
        if not model.path:
            return "model.path= names no model"
        if (Path(model.path).expanduser() / "config.json").is_file():
            return f"the sizes of {model.path} are not counted ({_COUNTED} are); the first run tells"
        return (
            f"the sizes of {model.path} are not known here; of a downloaded copy they are read from its config.json "
            f"(model.path=FOLDER; {_COUNTED})"
        )
    if shape_of(model) is None:
        return f"the sizes of model={model.kind} are not known; the first run tells"
    return f"on CPUs nothing is known of backend={config.backend.kind} with engine={config.engine.kind}; add runtime.device=cuda for GPUs"
