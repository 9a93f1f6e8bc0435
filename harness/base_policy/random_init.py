"""A randomly initialised model of a given shape with the testbed's tokenizer: for tests and speed measurements, it knows nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base_policy.pretrained import Lora
from harness.configuration.error import Checked, ConfigError, choice
from harness.configuration.identity import content_hash
from harness.model.shapes import SHAPES
from harness.store.seal import ensure_folder


@dataclass
class Config(Checked, key="model"):
    """Shape and initialisation.

    Attributes:
        shape: a name in `harness.model.shapes.SHAPES`.
        overrides: keys of the shape's `transformers` configuration to set otherwise (`num_hidden_layers: 2`).
        seed: of the initial weights.
        precision, lora: as in model=pretrained.
    """

    kind: str = "random_init"
    shape: str = choice("qwen2.5-0.5b", of=tuple(SHAPES))
    overrides: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    precision: str = choice("bfloat16", of=("bfloat16", "float32"))
    lora: Lora = field(default_factory=Lora)

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown_keys = sorted(set(self.overrides) - set(SHAPES[self.shape]) - {"head_dim"})
        if unknown_keys:
            raise ConfigError(
                f"model.overrides has unknown keys {', '.join(unknown_keys)}; choose of: {', '.join(SHAPES[self.shape])}"
            )


def prepare(config: Config, task: Any, seed: int, cache: Path, linear_kernel: str) -> Path:
    """Write the checkpoint once; see the family's contract."""
    return random_checkpoint({**SHAPES[config.shape], **config.overrides}, config.seed, cache)


def random_checkpoint(shape: dict[str, Any], seed: int, cache: Path) -> Path:
    """The folder of a model of this shape with the architecture's own initialisation, made once; tokens are the testbed's.

    Args:
        shape: `model_type` and the keys of that type's configuration.
        seed: of the weights.
        cache: where such folders are kept.
    """
    folder = cache / "models" / f"random-{content_hash(shape, seed)}"
    return ensure_folder(folder, lambda path: _write(shape, seed, path))


def _write(shape: dict[str, Any], seed: int, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from harness.testbed.demonstrator import testbed_tokenizer

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
