"""The sampler of a checkpoint that is evaluated by itself: which engine, device, number type, and how many rows fit."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.configuration.registry import ENGINE, implementation, member
from harness.configuration.schema import RunConfig
from harness.evaluation.named_models import Model
from harness.model.checkpoint import load_tokenizer, weight_files
from harness.model.decoder import Shape, UnsupportedArchitectureError
from harness.rollout.types import RolloutEngine, stop_tokens
from harness.rollout.wrappers import StopStringEngine

_MEMORY_SHARE = {
    "cuda": 0.5,
    "cpu": 0.25,
}  # of what the weights leave, for keys and values: the rest is for activations and others


@dataclass
class Sampler:
    """Engine and settings of a checkpoint; `open` reads the weights when `engine` is first used.

    `positions`: longest prompt and response together, in tokens. `settings`: what the samples depend on besides weights and protocol.
    """

    open: Callable[[], RolloutEngine]
    tokenizer: Any
    stop_token_ids: tuple[int, ...]
    positions: int | None
    settings: dict[str, Any]

    @functools.cached_property
    def engine(self) -> RolloutEngine:
        """The engine, loaded once."""
        return self.open()

    def close(self) -> None:
        """End the engine, if it was ever loaded."""
        if "engine" in self.__dict__:
            self.engine.close()


def sampler_of(model: Model, config: RunConfig, linear_kernel: str, positions_wanted: int) -> Sampler:
    """Return the configured engine for a checkpoint; the transformers engine where the native one lacks its architecture.

    `positions_wanted`: longest prompt and response together, in tokens; it bounds the rows that fit into memory.
    """
    engine, runtime, tokenizer = config.engine, config.runtime, load_tokenizer(model.folder)
    if reads_weights(engine):
        from transformers import AutoConfig

        device = runtime.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        # A GPU computes in bfloat16 what a CPU computes in float32: the usual types of inference on each.
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        architecture = AutoConfig.from_pretrained(model.folder)
        positions = getattr(architecture, "max_position_embeddings", None)
        settings = {"engine": engine.kind, "device": device, "dtype": str(dtype).removeprefix("torch.")}
        if engine.kind == "native":
            try:
                shape = Shape.of(architecture)
            except UnsupportedArchitectureError:
                engine = member(ENGINE, "transformers").Config()
                settings["engine"] = "transformers"
            else:
                fit = _rows_that_fit(shape, positions_wanted, dtype, device, model.folder)
                runtime = dataclasses.replace(runtime, rollout_rows=min(runtime.rollout_rows, fit))
                settings["linear_kernel"] = linear_kernel
    else:  # samples come from elsewhere: the folder gives the tokenizer, and the positions where it says them
        family, about = implementation(ENGINE, engine), model.folder / "config.json"
        # A server says what it serves: another model at the same address has samples of its own.
        engine = family.resolve(engine)
        positions = json.loads(about.read_text()).get("max_position_embeddings") if about.exists() else None
        device, dtype, linear_kernel = "cpu", torch.float32, "torch"
        settings = {"engine": engine.kind, **family.identity(engine)}

    def opening() -> RolloutEngine:
        built: RolloutEngine = implementation(ENGINE, engine).open_folder(
            engine, model.folder, runtime, device, dtype, linear_kernel
        )
        return StopStringEngine(built, tokenizer)

    return Sampler(opening, tokenizer, stop_tokens(tokenizer, model.folder), positions, settings)


def reads_weights(engine: Any) -> bool:
    """Return whether an engine samples from the checkpoint's own weights (a server does not)."""
    return getattr(implementation(ENGINE, engine), "READS_WEIGHTS", True)


def _rows_that_fit(shape: Shape, positions: int, dtype: torch.dtype, device: str, folder: Path) -> int:
    """Responses whose keys and values fit beside the weights, by the memory the machine has.

    Not by what is free at the moment: batches of another size may round otherwise, and load must not change a sample.
    """
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    total = torch.cuda.mem_get_info()[1] if device == "cuda" else installed
    weights = sum(path.stat().st_size for path in weight_files(folder))
    row = 2 * shape.layers * shape.kv_heads * shape.head_size * positions * dtype.itemsize
    return max(1, int(_MEMORY_SHARE[device] * (total - weights)) // row)
